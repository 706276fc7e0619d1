#include "hw/program/tensor_layout.h"

#include <algorithm>

#include "hw/base/units.h"

namespace tw::hw {
namespace {

std::int64_t extent(const std::vector<ViewDim>& dims) {
  std::int64_t size = 1;
  for (const ViewDim& dim : dims) size *= dim.size;
  return size;
}

std::int64_t flat(const std::vector<ViewDim>& dims, std::int64_t index) {
  std::int64_t sum = 0;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    sum += index % dim->size * dim->stride;
    index /= dim->size;
  }
  return sum;
}

int block_of(const std::vector<std::int32_t>& cuts, std::int64_t index) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), index) - cuts.begin()) - 1;
}

}  // namespace

std::int64_t MatrixView::rows() const { return extent(row_dims); }
std::int64_t MatrixView::columns() const { return extent(column_dims); }
std::int64_t MatrixView::at(std::int64_t row, std::int64_t column) const {
  return offset + flat(row_dims, row) + flat(column_dims, column);
}

std::int64_t ColumnGroups::stored_of(std::int64_t column) const {
  const std::int64_t group = column / width, within = column % width;
  if (tail_share <= 1) return group * padded + within;
  const std::int64_t first = group / tail_share * tail_share * width, member = group % tail_share;
  return first + (within < padded ? member * padded + within
                                  : tail_share * padded + member * (width - padded) + within - padded);
}

std::int64_t ColumnGroups::column_of(std::int64_t stored_column) const {
  if (tail_share <= 1) {
    const std::int64_t within = stored_column % padded;
    return within < width ? stored_column / padded * width + within : -1;
  }
  const std::int64_t span = std::int64_t{tail_share} * width, within = stored_column % span;
  const std::int64_t heads = std::int64_t{tail_share} * padded, tail = width - padded;
  const bool in_tail = within >= heads;
  const std::int64_t member = in_tail ? (within - heads) / tail : within / padded;
  const std::int64_t column = in_tail ? padded + (within - heads) % tail : within % padded;
  return stored_column / span * span + member * width + column;
}

MatrixView plain_view(std::int64_t rows, std::int64_t columns) { return {{{rows, columns}}, {{columns, 1}}, 0}; }

std::int64_t TensorLayout::offset_of(int r, int c, std::int64_t row, std::int64_t stored_column) const {
  const std::int64_t i = row - row_cuts[r], j = stored_column - column_cuts[c], b = panel();
  return ((j / b * block_rows(r) + i) * b + j % b) * bytes_of(format);
}

int TensorLayout::row_block_of(std::int64_t row) const { return block_of(row_cuts, row); }
int TensorLayout::column_block_of(std::int64_t stored_column) const { return block_of(column_cuts, stored_column); }

std::vector<std::int32_t> balanced_cuts(std::int64_t extent, std::int64_t parts, std::int64_t unit, bool clip) {
  std::vector<std::int32_t> cuts;
  const std::int64_t units = ceil_div(extent, unit);
  for (std::int64_t part = 0; part <= parts; ++part) {
    const std::int64_t cut = unit * balanced_cut(part, units, parts);
    cuts.push_back(static_cast<std::int32_t>(clip ? std::min(cut, extent) : cut));
  }
  return cuts;
}

}  // namespace tw::hw
