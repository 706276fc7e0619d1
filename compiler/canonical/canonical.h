// compiler/canonical/canonical.h: raises exporter patterns to semantic operations and rolls repeated layers.
#pragma once
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace tw::compiler {

// Applies every pattern until nothing changes (order and names: pattern_names()), folds constants, removes dead
// operations, then rolls repeated layers into Repeat. Numerics change by rounding only (f32 within 1e-5 relative).
Result<Graph> canonicalise(Graph graph);
std::vector<std::string> pattern_names();

// Finds runs of isomorphic consecutive layers in the flat main region and rolls each into a Repeat.
Graph roll_repeats(Graph graph);
// The inverse, for tests: expands every Repeat.
Graph unroll_repeats(const Graph& graph);

}  // namespace tw::compiler
