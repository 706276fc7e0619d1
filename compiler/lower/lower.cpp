#include "compiler/lower/lower.h"

#include <algorithm>
#include <map>

#include "compiler/lower/builder.h"
#include "compiler/plan/carry.h"
#include "hw/base/check.h"

namespace tw::compiler {
namespace {

void add_checkpoint(Builder& b, const Step& step) {
  const Stored& stored = b.plan.stored[step.result];
  LoweredCheckpoint point;
  const Place place = b.place_of(step.result);
  point.buffer = place.buffer;
  point.checkpoint.operation = step.operation;
  // A fused add is done by the matmul's step: the value belongs to the operation that makes it in the graph.
  for (const Operation& operation : b.graph.operations)
    if (!operation.results.empty() && b.graph.value(operation.results[0]).name == stored.name)
      point.checkpoint.operation = operation.name;
  point.checkpoint.value = stored.name;
  point.checkpoint.stage = {static_cast<std::uint32_t>(b.last_stage())};
  point.checkpoint.shape = stored.shape;
  point.checkpoint.view = whole_matrix(stored);
  point.checkpoint.layout = stored.layout;
  b.out.checkpoints.push_back(std::move(point));
}

}  // namespace

Result<Lowered> lower(const Graph& graph, const Plan& plan, const hw::Machine& machine) {
  Builder b(graph, plan, machine);
  std::uint32_t window_bytes = 0;
  const std::map<std::int32_t, std::int32_t> in_place = made_in_place(plan);
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::carry && in_place.contains(step.operands[0].stored)) continue;
    if (const auto found = in_place.find(step.result); found != in_place.end())
      b.set_place(step.result, b.place_of(found->second));
    switch (step.kind) {
      case StepKind::input: TW_TRY_STATUS(lower_input(b, step, window_bytes)); break;
      case StepKind::output: lower_output(b, step); break;
      case StepKind::matmul: lower_matmul(b, step); break;
      case StepKind::batched_matmul: lower_batched_matmul(b, step); break;
      case StepKind::attention: lower_attention(b, step); break;
      case StepKind::layer_norm: lower_layer_norm(b, step); break;
      case StepKind::relayout: lower_relayout(b, step); break;
      case StepKind::cast: lower_cast(b, step); break;
      case StepKind::softmax:
      case StepKind::gelu:
      case StepKind::unary:
      case StepKind::binary:
      case StepKind::reduce:
      case StepKind::carry: lower_local(b, step); break;
      case StepKind::loop_begin: {
        LoweredRepeat repeat{.count = step.count};
        repeat.records = b.add_buffer(step.operation + " parameters", step.operation, hw::BufferInfo::Use::parameter);
        b.out.repeats.push_back(repeat);
        const auto index = static_cast<std::int32_t>(b.out.repeats.size()) - 1;
        b.add_stage(hw::StageKind::loop_begin, step.operation, "loop");
        b.out.stages.back().repeat = index;
        b.out.repeats[index].begin_stage = b.last_stage();
        b.begin_loop(index);
        break;
      }
      case StepKind::loop_end: {
        const std::int32_t index = b.current_repeat();
        b.add_stage(hw::StageKind::loop_end, step.operation, "next iteration");
        b.out.stages.back().repeat = index;
        b.out.repeats[index].end_stage = b.last_stage();
        b.end_loop();
        break;
      }
    }
    const bool is_value_of_graph = step.result >= 0 && step.kind != StepKind::cast && step.kind != StepKind::carry &&
                                   step.kind != StepKind::input && step.kind != StepKind::relayout;
    if (is_value_of_graph) add_checkpoint(b, step);
  }
  // Parameters are resident from the start and through every call.
  const auto stages = static_cast<std::int32_t>(b.out.stages.size());
  const auto keep = [&](BufferId id, std::uint32_t bytes) {
    Buffer& buffer = b.out.buffers[id];
    buffer.first_stage = 0;
    buffer.last_stage = stages;
    buffer.bytes.assign(static_cast<std::size_t>(machine.tiles), bytes);
  };
  keep(b.out.parameters, b.out.parameter_bytes);
  for (const LoweredRepeat& repeat : b.out.repeats)
    keep(repeat.records, repeat.record_bytes * static_cast<std::uint32_t>(repeat.count));
  return std::move(b.out);
}

}  // namespace tw::compiler
