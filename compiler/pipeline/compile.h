// compiler/pipeline/compile.h: the whole way from a Graph to a Program, one straight readable function.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/pipeline/steps.h"
#include "compiler/plan/plan.h"
#include "hw/base/progress.h"
#include "hw/base/result.h"
#include "hw/machine/machine.h"
#include "hw/program/program.h"

namespace tw::compiler {

const char* name_of(Precision precision);
Result<Precision> precision_from(std::string_view name);

struct CompileOptions {
  Precision precision = Precision::f8;
  Pins pins;                      // choices to keep
  std::size_t alternatives = 0;   // runners-up to tell of each choice
  OperandRanges ranges;           // empty: scale exponent 0 everywhere (plan and check do not need numbers)
  bool weights = true;            // encode parameters into the program
  bool feasibility_only = false;  // stop when it is known whether the model fits (check)
  Progress progress;
};

// Why it does not fit: the worst tile and event, what is alive, and the cheapest changes that would make it fit.
struct Obstruction {
  std::uint32_t tile = 0;
  std::string event;  // operation and stage
  std::int64_t needed_bytes = 0, available_bytes = 0;
  struct Buffer {
    std::string name;
    std::int64_t bytes = 0;
  };
  std::vector<Buffer> buffers;  // alive at the event, largest first
  std::string proof;            // "bound": arithmetic proves it; "search": every placement tried failed
  std::vector<std::string> alternatives;
};

struct CompileOutcome {
  bool fits = false;
  std::optional<Obstruction> obstruction;  // when it does not fit
  std::vector<OperationChoice> choices;    // what was chosen, also when it does not fit by search
  hw::Program program;                     // when it fits (without code after feasibility_only)
  std::int64_t lower_bound_bytes = 0;      // resident bytes / tiles + smallest possible temporary
  double compile_seconds = 0;              // without weight encoding
  double weights_seconds = 0;
  std::vector<StageRecord> stages;  // in order
};

// Errors: unsupported (an operation that cannot be lowered, all of them in one message). Not fitting is an outcome.
Result<CompileOutcome> compile(const Graph& graph, const hw::Machine& machine, const CompileOptions& options);

}  // namespace tw::compiler
