// hw/base/units.h: integer arithmetic of sizes, and the balanced cut that every grid uses.
// Units are in names: _bytes, _words (exchange words of 4 bytes), _cycles, _events.
#pragma once
#include <cstdint>

namespace tw {

// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// a rounded up to a multiple of b.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Start of part `index` when `extent` items are cut into `parts` balanced, nesting parts:
// balanced_cut(i * m, n, p * m) == balanced_cut(i, n, p), so a finer cut refines a coarser one.
constexpr std::int64_t balanced_cut(std::int64_t index, std::int64_t extent, std::int64_t parts) {
  return index * extent / parts;
}

constexpr std::int64_t bytes_per_word = 4;  // one exchange word (ipu21: 4 bytes a cycle)

}  // namespace tw
