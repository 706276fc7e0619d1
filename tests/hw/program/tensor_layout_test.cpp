// tests/hw/program/tensor_layout_test.cpp: views, column groups, blocks and cuts against plain enumeration.
#include "hw/program/tensor_layout.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <set>

namespace tw::hw {
namespace {

TEST(MatrixView, TransposedHeadsOfATensor) {
  // (tokens 3, heads 2, width 4) seen as rows = heads x tokens, columns = width.
  const MatrixView view{{{2, 4}, {3, 8}}, {{4, 1}}, 0};
  EXPECT_EQ(view.rows(), 6);
  EXPECT_EQ(view.columns(), 4);
  EXPECT_EQ(view.at(0, 0), 0);
  EXPECT_EQ(view.at(1, 0), 8);  // token 1 of head 0
  EXPECT_EQ(view.at(3, 2), 6);  // token 0 of head 1
  EXPECT_EQ(view.at(5, 3), 23);
  EXPECT_EQ(plain_view(5, 7).at(3, 2), 23);
}

TEST(ColumnGroups, PadsStandBehindEachGroup) {
  const ColumnGroups groups{3, 20, 32};
  EXPECT_EQ(groups.columns(), 60);
  EXPECT_EQ(groups.stored(), 96);
  EXPECT_EQ(groups.stored_of(20), 32);
  EXPECT_EQ(groups.column_of(32), 20);
  EXPECT_EQ(groups.column_of(31), -1);
  for (std::int64_t column = 0; column < groups.columns(); ++column)
    EXPECT_EQ(groups.column_of(groups.stored_of(column)), column);
}

RC_GTEST_PROP(TensorLayout, BlocksHoldEveryElementOnce, ()) {
  TensorLayout layout;
  layout.format = *rc::gen::element(NumberFormat::f16, NumberFormat::f32, NumberFormat::f143);
  const int b = layout.panel();
  const int width = *rc::gen::inRange(1, 70);
  layout.groups = {*rc::gen::inRange(1, 4), width, (width + b - 1) / b * b};
  const int rows = *rc::gen::inRange(1, 40);
  layout.row_cuts = balanced_cuts(rows, *rc::gen::inRange(1, 8), 1, true);
  layout.column_cuts = balanced_cuts(layout.groups.stored(), *rc::gen::inRange(1, 6), b, false);
  std::set<std::pair<int, std::int64_t>> seen;
  std::int64_t bytes = 0;
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c) bytes += layout.block_bytes(r, c);
  RC_ASSERT(bytes == rows * layout.groups.stored() * bytes_of(layout.format));
  for (int i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < layout.groups.stored(); ++j) {
      const int r = layout.row_block_of(i), c = layout.column_block_of(j);
      RC_ASSERT(layout.row_cuts[r] <= i && i < layout.row_cuts[r + 1]);
      RC_ASSERT(layout.column_cuts[c] <= j && j < layout.column_cuts[c + 1]);
      const std::int64_t at = layout.offset_of(r, c, i, j);
      RC_ASSERT(at >= 0 && at + bytes_of(layout.format) <= layout.block_bytes(r, c));
      RC_ASSERT(seen.insert({r * layout.column_blocks() + c, at}).second);
    }
}

RC_GTEST_PROP(BalancedCuts, DifferByAtMostOneUnit, ()) {
  const int extent = *rc::gen::inRange(0, 1000), parts = *rc::gen::inRange(1, 50), unit = *rc::gen::inRange(1, 40);
  const auto rounded = balanced_cuts(extent, parts, unit, false), clipped = balanced_cuts(extent, parts, unit, true);
  RC_ASSERT(static_cast<int>(rounded.size()) == parts + 1);
  RC_ASSERT(rounded.front() == 0 && clipped.back() == extent);
  RC_ASSERT(rounded.back() == (extent + unit - 1) / unit * unit);
  int low = rounded[1], high = rounded[1];
  for (int part = 0; part < parts; ++part) {
    const int size = rounded[part + 1] - rounded[part];
    low = std::min(low, size);
    high = std::max(high, size);
    RC_ASSERT(size % unit == 0);
    RC_ASSERT(clipped[part] == std::min(rounded[part], extent));
  }
  RC_ASSERT(high - low <= unit);
}

}  // namespace
}  // namespace tw::hw
