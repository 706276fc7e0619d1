// compiler/import/op_network.cpp: products, normalisation, convolution as patch embedding, pooling.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/import/importer.h"

namespace tw::compiler {
namespace {

// Operands of rank one become matrices, and the result loses the axis again.
Status import_matmul(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId a, node.value(0));
  TW_TRY(ValueId b, node.value(1));
  const Shape shape_a = importer.shape(a), shape_b = importer.shape(b);
  if (shape_a.empty() || shape_b.empty()) return node.malformed("a scalar operand");
  if (shape_a.size() == 1) {
    TW_TRY(a, importer.emit(node, ".row", OpKind::reshape, {a}, {}, {1, shape_a[0]}));
  }
  if (shape_b.size() == 1) {
    TW_TRY(b, importer.emit(node, ".column", OpKind::reshape, {b}, {}, {shape_b[0], 1}));
  }
  TW_TRY(ValueId y, importer.emit(node, "", OpKind::matmul, {a, b}));
  if (shape_a.size() == 1 || shape_b.size() == 1) {
    Shape shape = importer.shape(y);
    if (shape_b.size() == 1) shape.pop_back();
    if (shape_a.size() == 1) shape.erase(shape.end() - (shape_b.size() == 1 ? 1 : 2));
    TW_TRY(y, importer.emit(node, ".vector", OpKind::reshape, {y}, {}, shape));
  }
  return importer.define(node, 0, y);
}

Result<ValueId> transposed(Importer& importer, const NodeView& node, const std::string& suffix, ValueId x) {
  Attributes attributes;
  attributes.permutation = {1, 0};
  return importer.emit(node, suffix, OpKind::transpose, {x}, attributes);
}

Result<ValueId> times(Importer& importer, const NodeView& node, const std::string& suffix, ValueId x, float factor) {
  if (factor == 1.0F) return x;
  TW_TRY(const ValueId scalar, importer.scalar(node, suffix + ".factor", factor));
  Attributes attributes;
  attributes.binary = Binary::multiply;
  return importer.emit(node, suffix, OpKind::binary, {x, scalar}, attributes);
}

// alpha * A' B' + beta * C. Weights are transposed where they are parameters (folding does it once).
Status import_gemm(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId a, node.value(0));
  TW_TRY(ValueId b, node.value(1));
  if (importer.shape(a).size() != 2 || importer.shape(b).size() != 2)
    return node.malformed("operands are not matrices");
  if (node.integer("transA", 0) != 0) {
    TW_TRY(a, transposed(importer, node, ".a", a));
  }
  if (node.integer("transB", 0) != 0) {
    TW_TRY(b, transposed(importer, node, ".b", b));
  }
  TW_TRY(b, times(importer, node, ".alpha", b, node.number("alpha", 1.0F)));
  const bool has_c = node.has(2) && node.number("beta", 1.0F) != 0.0F;
  TW_TRY(ValueId y, importer.emit(node, has_c ? ".product" : "", OpKind::matmul, {a, b}));
  if (has_c) {
    TW_TRY(ValueId c, node.value(2));
    TW_TRY(c, times(importer, node, ".beta", c, node.number("beta", 1.0F)));
    Attributes attributes;
    attributes.binary = Binary::add;
    const Shape product = importer.shape(y);
    TW_TRY(y, importer.emit(node, "", OpKind::binary, {y, c}, attributes));
    if (importer.shape(y) != product) return node.malformed("C is larger than the product");
  }
  return importer.define(node, 0, y);
}

// The optional outputs: mean and 1 / sqrt(variance + epsilon).
Status define_statistics(Importer& importer, const NodeView& node, ValueId x, std::int64_t axis) {
  const auto wanted = [&](int output) {
    return output < node.proto().output_size() && !node.proto().output(output).empty();
  };
  if (!wanted(1) && !wanted(2)) return {};
  Attributes mean_attributes, binary;
  mean_attributes.reduction = Reduction::mean;
  for (auto at = axis; at < static_cast<std::int64_t>(importer.shape(x).size()); ++at)
    mean_attributes.axes.push_back(at);
  TW_TRY(const ValueId mean, importer.emit(node, ".mean", OpKind::reduce, {x}, mean_attributes));
  TW_TRY_STATUS(importer.define(node, 1, mean));
  if (!wanted(2)) return {};
  binary.binary = Binary::subtract;
  TW_TRY(const ValueId centred, importer.emit(node, ".centred", OpKind::binary, {x, mean}, binary));
  binary.binary = Binary::multiply;
  TW_TRY(const ValueId squares, importer.emit(node, ".squares", OpKind::binary, {centred, centred}, binary));
  TW_TRY(const ValueId variance, importer.emit(node, ".variance", OpKind::reduce, {squares}, mean_attributes));
  TW_TRY(const ValueId epsilon, importer.scalar(node, ".epsilon", node.number("epsilon", 1e-5F)));
  binary.binary = Binary::add;
  TW_TRY(const ValueId shifted, importer.emit(node, ".shifted", OpKind::binary, {variance, epsilon}, binary));
  Attributes unary;
  unary.unary = Unary::sqrt;
  TW_TRY(const ValueId deviation, importer.emit(node, ".deviation", OpKind::unary, {shifted}, unary));
  unary.unary = Unary::reciprocal;
  TW_TRY(const ValueId inverse, importer.emit(node, ".inverse", OpKind::unary, {deviation}, unary));
  return importer.define(node, 2, inverse);
}

Status import_layer_norm(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId input, node.value(0));
  ValueId x = input;
  const Shape shape = importer.shape(x);
  TW_TRY(const std::int64_t axis, node.axis_of(node.integer("axis", -1), shape.size()));
  const std::int64_t width = std::accumulate(shape.begin() + axis, shape.end(), std::int64_t{1}, std::multiplies<>());
  const bool several = axis + 1 != static_cast<std::int64_t>(shape.size());
  if (several) {
    Shape flat(shape.begin(), shape.begin() + axis);
    flat.push_back(width);
    TW_TRY(x, importer.emit(node, ".flat", OpKind::reshape, {x}, {}, flat));
  }
  std::vector<ValueId> operands{x};
  for (int index = 1; index < 3 && node.has(index); ++index) {
    TW_TRY(ValueId vector, node.value(index));
    if (elements_of(importer.shape(vector)) != width)
      return node.unsupported(fmt::format("scale or bias {}", to_string(importer.shape(vector))),
                              "one value for each normalised element");
    TW_TRY(vector, importer.emit(node, index == 1 ? ".scale" : ".bias", OpKind::reshape, {vector}, {}, {width}));
    operands.push_back(vector);
  }
  TW_TRY_STATUS(define_statistics(importer, node, input, axis));
  Attributes attributes;
  attributes.epsilon = node.number("epsilon", 1e-5F);
  TW_TRY(ValueId y, importer.emit(node, "", OpKind::layer_norm, operands, attributes));
  if (several) {
    TW_TRY(y, importer.emit(node, ".shape", OpKind::reshape, {y}, {}, shape));
  }
  return importer.define(node, 0, y);
}

// A convolution whose kernel is its stride is a matmul of patches: crop, cut into patches, multiply.
Status import_conv(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId x, node.value(0));
  TW_TRY(ValueId weight, node.value(1));
  const Shape shape = importer.shape(x), kernel = importer.shape(weight);
  const char* const supported = "two-dimensional patch embedding: kernel = stride, no padding, no dilation, one group";
  if (shape.size() != 4 || kernel.size() != 4)
    return node.unsupported(fmt::format("input {} with kernel {}", to_string(shape), to_string(kernel)), supported);
  const std::vector<std::int64_t> strides = node.integers("strides"), pads = node.integers("pads"),
                                  dilations = node.integers("dilations");
  const auto all = [](const std::vector<std::int64_t>& values, std::int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == wanted; });
  };
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  const bool unit = kernel[2] == 1 && kernel[3] == 1;
  const bool patches = (strides == std::vector<std::int64_t>{kernel[2], kernel[3]}) || (unit && all(strides, 1));
  if (!patches || !all(pads, 0) || !all(dilations, 1) || node.integer("group", 1) != 1 || kernel[1] != shape[1] ||
      (auto_pad != "NOTSET" && auto_pad != "VALID"))
    return node.unsupported(
        fmt::format("kernel {}x{}, strides {}, pads {}, group {} on {}", kernel[2], kernel[3], to_string(strides),
                    to_string(pads), node.integer("group", 1), to_string(shape)),
        supported);
  const std::int64_t rows = shape[2] / kernel[2], columns = shape[3] / kernel[3],
                     patch = kernel[1] * kernel[2] * kernel[3];
  if (rows < 1 || columns < 1)
    return node.malformed(fmt::format("kernel {} is larger than {}", to_string(kernel), to_string(shape)));
  Attributes crop;
  crop.starts.assign(4, 0);
  crop.steps.assign(4, 1);
  TW_TRY(x, importer.emit(node, ".crop", OpKind::slice, {x}, crop,
                          {shape[0], shape[1], rows * kernel[2], columns * kernel[3]}));
  TW_TRY(x, importer.emit(node, ".grid", OpKind::reshape, {x}, {},
                          {shape[0], shape[1], rows, kernel[2], columns, kernel[3]}));
  Attributes order;
  order.permutation = {0, 2, 4, 1, 3, 5};
  TW_TRY(x, importer.emit(node, ".patches", OpKind::transpose, {x}, order));
  TW_TRY(x, importer.emit(node, ".rows", OpKind::reshape, {x}, {}, {shape[0], rows * columns, patch}));
  TW_TRY(weight, importer.emit(node, ".flat_weight", OpKind::reshape, {weight}, {}, {kernel[0], patch}));
  TW_TRY(weight, transposed(importer, node, ".weight", weight));
  std::vector<ValueId> operands{x, weight};
  if (node.has(2)) {
    TW_TRY(const ValueId bias, node.value(2));
    operands.push_back(bias);
  }
  TW_TRY(ValueId y, importer.emit(node, ".product", OpKind::matmul, operands));
  Attributes back;
  back.permutation = {0, 2, 1};
  TW_TRY(y, importer.emit(node, ".channels", OpKind::transpose, {y}, back));
  TW_TRY(y, importer.emit(node, "", OpKind::reshape, {y}, {}, {shape[0], kernel[0], rows, columns}));
  return importer.define(node, 0, y);
}

Status import_global_average_pool(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  Attributes attributes;
  attributes.reduction = Reduction::mean;
  for (std::size_t axis = 2; axis < importer.shape(x).size(); ++axis)
    attributes.axes.push_back(static_cast<std::int64_t>(axis));
  if (attributes.axes.empty()) return node.malformed("an input without spatial axes");
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::reduce, {x}, attributes));
  return importer.define(node, 0, y);
}

}  // namespace

std::vector<OperatorEntry> network_operators() {
  return {{"MatMul", import_matmul},
          {"Gemm", import_gemm},
          {"LayerNormalization", import_layer_norm},
          {"Conv", import_conv},
          {"GlobalAveragePool", import_global_average_pool}};
}

}  // namespace tw::compiler
