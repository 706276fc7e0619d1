// runtime/cli/scales.cpp: ranges of matmul operands from files and from a reference run.
#include "runtime/cli/scales.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "hw/base/file.h"
#include "hw/base/text.h"
#include "runtime/session/arrays.h"
#include "runtime/session/calibrate.h"

namespace tw::runtime {
namespace {

template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

// --calibrate takes NAME=X.npy, or an archive X.npz whose arrays are named like the inputs.
Result<std::map<std::string, Tensor>> given_inputs(const Arguments& arguments) {
  std::map<std::string, Tensor> inputs;
  for (const std::string& item : arguments.all("calibrate")) {
    if (item.ends_with(".npz")) {
      TW_TRY(auto arrays, read_npz(item));
      inputs.merge(arrays);
      continue;
    }
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorKind::usage, fmt::format("--calibrate {}: INPUTS.npz or NAME=X.npy is expected", item));
    TW_TRY(inputs[item.substr(0, equals)], read_npy(item.substr(equals + 1)));
  }
  return inputs;
}

Result<std::map<std::string, Tensor>> calibration_inputs(const Arguments& arguments, const compiler::Graph& graph,
                                                         std::uint64_t seed) {
  std::map<std::string, Tensor> inputs = random_inputs(graph, seed);
  TW_TRY(auto given, given_inputs(arguments));
  for (auto& [name, tensor] : given) {
    const auto found = inputs.find(name);
    if (found == inputs.end())
      return fail(ErrorKind::usage, fmt::format("--calibrate {}: the model has no input of that name{}", name,
                                                did_you_mean(name, keys_of(inputs))));
    found->second = std::move(tensor);
  }
  return inputs;
}

std::vector<std::string> matmuls_of(const compiler::Graph& graph) {
  std::vector<std::string> names;
  for (const compiler::Operation& operation : graph.operations)
    if (operation.kind == compiler::OpKind::matmul) names.push_back(operation.name);
  return names;
}

// {"operation": {"left_max_abs": 1.5, "right_max_abs": 0.25}, ...}
Result<compiler::OperandRanges> ranges_of_file(const std::string& path, const std::vector<std::string>& matmuls) {
  TW_TRY(const std::string text, read_text_file(path));
  const auto bad = [&](const std::string& what) {
    return fail(ErrorKind::bad_input, fmt::format("\"{}\": {}", path, what), {{"file", path}},
                "it is a JSON object: operation name to {\"left_max_abs\": number, \"right_max_abs\": number}");
  };
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return bad("it is no JSON object");
  compiler::OperandRanges ranges;
  for (const auto& [name, value] : object.items()) {
    if (std::find(matmuls.begin(), matmuls.end(), name) == matmuls.end())
      return bad(fmt::format("the model has no matmul \"{}\"{}", name, did_you_mean(name, matmuls)));
    float both[2] = {};
    const char* const keys[2] = {"left_max_abs", "right_max_abs"};
    for (int side = 0; side < 2; ++side) {
      if (!value.is_object() || value.size() != 2 || !value.contains(keys[side]) || !value[keys[side]].is_number())
        return bad(fmt::format("\"{}\" has not the two numbers left_max_abs and right_max_abs", name));
      both[side] = value[keys[side]].get<float>();
      if (!(both[side] >= 0) || !std::isfinite(both[side]))
        return bad(
            fmt::format("\"{}\": {} is {}; a finite number of at least 0 is allowed", name, keys[side], both[side]));
    }
    ranges[name] = {both[0], both[1]};
  }
  return ranges;
}

}  // namespace

Result<compiler::OperandRanges> operand_ranges(const Context& context, const compiler::Graph& graph,
                                               std::uint64_t seed) {
  const std::vector<std::string> matmuls = matmuls_of(graph);
  compiler::OperandRanges ranges;
  if (context.arguments.has("scales")) {
    TW_TRY(ranges, ranges_of_file(context.arguments.text("scales"), matmuls));
    if (ranges.size() == matmuls.size()) return ranges;
  }
  TW_TRY(const auto inputs, calibration_inputs(context.arguments, graph, seed));
  TW_TRY(auto measured, calibrate(graph, inputs));
  ranges.merge(measured);
  return ranges;
}

}  // namespace tw::runtime
