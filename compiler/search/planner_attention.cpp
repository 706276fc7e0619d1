// compiler/search/planner_attention.cpp: grid and operand forms of attention.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "compiler/plan/choice.h"
#include "compiler/search/planner.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// The columns of a stored value that a look reads, when it reads whole columns of all rows in their order.
std::optional<std::int64_t> first_column(const Stored& stored, const StridedView& view, std::int64_t columns) {
  const auto matrix_of = reshape(view, {stored.rows, columns});
  if (!matrix_of || view.offset < 0 || view.offset + columns > stored.columns) return std::nullopt;
  const bool in_order =
      (stored.rows == 1 || matrix_of->strides[0] == stored.columns) && (columns == 1 || matrix_of->strides[1] == 1);
  return in_order ? std::optional(view.offset) : std::nullopt;
}

// The column blocks that hold exactly [begin, end) with all cuts at multiples of `unit` from begin on.
std::optional<std::pair<int, int>> blocks_of(const hw::TensorLayout& layout, std::int64_t begin, std::int64_t end,
                                             std::int64_t unit) {
  if (layout.groups.groups != 1) return std::nullopt;
  const auto& cuts = layout.column_cuts;
  const auto first = std::find(cuts.begin(), cuts.end(), begin);
  // The last cut stands at the padded extent.
  auto last = std::find_if(first, cuts.end(), [&](std::int32_t cut) { return cut >= end; });
  if (first == cuts.end() || last == cuts.end()) return std::nullopt;
  if (*last != end && (last + 1 != cuts.end() || end != layout.groups.width)) return std::nullopt;
  for (auto cut = first; cut != last; ++cut)
    if ((*cut - begin) % unit != 0) return std::nullopt;
  return std::pair(static_cast<int>(first - cuts.begin()), static_cast<int>(last - cuts.begin()));
}

}  // namespace

// F8 where it pays: attention of a few queries is cheap anyway, and keys of such heads reach far (docs/fidelity.md).
AttentionForm Planner::attention_form(const Operation& operation) const {
  constexpr std::int64_t few_queries = 16;
  const Shape& q = graph_.value(operation.operands[0]).shape;
  const Shape& v = graph_.value(operation.operands[2]).shape;
  const std::int64_t heads = operation.attributes.heads, width = q[2] / heads, value_width = v[2] / heads;
  if (options_.precision == Precision::f8 && q[1] >= few_queries)
    if (const auto form = f8_attention_form(heads, width, value_width)) return *form;
  return plain_attention_form(format_, heads, width, value_width);
}

// An operand in the form that the heads need. In F8: a cast of its part of the value, where it lies.
Operand Planner::attention_operand(const Operation& operation, int which, const AttentionForm& form,
                                   int scale_exponent) {
  const std::string& name = name_of_value(operation.operands[which]);
  Known known = resolve(operation.operands[which]);
  if (!form.f8()) {
    if (known.is_parameter() || known.input >= 0)
      known = {.stored = stored_somewhere(known, operation.name, name), .view = whole(known.view.shape)};
    return operand_of(known);
  }
  constexpr std::int64_t value_panel = 16;
  const bool values = which == 2;
  const Shape shape = known.view.shape;
  const std::int64_t rows = shape[0] * shape[1], columns = shape[2];
  const std::int64_t unit = values ? value_panel : form.column_unit();
  std::optional<std::int64_t> begin;
  std::optional<std::pair<int, int>> blocks;
  if (known.stored >= 0 && plan_.stored[known.stored].rows == rows)
    begin = first_column(plan_.stored[known.stored], known.view, columns);
  if (begin) blocks = blocks_of(plan_.stored[known.stored].layout, *begin, *begin + columns, unit);
  if (!blocks) {
    known.stored = stored_as(known, operation.name, name, spread_layout(rows, columns, format_, unit, machine_));
    begin = 0;
    blocks = {0, plan_.stored[known.stored].layout.column_blocks()};
  }
  const hw::TensorLayout source = plan_.stored[known.stored].layout;
  hw::TensorLayout layout{.format = form.format, .scale_exponent = scale_exponent, .row_cuts = source.row_cuts};
  layout.groups = values ? hw::ColumnGroups{1, static_cast<std::int32_t>(columns), static_cast<std::int32_t>(columns)}
                         : form.all_heads();
  layout.panel_columns = values ? static_cast<std::int32_t>(value_panel) : 0;
  layout.first_tile = source.first_tile + blocks->first;
  layout.row_tiles = source.row_tiles > 0 ? source.row_tiles : source.column_blocks();
  for (int block = blocks->first; block <= blocks->second; ++block) {
    const std::int64_t real = std::min<std::int64_t>(source.column_cuts[block] - *begin, columns);
    layout.column_cuts.push_back(
        static_cast<std::int32_t>(real == columns ? layout.groups.stored() : layout.groups.stored_of(real)));
  }
  const std::int32_t cast = add_stored(name + ".f8", shape, rows, columns, layout);
  Step& step = add_step(StepKind::cast, operation.name);
  step.operands = {{known.stored, -1, whole({rows, columns})}};
  step.result = cast;
  step.first_block = blocks->first;
  hw::KernelParams params{.kind = hw::KernelKind::cast, .format = format_, .out_format = layout.format};
  params.out_panel = layout.panel_columns;
  step.cost = local_cost(params, layout, machine_);
  return {cast, -1, whole(shape)};
}

void Planner::plan_attention(const Operation& operation) {
  const Attributes& attributes = operation.attributes;
  const Shape& q = graph_.value(operation.operands[0]).shape;
  const Shape& k = graph_.value(operation.operands[1]).shape;
  AttentionProblem problem{
      .batch = q[0], .queries = q[1], .keys = k[1], .form = attention_form(operation), .format = format_};
  const AttentionForm& form = problem.form;
  if (problem.batch * form.heads > machine_.tiles)
    return unsupported(operation, fmt::format("{} batch x heads on {} tiles; each head needs a tile",
                                              problem.batch * form.heads, machine_.tiles));
  Step step{.kind = StepKind::attention, .operation = operation.name, .attributes = attributes, .format = form.format};
  step.attention = form;
  if (form.f8()) {
    if (const auto range = options_.ranges.find(operation.name); range != options_.ranges.end()) {
      step.left_scale_exponent = hw::scale_exponent_for(form.format, range->second.left_max_abs);
      step.right_scale_exponent = hw::scale_exponent_for(form.format, range->second.right_max_abs);
      step.value_scale_exponent = hw::scale_exponent_for(form.format, range->second.value_max_abs);
    }
  }
  const int scales[] = {step.left_scale_exponent, step.right_scale_exponent, step.value_scale_exponent};
  for (int which = 0; which < 3; ++which)
    step.operands.push_back(attention_operand(operation, which, form, scales[which]));

  Ranking ranking(1 + options_.alternatives);
  const auto consider = [&](const Grid& grid) {
    Alternative priced{{grid}, attention_cost(problem, grid, machine_)};
    priced.within_budget = priced.cost.temporary_bytes <= temporary_budget_bytes_;
    priced.total_cycles = priced.cost.cycles();
    if (ranking.wants(priced)) ranking.add(priced);
  };
  const std::int64_t key_units = ceil_div(problem.keys, form.key_unit);
  if (const auto pin = options_.pins.find(operation.name); pin != options_.pins.end()) {
    const Grid& grid = pin->second.grid;
    std::string why = impossible({grid.rows * static_cast<std::int32_t>(problem.batch), grid.columns, grid.inner},
                                 problem.queries * problem.batch, form.heads, key_units);
    if (why.empty() && grid.columns != form.heads)
      why = fmt::format("an attention has a column group a head, {} here", form.heads);
    if (why.empty() && (pin->second.long_runs || pin->second.split != ReduceSplit::rows))
      why = "an attention has no split and no long runs";
    if (!why.empty()) return refuse_pin(operation, pin->second, why);
    consider(grid);
  } else {
    const std::int64_t tiles = machine_.tiles / (problem.batch * form.heads);
    for (std::int64_t queries = 1; queries <= std::min(problem.queries, tiles); ++queries)
      for (std::int64_t keys = 1; keys <= std::min(key_units, tiles / queries); ++keys)
        consider({static_cast<std::int32_t>(queries), static_cast<std::int32_t>(form.heads),
                  static_cast<std::int32_t>(keys)});
  }
  step.grid = ranking.best()->choice.grid;
  step.cost = ranking.best()->cost;
  keep_choice(operation, StepKind::attention, ranking.take());

  hw::TensorLayout layout{.format = format_};
  layout.groups = {static_cast<std::int32_t>(form.heads), static_cast<std::int32_t>(form.value_width),
                   static_cast<std::int32_t>(round_up(form.value_width, 16))};
  const std::vector<std::int32_t> within =
      hw::balanced_cuts(problem.queries, std::int64_t{step.grid.rows} * step.grid.inner, 1, true);
  layout.row_cuts = {0};
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::size_t cut = 1; cut < within.size(); ++cut)
      layout.row_cuts.push_back(static_cast<std::int32_t>(b * problem.queries + within[cut]));
  for (std::int64_t head = 0; head <= form.heads; ++head)
    layout.column_cuts.push_back(static_cast<std::int32_t>(head * layout.groups.padded));
  step.result = add_stored(name_of_value(operation.results[0]), graph_.value(operation.results[0]).shape,
                           problem.batch * problem.queries, form.heads * form.value_width, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

}  // namespace tw::compiler
