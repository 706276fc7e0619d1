// compiler/plan/attention_form.h: how the heads of an attention lie in SRAM in each precision.
//
// F8: a head of queries or keys takes `pieces` panels of 32, each with head_width / pieces real columns and zeros
// behind, so that a block of whole pieces is whole panels wherever the heads begin (72 = 3 x 24). Values keep panels of
// 16 (the block form of coefficients); a head takes all panels that it touches, and the columns of its neighbours in
// them are computed and dropped.
#pragma once
#include <cstdint>
#include <optional>

#include "hw/number/number.h"
#include "hw/program/tensor_layout.h"

namespace tw::compiler {

struct AttentionForm {
  hw::NumberFormat format = hw::NumberFormat::f16;  // of queries, keys, values and probabilities
  std::int64_t heads = 1, width = 0, value_width = 0;
  std::int64_t pieces = 1;         // panels of a head's queries and keys that start with a real column
  std::int64_t stored_width = 0;   // of a head's queries and keys, pads included
  std::int64_t stored_values = 0;  // columns gathered for a head's values
  std::int64_t key_unit = 16;      // key groups are cut at multiples of it: the inner panel of the second product

  bool f8() const { return hw::is_f8(format); }
  // Column groups of one head's queries and keys, and of all heads as a cast writes them.
  hw::ColumnGroups head_groups() const;
  hw::ColumnGroups all_heads() const;
  // Column cuts of queries and keys (of values: 16) must be multiples of this many real columns.
  std::int64_t column_unit() const;
  // Columns of the neighbour before head h's own in the panels that are gathered for it.
  std::int64_t value_offset(std::int64_t head) const { return f8() ? head * value_width % 16 : 0; }
};

AttentionForm plain_attention_form(hw::NumberFormat format, std::int64_t heads, std::int64_t width,
                                   std::int64_t value_width);
// Absent when F8 panels would not be fewer than F16's, or when pieces are not whole words.
std::optional<AttentionForm> f8_attention_form(std::int64_t heads, std::int64_t width, std::int64_t value_width);

// Probabilities are at most 1: at this exponent 1.0 is stored as 128, and the smallest one kept is 2^-17.
inline constexpr int probability_scale_exponent = -7;

}  // namespace tw::compiler
