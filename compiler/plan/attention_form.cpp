#include "compiler/plan/attention_form.h"

#include <algorithm>
#include <numeric>

#include "hw/base/units.h"

namespace tw::compiler {
namespace {

constexpr std::int64_t f8_panel = 32, f16_panel = 16;

}  // namespace

hw::ColumnGroups AttentionForm::head_groups() const {
  const auto real = static_cast<std::int32_t>(width / pieces),
             stored = static_cast<std::int32_t>(stored_width / pieces);
  return {static_cast<std::int32_t>(pieces), real, stored};
}

hw::ColumnGroups AttentionForm::all_heads() const {
  hw::ColumnGroups groups = head_groups();
  groups.groups *= static_cast<std::int32_t>(heads);
  return groups;
}

std::int64_t AttentionForm::column_unit() const { return std::lcm(f16_panel, width / pieces); }

AttentionForm plain_attention_form(hw::NumberFormat format, std::int64_t heads, std::int64_t width,
                                   std::int64_t value_width) {
  return {.format = format,
          .heads = heads,
          .width = width,
          .value_width = value_width,
          .stored_width = round_up(width, f16_panel),
          .stored_values = round_up(value_width, f16_panel)};
}

std::optional<AttentionForm> f8_attention_form(std::int64_t heads, std::int64_t width, std::int64_t value_width) {
  AttentionForm form{.format = hw::NumberFormat::f143,
                     .heads = heads,
                     .width = width,
                     .value_width = value_width,
                     .key_unit = f8_panel};
  constexpr std::int64_t word_elements = 4;
  form.pieces = ceil_div(width, f8_panel);
  while (form.pieces <= width && (width % form.pieces != 0 || width / form.pieces % word_elements != 0)) ++form.pieces;
  form.stored_width = form.pieces * f8_panel;
  if (form.pieces > width || form.stored_width > 2 * round_up(width, f16_panel)) return std::nullopt;
  if (heads * value_width % f16_panel != 0 || value_width % word_elements != 0) return std::nullopt;
  for (std::int64_t head = 0; head < heads; ++head)
    form.stored_values = std::max(form.stored_values, round_up(form.value_offset(head) + value_width, f16_panel));
  for (std::int64_t head = 0; head < heads; ++head)
    if (head * value_width - form.value_offset(head) + form.stored_values > heads * value_width) return std::nullopt;
  return form;
}

}  // namespace tw::compiler
