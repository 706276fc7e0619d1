// hw/program/package.h: package files (.twp): a checked container of sections around a FlatBuffers Program.
// Format: docs/package-format.md. Every byte is covered by a checksum; a reader never trusts a length.
#pragma once
#include <string>

#include "hw/base/result.h"
#include "hw/base/violation.h"
#include "hw/program/program.h"

namespace tw::hw {

// Writes program (and weights, when it has them) to `path`; returns the file's size in bytes. Errors (io).
Result<std::uint64_t> write_package(const Program& program, const std::string& path);

// Reads a package. Errors: io; corrupt with section, offset and what differs (magic, version, checksum, truncation,
// a field out of range). `load_weights` false skips the weights section (timing only).
Result<Program> read_package(const std::string& path, bool load_weights = true);

// Checks a program independently of the compiler that made it; every rule has a name (docs/reference/rules.md):
// bounds, alignment and overlap of code, segments, parameters and buffers over time; rows decode and end; kernel
// entries, operands and their element rules; calls reach known entries or rows.
std::vector<Violation> verify(const Program& program);

}  // namespace tw::hw
