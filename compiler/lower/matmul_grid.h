// compiler/lower/matmul_grid.h: which rows, columns and inner panels each tile of a matmul's grid has.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"
#include "hw/number/number.h"

namespace tw::compiler {

// Cuts and tile numbers of a matmul's grid. The owner of a piece of the result is the tile that the result's layout
// says: row split (r * Kg + k) * Cg + c, column split (r * Cg + c) * Kg + k.
class MatmulGrid {
 public:
  MatmulGrid(const Step& step, const Plan& plan)
      : grid_(step.grid),
        split_(step.split),
        result_(plan.stored[step.result].layout),
        panel_(hw::panel_width(step.format)) {
    const int row_stride = split_ == ReduceSplit::rows ? grid_.inner : 1;
    for (int block = 0; block <= result_.row_blocks(); block += row_stride) row_cuts.push_back(result_.row_cuts[block]);
    inner_cuts = hw::balanced_cuts(step.inner_groups.stored(), grid_.inner, panel_, false);
    const int column_stride = split_ == ReduceSplit::rows ? 1 : grid_.inner;
    for (int c = 0; c <= grid_.columns; ++c) column_cuts.push_back(result_.column_cuts[c * column_stride]);
  }
  // Row groups of all batch elements: of element b they are b * grid.rows .. (b + 1) * grid.rows - 1.
  int row_groups() const { return static_cast<int>(row_cuts.size()) - 1; }
  std::uint32_t tile(int r, int c, int k) const {
    return static_cast<std::uint32_t>(split_ == ReduceSplit::rows ? (r * grid_.inner + k) * grid_.columns + c
                                                                  : (r * grid_.columns + c) * grid_.inner + k);
  }
  std::int64_t rows(int r) const { return row_cuts[r + 1] - row_cuts[r]; }
  std::int64_t inner(int k) const { return inner_cuts[k + 1] - inner_cuts[k]; }
  std::int64_t columns(int c) const { return column_cuts[c + 1] - column_cuts[c]; }
  // The rows and columns, within block (r, c), that inner group k owns of the result.
  struct Owned {
    std::int64_t row_begin, row_end, column_begin, column_end;
    std::int64_t rows() const { return row_end - row_begin; }
    std::int64_t columns() const { return column_end - column_begin; }
  };
  Owned owned(int r, int c, int k) const {
    if (split_ == ReduceSplit::rows)
      return {result_.row_cuts[r * grid_.inner + k] - row_cuts[r],
              result_.row_cuts[r * grid_.inner + k + 1] - row_cuts[r], 0, columns(c)};
    return {0, rows(r), result_.column_cuts[c * grid_.inner + k] - column_cuts[c],
            result_.column_cuts[c * grid_.inner + k + 1] - column_cuts[c]};
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (int r = 0; r < row_groups(); ++r)
      for (int c = 0; c < grid_.columns; ++c)
        for (int k = 0; k < grid_.inner; ++k) visit(r, c, k);
  }

  std::vector<std::int32_t> row_cuts, column_cuts, inner_cuts;

 private:
  Grid grid_;
  ReduceSplit split_;
  const hw::TensorLayout& result_;
  std::int64_t panel_;
};

}  // namespace tw::compiler
