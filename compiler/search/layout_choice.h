// compiler/search/layout_choice.h: layouts that steps start from when nothing dictates one.
#pragma once
#include <optional>

#include "compiler/plan/plan.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

// Column panels first, then rows: blocks of a few columns and many rows, so that gathers have long runs.
hw::TensorLayout spread_layout(std::int64_t rows, std::int64_t columns, hw::NumberFormat format, std::int64_t unit,
                               const hw::Machine& machine);

// Whole rows on a tile, for kernels that need them.
hw::TensorLayout row_layout(std::int64_t rows, std::int64_t columns, hw::NumberFormat format,
                            const hw::Machine& machine);

// The layout of a matmul's result under a grid.
hw::TensorLayout result_layout(std::int64_t rows, const hw::ColumnGroups& groups, hw::NumberFormat format,
                               std::int64_t column_unit, Grid grid, ReduceSplit split);

// The same blocks in F8, when a local cast can make them: column cuts at multiples of 32, or one column group a block.
std::optional<hw::TensorLayout> f8_layout(const hw::TensorLayout& layout, int scale_exponent);

// The unit (32 or 16) of which the column cuts are balanced cuts, as the layer norm kernel assumes; 0 when neither.
int balanced_unit(const hw::TensorLayout& layout, std::int64_t columns);

}  // namespace tw::compiler
