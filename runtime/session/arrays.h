// runtime/session/arrays.h: NPY files in and out, NPZ archives in.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "hw/base/result.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {

// Reads a .npy file (versions 1 to 3; f2, f4, f8, i1..i8, u1..u8, bool; C or Fortran order) as F32.
// Errors: io; bad_input (magic, header, element type, a size that does not match), each naming the file.
Result<Tensor> read_npy(const std::string& path);

// The same of bytes in memory; `name` is for messages.
Result<Tensor> parse_npy(const std::string& name, std::span<const std::byte> bytes);

// Reads all arrays of a .npz archive by name, as numpy.savez writes it: members are stored, not deflated.
// Errors: io; bad_input (no archive, a deflated member, a range outside the file, a member that is no array).
Result<std::map<std::string, Tensor>> read_npz(const std::string& path);

// Writes '<f4', C order. Errors (io).
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace tw::runtime
