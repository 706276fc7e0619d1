#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "compiler/plan/choice.h"
#include "compiler/search/planner.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// Calls visit(grid) for every grid of at most `tiles` tiles without empty groups.
template <class Visit>
void for_each_grid(std::int64_t rows, std::int64_t column_units, std::int64_t inner_panels, std::int64_t tiles,
                   Visit visit) {
  for (std::int64_t r = 1; r <= std::min(rows, tiles); ++r)
    for (std::int64_t c = 1; c <= std::min(column_units, tiles / r); ++c)
      for (std::int64_t k = 1; k <= std::min(inner_panels, tiles / (r * c)); ++k)
        visit(Grid{static_cast<std::int32_t>(r), static_cast<std::int32_t>(c), static_cast<std::int32_t>(k)});
}

// The order in which the inner extent is gathered: as it is stored, or with the tails of groups sharing panels where
// that saves panels and moves whole words.
hw::ColumnGroups inner_order(const hw::ColumnGroups& stored, hw::NumberFormat format) {
  const int panel = hw::panel_width(format), tail = stored.width % panel;
  if (!hw::is_f8(format) || stored.groups == 1 || tail == 0 || tail % 4 != 0 || panel % tail != 0 ||
      stored.width < panel || stored.groups % (panel / tail) != 0)
    return stored;
  return {stored.groups, stored.width, stored.width - tail, panel / tail};
}

// The left operand in blocks of one panel of columns and so many rows that each row group of a grid is a whole number
// of blocks, each long enough for double words; nothing where there are too few rows.
std::optional<hw::TensorLayout> long_runs_layout(const hw::TensorLayout& source, std::int64_t row_groups,
                                                 const hw::Machine& machine) {
  const std::int64_t shortest_rows =
      ceil_div(std::int64_t{machine.fabric.pair_min_items} * 8, source.panel() * hw::bytes_of(source.format));
  if (shortest_rows == 0) return std::nullopt;
  hw::TensorLayout layout{.format = source.format, .scale_exponent = source.scale_exponent};
  layout.groups = {1, static_cast<std::int32_t>(source.groups.columns()),
                   static_cast<std::int32_t>(round_up(source.groups.columns(), source.panel()))};
  const std::int64_t column_blocks = layout.groups.padded / source.panel();
  const std::int64_t most = std::min(source.rows() / shortest_rows, machine.tiles / column_blocks);
  const std::int64_t row_blocks = most / row_groups * row_groups;
  if (row_blocks == 0) return std::nullopt;
  layout.row_cuts = hw::balanced_cuts(source.rows(), row_blocks, 1, true);
  layout.column_cuts = hw::balanced_cuts(layout.groups.padded, column_blocks, source.panel(), false);
  return layout;
}

bool splits_columns(const Grid& grid, std::int64_t column_units) {
  return grid.inner > 1 && std::int64_t{grid.columns} * grid.inner <= column_units;
}

std::string no_column_split(const Grid& grid, std::int64_t column_units, std::int64_t column_unit) {
  return fmt::format("a split by columns needs several inner groups and at least {} units of {} columns, there are {}",
                     std::int64_t{grid.columns} * grid.inner, column_unit, column_units);
}

// Prices of the left operand's gather as double words, by row groups: as it lies, and moved to long runs before.
struct PairedSource {
  std::vector<std::int64_t> as_it_lies, resharded;
  std::vector<std::int64_t> reshard_cycles;  // of the move; -1: not possible

  std::int64_t move_cycles(std::int64_t row_groups) const {
    return reshard_cycles.empty() ? -1 : reshard_cycles[static_cast<std::size_t>(row_groups)];
  }

  PairedSource(const hw::TensorLayout& source, std::int64_t max_row_groups, const hw::Machine& machine) {
    if (machine.fabric.pair_min_items == 0) return;
    const std::int64_t panel_row_bytes = source.panel() * hw::bytes_of(source.format);
    std::map<int, std::int64_t> cycles;  // by row blocks
    as_it_lies = resharded = reshard_cycles =
        std::vector<std::int64_t>(static_cast<std::size_t>(max_row_groups) + 1, -1);
    for (std::int64_t groups = 1; groups <= max_row_groups; ++groups) {
      as_it_lies[groups] = pair_panel_events(source.row_cuts, groups, panel_row_bytes, machine);
      const auto layout = long_runs_layout(source, groups, machine);
      if (!layout || *layout == source) continue;
      const auto [found, added] = cycles.try_emplace(layout->row_blocks(), 0);
      if (added) found->second = relayout_cost(source, *layout, machine).cycles();
      reshard_cycles[groups] = found->second;
      resharded[groups] = pair_panel_events(layout->row_cuts, groups, panel_row_bytes, machine);
    }
  }
};

}  // namespace

// How the result's columns are stored. When heads of an attention read it: by head, padded to whole panels; for F8
// heads in plain order, cut where pieces of heads and the parts of the merged projections meet.
Planner::ResultColumns Planner::result_columns(const Operation& operation, std::int64_t columns) const {
  ResultColumns result{{1, static_cast<std::int32_t>(columns), static_cast<std::int32_t>(round_up(columns, unit_))},
                       unit_};
  const std::int64_t plain_unit = unit_;
  for (const OperationId user : users(operation.results[0])) {
    const Operation& reader = graph_.operation(user);
    const bool sliced = reader.kind == OpKind::slice;
    const std::vector<OperationId> candidates = sliced ? users(reader.results[0]) : std::vector<OperationId>{user};
    for (const OperationId id : candidates) {
      const Operation& attention = graph_.operation(id);
      if (attention.kind != OpKind::attention) continue;
      const AttentionForm form = attention_form(attention);
      if (!form.f8()) {
        if (form.width != form.value_width || columns % form.width != 0) continue;
        const auto width = static_cast<std::int32_t>(form.width);
        return {{static_cast<std::int32_t>(columns / width), width, static_cast<std::int32_t>(round_up(width, 16))},
                16};
      }
      const std::int64_t unit = std::lcm(result.unit == plain_unit ? 16 : result.unit, form.column_unit());
      if (columns % unit != 0) continue;
      result.unit = unit;
      result.groups.padded = result.groups.width;
      if (sliced) {
        const std::int64_t begin = reader.attributes.starts.back();
        result.should_cut.push_back(begin);
        result.should_cut.push_back(begin + graph_.value(reader.results[0]).shape.back());
      }
    }
  }
  return result;
}

// The add that takes this result and a value that is known already: its reduction can add it.
std::optional<OperationId> Planner::fusable_residual(const Operation& operation, const Shape& shape) const {
  const std::vector<OperationId> readers = users(operation.results[0]);
  if (readers.size() != 1 || escapes_.contains(operation.results[0])) return std::nullopt;
  const Operation& add = graph_.operation(readers[0]);
  if (add.kind != OpKind::binary || add.attributes.binary != Binary::add) return std::nullopt;
  if (add.operands[0] == add.operands[1] || graph_.value(add.results[0]).shape != shape) return std::nullopt;
  const ValueId other = add.operands[0] == operation.results[0] ? add.operands[1] : add.operands[0];
  if (!graph_.value(other).is_parameter() && !known_.contains(other)) return std::nullopt;
  if (const auto found = known_.find(other); found != known_.end() && found->second.input >= 0) return std::nullopt;
  return readers[0];
}

// Cycles of what reads the result locally, on a block of rows x columns.
std::int64_t Planner::follower_cycles(ValueId value, std::int64_t rows, std::int64_t columns,
                                      std::int64_t column_blocks) const {
  std::int64_t total = 0;
  hw::KernelParams params{.format = format_, .out_format = format_};
  params.rows = static_cast<std::int32_t>(rows);
  params.columns = static_cast<std::int32_t>(columns);
  params.elements = params.rows * params.columns;
  for (const OperationId user : users(value)) {
    const Operation& reader = graph_.operation(user);
    if (reader.kind == OpKind::gelu) {
      params.kind = hw::KernelKind::gelu;
      total += hw::cycles(params, machine_);
    } else if (reader.kind == OpKind::layer_norm) {
      params.kind = hw::KernelKind::layer_norm_statistics;
      total += hw::cycles(params, machine_);
      params.kind = hw::KernelKind::layer_norm_apply;
      params.groups = static_cast<std::int32_t>(column_blocks);
      total += hw::cycles(params, machine_);
      total += phase_cycles(2 * rows * column_blocks, column_blocks, machine_);
    }
  }
  if (options_.precision == Precision::f8) {
    params.kind = hw::KernelKind::cast;
    params.out_format = hw::NumberFormat::f143;
    total += hw::cycles(params, machine_);
  }
  return total;
}

std::string Planner::impossible(const Grid& grid, std::int64_t rows, std::int64_t column_units,
                                std::int64_t inner_panels) const {
  if (grid.tiles() > machine_.tiles)
    return fmt::format("{} groups, the machine has {} tiles", grid.tiles(), machine_.tiles);
  if (grid.rows > rows) return fmt::format("{} row groups for {} rows", grid.rows, rows);
  if (grid.columns > column_units)
    return fmt::format("{} column groups for {} units of columns", grid.columns, column_units);
  if (grid.inner > inner_panels) return fmt::format("{} inner groups for {} panels", grid.inner, inner_panels);
  return {};
}

// An operation inside a Repeat is planned several times: its last choice counts.
void Planner::keep_choice(const Operation& operation, StepKind kind, std::vector<Alternative> alternatives) {
  std::erase_if(plan_.choices, [&](const OperationChoice& other) { return other.operation == operation.name; });
  plan_.choices.push_back({operation.name, kind, std::move(alternatives)});
}

void Planner::refuse_pin(const Operation& operation, const PlanChoice& pin, const std::string& why) {
  pin_problems_.insert(
      fmt::format("operation \"{}\" cannot have grid {}: {}", operation.name, to_string(pin.grid), why));
  unsupported(operation, "its pin is impossible");
}

void Planner::plan_matmul(const Operation& operation) {
  Known left = resolve(operation.operands[0]);
  Known right = resolve(operation.operands[1]);
  const auto swap_last = [](Known& known) {
    std::vector<std::int64_t> permutation(known.view.shape.size());
    for (std::size_t axis = 0; axis < permutation.size(); ++axis) permutation[axis] = static_cast<std::int64_t>(axis);
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
    known.view = transpose(known.view, permutation);
  };
  if (operation.attributes.transpose_a) swap_last(left);
  if (operation.attributes.transpose_b) swap_last(right);
  const Shape& b = right.view.shape;
  const bool one_matrix = elements_of(b) == b[b.size() - 1] * b[b.size() - 2];
  if (right.is_parameter() && one_matrix) {
    right.view = *reshape(right.view, {b[b.size() - 2], b[b.size() - 1]});
    plan_parameter_matmul(operation, left, right);
  } else {
    plan_batched_matmul(operation, left, right);
  }
}

void Planner::plan_parameter_matmul(const Operation& operation, const Known& left, const Known& right) {
  const std::int64_t inner = right.view.shape[0], columns = right.view.shape[1];
  const std::int64_t rows = elements_of(left.view.shape) / inner;
  const bool f8 = options_.precision == Precision::f8;
  const std::string& value_name = name_of_value(operation.operands[0]);

  Step step{.kind = StepKind::matmul, .operation = operation.name};
  std::int32_t stored = stored_matrix(left, operation.name, value_name, rows, inner);
  step.format = f8 ? hw::NumberFormat::f143 : format_;
  if (f8) {
    if (const auto range = options_.ranges.find(operation.name); range != options_.ranges.end()) {
      step.left_scale_exponent = hw::scale_exponent_for(step.format, range->second.left_max_abs);
      step.right_scale_exponent = hw::scale_exponent_for(step.format, range->second.right_max_abs);
    }
    stored = cast_to_f8(stored, operation.name, step.left_scale_exponent);
  }
  step.operands = {whole_operand(stored), operand_of(right)};

  const Shape& shape = graph_.value(operation.results[0]).shape;
  ValueId result_value = operation.results[0];
  Known residual;
  if (operation.operands.size() > 2) {
    const Known bias = resolve(operation.operands[2]);
    if (!bias.is_parameter()) return unsupported(operation, "a bias that is computed; a parameter is supported");
    step.bias = static_cast<std::int32_t>(step.operands.size());
    step.operands.push_back(operand_of(bias));
  }
  const auto add = fusable_residual(operation, shape);
  if (add) {
    const Operation& sum = graph_.operation(*add);
    residual = resolve(sum.operands[0] == operation.results[0] ? sum.operands[1] : sum.operands[0]);
    residual.view = expand(residual.view, shape);
    result_value = sum.results[0];
    fused_.insert(*add);
  }

  const hw::TensorLayout& source = plan_.stored[stored].layout;
  const ResultColumns result_form = result_columns(operation, columns);
  const hw::ColumnGroups& groups = result_form.groups;
  const std::int64_t column_unit = result_form.unit;
  step.inner_groups = inner_order(source.groups, step.format);
  MatmulProblem problem{.rows = rows,
                        .inner = step.inner_groups.stored(),
                        .columns = groups.stored(),
                        .format = step.format,
                        .result_format = format_,
                        .column_unit = column_unit,
                        .source_rows = largest_rows(source)};
  problem.inner_groups = step.inner_groups;
  problem.extra_partials = (step.bias >= 0 ? 1 : 0) + (add ? 1 : 0);
  const PairedSource paired(source, std::min<std::int64_t>(rows, machine_.tiles), machine_);
  problem.paired_panel_events = paired.as_it_lies;
  MatmulProblem resharded = problem;
  resharded.paired_panel_events = paired.resharded;
  resharded.inner_groups = {1, static_cast<std::int32_t>(inner),
                            static_cast<std::int32_t>(round_up(inner, source.panel()))};
  resharded.inner = resharded.inner_groups.stored();

  const hw::TensorLayout* wanted = nullptr;  // a layout that saves a re-layout when the result has it
  if (const auto found = wanted_.find(result_value); found != wanted_.end()) wanted = &found->second;
  const hw::TensorLayout* residual_layout = add && residual.stored >= 0 && is_plain(residual, rows, columns)
                                                ? &plan_.stored[residual.stored].layout
                                                : nullptr;

  const std::int64_t panel_width = hw::panel_width(step.format), column_units = ceil_div(problem.columns, column_unit);
  // Prices a choice, or says why there is no such choice.
  const auto price = [&](const PlanChoice& choice, Alternative& priced) -> std::string {
    const auto& [grid, split, moved] = choice;
    const MatmulProblem& variant = moved ? resharded : problem;
    const std::int64_t column_groups = std::int64_t{grid.columns} * (split == ReduceSplit::columns ? grid.inner : 1);
    if (std::string why = impossible(grid, rows, column_units, variant.inner / panel_width); !why.empty()) return why;
    if (split == ReduceSplit::columns && !splits_columns(grid, column_units))
      return no_column_split(grid, column_units, column_unit);
    if (moved && (grid.columns % 2 != 0 || split == ReduceSplit::columns))
      return "long runs need an even number of column groups, whose neighbours are physical pairs, and a split by rows";
    if (moved && paired.move_cycles(grid.rows) < 0)
      return "there are too few rows for long runs, or they are long already, or the machine has no double words";
    priced = {choice, matmul_cost(variant, grid, split, machine_)};
    priced.within_budget = priced.cost.temporary_bytes <= temporary_budget_bytes_;
    const MatmulBlock block = matmul_block(variant, grid, split);
    priced.total_cycles = priced.cost.cycles() + (moved ? paired.move_cycles(grid.rows) : 0) +
                          follower_cycles(result_value, block.result_rows, block.result_columns, column_groups);
    return {};
  };
  // What does not follow from the grid alone: re-layouts around it.
  const auto add_relayouts = [&](Alternative& priced) {
    const auto& [grid, split, moved] = priced.choice;
    const MatmulBlock block = matmul_block(moved ? resharded : problem, grid, split);
    const auto same = [&, grid = grid, split = split](const hw::TensorLayout& other) {
      return other == result_layout(rows, groups, format_, column_unit, grid, split);
    };
    const std::int64_t relayout = phase_cycles(
        ceil_div(block.result_rows * block.result_columns * hw::bytes_of(format_), bytes_per_word), 4, machine_);
    if (add && residual.stored >= 0 && !(residual_layout && same(*residual_layout))) priced.total_cycles += relayout;
    if (wanted && !same(*wanted)) priced.total_cycles += relayout;
    if (result_form.should_cut.empty()) return;
    const std::int64_t column_groups = std::int64_t{grid.columns} * (split == ReduceSplit::columns ? grid.inner : 1);
    const auto cuts = hw::balanced_cuts(groups.stored(), column_groups, column_unit, false);
    for (const std::int64_t cut : result_form.should_cut)
      if (!std::binary_search(cuts.begin(), cuts.end(), cut)) priced.total_cycles += relayout;
  };
  Ranking ranking(1 + options_.alternatives);
  const auto consider = [&](const PlanChoice& choice) {
    Alternative priced;
    if (!price(choice, priced).empty() || !ranking.wants(priced)) return;  // already worse without re-layouts
    add_relayouts(priced);
    ranking.add(priced);
  };
  const auto pin = options_.pins.find(operation.name);
  if (pin != options_.pins.end()) {
    Alternative priced;
    PlanChoice wished = pin->second;
    if (wished.long_runs && long_runs_layout(source, wished.grid.rows, machine_) == source) wished.long_runs = false;
    if (const std::string why = price(wished, priced); !why.empty()) return refuse_pin(operation, wished, why);
    add_relayouts(priced);
    ranking.add(priced);
  } else {
    for_each_grid(rows, column_units, std::max(problem.inner, resharded.inner) / panel_width, machine_.tiles,
                  [&](Grid grid) {
                    consider({grid, ReduceSplit::rows, false});
                    consider({grid, ReduceSplit::columns, false});
                    consider({grid, ReduceSplit::rows, true});
                  });
  }
  TW_CHECK(ranking.best() != nullptr, "no grid for {}", operation.name);
  const Alternative best = *ranking.best();
  keep_choice(operation, StepKind::matmul, ranking.take());

  step.grid = best.choice.grid;
  step.split = best.choice.split;
  step.cost = best.cost;
  if (best.choice.long_runs) {
    const std::int32_t moved = stored_as({.stored = stored, .view = whole({rows, inner})}, operation.name, value_name,
                                         *long_runs_layout(source, step.grid.rows, machine_));
    step.operands[0] = whole_operand(moved);
    step.inner_groups = resharded.inner_groups;
  }
  const hw::TensorLayout layout = result_layout(rows, groups, format_, column_unit, step.grid, step.split);
  if (add && residual.stored >= 0) {
    step.residual = stored_as(residual, operation.name, name_of_value(result_value), layout);
  } else if (add) {
    step.residual_parameter = static_cast<std::int32_t>(step.operands.size());
    Operand operand = operand_of(residual);
    step.operands.push_back(operand);
  }
  step.result = add_stored(name_of_value(result_value), shape, rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(result_value, result);
}

void Planner::plan_batched_matmul(const Operation& operation, const Known& left, const Known& right) {
  const Shape& shape = graph_.value(operation.results[0]).shape;
  const std::size_t axes = shape.size();
  const std::int64_t rows = axes > 1 ? shape[axes - 2] : 1, columns = shape[axes - 1];
  const std::int64_t inner = left.view.shape.back();
  const std::int64_t batch = elements_of(shape) / (rows * columns);
  if (operation.operands.size() > 2)
    return unsupported(operation, "a bias on a product of two computed values; add it separately");
  if (batch > machine_.tiles) return unsupported(operation, "a batch of more products than the machine has tiles");
  // Both operands as batch x rows x inner (batch x inner x columns) looks, broadcast over the batch.
  const auto batched = [&](Known known, std::int64_t r, std::int64_t c, const std::string& name) -> Known {
    Shape full(shape.begin(), shape.end() - 2);
    full.push_back(r);
    full.push_back(c);
    known.stored =
        known.is_parameter() || known.input >= 0 ? stored_somewhere(known, operation.name, name) : known.stored;
    if (known.parameter >= 0 || known.input >= 0) known.view = whole(known.view.shape);
    known.parameter = known.input = -1;
    known.view = expand(known.view, full);
    return known;
  };
  Step step{.kind = StepKind::batched_matmul, .operation = operation.name, .format = format_};
  step.operands = {operand_of(batched(left, rows, inner, name_of_value(operation.operands[0]))),
                   operand_of(batched(right, inner, columns, name_of_value(operation.operands[1])))};

  MatmulProblem problem{.rows = rows,
                        .inner = round_up(inner, 16),
                        .columns = round_up(columns, unit_),
                        .format = format_,
                        .result_format = format_,
                        .column_unit = unit_,
                        .source_rows = rows,
                        .weights_stored = true};
  step.inner_groups = {1, static_cast<std::int32_t>(inner), static_cast<std::int32_t>(problem.inner)};
  const std::vector<std::int64_t>& strides = step.operands[1].view.strides;
  step.right_by_columns = inner > 1 && columns > 1 && strides[axes - 1] > strides[axes - 2];
  problem.inner_groups = step.inner_groups;
  Ranking ranking(1 + options_.alternatives);
  const std::int64_t column_units = problem.columns / unit_, inner_panels = problem.inner / 16;
  const auto consider = [&](Grid grid, ReduceSplit split) {
    Alternative priced{{grid, split}, matmul_cost(problem, grid, split, machine_)};
    priced.within_budget = priced.cost.temporary_bytes <= temporary_budget_bytes_;
    priced.total_cycles = priced.cost.cycles();
    if (ranking.wants(priced)) ranking.add(priced);
  };
  if (const auto pin = options_.pins.find(operation.name); pin != options_.pins.end()) {
    const auto& [grid, split, moved] = pin->second;
    std::string why = impossible({grid.rows * static_cast<std::int32_t>(batch), grid.columns, grid.inner}, rows * batch,
                                 column_units, inner_panels);
    if (why.empty() && moved) why = "a product of two computed values has no long runs";
    if (why.empty() && split == ReduceSplit::columns && !splits_columns(grid, column_units))
      why = no_column_split(grid, column_units, unit_);
    if (!why.empty()) return refuse_pin(operation, pin->second, why);
    consider(grid, split);
  } else {
    for_each_grid(rows, column_units, inner_panels, machine_.tiles / batch, [&](Grid grid) {
      consider(grid, ReduceSplit::rows);
      if (splits_columns(grid, column_units)) consider(grid, ReduceSplit::columns);
    });
  }
  TW_CHECK(ranking.best() != nullptr, "no grid for {}", operation.name);
  step.grid = ranking.best()->choice.grid;
  step.split = ranking.best()->choice.split;
  step.cost = ranking.best()->cost;
  keep_choice(operation, StepKind::batched_matmul, ranking.take());

  hw::TensorLayout layout =
      result_layout(rows, {1, static_cast<std::int32_t>(columns), static_cast<std::int32_t>(problem.columns)}, format_,
                    unit_, step.grid, step.split);
  const std::vector<std::int32_t> within = layout.row_cuts;
  layout.row_cuts = {0};
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::size_t cut = 1; cut < within.size(); ++cut)
      layout.row_cuts.push_back(static_cast<std::int32_t>(b * rows + within[cut]));
  step.result = add_stored(name_of_value(operation.results[0]), shape, batch * rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

}  // namespace tw::compiler
