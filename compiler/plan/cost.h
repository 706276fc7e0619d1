// compiler/plan/cost.h: closed-form costs of steps: a few integer operations each, no per-tile object.
// Prices come from hw/kernel and the machine's fabric constants: the same that the simulator charges.
#pragma once
#include <span>

#include "compiler/plan/plan.h"
#include "hw/kernel/kernel.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

// Cycles of one exchange phase: the busiest lane's words or control instructions, flight, and the phase overhead
// (barrier, call, set-up: about 250, docs/fidelity.md).
std::int64_t phase_cycles(std::int64_t words, std::int64_t receptions, const hw::Machine& machine);

// What a grid enumeration needs to know of a matmul; extents in stored (padded) columns.
struct MatmulProblem {
  std::int64_t rows = 0;
  std::int64_t inner = 0;    // stored, a multiple of the panel width of `format`
  std::int64_t columns = 0;  // stored result columns, a multiple of 16
  hw::NumberFormat format = hw::NumberFormat::f16;
  hw::NumberFormat result_format = hw::NumberFormat::f16;
  std::int64_t column_unit = 16;    // result blocks are cut at multiples of it
  std::int64_t source_rows = 1;     // rows of a block of the left operand's layout: run length of its gather
  bool weights_stored = false;      // right operand is a value, not a parameter (batched: per batch)
  std::int64_t extra_partials = 0;  // bias and residual in the reduction
  hw::ColumnGroups inner_groups;    // shared tails make short runs
  // By row groups of the grid: events in which a panel of the left operand arrives where pairs of column groups lie on
  // physical pairs (pair_panel_events). Empty: no double words.
  std::vector<std::int64_t> paired_panel_events;
};

// Events in which one panel of the left operand arrives at the busiest of `row_groups` row groups, when the source's
// rows are cut at `source_cuts` and runs of at least the machine's pair_min_items travel as double words, the others
// as words. `panel_row_bytes`: one row of a panel.
std::int64_t pair_panel_events(std::span<const std::int32_t> source_cuts, std::int64_t row_groups,
                               std::int64_t panel_row_bytes, const hw::Machine& machine);

// The block of the busiest tile under a grid.
struct MatmulBlock {
  std::int64_t rows = 0, inner = 0, columns = 0;     // of the GEMM
  std::int64_t result_rows = 0, result_columns = 0;  // owned after the reduction
};
MatmulBlock matmul_block(const MatmulProblem& problem, Grid grid, ReduceSplit split);
StepCost matmul_cost(const MatmulProblem& problem, Grid grid, ReduceSplit split, const hw::Machine& machine);

// Attention: `grid.rows` query groups x `grid.inner` key groups, for each head and batch.
struct AttentionProblem {
  std::int64_t batch = 1, queries = 0, keys = 0;
  AttentionForm form;
  hw::NumberFormat format = hw::NumberFormat::f16;  // of scores, partial sums and the result
};
StepCost attention_cost(const AttentionProblem& problem, Grid grid, const hw::Machine& machine);

// Re-layout of a whole stored matrix: words and runs of the busiest receiver, counted over a sample of its blocks.
StepCost relayout_cost(const hw::TensorLayout& source, const hw::TensorLayout& target, const hw::Machine& machine);
// The same when nothing is known of the source: words of the busiest receiver, one phase.
StepCost relayout_cost(const hw::TensorLayout& target, const hw::Machine& machine);

// A host exchange of all blocks of a layout: two host barriers, the dispatch, and all bytes over the link.
StepCost host_cost(const hw::TensorLayout& layout, const hw::Machine& machine);

// A local kernel over the largest block of a layout, priced by `params` whose rows and columns are filled in.
StepCost local_cost(hw::KernelParams params, const hw::TensorLayout& layout, const hw::Machine& machine);
StepCost layer_norm_cost(const hw::TensorLayout& layout, std::int64_t columns, const hw::Machine& machine);

// Largest block of a layout.
std::int64_t largest_rows(const hw::TensorLayout& layout);
std::int64_t largest_columns(const hw::TensorLayout& layout);
std::int64_t largest_block_bytes(const hw::TensorLayout& layout);

}  // namespace tw::compiler
