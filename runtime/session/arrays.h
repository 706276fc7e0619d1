// runtime/session/arrays.h: NPY files in and out.
#pragma once
#include <string>

#include "hw/base/result.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {

// Reads a .npy file (versions 1 to 3; f2, f4, f8, i1..i8, u1..u8, bool; C or Fortran order) as F32.
// Errors: io; bad_input (magic, header, element type, a size that does not match), each naming the file.
Result<Tensor> read_npy(const std::string& path);

// Writes '<f4', C order. Errors (io).
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace tw::runtime
