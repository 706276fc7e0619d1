// runtime/cli/scales.h: where the F8 scales of a compilation come from: --scales, --calibrate, or drawn inputs.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/plan/plan.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {

// Ranges of the operands of every matmul: from --scales where it names them, else from a reference run on the inputs of
// --calibrate, completed by inputs drawn with `seed`. Errors (usage, bad_input): names that the model does not have,
// with the nearest one; files that cannot be read.
Result<compiler::OperandRanges> operand_ranges(const Context& context, const compiler::Graph& graph,
                                               std::uint64_t seed);

}  // namespace tw::runtime
