#include "compiler/graph/builder.h"

#include "hw/base/check.h"

namespace tw::compiler {

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name = std::move(name);
  graph_.regions.emplace_back();
}

ValueId GraphBuilder::add_value(const std::string& name, Shape shape, TensorSourcePtr source) {
  graph_.values.push_back({name, std::move(shape), std::move(source)});
  return {static_cast<std::uint32_t>(graph_.values.size()) - 1};
}

ValueId GraphBuilder::input(const std::string& name, Shape shape) {
  const ValueId value = add_value(name, std::move(shape));
  graph_.regions[0].arguments.push_back(value);
  return value;
}

void GraphBuilder::output(const std::string& name, ValueId value) {
  graph_.regions[0].results.push_back(value);
  graph_.output_names.push_back(name);
}

ValueId GraphBuilder::parameter(const std::string& name, Shape shape, TensorSourcePtr source) {
  return add_value(name, std::move(shape), std::move(source));
}

ValueId GraphBuilder::add(OpKind kind, const std::string& name, std::vector<ValueId> operands, Attributes attributes,
                          Shape wanted) {
  Operation operation{.kind = kind, .name = name, .operands = std::move(operands), .attributes = std::move(attributes)};
  std::vector<Shape> shapes;
  for (const ValueId operand : operation.operands) shapes.push_back(shape(operand));
  Result<Shape> inferred = infer_shape(operation, shapes, wanted);
  TW_CHECK(inferred.has_value(), "{}", inferred.error().message);
  const ValueId result = add_value(name, *std::move(inferred));
  operation.results = {result};
  graph_.operations.push_back(std::move(operation));
  graph_.regions[0].operations.push_back({static_cast<std::uint32_t>(graph_.operations.size()) - 1});
  return result;
}

ValueId GraphBuilder::attention(const std::string& name, ValueId q, ValueId k, ValueId v, std::int64_t heads,
                                double scale, bool causal) {
  Attributes attributes;
  attributes.heads = heads;
  attributes.scale = scale;
  attributes.causal = causal;
  return add(OpKind::attention, name, {q, k, v}, attributes);
}

ValueId GraphBuilder::layer_norm(const std::string& name, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  Attributes attributes;
  attributes.epsilon = epsilon;
  return add(OpKind::layer_norm, name, {x, gamma, beta}, attributes);
}

ValueId GraphBuilder::gelu(const std::string& name, ValueId x, bool tanh) {
  Attributes attributes;
  attributes.gelu_tanh = tanh;
  return add(OpKind::gelu, name, {x}, attributes);
}

ValueId GraphBuilder::unary(const std::string& name, Unary function, ValueId x) {
  Attributes attributes;
  attributes.unary = function;
  return add(OpKind::unary, name, {x}, attributes);
}

ValueId GraphBuilder::binary(const std::string& name, Binary function, ValueId a, ValueId b) {
  Attributes attributes;
  attributes.binary = function;
  return add(OpKind::binary, name, {a, b}, attributes);
}

ValueId GraphBuilder::reduce(const std::string& name, Reduction function, ValueId x, std::vector<std::int64_t> axes,
                             bool keep_dims) {
  Attributes attributes;
  attributes.reduction = function;
  attributes.axes = std::move(axes);
  attributes.keep_dims = keep_dims;
  return add(OpKind::reduce, name, {x}, attributes);
}

ValueId GraphBuilder::transpose(const std::string& name, ValueId x, std::vector<std::int64_t> permutation) {
  Attributes attributes;
  attributes.permutation = std::move(permutation);
  return add(OpKind::transpose, name, {x}, attributes);
}

ValueId GraphBuilder::slice(const std::string& name, ValueId x, std::vector<std::int64_t> starts,
                            std::vector<std::int64_t> steps, Shape sizes) {
  Attributes attributes;
  attributes.starts = std::move(starts);
  attributes.steps = std::move(steps);
  return add(OpKind::slice, name, {x}, attributes, std::move(sizes));
}

ValueId GraphBuilder::concat(const std::string& name, std::vector<ValueId> pieces, std::int64_t axis) {
  Attributes attributes;
  attributes.axis = axis;
  return add(OpKind::concat, name, std::move(pieces), attributes);
}

}  // namespace tw::compiler
