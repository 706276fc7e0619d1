#include "runtime/session/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/import.h"
#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/random.h"

namespace tw::runtime {
namespace {

Status compare_operations(const compiler::Graph& graph, const hw::Program& program,
                          const std::map<std::string, Tensor>& inputs, const sim::RunResult& run,
                          ReferenceReport& report) {
  std::map<std::pair<std::string, std::int64_t>, const sim::CheckpointData*> points;
  for (const sim::CheckpointData& point : run.checkpoints) points[{point.operation, point.iteration}] = &point;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> index;
  for (const bool quantised : {false, true}) {
    EvaluateOptions options;
    options.quantised = quantised ? &program : nullptr;
    options.observe = [&](const compiler::Operation& operation, std::int64_t iteration,
                          const std::vector<const Tensor*>&, const std::vector<const Tensor*>& results) {
      const auto found = points.find({operation.name, iteration});
      if (found == points.end() || found->second->data.size() != results[0]->data.size()) return;
      const auto [slot, added] = index.try_emplace(found->first, report.operations.size());
      if (added) report.operations.push_back({operation.name, iteration, {}, {}});
      const Tensor actual{found->second->shape, found->second->data};
      (quantised ? report.operations[slot->second].against_quantised : report.operations[slot->second].against_f32) =
          compare(actual, *results[0]);
    };
    const auto outputs = evaluate(graph, inputs, options);
    if (!outputs) return tl::unexpected(outputs.error());
  }
  return {};
}

}  // namespace

Result<compiler::Graph> model_of(const hw::Program& program, const std::string& other_path) {
  const std::string& model = other_path.empty() ? program.model : other_path;
  compiler::ImportOptions options;
  options.dims = program.dims;
  options.batch = program.batch;
  options.seed = program.seed;
  options.without = program.without_rewrites;
  if (!compiler::is_generator(model) && !program.model_hash.empty()) {
    const auto bytes = read_file(model);
    if (!bytes) {
      Error error = bytes.error();
      error.hint = "the reference needs the model that the package was compiled from; give its path with --model";
      return tl::unexpected(std::move(error));
    }
    if (fmt::format("{:016x}", hash_bytes(*bytes)) != program.model_hash)
      return fail(ErrorKind::bad_input,
                  fmt::format("\"{}\" is not the file that the package was compiled from: its hash differs", model),
                  {{"file", model}}, "compile it again, or give the right file with --model");
  }
  return compiler::import_model(model, options);
}

Result<SimulateReport> simulate(const hw::Program& program, const SimulateRequest& request) {
  SimulateReport report;
  sim::Options options;
  options.timing_only = request.timing_only;
  options.checkpoints = request.checkpoints;
  options.progress = request.progress;
  TW_TRY(const std::unique_ptr<sim::Simulation> simulation, sim::Simulation::create(program, options));

  std::optional<compiler::Graph> graph;
  std::map<std::string, Tensor> inputs = request.inputs;
  const bool needs_graph = !request.timing_only && (request.reference || !request.checkpoints.empty());
  if (needs_graph) {
    TW_TRY(graph, model_of(program, request.model_path));
  }
  std::map<std::string, std::vector<std::byte>> staged;
  if (!request.timing_only) {
    for (const auto& [name, tensor] : inputs) {
      const bool known = std::any_of(
          program.bindings.begin(), program.bindings.end(),
          [&, &wanted = name](const hw::Binding& binding) { return binding.input && binding.name == wanted; });
      if (!known)
        return fail(ErrorKind::usage, fmt::format("--input {}: the package has no input of that name", name),
                    {{"input", name}});
    }
    for (const hw::Binding& binding : program.bindings) {
      if (!binding.input) continue;
      if (!inputs.contains(binding.name)) {
        Tensor tensor{binding.shape, {}};
        tensor.data.resize(static_cast<std::size_t>(compiler::elements_of(binding.shape)));
        fill_normal(stream_seed(request.seed, binding.name), 0, 0.0F, 1.0F, tensor.data);
        inputs[binding.name] = std::move(tensor);
      }
      const Tensor& tensor = inputs.at(binding.name);
      if (tensor.shape != binding.shape)
        return fail(ErrorKind::bad_input,
                    fmt::format("input \"{}\" is {}, the package takes {}", binding.name,
                                compiler::to_string(tensor.shape), compiler::to_string(binding.shape)),
                    {{"input", binding.name}});
      staged[binding.name] = pack(binding, tensor);
    }
  }
  TW_TRY(report.run, simulation->run(staged));
  if (report.run.fault || request.timing_only) return report;
  for (const hw::Binding& binding : program.bindings)
    if (!binding.input) report.outputs[binding.name] = unpack(binding, report.run.outputs.at(binding.name));
  if (!needs_graph) return report;

  ReferenceReport reference;
  for (const bool quantised : {false, true}) {
    EvaluateOptions evaluation;
    evaluation.quantised = quantised ? &program : nullptr;
    evaluation.progress = request.progress;
    TW_TRY(const auto outputs, evaluate(*graph, inputs, evaluation));
    for (const auto& [name, tensor] : report.outputs)
      if (const auto found = outputs.find(name); found != outputs.end())
        (quantised ? reference.quantised : reference.f32)[name] = compare(tensor, found->second);
  }
  if (!request.checkpoints.empty()) TW_TRY_STATUS(compare_operations(*graph, program, inputs, report.run, reference));
  report.reference = std::move(reference);
  return report;
}

}  // namespace tw::runtime
