// compiler/graph/builder.h: makes graphs operation by operation with inferred shapes. For generators and tests; a wrong
// use is our bug (TW_CHECK).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace tw::compiler {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  ValueId input(const std::string& name, Shape shape);
  void output(const std::string& name, ValueId value);
  ValueId parameter(const std::string& name, Shape shape, TensorSourcePtr source);

  // Appends an operation whose single result is named after it. `wanted`: the result's shape for reshape, slice,
  // expand.
  ValueId add(OpKind kind, const std::string& name, std::vector<ValueId> operands, Attributes attributes = {},
              Shape wanted = {});

  ValueId matmul(const std::string& name, ValueId a, ValueId b) { return add(OpKind::matmul, name, {a, b}); }
  ValueId matmul(const std::string& name, ValueId a, ValueId b, ValueId bias) {
    return add(OpKind::matmul, name, {a, b, bias});
  }
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale,
                    bool causal = false);
  ValueId layer_norm(const std::string& name, ValueId x, ValueId gamma, ValueId beta, double epsilon);
  ValueId softmax(const std::string& name, ValueId x) { return add(OpKind::softmax, name, {x}); }
  ValueId gelu(const std::string& name, ValueId x, bool tanh);
  ValueId unary(const std::string& name, Unary function, ValueId x);
  ValueId binary(const std::string& name, Binary function, ValueId a, ValueId b);
  ValueId reduce(const std::string& name, Reduction function, ValueId x, std::vector<std::int64_t> axes,
                 bool keep_dims);
  ValueId reshape(const std::string& name, ValueId x, Shape shape) {
    return add(OpKind::reshape, name, {x}, {}, std::move(shape));
  }
  ValueId transpose(const std::string& name, ValueId x, std::vector<std::int64_t> permutation);
  ValueId slice(const std::string& name, ValueId x, std::vector<std::int64_t> starts, std::vector<std::int64_t> steps,
                Shape sizes);
  ValueId concat(const std::string& name, std::vector<ValueId> pieces, std::int64_t axis);
  ValueId expand(const std::string& name, ValueId x, Shape shape) {
    return add(OpKind::expand, name, {x}, {}, std::move(shape));
  }

  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }
  Graph finish() && { return std::move(graph_); }

 private:
  ValueId add_value(const std::string& name, Shape shape, TensorSourcePtr source = nullptr);
  Graph graph_;
};

}  // namespace tw::compiler
