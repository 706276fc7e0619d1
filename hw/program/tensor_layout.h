// hw/program/tensor_layout.h: how a logical tensor lies in tiles: a matrix view of the tensor, cut into blocks.
// The compiler plans with it, the package stores it for inputs, outputs and checkpoints, the runtime packs with it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hw/base/id.h"
#include "hw/number/number.h"

namespace tw::hw {

// One digit of a mixed-radix index: `size` values, each `stride` elements apart in the flat tensor (0: broadcast).
struct ViewDim {
  std::int64_t size = 1;
  std::int64_t stride = 0;
  friend bool operator==(const ViewDim&, const ViewDim&) = default;
};

// A rows x columns matrix whose element (i, j) is flat element offset + row(i) + column(j) of a tensor;
// row(i) = sum of digit_d(i) * stride_d with the last dim fastest. Flat order is row-major of the tensor's shape.
struct MatrixView {
  std::vector<ViewDim> row_dims, column_dims;
  std::int64_t offset = 0;
  std::int64_t rows() const;
  std::int64_t columns() const;
  std::int64_t at(std::int64_t row, std::int64_t column) const;
  friend bool operator==(const MatrixView&, const MatrixView&) = default;
};
// The plain view of a tensor of rows x columns in row-major order.
MatrixView plain_view(std::int64_t rows, std::int64_t columns);

// Columns grouped for storage: groups of `width` real columns each stored as `padded` columns (zeros behind).
// stored(j) = (j / width) * padded + j % width. One group with padded = round_up(columns, b) is the ordinary case.
//
// With tails shared (tail_share > 1) there are no pads: of each group the first `padded` columns (whole panels, less
// than `width`) are stored together, and the tails of tail_share neighbouring groups follow behind them. Heads of 72 in
// panels of 32: four times 64 columns, then a panel of four times 8. The order for the inner extent of a product.
struct ColumnGroups {
  std::int32_t groups = 1;
  std::int32_t width = 0;
  std::int32_t padded = 0;
  std::int32_t tail_share = 1;
  std::int64_t columns() const { return std::int64_t{groups} * width; }
  std::int64_t stored() const { return std::int64_t{groups} * (tail_share > 1 ? width : padded); }
  std::int64_t stored_of(std::int64_t column) const;
  // The real column at a stored one, or -1 for a pad.
  std::int64_t column_of(std::int64_t stored_column) const;
  friend bool operator==(const ColumnGroups&, const ColumnGroups&) = default;
};

// A matrix of values distributed over tiles. Block (r, c) holds rows [row_cuts[r], row_cuts[r+1]) and stored columns
// [column_cuts[c], column_cuts[c+1]) (multiples of the panel width) as a panel tensor with row stride = its rows, on
// tile first_tile + r * row_tiles + c. Empty blocks are allowed (no bytes).
//
// panel_columns and row_tiles are for values between two steps of a plan; the layouts in a package have neither.
struct TensorLayout {
  NumberFormat format = NumberFormat::f16;
  std::int32_t scale_exponent = 0;  // F8: value = stored * 2^scale_exponent
  ColumnGroups groups;
  std::vector<std::int32_t> row_cuts;     // row blocks + 1 entries, from 0 to rows
  std::vector<std::int32_t> column_cuts;  // column blocks + 1 entries, from 0 to groups.stored()
  std::int32_t first_tile = 0;
  std::int32_t panel_columns = 0;  // width of a panel, where it is not the format's own (F8 in panels of 16); 0: it is
  std::int32_t row_tiles = 0;      // tiles from one row of blocks to the next (part of a wider value); 0: its blocks

  int row_blocks() const { return static_cast<int>(row_cuts.size()) - 1; }
  int column_blocks() const { return static_cast<int>(column_cuts.size()) - 1; }
  int blocks() const { return row_blocks() * column_blocks(); }
  std::int64_t rows() const { return row_cuts.back(); }
  int panel() const { return panel_columns > 0 ? panel_columns : bytes_of(format) == 1 ? 32 : 16; }
  TileId tile_of(int row_block, int column_block) const {
    const int stride = row_tiles > 0 ? row_tiles : column_blocks();
    return {static_cast<std::uint32_t>(first_tile + row_block * stride + column_block)};
  }
  std::int64_t block_rows(int r) const { return row_cuts[r + 1] - row_cuts[r]; }
  std::int64_t block_columns(int c) const { return column_cuts[c + 1] - column_cuts[c]; }
  std::int64_t block_bytes(int r, int c) const { return block_rows(r) * block_columns(c) * bytes_of(format); }
  // Byte offset inside block (r, c) of row i and stored column j (both global).
  std::int64_t offset_of(int r, int c, std::int64_t row, std::int64_t stored_column) const;
  int row_block_of(std::int64_t row) const;  // binary search; blocks that hold it
  int column_block_of(std::int64_t stored_column) const;
  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// balanced cuts of an extent in units: parts + 1 values, unit * balanced_cut(i, ceil(extent / unit), parts), the last
// clipped to extent (when clip) or left at the rounded extent.
std::vector<std::int32_t> balanced_cuts(std::int64_t extent, std::int64_t parts, std::int64_t unit, bool clip);

}  // namespace tw::hw
