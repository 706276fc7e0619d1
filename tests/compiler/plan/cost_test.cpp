// tests/compiler/plan/cost_test.cpp: closed forms against written-out sums and against counting blocks one by one.
#include "compiler/plan/cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "hw/base/units.h"
#include "hw/machine/machine.h"

namespace tw::compiler {
namespace {

const hw::Machine& ipu21() {
  static const hw::Machine machine = *hw::load_machine("ipu21");
  return machine;
}

TEST(MatmulCost, QkvOn5x72x4) {
  const MatmulProblem problem{
      .rows = 729, .inner = 1152, .columns = 3456, .format = hw::NumberFormat::f143, .source_rows = 18};
  const MatmulBlock block = matmul_block(problem, {5, 72, 4}, ReduceSplit::rows);

  EXPECT_EQ(block.rows, 146);
  EXPECT_EQ(block.inner, 288);
  EXPECT_EQ(block.columns, 48);
  EXPECT_EQ(block.result_rows, 37);
  // GEMM 294 + 9 * 3 * (4 * 146 + 160), and a sum of four partials of 37 * 48 elements.
  EXPECT_EQ(matmul_cost(problem, {5, 72, 4}, ReduceSplit::rows, ipu21()).compute_cycles,
            294 + 9 * 3 * (4 * 146 + 160) + 282 + 6 * 37 * (11 + 2 * 3));
}

TEST(MatmulCost, OneInnerGroupNeedsNoReduction) {
  const MatmulProblem problem{
      .rows = 64, .inner = 128, .columns = 96, .format = hw::NumberFormat::f16, .source_rows = 8};

  EXPECT_EQ(matmul_cost(problem, {1, 6, 1}, ReduceSplit::rows, ipu21()).compute_cycles, 294 + 8 * 1 * (4 * 64 + 160));
  EXPECT_EQ(matmul_cost(problem, {1, 6, 1}, ReduceSplit::rows, ipu21()).phases, 1);  // the left operand only
}

// The busiest block of a grid, found by cutting every axis and looking at all of it.
RC_GTEST_PROP(MatmulBlock, IsTheLargestOfAllBlocks, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 60), panels = *rc::gen::inRange<std::int64_t>(1, 12),
             units = *rc::gen::inRange<std::int64_t>(1, 12);
  const MatmulProblem problem{
      .rows = rows, .inner = 32 * panels, .columns = 16 * units, .format = hw::NumberFormat::f143};
  const Grid grid{static_cast<std::int32_t>(*rc::gen::inRange<std::int64_t>(1, rows + 1)),
                  static_cast<std::int32_t>(*rc::gen::inRange<std::int64_t>(1, units + 1)),
                  static_cast<std::int32_t>(*rc::gen::inRange<std::int64_t>(1, panels + 1))};
  std::int64_t most_rows = 0, most_inner = 0, most_columns = 0;
  for (int r = 0; r < grid.rows; ++r)
    most_rows = std::max(most_rows, balanced_cut(r + 1, rows, grid.rows) - balanced_cut(r, rows, grid.rows));
  for (int c = 0; c < grid.columns; ++c)
    most_columns =
        std::max(most_columns, 16 * (balanced_cut(c + 1, units, grid.columns) - balanced_cut(c, units, grid.columns)));
  for (int k = 0; k < grid.inner; ++k)
    most_inner =
        std::max(most_inner, 32 * (balanced_cut(k + 1, panels, grid.inner) - balanced_cut(k, panels, grid.inner)));

  const MatmulBlock block = matmul_block(problem, grid, ReduceSplit::rows);

  RC_ASSERT(block.rows == most_rows);
  RC_ASSERT(block.inner == most_inner);
  RC_ASSERT(block.columns == most_columns);
}

RC_GTEST_PROP(PhaseCycles, GrowWithWordsAndReceptions, ()) {
  const auto words = *rc::gen::inRange<std::int64_t>(0, 20000), receptions = *rc::gen::inRange<std::int64_t>(0, 2000);

  RC_ASSERT(phase_cycles(words + 1, receptions, ipu21()) >= phase_cycles(words, receptions, ipu21()));
  RC_ASSERT(phase_cycles(words, receptions + 1, ipu21()) >= phase_cycles(words, receptions, ipu21()));
  RC_ASSERT(phase_cycles(words, 0, ipu21()) - words == phase_cycles(0, 0, ipu21()));
}

}  // namespace
}  // namespace tw::compiler
