#include "compiler/plan/cost.h"

#include <algorithm>

#include "compiler/layout/gather.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

constexpr std::int64_t mean_flight_events = 100;    // docs/fidelity.md prices 100 events of flight a phase
constexpr std::int64_t controls_per_reception = 3;  // source, neutral, pointer (docs/fidelity.md)
constexpr std::int64_t table_bytes_per_send = 8, table_bytes_per_reception = 12, table_bytes_per_phase = 12;
constexpr int supervisor_instructions_per_phase = 4;  // base set-up, call, sync, return

std::int64_t words_of(std::int64_t elements, hw::NumberFormat format) {
  return ceil_div(elements * hw::bytes_of(format), bytes_per_word);
}

void add_phase(StepCost& cost, std::int64_t words, std::int64_t receptions, const hw::Machine& machine) {
  cost.exchange_cycles += phase_cycles(words, receptions, machine);
  cost.phases += 1;
  cost.words += words;
  cost.table_bytes += table_bytes_per_phase + table_bytes_per_send + receptions * table_bytes_per_reception;
}

}  // namespace

std::int64_t phase_cycles(std::int64_t words, std::int64_t receptions, const hw::Machine& machine) {
  return std::max(words, receptions * controls_per_reception) + mean_flight_events + machine.fabric.barrier_cycles +
         supervisor_instructions_per_phase * machine.supervisor_cycles;
}

MatmulBlock matmul_block(const MatmulProblem& problem, Grid grid, ReduceSplit split) {
  const std::int64_t g = hw::panel_width(problem.format);
  MatmulBlock block;
  block.rows = ceil_div(problem.rows, grid.rows);
  block.inner = g * ceil_div(problem.inner / g, grid.inner);
  block.columns = problem.column_unit * ceil_div(ceil_div(problem.columns, problem.column_unit), grid.columns);
  block.result_rows = split == ReduceSplit::rows ? ceil_div(block.rows, grid.inner) : block.rows;
  block.result_columns = split == ReduceSplit::rows
                             ? block.columns
                             : problem.column_unit * ceil_div(ceil_div(problem.columns, problem.column_unit),
                                                              std::int64_t{grid.columns} * grid.inner);
  return block;
}

namespace {

// Events by which the runs of shared tails exceed their words: each row of such a panel comes in tail_share runs, and a
// run takes as many events as its controls need.
std::int64_t tail_events(const MatmulProblem& problem, const MatmulBlock& block) {
  const hw::ColumnGroups& groups = problem.inner_groups;
  if (groups.tail_share <= 1) return 0;
  const std::int64_t g = hw::panel_width(problem.format);
  const std::int64_t panels_between = groups.tail_share * (groups.padded / g) + 1;
  const std::int64_t tail_words = words_of(groups.width - groups.padded, problem.format);
  const std::int64_t extra = std::max<std::int64_t>(0, controls_per_reception + 1 - tail_words);
  return ceil_div(block.inner / g, panels_between) * block.rows * groups.tail_share * extra;
}

}  // namespace

std::int64_t pair_panel_events(std::span<const std::int32_t> source_cuts, std::int64_t row_groups,
                               std::int64_t panel_row_bytes, const hw::Machine& machine) {
  const std::int64_t rows = source_cuts.back();
  std::int64_t busiest = 0;
  auto block = source_cuts.begin();
  for (std::int64_t group = 0; group < row_groups; ++group) {
    const std::int64_t begin = balanced_cut(group, rows, row_groups), end = balanced_cut(group + 1, rows, row_groups);
    std::int64_t events = 0;
    while (block + 1 != source_cuts.end() && block[1] <= begin) ++block;
    for (auto at = block; at + 1 != source_cuts.end() && *at < end; ++at) {
      const std::int64_t bytes =
          (std::min<std::int64_t>(at[1], end) - std::max<std::int64_t>(at[0], begin)) * panel_row_bytes;
      const bool wide = bytes >= std::int64_t{machine.fabric.pair_min_items} * 2 * bytes_per_word;
      events += std::max(ceil_div(bytes, wide ? 2 * bytes_per_word : bytes_per_word), controls_per_reception);
    }
    busiest = std::max(busiest, events);
  }
  return busiest;
}

StepCost matmul_cost(const MatmulProblem& problem, Grid grid, ReduceSplit split, const hw::Machine& machine) {
  const MatmulBlock block = matmul_block(problem, grid, split);
  const std::int64_t operand_bytes = hw::bytes_of(problem.format);
  const std::int64_t result_bytes = hw::bytes_of(problem.result_format);
  const std::int64_t panels = block.inner / hw::panel_width(problem.format);
  StepCost cost;

  // Gather of both operands in one phase: of the left one run per source block and panel, and the weights from their
  // homes in the row groups (the own share is copied, too).
  const bool paired = !problem.paired_panel_events.empty() && split == ReduceSplit::rows && grid.columns % 2 == 0;
  std::int64_t words = (paired ? panels * problem.paired_panel_events[static_cast<std::size_t>(grid.rows)]
                               : words_of(block.rows * block.inner, problem.format)) +
                       tail_events(problem, block);
  std::int64_t receptions = (block.rows / std::max<std::int64_t>(1, problem.source_rows) + 1) * panels;
  const bool gathers_weights = grid.rows > 1 || problem.weights_stored;
  if (gathers_weights) {
    words += words_of(block.inner * block.columns, problem.format);
    receptions += grid.rows;
  }
  add_phase(cost, words, receptions, machine);

  hw::KernelParams gemm{.kind = hw::KernelKind::gemm, .format = problem.format, .out_format = problem.result_format};
  gemm.rows = static_cast<std::int32_t>(block.rows);
  gemm.inner = static_cast<std::int32_t>(block.inner);
  gemm.columns = static_cast<std::int32_t>(block.columns);
  cost.compute_cycles += hw::cycles(gemm, machine);

  hw::KernelParams reduce{.kind = hw::KernelKind::reduce, .format = problem.result_format};
  reduce.rows = static_cast<std::int32_t>(block.result_rows);
  reduce.columns = static_cast<std::int32_t>(block.result_columns);
  reduce.partials = static_cast<std::int32_t>(grid.inner + problem.extra_partials);
  std::int64_t received_bytes = 0;
  if (grid.inner > 1) {
    const std::int64_t received = block.result_rows * block.result_columns * (grid.inner - 1);
    received_bytes = received * result_bytes;
    const std::int64_t runs = split == ReduceSplit::rows ? block.result_columns / 16 : 1;
    add_phase(cost, words_of(received, problem.result_format), (grid.inner - 1) * runs, machine);
  }
  if (grid.inner > 1 || problem.extra_partials > 0) cost.compute_cycles += hw::cycles(reduce, machine);

  const std::int64_t left = block.rows * block.inner * operand_bytes;
  const std::int64_t right = block.inner * block.columns * operand_bytes;
  const std::int64_t partial = block.rows * block.columns * result_bytes;
  const std::int64_t result = block.result_rows * block.result_columns * result_bytes;
  cost.temporary_bytes = std::max(left + (gathers_weights ? right : 0) + partial, partial + received_bytes + result);
  cost.resident_bytes = problem.weights_stored ? 0 : ceil_div(right, grid.rows);
  return cost;
}

StepCost attention_cost(const AttentionProblem& problem, Grid grid, const hw::Machine& machine) {
  const std::int64_t queries = ceil_div(problem.queries, grid.rows);
  const std::int64_t unit = problem.form.key_unit;
  const std::int64_t keys = unit * ceil_div(ceil_div(problem.keys, unit), grid.inner);
  const std::int64_t width = problem.form.stored_width, value_width = problem.form.stored_values;
  const std::int64_t bytes = hw::bytes_of(problem.format), operand_bytes = hw::bytes_of(problem.form.format);
  StepCost cost;
  add_phase(cost, words_of(queries * width + keys * (width + value_width), problem.form.format), 3 * (width / 16) * 3,
            machine);

  hw::KernelParams gemm{.kind = hw::KernelKind::gemm, .format = problem.form.format, .out_format = problem.format};
  gemm.rows = static_cast<std::int32_t>(queries);
  gemm.inner = static_cast<std::int32_t>(width);
  gemm.columns = static_cast<std::int32_t>(keys);
  cost.compute_cycles += hw::cycles(gemm, machine);
  gemm.inner = static_cast<std::int32_t>(keys);
  gemm.columns = static_cast<std::int32_t>(value_width);
  cost.compute_cycles += hw::cycles(gemm, machine);
  hw::KernelParams softmax{.kind = hw::KernelKind::attention_softmax, .format = problem.format};
  softmax.rows = static_cast<std::int32_t>(queries);
  softmax.columns = static_cast<std::int32_t>(keys);
  cost.compute_cycles += hw::cycles(softmax, machine);

  const std::int64_t owned = ceil_div(queries, grid.inner);
  if (grid.inner > 1)
    add_phase(cost, words_of(owned * value_width * (grid.inner - 1), problem.format) + 2 * owned * grid.inner,
              (grid.inner - 1) * (value_width / 16 + 1), machine);
  hw::KernelParams merge{.kind = hw::KernelKind::attention_merge, .format = problem.format};
  merge.rows = static_cast<std::int32_t>(owned);
  merge.columns = static_cast<std::int32_t>(problem.form.value_width);
  merge.partials = grid.inner;
  cost.compute_cycles += hw::cycles(merge, machine);
  cost.temporary_bytes = operand_bytes * (queries * width + keys * (width + value_width) + queries * keys) +
                         bytes * (queries * keys + queries * value_width);
  return cost;
}

std::int64_t largest_rows(const hw::TensorLayout& layout) {
  std::int64_t rows = 0;
  for (int r = 0; r < layout.row_blocks(); ++r) rows = std::max(rows, layout.block_rows(r));
  return rows;
}

std::int64_t largest_columns(const hw::TensorLayout& layout) {
  std::int64_t columns = 0;
  for (int c = 0; c < layout.column_blocks(); ++c) columns = std::max(columns, layout.block_columns(c));
  return columns;
}

std::int64_t largest_block_bytes(const hw::TensorLayout& layout) {
  return largest_rows(layout) * largest_columns(layout) * hw::bytes_of(layout.format);
}

StepCost relayout_cost(const hw::TensorLayout& target, const hw::Machine& machine) {
  StepCost cost;
  const std::int64_t bytes = largest_block_bytes(target);
  add_phase(cost, ceil_div(bytes, bytes_per_word), 1 + largest_columns(target) / target.panel(), machine);
  cost.temporary_bytes = 2 * bytes;
  return cost;
}

StepCost relayout_cost(const hw::TensorLayout& source, const hw::TensorLayout& target, const hw::Machine& machine) {
  StepCost cost;
  const std::int64_t columns = target.groups.columns();
  const hw::MatrixView view = hw::plain_view(target.rows(), columns);
  // Row blocks repeat: the first ones see every way in which the cuts of both sides meet, near enough.
  constexpr int sampled_row_blocks = 3;
  std::int64_t words = 0, runs = 0;
  for (int r = 0; r < std::min(sampled_row_blocks, target.row_blocks()); ++r)
    for (int c = 0; c < target.column_blocks(); ++c) {
      const OperandBlock block{target.row_cuts[r], target.row_cuts[r + 1], target.column_cuts[c],
                               target.column_cuts[c + 1], target.block_rows(r)};
      const std::vector<Run> found = gather_runs({&source, columns}, view, target.groups, block);
      std::int64_t bytes = 0;
      for (const Run& run : found) bytes += run.bytes;
      words = std::max(words, ceil_div(bytes, bytes_per_word));
      runs = std::max(runs, static_cast<std::int64_t>(found.size()));
    }
  add_phase(cost, words, runs, machine);
  cost.temporary_bytes = largest_block_bytes(source) + largest_block_bytes(target);
  return cost;
}

StepCost host_cost(const hw::TensorLayout& layout, const hw::Machine& machine) {
  StepCost cost;
  cost.phases = 1;
  cost.temporary_bytes = largest_block_bytes(layout);
  const auto bytes = static_cast<double>(layout.rows() * layout.groups.stored() * hw::bytes_of(layout.format));
  cost.exchange_cycles = machine.host.sync_cycles * 2 + machine.host.command_dispatch_cycles +
                         static_cast<std::int64_t>(bytes / machine.host.bytes_per_second * machine.clock_hz);
  return cost;
}

StepCost local_cost(hw::KernelParams params, const hw::TensorLayout& layout, const hw::Machine& machine) {
  params.rows = static_cast<std::int32_t>(largest_rows(layout));
  params.columns = static_cast<std::int32_t>(largest_columns(layout));
  params.elements = params.rows * params.columns;
  StepCost cost;
  cost.compute_cycles = hw::cycles(params, machine);
  cost.temporary_bytes = 2 * largest_block_bytes(layout);
  return cost;
}

StepCost layer_norm_cost(const hw::TensorLayout& layout, std::int64_t columns, const hw::Machine& machine) {
  const std::int64_t groups = layout.column_blocks();
  hw::KernelParams statistics{.kind = hw::KernelKind::layer_norm_statistics, .format = layout.format};
  hw::KernelParams apply{.kind = hw::KernelKind::layer_norm_apply, .format = layout.format};
  apply.groups = static_cast<std::int32_t>(groups);
  apply.total_columns = static_cast<std::int32_t>(columns);
  apply.has_scale = apply.has_bias = true;
  StepCost cost = local_cost(statistics, layout, machine);
  cost.compute_cycles += local_cost(apply, layout, machine).compute_cycles;
  if (groups > 1) add_phase(cost, 2 * largest_rows(layout) * groups, groups, machine);
  return cost;
}

}  // namespace tw::compiler
