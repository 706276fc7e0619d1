#include "compiler/plan/carry.h"

#include <algorithm>

namespace tw::compiler {
namespace {

bool reads(const Step& step, std::int32_t stored) {
  return step.residual == stored || std::any_of(step.operands.begin(), step.operands.end(),
                                                [&](const Operand& operand) { return operand.stored == stored; });
}

// Steps that write their result only once all of their operands that lie elsewhere have been read: the result may lie
// where a dead value lay. A product without a reduction must lie in region 1.
bool writes_anywhere(const Step& step) {
  switch (step.kind) {
    case StepKind::matmul:
      return step.grid.inner > 1 || step.bias >= 0 || step.residual >= 0 || step.residual_parameter >= 0;
    case StepKind::layer_norm:
    case StepKind::gelu:
    case StepKind::unary:
    case StepKind::binary: return true;
    default: return false;
  }
}

}  // namespace

std::map<std::int32_t, std::int32_t> made_in_place(const Plan& plan) {
  std::map<std::int32_t, std::int32_t> in_place;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    const Step& carry = plan.steps[at];
    if (carry.kind == StepKind::loop_begin) begin = at;
    if (carry.kind == StepKind::loop_end) begin = 0;
    if (carry.kind != StepKind::carry || at < begin || begin == 0) continue;
    const std::int32_t from = carry.operands[0].stored, to = carry.result;
    if (!(plan.stored[from].layout == plan.stored[to].layout)) continue;
    std::size_t made = 0, last_read = begin;
    bool only_reader = true;
    for (std::size_t step = begin; step < plan.steps.size(); ++step) {
      if (plan.steps[step].result == from) made = step;
      if (step < at && reads(plan.steps[step], to)) last_read = step;
      only_reader = only_reader && (step == at || !reads(plan.steps[step], from));
    }
    if (made > last_read && only_reader && writes_anywhere(plan.steps[made])) in_place[from] = to;
  }
  return in_place;
}

}  // namespace tw::compiler
