// compiler/canonical/rewriter.h: edits the flat main region of a graph: what patterns match and change with. Internal.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace tw::compiler {

class Rewriter {
 public:
  explicit Rewriter(Graph graph);

  const Graph& graph() const { return graph_; }
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  const Operation& operation(OperationId id) const { return graph_.operation(id); }
  std::vector<OperationId> operations() const { return graph_.main().operations; }  // a copy: patterns edit the list

  // The operation that makes a value, or nothing for inputs and parameters.
  const Operation* producer(ValueId id) const;
  std::optional<OperationId> producer_id(ValueId id) const;
  // The same when it is of this kind.
  const Operation* producer(ValueId id, OpKind kind) const;
  const Operation* binary_producer(ValueId id, Binary function) const;
  const Operation* unary_producer(ValueId id, Unary function) const;
  const std::vector<OperationId>& users(ValueId id) const;
  bool used_once(ValueId id) const;  // and not an output
  bool is_output(ValueId id) const { return outputs_.contains(id); }
  bool is_parameter(ValueId id) const { return graph_.value(id).is_parameter(); }
  // The one number that a parameter holds everywhere.
  std::optional<float> constant(ValueId id) const;
  bool is_alive(OperationId id) const { return position_.contains(id); }

  // Of the two operands of a commutative operation: the other one than `known`.
  static ValueId other(const Operation& operation, ValueId known) {
    return operation.operands[0] == known ? operation.operands[1] : operation.operands[0];
  }

  ValueId add_parameter(const std::string& name, Shape shape, TensorSourcePtr source);
  // Puts an operation before `before` and returns its result. `wanted` as in infer_shape.
  ValueId insert(OperationId before, OpKind kind, const std::string& name, std::vector<ValueId> operands,
                 Attributes attributes = {}, const Shape& wanted = {});
  // Other operands of the same shapes (or without the optional ones): the result keeps its shape.
  void set_operands(OperationId id, std::vector<ValueId> operands);
  void replace_uses(ValueId old_value, ValueId new_value);
  void erase(OperationId id);
  // Removes operations that nothing reads, then values that nothing names.
  void remove_dead();
  Graph finish() &&;

 private:
  void reindex();
  std::string unique_name(const std::string& name);

  Graph graph_;
  std::map<ValueId, OperationId> producer_;
  std::map<ValueId, std::vector<OperationId>> users_;
  std::map<OperationId, std::size_t> position_;
  std::set<ValueId> outputs_;
  std::set<std::string> names_, operation_names_;
};

// A pattern: a name, and a function that tries it at one operation and says whether it changed the graph.
struct Pattern {
  const char* name;
  bool (*apply)(Rewriter& rewriter, OperationId id);
};

bool fold_constants(Rewriter& rewriter, OperationId id);
bool drop_identity(Rewriter& rewriter, OperationId id);
bool merge_views(Rewriter& rewriter, OperationId id);
bool raise_layer_norm(Rewriter& rewriter, OperationId id);
bool raise_gelu(Rewriter& rewriter, OperationId id);
bool raise_bias(Rewriter& rewriter, OperationId id);
bool raise_attention(Rewriter& rewriter, OperationId id);
bool merge_projections(Rewriter& rewriter, OperationId id);

}  // namespace tw::compiler
