#include "compiler/search/planner.h"
#include "hw/base/check.h"

namespace tw::compiler {

void Planner::plan_region(const Region& region) {
  for (const OperationId id : region.operations) plan_operation(id);
}

// Plans the body with carried values in `layouts`. Returns whether its results come out in the same layouts; if not,
// `layouts` becomes what they came out in (or, on the last try, re-layouts close the loop).
bool Planner::plan_repeat_once(const Operation& operation, const std::vector<std::int32_t>& initial,
                               std::vector<hw::TensorLayout>& layouts, bool last_try) {
  const Region& body = graph_.regions[operation.body];
  std::vector<std::int32_t> carried;
  for (std::int32_t index = 0; index < operation.carried; ++index) {
    const Stored from = plan_.stored[initial[index]];
    const std::int32_t value =
        add_stored(name_of_value(body.arguments[index]), from.shape, from.rows, from.columns, layouts[index]);
    Step& step = add_step(from.layout == layouts[index] ? StepKind::carry : StepKind::relayout, operation.name);
    step.operands = {whole_operand(initial[index])};
    step.result = value;
    step.cost = step.kind == StepKind::carry
                    ? local_cost({.kind = hw::KernelKind::copy, .format = format_}, layouts[index], machine_)
                    : relayout_cost(from.layout, layouts[index], machine_);
    carried.push_back(value);
    define(body.arguments[index], {.stored = value, .view = whole(graph_.value(body.arguments[index]).shape)});
    wanted_[body.results[index]] = layouts[index];
  }
  for (std::size_t index = operation.carried; index < operation.operands.size(); ++index) {
    Known known = resolve(operation.operands[index]);
    if (known.input >= 0)
      known = {.stored = stored_somewhere(known, operation.name, name_of_value(operation.operands[index])),
               .view = whole(known.view.shape)};
    define(body.arguments[index], known);
  }
  for (std::size_t index = 0; index < operation.sequences.size(); ++index) {
    const ValueId argument = body.arguments[operation.operands.size() + index];
    Known known{.view = whole(graph_.value(argument).shape)};
    known.parameter = static_cast<std::int32_t>(plan_.parameters.size());
    plan_.parameters.push_back({operation.sequences[index], true, known.view});
    define(argument, known);
  }
  Step& begin = add_step(StepKind::loop_begin, operation.name);
  begin.count = static_cast<std::int32_t>(operation.attributes.count);
  plan_region(body);

  bool same = true;
  std::vector<std::int32_t> finals;
  for (std::int32_t index = 0; index < operation.carried; ++index) {
    const Stored wanted = plan_.stored[carried[index]];
    const Known result = resolve(body.results[index]);
    const std::int32_t stored =
        stored_matrix(result, operation.name, name_of_value(body.results[index]), wanted.rows, wanted.columns);
    const hw::TensorLayout& layout = plan_.stored[stored].layout;
    if (!(layout == layouts[index])) {
      same = false;
      if (!last_try) layouts[index] = layout;
    }
    finals.push_back(stored);
  }
  if (!same && !last_try) return false;
  for (std::int32_t index = 0; index < operation.carried; ++index) {
    const Known known{.stored = finals[index],
                      .view = whole({plan_.stored[finals[index]].rows, plan_.stored[finals[index]].columns})};
    const std::int32_t stored = stored_as(known, operation.name, name_of_value(body.results[index]), layouts[index]);
    Step& carry = add_step(StepKind::carry, operation.name);
    carry.operands = {whole_operand(stored)};
    carry.result = carried[index];
    carry.cost = local_cost({.kind = hw::KernelKind::copy, .format = format_}, layouts[index], machine_);
    define_stored(operation.results[index], carried[index]);
  }
  add_step(StepKind::loop_end, operation.name);
  return true;
}

void Planner::plan_repeat(const Operation& operation) {
  std::vector<std::int32_t> initial;
  std::vector<hw::TensorLayout> layouts;
  for (std::int32_t index = 0; index < operation.carried; ++index) {
    const std::int32_t stored =
        stored_somewhere(resolve(operation.operands[index]), operation.name, name_of_value(operation.operands[index]));
    initial.push_back(stored);
    layouts.push_back(plan_.stored[stored].layout);
  }
  // The carried layout is a fixed point of the body; a few tries find it, or a re-layout closes the loop.
  constexpr int tries = 4;
  for (int attempt = 0; attempt < tries; ++attempt) {
    const Plan plan = plan_;
    const auto known = known_;
    const auto casts = casts_;
    const auto fused = fused_;
    const auto problems = problems_;
    const auto pin_problems = pin_problems_;
    if (plan_repeat_once(operation, initial, layouts, attempt + 1 == tries)) return;
    plan_ = plan;
    known_ = known;
    casts_ = casts;
    fused_ = fused;
    problems_ = problems;
    pin_problems_ = pin_problems;
  }
}

}  // namespace tw::compiler
