#include "compiler/search/layout_choice.h"

#include <algorithm>

#include "hw/base/units.h"

namespace tw::compiler {
namespace {

hw::ColumnGroups plain_groups(std::int64_t columns, std::int64_t unit) {
  return {1, static_cast<std::int32_t>(columns), static_cast<std::int32_t>(round_up(columns, unit))};
}

}  // namespace

hw::TensorLayout spread_layout(std::int64_t rows, std::int64_t columns, hw::NumberFormat format, std::int64_t unit,
                               const hw::Machine& machine) {
  hw::TensorLayout layout{.format = format};
  layout.groups = plain_groups(columns, unit);
  const std::int64_t column_blocks = std::min<std::int64_t>(layout.groups.padded / unit, machine.tiles);
  const std::int64_t row_blocks = std::min<std::int64_t>(rows, machine.tiles / column_blocks);
  layout.row_cuts = hw::balanced_cuts(rows, row_blocks, 1, true);
  layout.column_cuts = hw::balanced_cuts(layout.groups.stored(), column_blocks, unit, false);
  return layout;
}

hw::TensorLayout row_layout(std::int64_t rows, std::int64_t columns, hw::NumberFormat format,
                            const hw::Machine& machine) {
  hw::TensorLayout layout{.format = format};
  layout.groups = plain_groups(columns, layout.panel());
  layout.row_cuts = hw::balanced_cuts(rows, std::min<std::int64_t>(rows, machine.tiles), 1, true);
  layout.column_cuts = {0, layout.groups.padded};
  return layout;
}

hw::TensorLayout result_layout(std::int64_t rows, const hw::ColumnGroups& groups, hw::NumberFormat format,
                               std::int64_t column_unit, Grid grid, ReduceSplit split) {
  hw::TensorLayout layout{.format = format, .groups = groups};
  const bool by_rows = split == ReduceSplit::rows;
  layout.row_cuts = hw::balanced_cuts(rows, by_rows ? std::int64_t{grid.rows} * grid.inner : grid.rows, 1, true);
  layout.column_cuts = hw::balanced_cuts(
      groups.stored(), by_rows ? grid.columns : std::int64_t{grid.columns} * grid.inner, column_unit, false);
  layout.column_cuts.back() = static_cast<std::int32_t>(groups.stored());
  return layout;
}

std::optional<hw::TensorLayout> f8_layout(const hw::TensorLayout& layout, int scale_exponent) {
  constexpr std::int32_t panel = 32;
  hw::TensorLayout result = layout;
  result.format = hw::NumberFormat::f143;
  result.scale_exponent = scale_exponent;
  result.groups.padded = static_cast<std::int32_t>(round_up(layout.groups.width, panel));
  if (layout.groups.groups > 1) {
    if (layout.column_blocks() != layout.groups.groups) return std::nullopt;
    for (int c = 0; c <= layout.column_blocks(); ++c) {
      if (layout.column_cuts[c] != c * layout.groups.padded) return std::nullopt;
      result.column_cuts[c] = c * result.groups.padded;
    }
    return result;
  }
  for (int c = 0; c < layout.column_blocks(); ++c)
    if (layout.column_cuts[c] % panel != 0) return std::nullopt;
  result.column_cuts.back() = result.groups.padded;
  return result;
}

int balanced_unit(const hw::TensorLayout& layout, std::int64_t columns) {
  if (layout.groups.groups != 1) return 0;
  for (const int unit : {32, 16}) {
    const std::vector<std::int32_t> cuts =
        hw::balanced_cuts(round_up(columns, unit), layout.column_blocks(), unit, false);
    // The stored extent may be padded to a larger unit than the cuts: only the inner cuts decide.
    if (std::equal(cuts.begin(), cuts.end() - 1, layout.column_cuts.begin())) return unit;
  }
  return 0;
}

}  // namespace tw::compiler
