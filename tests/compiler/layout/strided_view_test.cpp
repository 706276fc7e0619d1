// tests/compiler/layout/strided_view_test.cpp: views against moving the elements one by one.
#include "compiler/layout/strided_view.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace tw::compiler {
namespace {

// All elements of the view, row-major, as flat indices of the base tensor.
std::vector<std::int64_t> flat_elements(const StridedView& view) {
  std::vector<std::int64_t> flats;
  const std::int64_t count = elements_of(view.shape);
  for (std::int64_t index = 0; index < count; ++index) {
    std::int64_t rest = index, flat = view.offset;
    for (int axis = static_cast<int>(view.shape.size()) - 1; axis >= 0; --axis) {
      flat += rest % view.shape[axis] * view.strides[axis];
      rest /= view.shape[axis];
    }
    flats.push_back(flat);
  }
  return flats;
}

TEST(StridedView, WholeIsRowMajor) {
  std::vector<std::int64_t> expected(24);
  std::iota(expected.begin(), expected.end(), 0);

  EXPECT_EQ(flat_elements(whole({2, 3, 4})), expected);
}

TEST(StridedView, HeadsOfAMergedProjectionAreAView) {
  // [1, 5, 3 * 4 heads * 2] -> slice the keys -> [1, 5, 4, 2] -> heads first.
  const StridedView all = whole({1, 5, 24});
  const StridedView keys =
      slice(all, std::vector<std::int64_t>{0, 0, 8}, std::vector<std::int64_t>{1, 1, 1}, {1, 5, 8});
  const auto split = reshape(keys, {1, 5, 4, 2});
  ASSERT_TRUE(split.has_value());
  const StridedView heads = transpose(*split, std::vector<std::int64_t>{0, 2, 1, 3});

  EXPECT_EQ(heads.shape, (Shape{1, 4, 5, 2}));
  EXPECT_EQ(heads.offset, 8);
  EXPECT_EQ(flat_elements(heads)[10], 8 + 2);  // head 1, token 0, element 0
}

TEST(StridedView, ReshapeAcrossATransposeIsRefused) {
  const StridedView transposed = transpose(whole({2, 3}), std::vector<std::int64_t>{1, 0});

  EXPECT_FALSE(reshape(transposed, {6}).has_value());
}

TEST(StridedView, MatrixOfPatchesReadsAnImage) {
  // [1, 3, 4, 4] with patches of 2: rows (gy, gx), columns (channel, py, px).
  const auto grid = reshape(whole({1, 3, 4, 4}), {1, 3, 2, 2, 2, 2});
  ASSERT_TRUE(grid.has_value());
  const StridedView patches = transpose(*grid, std::vector<std::int64_t>{0, 2, 4, 1, 3, 5});
  const hw::MatrixView view = matrix(patches, 3);

  EXPECT_EQ(view.rows(), 4);
  EXPECT_EQ(view.columns(), 12);
  EXPECT_EQ(view.at(1, 0), 2);   // second patch of the first row
  EXPECT_EQ(view.at(0, 4), 16);  // second channel
  EXPECT_EQ(view.at(3, 11), 2 * 16 + 15);
}

RC_GTEST_PROP(StridedView, ReshapeKeepsTheOrderOfElements, ()) {
  const auto a = *rc::gen::inRange<std::int64_t>(1, 5), b = *rc::gen::inRange<std::int64_t>(1, 5),
             c = *rc::gen::inRange<std::int64_t>(1, 5);
  StridedView view = whole({a, b, c});
  if (*rc::gen::arbitrary<bool>()) view = transpose(view, std::vector<std::int64_t>{1, 0, 2});
  const std::vector<Shape> shapes{{a * b, c}, {a, b * c}, {a * b * c}, {1, a * b, c}, {c, a * b}, {b, a, c}};
  const Shape shape = shapes[*rc::gen::inRange<std::size_t>(0, shapes.size())];
  const auto reshaped = reshape(view, shape);
  if (reshaped) RC_ASSERT(flat_elements(*reshaped) == flat_elements(view));
}

RC_GTEST_PROP(StridedView, MatrixAgreesWithTheView, ()) {
  const auto a = *rc::gen::inRange<std::int64_t>(1, 5), b = *rc::gen::inRange<std::int64_t>(1, 5),
             c = *rc::gen::inRange<std::int64_t>(1, 5);
  const std::vector<std::vector<std::int64_t>> permutations{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
  const StridedView view =
      transpose(whole({a, b, c}), permutations[*rc::gen::inRange<std::size_t>(0, permutations.size())]);
  const hw::MatrixView looked = matrix(view);
  const std::vector<std::int64_t> flats = flat_elements(view);
  for (std::int64_t row = 0; row < looked.rows(); ++row)
    for (std::int64_t column = 0; column < looked.columns(); ++column)
      RC_ASSERT(looked.at(row, column) == flats[static_cast<std::size_t>(row * looked.columns() + column)]);
}

}  // namespace
}  // namespace tw::compiler
