// tests/compiler/import/hostile_test.cpp: damaged and malicious ONNX files give Errors, never crashes or huge work.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <fstream>
#include <functional>

#include "compiler/import/import.h"
#include "hw/base/file.h"
#include "hw/base/random.h"
#include "tests/support/support.h"

namespace tw::compiler {
namespace {

class Hostile : public testing::Test {
 protected:
  std::string small_model() {
    const std::string path = folder_.file("small.onnx");
    EXPECT_TRUE(emit_onnx("mlp:rows=2,inputs=2,hidden=3,outputs=2", {}, path));
    return path;
  }
  // The error's message for a model that `change` has damaged; empty when it was accepted.
  std::string message_after(const std::function<void(onnx::ModelProto&)>& change) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(*read_text_file(small_model())));
    change(model);
    const std::string path = folder_.file("changed.onnx");
    EXPECT_TRUE(write_file(path, model.SerializeAsString()));
    const auto graph = import_model(path, {});
    return graph ? "" : graph.error().message;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Hostile, EveryTruncation) {
  const std::string bytes = *read_text_file(small_model());
  const std::string path = folder_.file("cut.onnx");
  for (std::size_t length = 0; length < bytes.size(); length += 3) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
    const auto graph = import_model(path, {});
    if (graph) {
      EXPECT_TRUE(verify(*graph).empty());
    }
  }
}

TEST_F(Hostile, EveryByteFlipped) {
  const std::string bytes = *read_text_file(small_model());
  const std::string path = folder_.file("flipped.onnx");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << random_bits(7, at) % 8));
    std::ofstream(path, std::ios::binary) << damaged;
    const auto graph = import_model(path, {});
    if (graph) {
      EXPECT_TRUE(verify(*graph).empty());
    }
  }
}

TEST_F(Hostile, CyclesAndMissingValues) {
  const auto cycle = message_after([](onnx::ModelProto& model) {
    model.mutable_graph()->mutable_node(0)->set_input(0, model.graph().node(model.graph().node_size() - 1).output(0));
  });
  EXPECT_NE(cycle.find("which nothing makes before it"), std::string::npos) << cycle;
  const auto missing =
      message_after([](onnx::ModelProto& model) { model.mutable_graph()->mutable_initializer()->RemoveLast(); });
  EXPECT_NE(missing.find("which nothing makes before it"), std::string::npos) << missing;
}

TEST_F(Hostile, DuplicateNames) {
  const auto tensor = message_after(
      [](onnx::ModelProto& model) { *model.mutable_graph()->add_initializer() = model.graph().initializer(0); });
  EXPECT_NE(tensor.find("is there twice"), std::string::npos) << tensor;
  const auto value = message_after([](onnx::ModelProto& model) {
    model.mutable_graph()->mutable_node(1)->set_output(0, model.graph().node(0).output(0));
  });
  EXPECT_FALSE(value.empty());
}

TEST_F(Hostile, AbsurdTensors) {
  const auto large = message_after([](onnx::ModelProto& model) {
    auto* tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_dims();
    for (int axis = 0; axis < 4; ++axis) tensor->add_dims(std::int64_t{1} << 40);
  });
  EXPECT_NE(large.find("too large"), std::string::npos) << large;
  const auto negative =
      message_after([](onnx::ModelProto& model) { model.mutable_graph()->mutable_initializer(0)->add_dims(-1); });
  EXPECT_FALSE(negative.empty());
  const auto type =
      message_after([](onnx::ModelProto& model) { model.mutable_graph()->mutable_initializer(0)->set_data_type(99); });
  EXPECT_NE(type.find("element type 99"), std::string::npos) << type;
  const auto input = message_after([](onnx::ModelProto& model) {
    for (int axis = 0; axis < 2; ++axis)
      model.mutable_graph()
          ->mutable_input(0)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape()
          ->mutable_dim(axis)
          ->set_dim_value(std::int64_t{1} << 31);
  });
  EXPECT_FALSE(input.empty());
}

TEST_F(Hostile, ExternalDataStaysInTheFolder) {
  for (const char* location : {"../secret", "/etc/passwd", "a/../../b", "", "missing.bin"}) {
    const auto message = message_after([&](onnx::ModelProto& model) {
      auto* tensor = model.mutable_graph()->mutable_initializer(0);
      tensor->clear_raw_data();
      tensor->clear_float_data();
      tensor->set_data_location(onnx::TensorProto::EXTERNAL);
      auto* entry = tensor->add_external_data();
      entry->set_key("location");
      entry->set_value(location);
    });
    EXPECT_NE(message.find("external data"), std::string::npos) << location << ": " << message;
  }
  ASSERT_TRUE(write_file(folder_.file("short.bin"), std::string("1234")));
  const auto message = message_after([&](onnx::ModelProto& model) {
    auto* tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_raw_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair{"location", "short.bin"}, std::pair{"offset", "18446744073709551600"}}) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  });
  EXPECT_NE(message.find("the file has 4"), std::string::npos) << message;
}

// x = Concat(x, x) again and again: 2^60 elements of shape arithmetic.
TEST_F(Hostile, DoublingConstantsAreBounded) {
  const auto message = message_after([](onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::NodeProto first = graph.node(0);
    onnx::TensorProto& seed = *graph.add_initializer();
    seed.set_name("seed");
    seed.set_data_type(onnx::TensorProto::INT64);
    seed.add_dims(2);
    seed.add_int64_data(2);
    seed.add_int64_data(2);
    graph.clear_node();
    std::string last = "seed";
    for (int step = 0; step < 60; ++step) {
      onnx::NodeProto& node = *graph.add_node();
      node.set_op_type("Concat");
      node.add_input(last);
      node.add_input(last);
      last = "doubled" + std::to_string(step);
      node.add_output(last);
      auto* axis = node.add_attribute();
      axis->set_name("axis");
      axis->set_type(onnx::AttributeProto::INT);
      axis->set_i(0);
    }
    graph.mutable_output(0)->set_name(last);
  });
  EXPECT_NE(message.find("too large"), std::string::npos) << message;
}

}  // namespace
}  // namespace tw::compiler
