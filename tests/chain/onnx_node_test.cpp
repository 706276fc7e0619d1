// tests/chain/onnx_node_test.cpp: ONNX's own node test cases (Debian package libonnx-testdata) through import and the
// f32 reference. With TILEWRIGHT_WRITE_DOCS set to the docs folder it writes the table of docs/onnx-support.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/import/import.h"
#include "compiler/import/importer.h"
#include "compiler/import/onnx_model.h"
#include "hw/base/file.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {
namespace {

namespace fs = std::filesystem;
const char* const data_folder = "/usr/share/libonnx-testdata/data/node";

struct Outcome {
  enum Kind { passed, refused, wrong } kind = passed;
  std::string reason;
};

struct Case {
  std::string name, op;
  Outcome outcome;
};

Result<compiler::Constant> read_tensor(const std::string& path) {
  TW_TRY(const std::vector<std::byte> bytes, read_file(path));
  onnx::TensorProto tensor;
  if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(ErrorKind::bad_input, "no tensor in " + path);
  return compiler::tensor_constant(tensor, "", path);
}

// All numbered tensors of a data set: input_0.pb, input_1.pb, ...
Result<std::vector<compiler::Constant>> read_tensors(const fs::path& folder, const char* prefix) {
  std::vector<compiler::Constant> tensors;
  for (int index = 0;; ++index) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, index);
    if (!fs::exists(path)) return tensors;
    TW_TRY(compiler::Constant tensor, read_tensor(path.string()));
    tensors.push_back(std::move(tensor));
  }
}

Tensor tensor_of(const compiler::Constant& constant) {
  return {constant.shape, {constant.values.begin(), constant.values.end()}};
}

std::string first_line(const std::string& text) {
  // Of a list of problems: the first one.
  const std::size_t list = text.find("cannot be imported:\n  ");
  const std::string from = list == std::string::npos ? text : text.substr(list + 22);
  const std::string line = from.substr(0, from.find('\n'));
  const std::size_t path = line.find("model.onnx: ");
  return path == std::string::npos ? line : line.substr(path + 12);
}

bool near(double actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::fabs(actual - expected) <= 1e-3 * std::fabs(expected) + 1e-5;  // relative tolerance of ONNX's own runner
}

Outcome run_with(const fs::path& folder, const onnx::ModelProto& model, const std::vector<compiler::Constant>& inputs,
                 const std::vector<compiler::Constant>& expected, const std::set<std::size_t>& as_constants) {
  compiler::ImportOptions options;
  std::map<std::string, Tensor> feeds;
  // Present inputs only are stored, in order; empty optional ones have no file.
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const std::string& name = model.graph().input(static_cast<int>(index)).name();
    if (as_constants.contains(index)) {
      options.constants[name] = {inputs[index].shape, inputs[index].values, inputs[index].integer};
    } else {
      feeds[name] = tensor_of(inputs[index]);
    }
  }
  const auto graph = compiler::import_model((folder / "model.onnx").string(), options);
  if (!graph) return {Outcome::refused, first_line(graph.error().message)};
  const auto outputs = evaluate(*graph, feeds);
  if (!outputs) return {Outcome::wrong, "evaluation: " + outputs.error().message};
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const std::string& name = model.graph().output(static_cast<int>(index)).name();
    const auto found = outputs->find(name);
    if (found == outputs->end()) return {Outcome::wrong, fmt::format("output \"{}\" is missing", name)};
    if (found->second.shape != expected[index].shape)
      return {Outcome::wrong, fmt::format("shape {} instead of {}", compiler::to_string(found->second.shape),
                                          compiler::to_string(expected[index].shape))};
    for (std::size_t i = 0; i < expected[index].values.size(); ++i)
      if (!near(found->second.data[i], expected[index].values[i]))
        return {Outcome::wrong,
                fmt::format("element {} is {} instead of {}", i, found->second.data[i], expected[index].values[i])};
  }
  return {};
}

// Some stored data are not what the model declares: bfloat16 as raw bits, dimensions that differ.
std::string misfit(const onnx::ValueInfoProto& declared, const compiler::Constant& tensor) {
  const onnx::TypeProto_Tensor& type = declared.type().tensor_type();
  if (type.elem_type() == onnx::TensorProto::BFLOAT16 && tensor.integer)
    return "the stored data are raw bits of bfloat16";
  if (type.has_shape() && type.shape().dim_size() == static_cast<int>(tensor.shape.size()))
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (const auto& dim = type.shape().dim(static_cast<int>(axis));
          dim.has_dim_value() && dim.dim_value() != tensor.shape[axis])
        return "the stored data have another shape than the model declares";
  return "";
}

Outcome run_case(const fs::path& folder, const onnx::ModelProto& model) {
  Outcome outcome{Outcome::refused, "no data"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    const auto inputs = read_tensors(entry.path(), "input"), expected = read_tensors(entry.path(), "output");
    if (!inputs || !expected) return {Outcome::refused, "data that are no tensors of numbers"};
    if (static_cast<int>(inputs->size()) > model.graph().input_size())
      return {Outcome::refused, "more data than inputs"};
    for (std::size_t index = 0; index < inputs->size(); ++index)
      if (const std::string found = misfit(model.graph().input(static_cast<int>(index)), (*inputs)[index]);
          !found.empty())
        return {Outcome::refused, found};
    for (std::size_t index = 0; index < expected->size() && static_cast<int>(index) < model.graph().output_size();
         ++index)
      if (const std::string found = misfit(model.graph().output(static_cast<int>(index)), (*expected)[index]);
          !found.empty())
        return {Outcome::refused, found};
    // Integers are axes, shapes, indices and conditions: constants in a model. What then still has to be known while
    // compiling (bounds, exponents) becomes a constant too, and at last everything.
    std::set<std::size_t> integers, all_but_first, all;
    for (std::size_t index = 0; index < inputs->size(); ++index) {
      if ((*inputs)[index].integer || (*inputs)[index].values.empty()) integers.insert(index);
      if (index > 0 || (*inputs)[index].integer) all_but_first.insert(index);
      all.insert(index);
    }
    for (const auto& constants : {integers, all_but_first, all}) {
      outcome = run_with(folder, model, *inputs, *expected, constants);
      if (outcome.kind != Outcome::refused) break;
    }
    if (outcome.kind != Outcome::passed) return outcome;
  }
  return outcome;
}

std::vector<Case> run_all() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(data_folder)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<Case> cases;
  for (const fs::path& folder : folders) {
    const auto model = compiler::read_onnx((folder / "model.onnx").string());
    if (!model) continue;
    std::set<std::string> operators;
    for (const onnx::NodeProto& node : model->graph().node()) operators.insert(node.op_type());
    Case made{folder.filename().string(), operators.size() == 1 ? *operators.begin() : "several operators", {}};
    made.outcome = run_case(folder, *model);
    cases.push_back(std::move(made));
  }
  return cases;
}

bool is_supported(const std::string& op) { return compiler::importer_of(op) != nullptr; }

struct Count {
  int passed = 0, of = 0;
};

std::string document(const std::vector<Case>& cases) {
  std::map<std::string, Count> counts;
  int supported_passed = 0, supported_of = 0, all_passed = 0;
  for (const Case& one : cases) {
    Count& count = counts[one.op];
    ++count.of;
    const bool passed = one.outcome.kind == Outcome::passed;
    count.passed += passed;
    all_passed += passed;
    if (!is_supported(one.op)) continue;
    ++supported_of;
    supported_passed += passed;
  }
  std::string text = fmt::format(
      "# ONNX operators\n\nMeasured by `tests/chain/onnx_node_test.cpp` on the node test cases of Debian's "
      "libonnx-testdata: import,\n"
      "then the f32 reference, compared with the stored outputs (relative tolerance 1e-3). Write this page again with\n"
      "`TILEWRIGHT_WRITE_DOCS=docs build/test_chain --gtest_filter='OnnxNodes.*'`.\n\n"
      "Of the cases of supported operators {} of {} pass; of all {} cases {} pass. Integer inputs (axes, shapes, "
      "indices,\n"
      "conditions) are given as constants, as models have them.\n\n| operator | passed | of |\n|---|---:|---:|\n",
      supported_passed, supported_of, cases.size(), all_passed);
  for (const auto& [op, count] : counts)
    if (is_supported(op) || count.passed > 0) text += fmt::format("| {} | {} | {} |\n", op, count.passed, count.of);
  text += "\nSupported operators without a case of their own:";
  for (const std::string& op : compiler::imported_operators())
    if (!counts.contains(op)) text += " " + op;
  text += ".\n\n## Cases of supported operators that do not pass\n\n| case | reason |\n|---|---|\n";
  for (const Case& one : cases) {
    if (!is_supported(one.op) || one.outcome.kind == Outcome::passed) continue;
    std::string reason = one.outcome.reason;
    std::replace(reason.begin(), reason.end(), '|', '/');
    text += fmt::format("| {} | {} |\n", one.name, reason);
  }
  text += "\n## Operators that are not supported\n\n";
  std::string names;
  for (const auto& [op, count] : counts)
    if (!is_supported(op) && count.passed == 0)
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", op, count.of);
  return text + names + ".\n";
}

TEST(OnnxNodes, SupportedOperatorsGiveTheStoredOutputs) {
  if (!fs::exists(data_folder)) GTEST_SKIP() << data_folder << " is absent; install libonnx-testdata";
  const std::vector<Case> cases = run_all();
  int passed = 0;
  for (const Case& one : cases) {
    passed += one.outcome.kind == Outcome::passed;
    EXPECT_NE(one.outcome.kind, Outcome::wrong) << one.name << " (" << one.op << "): " << one.outcome.reason;
  }
  const std::string text = document(cases);
  fmt::print("{}", text);
  constexpr int expected_passes = 330;  // raised as operators are added: fewer is a regression
  EXPECT_GE(passed, expected_passes);
  if (const char* docs = std::getenv("TILEWRIGHT_WRITE_DOCS")) {
    ASSERT_TRUE(write_file(std::string(docs) + "/onnx-support.md", text));
  }
}

}  // namespace
}  // namespace tw::runtime
