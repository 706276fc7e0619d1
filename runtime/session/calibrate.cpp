#include "runtime/session/calibrate.h"

#include <algorithm>
#include <cmath>

namespace tw::runtime {

Result<compiler::OperandRanges> calibrate(const compiler::Graph& graph, const std::map<std::string, Tensor>& inputs) {
  compiler::OperandRanges ranges;
  EvaluateOptions options;
  const auto widen = [](float& range, const Tensor& tensor) {
    for (const float value : tensor.data) range = std::max(range, std::fabs(value));
  };
  options.observe = [&](const compiler::Operation& operation, std::int64_t, const std::vector<const Tensor*>& operands,
                        const std::vector<const Tensor*>&) {
    const bool attention = operation.kind == compiler::OpKind::attention;
    if (operation.kind != compiler::OpKind::matmul && !attention) return;
    compiler::OperandRange& range = ranges[operation.name];
    widen(range.left_max_abs, *operands[0]);
    widen(range.right_max_abs, *operands[1]);
    if (attention) widen(range.value_max_abs, *operands[2]);
  };
  const auto outputs = evaluate(graph, inputs, options);
  if (!outputs) return tl::unexpected(outputs.error());
  return ranges;
}

}  // namespace tw::runtime
