// compiler/import/importer.h: walks an ONNX graph node by node and builds a Graph. Internal to import.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/import/constant.h"
#include "compiler/import/import.h"
#include "compiler/import/onnx_model.h"

namespace tw::compiler {

// What an ONNX value name stands for: a graph value, or numbers known now (small tensors are kept as both).
struct Known {
  std::optional<Constant> constant;
  std::optional<ValueId> value;
};

class Importer;

// One node with typed access to attributes and inputs.
class NodeView {
 public:
  NodeView(Importer& importer, const onnx::NodeProto& node);

  const onnx::NodeProto& proto() const { return node_; }
  const std::string& name() const { return name_; }
  const std::string& op() const { return node_.op_type(); }
  int inputs() const { return node_.input_size(); }
  bool has(int index) const { return index < node_.input_size() && !node_.input(index).empty(); }
  // Shape of an input, whatever it is.
  Shape shape(int index) const;
  // The input as a graph value (a constant becomes a parameter).
  Result<ValueId> value(int index) const;
  // The input's numbers, or nothing when it is computed.
  const Constant* constant(int index) const;
  // The same where they are needed: unsupported when computed.
  Result<const Constant*> numbers(int index, const char* what) const;

  const onnx::AttributeProto* attribute(const char* name) const;
  std::int64_t integer(const char* name, std::int64_t otherwise) const;
  float number(const char* name, float otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const char* name) const;
  // Axes as attribute (older opsets) or as input `index`; empty when there are none.
  Result<std::vector<std::int64_t>> axes(int index) const;
  Result<std::int64_t> axis_of(std::int64_t axis, std::size_t rank) const;

  tl::unexpected<Error> unsupported(const std::string& what, const std::string& supported) const;
  tl::unexpected<Error> malformed(const std::string& what) const;

  Importer& importer;

 private:
  const onnx::NodeProto& node_;
  std::string name_;
};

class Importer {
 public:
  Importer(const onnx::ModelProto& model, std::string folder, const ImportOptions& options, const std::string& name);
  Result<Graph> run();

  int opset() const { return opset_; }
  const std::string& folder() const { return folder_; }
  Known* find(const std::string& name);
  const Shape& shape(ValueId id) const { return builder_.shape(id); }

  // Appends a graph operation after checking its shapes. `suffix` tells several operations of one node apart.
  Result<ValueId> emit(const NodeView& node, const std::string& suffix, OpKind kind, std::vector<ValueId> operands,
                       Attributes attributes = {}, const Shape& wanted = {});
  Result<ValueId> parameter(const std::string& name, Shape shape, TensorSourcePtr source);
  Result<ValueId> parameter(const std::string& name, const Constant& constant);
  Result<ValueId> scalar(const NodeView& node, const std::string& suffix, float value);
  // Binds the node's output.
  Status define(const NodeView& node, int index, ValueId value);
  Status define(const NodeView& node, int index, Constant constant);
  std::string unique(const std::string& name);

 private:
  Status read_initialisers();
  Status read_inputs();
  Status import_node(const onnx::NodeProto& node);
  Result<bool> try_fold(const NodeView& node);
  Status bind_outputs();

  const onnx::ModelProto& model_;
  std::string folder_;
  const ImportOptions& options_;
  GraphBuilder builder_;
  int opset_ = 0;
  std::map<std::string, Known> known_;
  std::map<std::string, int> names_;
  std::map<std::string, std::string> failed_;  // outputs of nodes that could not be imported: no follow-up complaints
};

// Imports one node; the table of operators: importer.cpp, from the families below.
using NodeImporter = Status (*)(Importer&, const NodeView&);
NodeImporter importer_of(const std::string& op_type);
std::vector<std::string> imported_operators();

// Families, one file each; they add their operators to the table.
struct OperatorEntry {
  const char* op_type;
  NodeImporter import;
};
std::vector<OperatorEntry> arithmetic_operators();
std::vector<OperatorEntry> shape_operators();
std::vector<OperatorEntry> network_operators();

}  // namespace tw::compiler
