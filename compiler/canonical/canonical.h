// compiler/canonical/canonical.h: raises exporter patterns to semantic operations and rolls repeated layers.
#pragma once
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace tw::compiler {

// Applies every pattern until nothing changes (order and names: pattern_names()), folds constants, removes dead
// operations, then rolls repeated layers into Repeat. Numerics change by rounding only (f32 within 1e-5 relative).
// Between raising and rolling it applies the rewrites of rewrites.h but those named in `without`. Errors (usage): a
// name in `without` that no rewrite has.
Result<Graph> canonicalise(Graph graph, const std::vector<std::string>& without = {});
std::vector<std::string> pattern_names();
std::vector<std::string> rewrite_names();

// Finds runs of isomorphic consecutive layers in the flat main region and rolls each into a Repeat.
Graph roll_repeats(Graph graph);
// The inverse, for tests: expands every Repeat.
Graph unroll_repeats(const Graph& graph);

}  // namespace tw::compiler
