#include "compiler/layout/gather.h"

#include <algorithm>

#include "hw/base/check.h"

namespace tw::compiler {
namespace {

// Appends a piece, joining it to the last run when both sides continue.
void append(std::vector<Run>& runs, const Run& piece) {
  if (!runs.empty()) {
    Run& last = runs.back();
    if (last.source_block == piece.source_block && last.source_offset + last.bytes == piece.source_offset &&
        last.target_offset + last.bytes == piece.target_offset) {
      last.bytes += piece.bytes;
      return;
    }
  }
  runs.push_back(piece);
}

// Decomposes operand indices through one side of the view: flat contribution of each row or column asked for.
std::vector<std::int64_t> contributions(const std::vector<hw::ViewDim>& dims, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> flat(static_cast<std::size_t>(end - begin));
  for (std::int64_t index = begin; index < end; ++index) {
    std::int64_t rest = index, sum = 0;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      sum += rest % dim->size * dim->stride;
      rest /= dim->size;
    }
    flat[static_cast<std::size_t>(index - begin)] = sum;
  }
  return flat;
}

// Where one stored column of the source lies: its block, and the element offset that a row's offset is added to.
struct ColumnPlace {
  std::int32_t block = -1;
  std::int64_t in_block = 0;  // stored column within the block
};

class Expander {
 public:
  Expander(const GatherSource& source, const hw::MatrixView& view, const hw::ColumnGroups& groups,
           const OperandBlock& block, const Piece* piece)
      : layout_(*source.layout),
        columns_(source.columns),
        view_(view),
        groups_(groups),
        block_(block),
        piece_(piece),
        element_bytes_(hw::bytes_of(layout_.format)),
        panel_(layout_.panel()) {}

  std::vector<Run> expand() {
    const std::vector<std::int64_t> row_flat = contributions(view_.row_dims, block_.row_begin, block_.row_end);
    column_flat_ = contributions(view_.column_dims, 0, groups_.columns());
    for (std::int64_t panel = block_.column_begin; panel < block_.column_end; panel += panel_)
      for (std::int64_t row = block_.row_begin; row < block_.row_end; ++row)
        expand_row(panel, std::min<std::int64_t>(panel + panel_, block_.column_end), row,
                   row_flat[static_cast<std::size_t>(row - block_.row_begin)]);
    return std::move(runs_);
  }

 private:
  // One row of one panel: walks its stored columns, joining neighbours.
  void expand_row(std::int64_t begin, std::int64_t end, std::int64_t row, std::int64_t row_flat) {
    const std::int64_t target =
        (((begin - block_.column_begin) / panel_) * block_.row_stride + (row - block_.row_begin)) * panel_;
    std::int64_t pad_row = -1, pad_next = -1;  // the source position behind the last real column, while pads may follow
    for (std::int64_t stored = begin; stored < end; ++stored) {
      const std::int64_t column = groups_.column_of(stored);
      std::int64_t source_row = 0, source_stored = 0;
      if (piece_ != nullptr && (column < 0 || !piece_->holds(row, column))) continue;
      if (column >= 0) {
        const std::int64_t flat = view_.offset + row_flat + column_flat_[static_cast<std::size_t>(column)];
        source_row = flat / columns_;
        source_stored = layout_.groups.stored_of(flat % columns_);
      } else if (pad_row >= 0 && pad_next < layout_.groups.stored() && layout_.groups.column_of(pad_next) < 0) {
        source_row = pad_row;
        source_stored = pad_next;
      } else {
        pad_row = -1;
        continue;
      }
      pad_row = source_row;
      pad_next = source_stored + 1;
      const int r = row_block(source_row);
      const int c = column_block(source_stored);
      append(runs_, {r * layout_.column_blocks() + c,
                     static_cast<std::uint32_t>(layout_.offset_of(r, c, source_row, source_stored)),
                     static_cast<std::uint32_t>((target + stored - begin) * element_bytes_),
                     static_cast<std::uint32_t>(element_bytes_)});
    }
  }

  int row_block(std::int64_t row) {
    if (row < layout_.row_cuts[last_row_block_] || row >= layout_.row_cuts[last_row_block_ + 1])
      last_row_block_ = layout_.row_block_of(row);
    return last_row_block_;
  }
  int column_block(std::int64_t stored) {
    if (stored < layout_.column_cuts[last_column_block_] || stored >= layout_.column_cuts[last_column_block_ + 1])
      last_column_block_ = layout_.column_block_of(stored);
    return last_column_block_;
  }

  const hw::TensorLayout& layout_;
  std::int64_t columns_;
  const hw::MatrixView& view_;
  const hw::ColumnGroups& groups_;
  const OperandBlock& block_;
  const Piece* piece_;
  std::int64_t element_bytes_;
  std::int64_t panel_;
  std::vector<std::int64_t> column_flat_;
  std::vector<Run> runs_;
  int last_row_block_ = 0, last_column_block_ = 0;
};

}  // namespace

std::vector<Run> gather_runs(const GatherSource& source, const hw::MatrixView& view, const hw::ColumnGroups& groups,
                             const OperandBlock& block, const Piece* piece) {
  TW_CHECK(block.row_stride >= block.row_end - block.row_begin, "row stride {} for {} rows", block.row_stride,
           block.row_end - block.row_begin);
  return Expander(source, view, groups, block, piece).expand();
}

bool word_aligned(const std::vector<Run>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const Run& run) {
    return run.source_offset % 4 == 0 && run.target_offset % 4 == 0 && run.bytes % 4 == 0;
  });
}

bool covers(const std::vector<Run>& runs, const OperandBlock& block, const hw::TensorLayout& source) {
  std::int64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return bytes ==
         (block.row_end - block.row_begin) * (block.column_end - block.column_begin) * hw::bytes_of(source.format);
}

}  // namespace tw::compiler
