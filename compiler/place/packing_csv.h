// compiler/place/packing_csv.h: buffers as CSV with the column names of the public minimalloc problems.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "compiler/place/interval_packing.h"
#include "hw/base/result.h"

namespace tw::compiler {

struct PackingTable {
  std::vector<std::string> ids;  // distinct, by buffer
  std::vector<PackingBuffer> buffers;
};

// Reads "id,lower,upper,size" with the columns in any order; other columns are ignored. A buffer lives in
// [lower, upper), or to `end` inclusive where that column stands for `upper`. `name` is the file's, for messages.
// Errors (bad_input): a missing column, a cell that is no whole number, an id that is there twice; with the line.
Result<PackingTable> read_packing_csv(const std::string& text, const std::string& name);

// The same columns with `offset` behind them.
std::string packing_csv(const PackingTable& table, std::span<const std::int64_t> offsets);

}  // namespace tw::compiler
