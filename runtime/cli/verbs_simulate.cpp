// runtime/cli/verbs_simulate.cpp: simulate.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/text.h"
#include "hw/program/package.h"
#include "runtime/cli/compiling.h"
#include "runtime/cli/simulating.h"
#include "runtime/session/arrays.h"
#include "runtime/session/session.h"

namespace tw::runtime {

using nlohmann::ordered_json;

void put_run(ordered_json& object, const hw::Program& program, const sim::RunResult& run) {
  object["cycles"] = run.cycles;
  object["error_bound_fraction"] = error_bound_fraction(program);
  object["cycles_per_iteration"] = run.cycles_per_iteration;
  object["seconds_at_clock"] = static_cast<double>(run.cycles) / program.machine.clock_hz;
  object["tile_cycles_per_second"] =
      run.simulate_seconds > 0 ? static_cast<double>(run.cycles) * program.machine.tiles / run.simulate_seconds : 0.0;
  object["simulate_seconds"] = run.simulate_seconds;
  object["phases"] = run.phases;
  object["compute_cycles"] = run.compute_cycles;
  object["exchange_cycles"] = run.exchange_cycles;
  object["sync_cycles"] = run.sync_cycles;
  object["host_cycles"] = run.host_cycles;
  object["idle_fraction"] = run.idle_fraction;
  object["tile_peak_bytes"] = program.tile_peak_bytes;
  object["tile_capacity_bytes"] = program.machine.sram.capacity_bytes();
}

void put_fault(ordered_json& object, std::string& text, const sim::Fault& fault) {
  object["fault"] = {{"kind", fault.kind},           {"message", fault.message}, {"tile", fault.tile},
                     {"cycle", fault.cycle},         {"pc", fault.pc},           {"instruction", fault.instruction},
                     {"operation", fault.operation}, {"stage", fault.stage},     {"hint", fault.hint}};
  text += fmt::format("fault: {}: tile {}, cycle {}, pc {:#x} \"{}\"\n  {}\n  operation \"{}\", stage \"{}\"\n  {}\n",
                      fault.kind, fault.tile, with_separators(fault.cycle), fault.pc, fault.instruction, fault.message,
                      fault.operation, fault.stage, fault.hint);
}

std::string run_text(const hw::Program& program, const sim::RunResult& run) {
  return fmt::format(
      "{} cycles ({:.3f} ms at {:.2f} GHz): compute {}, exchange {}, barriers {}, host {}\n  {} phases, {:.0f} % "
      "idle{}; simulated in {:.2f} s\n",
      with_separators(run.cycles), static_cast<double>(run.cycles) / program.machine.clock_hz * 1e3,
      program.machine.clock_hz / 1e9, with_separators(run.compute_cycles), with_separators(run.exchange_cycles),
      with_separators(run.sync_cycles), with_separators(run.host_cycles), run.phases, 100 * run.idle_fraction,
      run.cycles_per_iteration > 0 ? fmt::format(", {} cycles an iteration", with_separators(run.cycles_per_iteration))
                                   : "",
      run.simulate_seconds);
}

namespace {

ordered_json measures(const Comparison& c) {
  return {{"max_abs_error", c.max_abs_error},
          {"mean_abs_error", c.mean_abs_error},
          {"rel_l2", c.rel_l2},
          {"cosine", c.cosine}};
}

// The worst output on top, then all of them.
ordered_json reference_json(const std::map<std::string, Comparison>& outputs) {
  ordered_json object = ordered_json::object(), by_name = ordered_json::object();
  const Comparison* worst = nullptr;
  for (const auto& [name, comparison] : outputs) {
    if (worst == nullptr || comparison.cosine < worst->cosine) worst = &comparison;
    by_name[name] = measures(comparison);
  }
  if (worst != nullptr) object = measures(*worst);
  for (const auto& [name, comparison] : outputs)
    object["max_abs_error"] = std::max(object["max_abs_error"].get<double>(), comparison.max_abs_error);
  object["outputs"] = std::move(by_name);
  return object;
}

std::string reference_text(const ReferenceReport& reference) {
  std::vector<std::vector<std::string>> rows{
      {"output", "reference", "max abs error", "mean abs error", "relative L2", "cosine"}};
  for (const bool quantised : {false, true})
    for (const auto& [name, c] : quantised ? reference.quantised : reference.f32)
      rows.push_back({name, quantised ? "quantised" : "f32", fmt::format("{:.6f}", c.max_abs_error),
                      fmt::format("{:.6f}", c.mean_abs_error), fmt::format("{:.6f}", c.rel_l2),
                      fmt::format("{:.6f}", c.cosine)});
  return aligned_table(rows);
}

std::string file_name(const std::string& operation, std::int64_t iteration) {
  std::string name = operation;
  for (char& c : name)
    if (c == '/' || c == '*' || c == ' ' || c == ':') c = '_';
  return fmt::format("{}.{}.npy", name, iteration);
}

// Writes checkpoints, and says which operation first leaves the quantised reference.
Status write_checkpoints(const SimulateReport& report, const std::string& folder, ordered_json& object,
                         std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return fail(ErrorKind::io, fmt::format("\"{}\" cannot be made: {}", folder, error.message()), {{"file", folder}});
  for (const sim::CheckpointData& point : report.run.checkpoints)
    TW_TRY_STATUS(write_npy(folder + "/" + file_name(point.operation, point.iteration), {point.shape, point.data}));
  if (!report.reference) return {};
  constexpr double right = 0.9999;  // cosine against the quantised reference: below, something is wrong
  object["operations"] = ordered_json::array();
  const OperationError* first = nullptr;
  for (const OperationError& operation : report.reference->operations) {
    object["operations"].push_back({{"operation", operation.operation},
                                    {"iteration", operation.iteration},
                                    {"f32", measures(operation.against_f32)},
                                    {"quantised", measures(operation.against_quantised)}});
    if (first == nullptr && operation.against_quantised.cosine < right) first = &operation;
  }
  text += fmt::format("{} checkpoints in {}\n", report.run.checkpoints.size(), folder);
  if (first != nullptr) {
    object["first_wrong_operation"] = first->operation;
    text += fmt::format(
        "first operation that goes wrong: {} (iteration {}): max abs error {:.6f} at element {}, cosine {:.6f} against "
        "the quantised reference\n",
        first->operation, first->iteration, first->against_quantised.max_abs_error,
        first->against_quantised.worst_index, first->against_quantised.cosine);
  } else {
    text += "every operation agrees with the quantised reference\n";
  }
  return {};
}

Result<SimulateRequest> request_of(const Context& context) {
  SimulateRequest request;
  const Arguments& arguments = context.arguments;
  TW_TRY(const std::int64_t seed, arguments.integer("seed", 0, 0, std::int64_t{1} << 62));
  request.seed = static_cast<std::uint64_t>(seed);
  TW_TRY(const auto inputs, arguments.pairs("input"));
  for (const auto& [name, path] : inputs) {
    TW_TRY(request.inputs[name], read_npy(path));
  }
  request.reference = arguments.has("reference");
  request.timing_only = arguments.has("timing");
  request.model_path = arguments.text("model");
  if (arguments.has("checkpoints")) request.checkpoints = {"*"};
  request.progress = context.progress();
  if (request.timing_only && (request.reference || !request.checkpoints.empty() || arguments.has("output")))
    return fail(ErrorKind::usage, "--timing computes nothing; leave out --reference, --checkpoints and --output");
  return request;
}

}  // namespace

Result<int> run_simulate(const Context& context, ordered_json& object, std::string& text) {
  const Arguments& arguments = context.arguments;
  TW_TRY(const SimulateRequest request, request_of(context));
  TW_TRY(const auto wanted, arguments.pairs("output"));
  double tolerance = -1;
  if (arguments.has("tolerance")) {
    char* end = nullptr;
    const std::string number = arguments.text("tolerance");
    tolerance = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !(tolerance >= 0))
      return fail(ErrorKind::usage, fmt::format("--tolerance is \"{}\"; a number of at least 0 is expected", number));
  }
  TW_TRY(const hw::Program program, hw::read_package(arguments.positional()[0], !request.timing_only));
  for (const auto& [name, path] : wanted)
    if (std::none_of(program.bindings.begin(), program.bindings.end(),
                     [&, &n = name](const hw::Binding& binding) { return !binding.input && binding.name == n; }))
      return fail(ErrorKind::usage, fmt::format("--output {}: the package has no output of that name", name));
  TW_TRY(const SimulateReport report, simulate(program, request));
  put_run(object, program, report.run);
  if (report.run.fault) {
    put_fault(object, text, *report.run.fault);
    if (context.json) fmt::print(stderr, "{}", text);
    return 1;
  }
  text = run_text(program, report.run);
  object["outputs"] = ordered_json::array();
  for (const hw::Binding& binding : program.bindings) {
    if (binding.input) continue;
    ordered_json output{{"name", binding.name}, {"shape", binding.shape}};
    if (const auto found = report.outputs.find(binding.name); found != report.outputs.end())
      output["sha256"] = sha256_hex(std::as_bytes(std::span(found->second.data)));
    object["outputs"].push_back(std::move(output));
  }
  for (const auto& [name, path] : wanted) TW_TRY_STATUS(write_npy(path, report.outputs.at(name)));
  if (arguments.has("checkpoints"))
    TW_TRY_STATUS(write_checkpoints(report, arguments.text("checkpoints"), object, text));
  if (!report.reference) return 0;
  object["reference"] = {{"f32", reference_json(report.reference->f32)},
                         {"quantised", reference_json(report.reference->quantised)}};
  text += reference_text(*report.reference);
  if (tolerance >= 0 && object["reference"]["quantised"]["max_abs_error"].get<double>() > tolerance) {
    text += fmt::format("max abs error {} against the quantised reference is beyond --tolerance {}\n",
                        object["reference"]["quantised"]["max_abs_error"].get<double>(), tolerance);
    return 1;
  }
  return 0;
}

}  // namespace tw::runtime
