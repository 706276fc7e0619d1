// runtime/cli/compiling.h: what compile, check and plan share: import, calibrate, compile, and how it is told.
#pragma once
#include <nlohmann/json.hpp>

#include "compiler/import/import.h"
#include "compiler/pipeline/compile.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {

struct CompileRequest {
  std::string model;
  compiler::ImportOptions import;
  hw::Machine machine;
  compiler::CompileOptions options;
};
Result<compiler::ImportOptions> import_options(const Arguments& arguments);
Result<CompileRequest> compile_request(const Context& context);

struct Compiled {
  compiler::Graph graph;
  compiler::CompileOutcome outcome;
  double import_seconds = 0, calibrate_seconds = 0;
  std::int64_t import_rss_bytes = 0;
};
// Imports and compiles; with weights in f8, calibrates first. The program gets its model, dims, seed, version.
Result<Compiled> compile_model(const Context& context, CompileRequest& request, bool with_weights);

void put_outcome(nlohmann::ordered_json& object, const CompileRequest& request, const Compiled& compiled);
std::string outcome_text(const CompileRequest& request, const Compiled& compiled);
// Every choice of the plan with its runners-up.
std::string choices_text(const std::vector<compiler::OperationChoice>& choices);
std::string plan_text(const hw::Program& program);
// Weighted over kinds of work: exchange, and kernels by their error bars.
double error_bound_fraction(const hw::Program& program);

}  // namespace tw::runtime
