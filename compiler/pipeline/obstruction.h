// compiler/pipeline/obstruction.h: why a model does not fit, and the cheapest changes that would make it fit.
#pragma once
#include "compiler/emit/emit.h"
#include "compiler/pipeline/compile.h"
#include "compiler/search/search.h"

namespace tw::compiler {

// From the arithmetic bound alone; nothing when the bound does not exclude the model.
std::optional<Obstruction> bound_obstruction(const Graph& graph, const hw::Machine& machine, Precision precision,
                                             const LowerBound& bound);

// From a failed placement of the lowered stages of a plan that `options` made.
Obstruction placement_obstruction(const Graph& graph, const hw::Machine& machine, const SearchOptions& options,
                                  const Plan& plan, const Lowered& lowered, const PlacementProblem& problem,
                                  const PlacementResult& placed);

// From exchange rows beyond the machine's limit.
Obstruction table_obstruction(const hw::Machine& machine, std::uint32_t tile, std::uint32_t table_bytes);

}  // namespace tw::compiler
