// tests/compiler/layout/gather_test.cpp: runs of a gather against looking up every element.
#include "compiler/layout/gather.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "hw/base/units.h"

namespace tw::compiler {
namespace {

hw::TensorLayout layout_of(std::int64_t rows, hw::ColumnGroups groups, std::int64_t row_blocks,
                           std::int64_t column_blocks, hw::NumberFormat format) {
  hw::TensorLayout layout{.format = format, .groups = groups};
  layout.row_cuts = hw::balanced_cuts(rows, row_blocks, 1, true);
  layout.column_cuts = hw::balanced_cuts(groups.stored(), column_blocks, layout.panel(), false);
  layout.column_cuts.back() = static_cast<std::int32_t>(groups.stored());
  return layout;
}

// What the runs say: byte of the operand -> (source block, byte).
std::map<std::uint32_t, std::pair<std::int32_t, std::uint32_t>> bytes_of_runs(const std::vector<compiler::Run>& runs) {
  std::map<std::uint32_t, std::pair<std::int32_t, std::uint32_t>> bytes;
  for (const Run& run : runs)
    for (std::uint32_t byte = 0; byte < run.bytes; ++byte)
      bytes[run.target_offset + byte] = {run.source_block, run.source_offset + byte};
  return bytes;
}

TEST(GatherRuns, WholePanelsOfABlockAreOneRunEach) {
  // 8 rows x 64 columns in 2 x 2 blocks; the operand is rows 0..8 of columns 0..32 (two panels).
  const hw::TensorLayout source = layout_of(8, {1, 64, 64}, 2, 2, hw::NumberFormat::f16);
  const OperandBlock block{0, 8, 0, 32, 8};

  const std::vector<compiler::Run> runs = gather_runs({&source, 64}, hw::plain_view(8, 64), {1, 64, 64}, block);

  // Each of 2 source row blocks gives one run a panel: 4 rows x 32 bytes.
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[0], (compiler::Run{0, 0, 0, 128}));
  EXPECT_EQ(runs[1], (compiler::Run{2, 0, 128, 128}));
  EXPECT_TRUE(covers(runs, block, source));
  EXPECT_TRUE(word_aligned(runs));
}

TEST(GatherRuns, HeadsPaddedAlikeAreCopiedWithTheirPads) {
  const hw::ColumnGroups heads{4, 24, 32};
  const hw::TensorLayout source = layout_of(6, heads, 1, 2, hw::NumberFormat::f16);
  const OperandBlock block{0, 6, 0, 32, 6};
  hw::MatrixView head = hw::plain_view(6, 96);
  head.column_dims = {{24, 1}};
  head.offset = 24;  // head 1

  const std::vector<compiler::Run> runs = gather_runs({&source, 96}, head, {1, 24, 32}, block);

  EXPECT_TRUE(covers(runs, block, source));
  EXPECT_EQ(runs.size(), 1U);
}

TEST(GatherRuns, OddElementsAreNotWordAligned) {
  const hw::TensorLayout source = layout_of(4, {1, 15, 16}, 1, 1, hw::NumberFormat::f16);
  hw::MatrixView shifted{{{4, 15}}, {{14, 1}}, 1};

  EXPECT_FALSE(word_aligned(gather_runs({&source, 15}, shifted, {1, 14, 16}, {0, 4, 0, 16, 4})));
}

RC_GTEST_PROP(GatherRuns, EveryElementComesFromItsPlace, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 20), columns = *rc::gen::inRange<std::int64_t>(1, 70);
  const auto format = *rc::gen::element(hw::NumberFormat::f16, hw::NumberFormat::f143, hw::NumberFormat::f32);
  const std::int64_t panel = hw::bytes_of(format) == 1 ? 32 : 16;
  const hw::ColumnGroups groups{1, static_cast<std::int32_t>(columns),
                                static_cast<std::int32_t>(round_up(columns, panel))};
  const hw::TensorLayout source = layout_of(rows, groups, *rc::gen::inRange<std::int64_t>(1, rows + 1),
                                            *rc::gen::inRange<std::int64_t>(1, groups.padded / panel + 1), format);
  // A transposed or a plain look.
  const bool transposed = *rc::gen::arbitrary<bool>();
  const hw::MatrixView view =
      transposed ? hw::MatrixView{{{columns, 1}}, {{rows, columns}}, 0} : hw::plain_view(rows, columns);
  const std::int64_t operand_rows = transposed ? columns : rows, operand_columns = transposed ? rows : columns;
  const hw::ColumnGroups operand_groups{1, static_cast<std::int32_t>(operand_columns),
                                        static_cast<std::int32_t>(round_up(operand_columns, panel))};
  OperandBlock block{0, operand_rows, 0, operand_groups.padded, operand_rows + 3};
  block.row_begin = *rc::gen::inRange<std::int64_t>(0, operand_rows);

  const auto bytes = bytes_of_runs(gather_runs({&source, columns}, view, operand_groups, block));

  const std::int64_t size = hw::bytes_of(format);
  for (std::int64_t i = block.row_begin; i < block.row_end; ++i)
    for (std::int64_t j = 0; j < operand_columns; ++j) {
      const std::int64_t flat = view.at(i, j), row = flat / columns, stored = flat % columns;
      const int r = source.row_block_of(row), c = source.column_block_of(stored);
      const auto target = static_cast<std::uint32_t>(
          ((j / panel * block.row_stride + (i - block.row_begin)) * panel + j % panel) * size);
      const auto found = bytes.find(target);
      RC_ASSERT(found != bytes.end());
      RC_ASSERT(found->second.first == r * source.column_blocks() + c);
      RC_ASSERT(found->second.second == static_cast<std::uint32_t>(source.offset_of(r, c, row, stored)));
    }
}

}  // namespace
}  // namespace tw::compiler
