// compiler/lower/lower.h: expands the chosen plan, once, into stages of all tiles.
#pragma once
#include "compiler/lower/lowered.h"
#include "compiler/plan/plan.h"
#include "hw/base/result.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

// Errors (unsupported): an input block larger than the host window.
Result<Lowered> lower(const Graph& graph, const Plan& plan, const hw::Machine& machine);

}  // namespace tw::compiler
