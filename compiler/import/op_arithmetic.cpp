// compiler/import/op_arithmetic.cpp: elementwise operators, reductions, softmax.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/import/importer.h"

namespace tw::compiler {
namespace {

template <Unary function>
Status import_unary(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  Attributes attributes;
  attributes.unary = function;
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::unary, {x}, attributes));
  return importer.define(node, 0, y);
}

Result<ValueId> emit_binary(Importer& importer, const NodeView& node, const std::string& suffix, Binary function,
                            ValueId a, ValueId b) {
  Attributes attributes;
  attributes.binary = function;
  return importer.emit(node, suffix, OpKind::binary, {a, b}, attributes);
}

// Two operands, or for Max, Min and Sum any number.
template <Binary function>
Status import_binary(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId result, node.value(0));
  for (int index = 1; index < node.inputs(); ++index) {
    TW_TRY(const ValueId next, node.value(index));
    TW_TRY(result, emit_binary(importer, node, index + 1 == node.inputs() ? "" : fmt::format(".{}", index), function,
                               result, next));
  }
  return importer.define(node, 0, result);
}

Status import_same(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  return importer.define(node, 0, x);
}

Status import_dropout(Importer& importer, const NodeView& node) {
  // In training it draws a mask; otherwise it does nothing, and its mask is all ones.
  if (node.has(2)) {
    TW_TRY(const Constant* training, node.numbers(2, "training modes"));
    if (!training->values.empty() && training->values[0] != 0) return node.unsupported("training mode", "inference");
  }
  if (node.proto().output_size() > 1 && !node.proto().output(1).empty()) {
    const Shape shape = node.shape(0);
    TW_TRY(const ValueId mask,
           importer.parameter(node.name() + ".mask", shape, uniform_source(1.0F, elements_of(shape))));
    TW_TRY_STATUS(importer.define(node, 1, mask));
  }
  if (const Constant* constant = node.constant(0)) return importer.define(node, 0, *constant);
  return import_same(importer, node);
}

Status import_cast(Importer& importer, const NodeView& node) {
  const std::int64_t to = node.integer("to", onnx::TensorProto::FLOAT);
  const bool real = to == onnx::TensorProto::FLOAT || to == onnx::TensorProto::FLOAT16 ||
                    to == onnx::TensorProto::BFLOAT16 || to == onnx::TensorProto::DOUBLE;
  if (!real)
    return node.unsupported(fmt::format("a cast of computed values to element type {}", to),
                            "casts between floating-point types");
  return import_same(importer, node);
}

Status import_clip(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId x, node.value(0));
  const auto bound = [&](const char* name, int index) -> Result<std::optional<float>> {
    if (node.attribute(name) != nullptr) return node.number(name, 0);
    if (!node.has(index)) return std::optional<float>{};
    TW_TRY(const Constant* constant, node.numbers(index, "bounds"));
    if (constant->values.empty()) return std::optional<float>{};
    return static_cast<float>(constant->values[0]);
  };
  TW_TRY(const std::optional<float> low, bound("min", 1));
  TW_TRY(const std::optional<float> high, bound("max", 2));
  if (low) {
    TW_TRY(const ValueId value, importer.scalar(node, ".low", *low));
    TW_TRY(x, emit_binary(importer, node, ".min", Binary::maximum, x, value));
  }
  if (high) {
    TW_TRY(const ValueId value, importer.scalar(node, ".high", *high));
    TW_TRY(x, emit_binary(importer, node, ".max", Binary::minimum, x, value));
  }
  return importer.define(node, 0, x);
}

// Moves `axes` of x to the end and keeps the order of the rest.
Result<ValueId> axes_last(Importer& importer, const NodeView& node, ValueId x, const std::vector<std::int64_t>& axes,
                          std::vector<std::int64_t>& permutation) {
  const auto rank = static_cast<std::int64_t>(importer.shape(x).size());
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) permutation.push_back(axis);
  permutation.insert(permutation.end(), axes.begin(), axes.end());
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Attributes attributes;
  attributes.permutation = permutation;
  return importer.emit(node, ".axes_last", OpKind::transpose, {x}, attributes);
}

// Softmax over the last axis; before opset 13 over all axes from `axis` on, flattened.
Status import_softmax(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId x, node.value(0));
  const Shape shape = importer.shape(x);
  if (shape.empty()) return node.unsupported("a scalar", "at least one axis");
  const bool flattens = importer.opset() < 13;
  TW_TRY(const std::int64_t axis,
         node.axis_of(
             node.integer("axis", flattens ? 1 : -1),
             shape.size() + (flattens && node.integer("axis", 1) == static_cast<std::int64_t>(shape.size()) ? 1 : 0)));
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (axis == last) {
    TW_TRY(const ValueId y, importer.emit(node, "", OpKind::softmax, {x}));
    return importer.define(node, 0, y);
  }
  if (flattens) {
    std::int64_t outer = 1;
    for (std::int64_t at = 0; at < axis; ++at) outer *= shape[at];
    TW_TRY(x, importer.emit(node, ".flat", OpKind::reshape, {x}, {}, {outer, elements_of(shape) / outer}));
    TW_TRY(x, importer.emit(node, "", OpKind::softmax, {x}));
    TW_TRY(x, importer.emit(node, ".shape", OpKind::reshape, {x}, {}, shape));
    return importer.define(node, 0, x);
  }
  std::vector<std::int64_t> permutation;
  TW_TRY(x, axes_last(importer, node, x, {axis}, permutation));
  TW_TRY(x, importer.emit(node, "", OpKind::softmax, {x}));
  Attributes back;
  back.permutation.resize(permutation.size());
  for (std::size_t at = 0; at < permutation.size(); ++at)
    back.permutation[permutation[at]] = static_cast<std::int64_t>(at);
  TW_TRY(x, importer.emit(node, ".back", OpKind::transpose, {x}, back));
  return importer.define(node, 0, x);
}

template <Reduction reduction>
Status import_reduce(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  const Shape shape = importer.shape(x);
  TW_TRY(std::vector<std::int64_t> axes, node.axes(1));
  if (axes.empty()) {
    if (node.integer("noop_with_empty_axes", 0) != 0) return importer.define(node, 0, x);
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (std::int64_t& axis : axes) {
    TW_TRY(axis, node.axis_of(axis, shape.size()));
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty()) return importer.define(node, 0, x);
  Attributes attributes;
  attributes.reduction = reduction;
  attributes.axes = axes;
  attributes.keep_dims = node.integer("keepdims", 1) != 0;
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::reduce, {x}, attributes));
  return importer.define(node, 0, y);
}

// condition ? a : b with a constant condition: a * mask + b * (1 - mask), which is exact for finite values.
Status import_where(Importer& importer, const NodeView& node) {
  TW_TRY(const Constant* condition, node.numbers(0, "conditions"));
  for (const int index : {1, 2})
    if (const Constant* constant = node.constant(index))
      for (const double value : constant->values)
        if (!std::isfinite(value))
          return node.unsupported("an infinite alternative",
                                  "finite constants; a mask of -inf is added before softmax instead");
  TW_TRY(const ValueId a, node.value(1));
  TW_TRY(const ValueId b, node.value(2));
  Constant mask = *condition, inverse = *condition;
  for (std::size_t i = 0; i < mask.values.size(); ++i) {
    mask.values[i] = mask.values[i] != 0 ? 1 : 0;
    inverse.values[i] = 1 - mask.values[i];
  }
  TW_TRY(const ValueId chosen, importer.parameter(node.name() + ".mask", mask));
  TW_TRY(const ValueId other, importer.parameter(node.name() + ".inverse", inverse));
  TW_TRY(const ValueId left, emit_binary(importer, node, ".then", Binary::multiply, a, chosen));
  TW_TRY(const ValueId right, emit_binary(importer, node, ".else", Binary::multiply, b, other));
  TW_TRY(const ValueId y, emit_binary(importer, node, "", Binary::add, left, right));
  return importer.define(node, 0, y);
}

Status import_gelu(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  Attributes attributes;
  attributes.gelu_tanh = node.text("approximate", "none") == "tanh";
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::gelu, {x}, attributes));
  return importer.define(node, 0, y);
}

}  // namespace

std::vector<OperatorEntry> arithmetic_operators() {
  return {{"Add", import_binary<Binary::add>},
          {"Sub", import_binary<Binary::subtract>},
          {"Mul", import_binary<Binary::multiply>},
          {"Div", import_binary<Binary::divide>},
          {"Pow", import_binary<Binary::power>},
          {"Max", import_binary<Binary::maximum>},
          {"Min", import_binary<Binary::minimum>},
          {"Sum", import_binary<Binary::add>},
          {"Sqrt", import_unary<Unary::sqrt>},
          {"Erf", import_unary<Unary::erf>},
          {"Tanh", import_unary<Unary::tanh>},
          {"Sigmoid", import_unary<Unary::sigmoid>},
          {"Relu", import_unary<Unary::relu>},
          {"Exp", import_unary<Unary::exp>},
          {"Neg", import_unary<Unary::negate>},
          {"Abs", import_unary<Unary::absolute>},
          {"Reciprocal", import_unary<Unary::reciprocal>},
          {"Log", import_unary<Unary::log>},
          {"Identity", import_same},
          {"Dropout", import_dropout},
          {"Cast", import_cast},
          {"Clip", import_clip},
          {"Softmax", import_softmax},
          {"ReduceMean", import_reduce<Reduction::mean>},
          {"ReduceSum", import_reduce<Reduction::sum>},
          {"ReduceMax", import_reduce<Reduction::maximum>},
          {"Where", import_where},
          {"Gelu", import_gelu}};
}

}  // namespace tw::compiler
