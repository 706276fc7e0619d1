// runtime/session/calibrate.h: operand ranges from an f32 reference run, for the F8 scales.
#pragma once
#include "compiler/pipeline/compile.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {

// Runs the f32 reference on `inputs` and records the largest magnitude of both operands of every matmul.
Result<compiler::OperandRanges> calibrate(const compiler::Graph& graph, const std::map<std::string, Tensor>& inputs);

}  // namespace tw::runtime
