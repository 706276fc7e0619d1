// compiler/search/search.h: decides grids, layouts and formats of every operation of a Graph: the Plan.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/plan/plan.h"
#include "hw/base/result.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

struct SearchOptions {
  Precision precision = Precision::f8;
  OperandRanges ranges;          // empty: scale exponents 0
  Pins pins;                     // choices to keep
  std::size_t alternatives = 0;  // runners-up to keep of each choice
  double budget_fraction = 1;    // of the temporary bytes that parameters leave: how far the search may go
};

// Operation by operation in execution order; for each, every grid is priced in closed form with the layouts of its
// operands known and the cost of what follows included, and the cheapest that fits is kept (ties: fewer tiles, then
// the smaller grid). Repeat bodies are planned until the carried layout repeats itself.
// Errors (unsupported): operations that no step can express, all of them in one message. (bad_input): pins of
// operations that have no choice, or of choices that are impossible, with the reason.
Result<Plan> search(const Graph& graph, const hw::Machine& machine, const SearchOptions& options);

// Smallest bytes that any plan needs on the busiest tile: residents spread perfectly, plus the smallest temporary of
// the most demanding operation. A model for which it exceeds the capacity cannot fit (proof "bound").
struct LowerBound {
  std::int64_t resident_bytes = 0;   // all parameters in their formats / tiles
  std::int64_t temporary_bytes = 0;  // of `operation`, minimised over all grids
  std::string operation;
};
LowerBound lower_bound(const Graph& graph, const hw::Machine& machine, Precision precision);

}  // namespace tw::compiler
