// runtime/session/session.h: tensors in, tensors out of a program in simulation, and comparison with references.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/reference/reference.h"
#include "simulator/system/simulation.h"

namespace tw::runtime {

// Packs a tensor into a binding's staging buffer (views, panels, padding, number format) and back.
std::vector<std::byte> pack(const hw::Binding& binding, const Tensor& tensor);
Tensor unpack(const hw::Binding& binding, const std::vector<std::byte>& staging);

// Imports the model that the package was compiled from. Errors: the file is gone or differs (hash): pass another path.
Result<compiler::Graph> model_of(const hw::Program& program, const std::string& other_path = {});

struct OperationError {
  std::string operation;
  std::int64_t iteration = 0;
  Comparison against_f32, against_quantised;
};

struct ReferenceReport {
  std::map<std::string, Comparison> f32, quantised;  // by output
  std::vector<OperationError> operations;            // when checkpoints were read
};

struct SimulateRequest {
  std::map<std::string, Tensor> inputs;  // missing ones are drawn with `seed`
  std::uint64_t seed = 0;
  bool reference = false;
  bool timing_only = false;
  std::vector<std::string> checkpoints;
  std::string model_path;  // overrides the recorded one for the reference
  Progress progress;
};

struct SimulateReport {
  sim::RunResult run;
  std::map<std::string, Tensor> outputs;
  std::optional<ReferenceReport> reference;
};

Result<SimulateReport> simulate(const hw::Program& program, const SimulateRequest& request);

}  // namespace tw::runtime
