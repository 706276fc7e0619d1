// compiler/layout/gather.h: which bytes of which tiles make up an operand block: the runs of a gather or re-layout.
#pragma once
#include <cstdint>
#include <vector>

#include "hw/program/tensor_layout.h"

namespace tw::compiler {

// A source of a gather: a distributed matrix of rows x columns whose flat element is row * columns + column.
struct GatherSource {
  const hw::TensorLayout* layout = nullptr;
  std::int64_t columns = 0;  // real columns of the stored matrix
};

// The operand block a tile wants: operand rows [row_begin, row_end) and stored columns [column_begin, column_end) of
// the operand's column groups, as a panel tensor of the source's format with `row_stride` rows per panel.
struct OperandBlock {
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;
  std::int64_t row_stride = 0;
};

// One piece of a concatenation: of the operand's elements, only those whose index along the axis lies in [begin, end).
// The axis has `extent` indices and `inner` rows (columns) a step, on the rows or on the columns.
struct Piece {
  bool on_rows = false;
  std::int64_t inner = 1, extent = 0, begin = 0, end = 0;
  bool holds(std::int64_t row, std::int64_t column) const {
    const std::int64_t index = (on_rows ? row : column) / inner % extent;
    return index >= begin && index < end;
  }
};

// A contiguous run of bytes: from a block of the source's layout to an offset in the operand's buffer.
struct Run {
  std::int32_t source_block = 0;    // row block * column blocks + column block
  std::uint32_t source_offset = 0;  // bytes from the start of that block
  std::uint32_t target_offset = 0;  // bytes from the start of the operand
  std::uint32_t bytes = 0;
  friend auto operator<=>(const Run&, const Run&) = default;
};

// All runs of one operand block, merged as far as both sides continue, in order of target_offset. Operand pads are
// copied when the source has a pad in the same place (both are zero), and left out otherwise (see pads_covered).
//   view   operand (row, real column) -> flat element of the source matrix
//   groups how the operand's columns are stored
//   piece  when given, only the elements that it holds
std::vector<Run> gather_runs(const GatherSource& source, const hw::MatrixView& view, const hw::ColumnGroups& groups,
                             const OperandBlock& block, const Piece* piece = nullptr);

// True when offsets and sizes of every run are whole exchange words.
bool word_aligned(const std::vector<Run>& runs);

// True when the runs cover every byte of the block's rows (no pad is left unwritten).
bool covers(const std::vector<Run>& runs, const OperandBlock& block, const hw::TensorLayout& source);

}  // namespace tw::compiler
