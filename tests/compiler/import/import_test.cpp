// tests/compiler/import/import_test.cpp: emitted models come back as the graphs they came from; dimensions by name; one
// report of everything that is not supported.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/import/import.h"
#include "hw/base/file.h"
#include "tests/support/support.h"

namespace tw::compiler {
namespace {

// Kinds and shapes in order, bodies included: what stays the same when names differ.
std::string structure(const Graph& graph) {
  std::string text;
  const auto walk = [&](const Region& region, const auto& self) -> void {
    for (const OperationId id : region.operations) {
      const Operation& operation = graph.operation(id);
      text += name_of(operation.kind) + to_string(graph.value(operation.results[0]).shape);
      for (const ValueId operand : operation.operands)
        text += (graph.value(operand).is_parameter() ? " p" : " v") + to_string(graph.value(operand).shape);
      text += "\n";
      if (operation.kind != OpKind::repeat) continue;
      text += "x" + std::to_string(operation.attributes.count) + " {\n";
      self(graph.regions[operation.body], self);
      text += "}\n";
    }
  };
  walk(graph.main(), walk);
  return text;
}

class Emitted : public testing::TestWithParam<const char*> {};

TEST_P(Emitted, ComesBackAsTheSameGraph) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  ASSERT_TRUE(emit_onnx(GetParam(), {}, path));
  const auto direct = import_model(GetParam(), {}), emitted = import_model(path, {});
  ASSERT_TRUE(direct && emitted) << (emitted ? "" : emitted.error().message);
  EXPECT_EQ(structure(*emitted), structure(*direct));
  EXPECT_EQ(parameter_count(*emitted), parameter_count(*direct));
  EXPECT_EQ(multiply_adds(*emitted), multiply_adds(*direct));
}

INSTANTIATE_TEST_SUITE_P(Generators, Emitted,
                         testing::Values("gemm", "mlp", "attention", "attention:batch=3,heads=4", "encoder",
                                         "encoder:layers=5,batch=2,tokens=7"));

TEST(Emit, WeightsSurvive) {
  const test::TemporaryFolder folder;
  for (const char* spec : {"gemm", "gemm:inner=1024,columns=512"}) {  // inside the model, and beside it
    const std::string path = folder.file("gemm.onnx");
    ASSERT_TRUE(emit_onnx(spec, {}, path));
    const auto direct = import_model(spec, {}), emitted = import_model(path, {});
    ASSERT_TRUE(direct && emitted) << (emitted ? "" : emitted.error().message);
    const auto weights = [](const Graph& graph) {
      const Value& value = graph.value(graph.operations[0].operands[1]);
      std::vector<float> numbers(static_cast<std::size_t>(elements_of(value.shape)));
      EXPECT_TRUE(value.source->read(numbers));
      return numbers;
    };
    EXPECT_EQ(weights(*direct), weights(*emitted));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("gemm.onnx_data")));
}

onnx::ModelProto relu_model(const char* op = "Relu") {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  auto* input = graph.add_input();
  input->set_name("x");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("N");
  type->mutable_shape()->add_dim()->set_dim_value(3);
  auto* node = graph.add_node();
  node->set_op_type(op);
  node->set_name("first");
  node->add_input("x");
  node->add_output("y");
  graph.add_output()->set_name("y");
  return model;
}

class Imported : public testing::Test {
 protected:
  Result<Graph> import(const onnx::ModelProto& model, const ImportOptions& options = {}) {
    const std::string path = folder_.file("m.onnx");
    EXPECT_TRUE(write_file(path, model.SerializeAsString()));
    return import_model(path, options);
  }
  test::TemporaryFolder folder_;
};

TEST_F(Imported, DimensionsAreBoundByName) {
  const auto unbound = import(relu_model());
  ASSERT_FALSE(unbound);
  EXPECT_NE(unbound.error().message.find("give --dim N=N"), std::string::npos) << unbound.error().message;
  const auto graph = import(relu_model(), {.dims = {{"N", 5}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->value(graph->main().results[0]).shape, (Shape{5, 3}));
  const auto batch = import(relu_model(), {.batch = 4});
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->value(batch->main().results[0]).shape, (Shape{4, 3}));
  EXPECT_FALSE(import(relu_model(), {.dims = {{"M", 5}}}));
  EXPECT_FALSE(import(relu_model(), {.dims = {{"N", -5}}}));
}

TEST_F(Imported, EverythingUnsupportedIsReportedAtOnce) {
  onnx::ModelProto model = relu_model("FirstThing");
  onnx::GraphProto& graph = *model.mutable_graph();
  auto* second = graph.add_node();
  second->set_op_type("SecondThing");
  second->set_name("second");
  second->add_input("x");
  second->add_output("z");
  auto* third = graph.add_node();  // depends on the first, and is unsupported itself
  third->set_op_type("ThirdThing");
  third->set_name("third");
  third->add_input("y");
  third->add_output("v");
  auto* follows = graph.add_node();  // only follows them: no complaint of its own
  follows->set_op_type("Relu");
  follows->set_name("innocent");
  follows->add_input("v");
  follows->add_output("w");
  graph.add_output()->set_name("z");
  graph.add_output()->set_name("w");
  const auto imported = import(model, {.dims = {{"N", 2}}});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().kind, ErrorKind::unsupported);
  const std::string& message = imported.error().message;
  for (const char* wanted : {"first", "FirstThing", "second", "SecondThing", "third", "ThirdThing", "3 nodes", "[2,3]"})
    EXPECT_NE(message.find(wanted), std::string::npos) << wanted << " in " << message;
  EXPECT_EQ(message.find("innocent"), std::string::npos);
}

TEST_F(Imported, UnusedNodesAreSkippedAndNamesMayBeEmpty) {
  onnx::ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->clear_name();
  auto* unused = model.mutable_graph()->add_node();
  unused->set_op_type("Unheard");
  unused->add_input("x");
  unused->add_output("nobody");
  const auto graph = import(model, {.dims = {{"N", 2}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->operations.size(), 1U);
}

TEST_F(Imported, OpsetsOutsideTheRangeAreRefused) {
  for (const int version : {0, 99}) {
    onnx::ModelProto model = relu_model();
    model.mutable_opset_import(0)->set_version(version);
    EXPECT_FALSE(import(model, {.dims = {{"N", 2}}})) << version;
  }
}

TEST(Generators, RefuseUnknownOptions) {
  for (const char* spec : {"gemm:row=3", "gemm:rows=0", "gemm:rows=x", "encoder:heads=5", "gemmm", "missing.onnx"})
    EXPECT_FALSE(import_model(spec, {})) << spec;
  EXPECT_NE(import_model("gemm:row=3", {}).error().message.find("did you mean \"rows\""), std::string::npos);
}

// Models of another exporter, where they are at hand: set TILEWRIGHT_MODELS to their folder.
TEST(OtherExporters, TowersRollTheirLayers) {
  const char* folder = std::getenv("TILEWRIGHT_MODELS");
  if (folder == nullptr)
    GTEST_SKIP() << "no models of another exporter: set TILEWRIGHT_MODELS to a folder with sig_tiny_op14.onnx and "
                    "sig_tiny_op17.onnx";
  for (const char* name : {"/sig_tiny_op14.onnx", "/sig_tiny_op17.onnx"}) {
    const auto graph = import_model(std::string(folder) + name, {});
    ASSERT_TRUE(graph) << graph.error().message;
    ASSERT_EQ(graph->regions.size(), 2U);
    std::map<std::string, int> kinds;
    for (const OperationId id : graph->regions[1].operations) ++kinds[name_of(graph->operation(id).kind)];
    EXPECT_EQ(kinds["layer_norm"], 2);
    EXPECT_EQ(kinds["matmul"], 4);
    EXPECT_EQ(kinds["attention"], 1);
    EXPECT_EQ(kinds["gelu"], 1);
    EXPECT_EQ(kinds["binary"], 2);
  }
}

}  // namespace
}  // namespace tw::compiler
