// compiler/import/op_shape.cpp: operators that move or look at elements.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/importer.h"

namespace tw::compiler {
namespace {

// A reshape of numbers stays numbers; of computed values it is a graph operation.
Status define_reshaped(Importer& importer, const NodeView& node, const Shape& shape) {
  if (const Constant* constant = node.constant(0)) {
    if (elements_of(shape) != constant->count())
      return node.malformed(fmt::format("{} elements to {}", constant->count(), to_string(shape)));
    Constant reshaped = *constant;
    reshaped.shape = shape;
    return importer.define(node, 0, std::move(reshaped));
  }
  TW_TRY(const ValueId x, node.value(0));
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::reshape, {x}, {}, shape));
  return importer.define(node, 0, y);
}

Status import_reshape(Importer& importer, const NodeView& node) {
  std::vector<std::int64_t> wanted = node.integers("shape");
  if (node.attribute("shape") == nullptr) {
    TW_TRY(const Constant* constant, node.numbers(1, "shapes"));
    wanted = constant->as_integers();
  }
  const Shape shape = node.shape(0);
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  std::int64_t known = 1, unknown = -1;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted[axis] == 0 && !allow_zero) {
      if (axis >= shape.size())
        return node.malformed(fmt::format("dimension {} is copied from an input of rank {}", axis, shape.size()));
      wanted[axis] = shape[axis];
    }
    if (wanted[axis] == -1) {
      if (unknown >= 0) return node.malformed("two dimensions of -1");
      unknown = static_cast<std::int64_t>(axis);
    } else if (wanted[axis] < 0) {
      return node.malformed(fmt::format("dimension {} is {}", axis, wanted[axis]));
    } else {
      constexpr std::int64_t most = std::int64_t{1} << 40;
      if (wanted[axis] > 0 && known > most / wanted[axis])
        return node.malformed(fmt::format("a shape of {}", to_string(wanted)));
      known *= wanted[axis];
    }
  }
  if (unknown >= 0) {
    if (known == 0 || elements_of(shape) % known != 0)
      return node.malformed(fmt::format("{} does not divide into {} and -1", to_string(shape), known));
    wanted[unknown] = elements_of(shape) / known;
  }
  return define_reshaped(importer, node, wanted);
}

Status import_flatten(Importer& importer, const NodeView& node) {
  const Shape shape = node.shape(0);
  std::int64_t axis = node.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
  if (axis < 0 || axis > static_cast<std::int64_t>(shape.size()))
    return node.malformed(fmt::format("axis {} of rank {}", axis, shape.size()));
  std::int64_t outer = 1;
  for (std::int64_t at = 0; at < axis; ++at) outer *= shape[at];
  return define_reshaped(importer, node, {outer, elements_of(shape) / std::max<std::int64_t>(outer, 1)});
}

Status import_squeeze(Importer& importer, const NodeView& node) {
  const Shape shape = node.shape(0);
  TW_TRY(std::vector<std::int64_t> axes, node.axes(1));
  for (std::int64_t& axis : axes) {
    TW_TRY(axis, node.axis_of(axis, shape.size()));
    if (shape[axis] != 1) return node.malformed(fmt::format("axis {} of {} is not 1", axis, to_string(shape)));
  }
  Shape result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
    if (!(named || (axes.empty() && shape[axis] == 1))) result.push_back(shape[axis]);
  }
  return define_reshaped(importer, node, result);
}

Status import_unsqueeze(Importer& importer, const NodeView& node) {
  Shape shape = node.shape(0);
  TW_TRY(std::vector<std::int64_t> axes, node.axes(1));
  const std::size_t rank = shape.size() + axes.size();
  for (std::int64_t& axis : axes) {
    TW_TRY(axis, node.axis_of(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return node.malformed("an axis is named twice");
  for (const std::int64_t axis : axes) shape.insert(shape.begin() + axis, 1);
  return define_reshaped(importer, node, shape);
}

Status import_transpose(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  Attributes attributes;
  attributes.permutation = node.integers("perm");
  const std::size_t rank = importer.shape(x).size();
  if (node.attribute("perm") == nullptr)
    for (std::size_t axis = rank; axis-- > 0;) attributes.permutation.push_back(static_cast<std::int64_t>(axis));
  for (std::int64_t& axis : attributes.permutation) {
    TW_TRY(axis, node.axis_of(axis, rank));
  }
  std::vector<std::int64_t> sorted = attributes.permutation;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != rank || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return node.malformed("perm is no permutation of the axes");
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::transpose, {x}, attributes));
  return importer.define(node, 0, y);
}

Result<ValueId> emit_slice(Importer& importer, const NodeView& node, const std::string& suffix, ValueId x,
                           std::int64_t axis, std::int64_t start, std::int64_t size, std::int64_t step = 1) {
  Shape sizes = importer.shape(x);
  Attributes attributes;
  attributes.starts.assign(sizes.size(), 0);
  attributes.steps.assign(sizes.size(), 1);
  attributes.starts[axis] = start;
  attributes.steps[axis] = step;
  sizes[axis] = size;
  return importer.emit(node, suffix, OpKind::slice, {x}, attributes, sizes);
}

Status import_slice(Importer& importer, const NodeView& node) {
  TW_TRY(ValueId x, node.value(0));
  const Shape shape = importer.shape(x);
  std::vector<std::int64_t> starts = node.integers("starts"), ends = node.integers("ends"),
                            axes = node.integers("axes"), steps;
  if (node.attribute("starts") == nullptr) {
    TW_TRY(const Constant* s, node.numbers(1, "starts"));
    TW_TRY(const Constant* e, node.numbers(2, "ends"));
    starts = s->as_integers();
    ends = e->as_integers();
    if (node.has(3)) {
      TW_TRY(const Constant* a, node.numbers(3, "axes"));
      axes = a->as_integers();
    }
    if (node.has(4)) {
      TW_TRY(const Constant* t, node.numbers(4, "steps"));
      steps = t->as_integers();
    }
  }
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return node.malformed("starts, ends, axes and steps differ in number");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    TW_TRY(const std::int64_t axis, node.axis_of(axes[i], shape.size()));
    const std::int64_t dim = importer.shape(x)[axis];
    const std::int64_t step =
        std::clamp(steps[i], -dim - 1, dim + 1);  // longer steps than the axis all take one element
    if (step == 0) return node.malformed("a step of 0");
    const bool forward = step > 0;
    const std::int64_t start =
        std::clamp<std::int64_t>(starts[i] < 0 ? starts[i] + dim : starts[i], 0, forward ? dim : dim - 1);
    const std::int64_t end = std::clamp<std::int64_t>(ends[i] < -dim ? -1
                                                      : ends[i] < 0  ? ends[i] + dim
                                                                     : ends[i],
                                                      forward ? 0 : -1, dim);
    const std::int64_t size = forward ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    if (size < 1) return node.unsupported("an empty slice", "slices with elements");
    TW_TRY(x,
           emit_slice(importer, node, i + 1 == starts.size() ? "" : fmt::format(".{}", i), x, axis, start, size, step));
  }
  return importer.define(node, 0, x);
}

Status import_split(Importer& importer, const NodeView& node) {
  TW_TRY(const ValueId x, node.value(0));
  const Shape shape = importer.shape(x);
  TW_TRY(const std::int64_t axis, node.axis_of(node.integer("axis", 0), shape.size()));
  std::vector<std::int64_t> sizes = node.integers("split");
  if (node.has(1)) {
    TW_TRY(const Constant* constant, node.numbers(1, "split sizes"));
    sizes = constant->as_integers();
  }
  const std::int64_t parts = node.proto().output_size();
  if (parts == 0) return node.malformed("no output");
  if (sizes.empty()) {
    const std::int64_t part = (shape[axis] + parts - 1) / parts;  // the last one may be smaller (opset 18)
    for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(std::min(part, shape[axis] - i * part));
  }
  std::int64_t start = 0;
  if (static_cast<std::int64_t>(sizes.size()) != parts)
    return node.malformed(fmt::format("{} sizes for {} outputs", sizes.size(), parts));
  for (std::int64_t i = 0; i < parts; ++i) {
    if (sizes[i] < 1) return node.unsupported("an empty part", "parts with elements");
    TW_TRY(const ValueId part, emit_slice(importer, node, fmt::format(".{}", i), x, axis, start, sizes[i]));
    TW_TRY_STATUS(importer.define(node, static_cast<int>(i), part));
    start += sizes[i];
  }
  return {};
}

Status import_concat(Importer& importer, const NodeView& node) {
  std::vector<ValueId> pieces;
  for (int index = 0; index < node.inputs(); ++index) {
    if (elements_of(node.shape(index)) == 0) continue;
    TW_TRY(const ValueId piece, node.value(index));
    pieces.push_back(piece);
  }
  if (pieces.empty()) return node.unsupported("only empty pieces", "pieces with elements");
  Attributes attributes;
  TW_TRY(attributes.axis, node.axis_of(node.integer("axis", 1), importer.shape(pieces[0]).size()));
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::concat, pieces, attributes));
  return importer.define(node, 0, y);
}

// Gather with constant indices: a slice when they step evenly, else pieces put together again.
Status import_gather(Importer& importer, const NodeView& node) {
  TW_TRY(const Constant* indices, node.numbers(1, "indices"));
  TW_TRY(const ValueId x, node.value(0));
  const Shape shape = importer.shape(x);
  TW_TRY(const std::int64_t axis, node.axis_of(node.integer("axis", 0), shape.size()));
  std::vector<std::int64_t> wanted = indices->as_integers();
  for (std::int64_t& index : wanted) {
    if (index < 0) index += shape[axis];
    if (index < 0 || index >= shape[axis]) return node.malformed(fmt::format("index {} of {}", index, shape[axis]));
  }
  constexpr std::size_t most_pieces = 256;
  if (wanted.empty()) return node.unsupported("no indices", "at least one index");
  const auto count = static_cast<std::int64_t>(wanted.size());
  const std::int64_t step = count > 1 ? wanted[1] - wanted[0] : 1;
  bool even = step != 0;
  for (std::int64_t i = 1; i < count; ++i) even = even && wanted[i] - wanted[i - 1] == step;
  ValueId picked = x;
  if (even) {
    TW_TRY(picked, emit_slice(importer, node, ".pick", x, axis, wanted[0], count, step));
  } else {
    if (wanted.size() > most_pieces)
      return node.unsupported(fmt::format("{} uneven indices", wanted.size()), "even steps, or up to 256 indices");
    std::vector<ValueId> pieces;
    for (std::int64_t i = 0; i < count; ++i) {
      TW_TRY(const ValueId piece, emit_slice(importer, node, fmt::format(".pick{}", i), x, axis, wanted[i], 1));
      pieces.push_back(piece);
    }
    Attributes attributes;
    attributes.axis = axis;
    TW_TRY(picked, importer.emit(node, ".picked", OpKind::concat, pieces, attributes));
  }
  Shape result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), indices->shape.begin(), indices->shape.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::reshape, {picked}, {}, result));
  return importer.define(node, 0, y);
}

Status import_expand(Importer& importer, const NodeView& node) {
  TW_TRY(const Constant* wanted, node.numbers(1, "shapes"));
  TW_TRY(const ValueId x, node.value(0));
  Shape shape = wanted->as_integers();
  const Shape& own = importer.shape(x);
  while (shape.size() < own.size()) shape.insert(shape.begin(), 1);
  for (std::size_t back = 1; back <= own.size(); ++back)
    if (shape[shape.size() - back] == 1) shape[shape.size() - back] = own[own.size() - back];
  TW_TRY(const ValueId y, importer.emit(node, "", OpKind::expand, {x}, {}, shape));
  return importer.define(node, 0, y);
}

Status import_tile(Importer& importer, const NodeView& node) {
  TW_TRY(const Constant* repeats, node.numbers(1, "repeats"));
  TW_TRY(ValueId x, node.value(0));
  const std::vector<std::int64_t> counts = repeats->as_integers();
  constexpr std::int64_t most = 256;
  for (std::size_t axis = 0; axis < counts.size(); ++axis) {
    if (axis >= importer.shape(x).size() || counts[axis] < 1 || counts[axis] > most)
      return node.unsupported(fmt::format("{} repeats of axis {}", counts[axis], axis),
                              "1 to 256 repeats of existing axes");
    if (counts[axis] == 1) continue;
    if (importer.shape(x)[axis] == 1) {
      Shape shape = importer.shape(x);
      shape[axis] = counts[axis];
      TW_TRY(x, importer.emit(node, fmt::format(".{}", axis), OpKind::expand, {x}, {}, shape));
      continue;
    }
    Attributes attributes;
    attributes.axis = static_cast<std::int64_t>(axis);
    TW_TRY(x, importer.emit(node, fmt::format(".{}", axis), OpKind::concat,
                            std::vector<ValueId>(static_cast<std::size_t>(counts[axis]), x), attributes));
  }
  return importer.define(node, 0, x);
}

Status import_shape(Importer& importer, const NodeView& node) {
  const Shape shape = node.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  Constant constant{{}, {}, true};
  for (std::int64_t axis = clamp(node.integer("start", 0)); axis < clamp(node.integer("end", rank)); ++axis)
    constant.values.push_back(static_cast<double>(shape[axis]));
  constant.shape = {constant.count()};
  return importer.define(node, 0, std::move(constant));
}

Status import_size(Importer& importer, const NodeView& node) {
  return importer.define(node, 0, Constant{{}, {static_cast<double>(elements_of(node.shape(0)))}, true});
}

Status import_constant(Importer& importer, const NodeView& node) {
  constexpr std::int64_t small_elements = 4096;
  if (const onnx::AttributeProto* value = node.attribute("value")) {
    TW_TRY(const TensorData data, tensor_data(value->t(), importer.folder(), node.name()));
    if (elements_of(data.shape) > small_elements) {
      TW_TRY(const ValueId parameter, importer.parameter(node.name(), data.shape, data.source));
      return importer.define(node, 0, parameter);
    }
    TW_TRY(Constant constant, tensor_constant(value->t(), importer.folder(), node.name()));
    return importer.define(node, 0, std::move(constant));
  }
  if (const onnx::AttributeProto* value = node.attribute("value_float"))
    return importer.define(node, 0, Constant{{}, {value->f()}, false});
  if (const onnx::AttributeProto* value = node.attribute("value_int"))
    return importer.define(node, 0, Constant{{}, {static_cast<double>(value->i())}, true});
  if (const onnx::AttributeProto* value = node.attribute("value_floats"))
    return importer.define(node, 0,
                           Constant{{value->floats_size()}, {value->floats().begin(), value->floats().end()}, false});
  if (const onnx::AttributeProto* value = node.attribute("value_ints"))
    return importer.define(node, 0, Constant{{value->ints_size()}, {value->ints().begin(), value->ints().end()}, true});
  return node.unsupported("a constant of strings or sparse values", "value, value_float(s), value_int(s)");
}

Status import_constant_of_shape(Importer& importer, const NodeView& node) {
  TW_TRY(const Constant* wanted, node.numbers(0, "shapes"));
  Constant one{{1}, {0.0}, false};
  if (const onnx::AttributeProto* value = node.attribute("value")) {
    TW_TRY(one, tensor_constant(value->t(), importer.folder(), node.name()));
    if (one.count() != 1) return node.malformed("value must have one element");
  }
  const Shape shape = wanted->as_integers();
  std::int64_t elements = 1;
  constexpr std::int64_t most = std::int64_t{1} << 31, small_elements = 1 << 16;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && elements > most / dim))
      return node.malformed(fmt::format("a shape of {}", to_string(shape)));
    elements *= dim;
  }
  if (elements > small_elements) {
    TW_TRY(const ValueId parameter,
           importer.parameter(node.name(), shape, uniform_source(static_cast<float>(one.values[0]), elements)));
    return importer.define(node, 0, parameter);
  }
  return importer.define(
      node, 0, Constant{shape, std::vector<double>(static_cast<std::size_t>(elements), one.values[0]), one.integer});
}

}  // namespace

std::vector<OperatorEntry> shape_operators() {
  return {
      {"Reshape", import_reshape},     {"Flatten", import_flatten},     {"Squeeze", import_squeeze},
      {"Unsqueeze", import_unsqueeze}, {"Transpose", import_transpose}, {"Slice", import_slice},
      {"Split", import_split},         {"Concat", import_concat},       {"Gather", import_gather},
      {"Expand", import_expand},       {"Tile", import_tile},           {"Shape", import_shape},
      {"Size", import_size},           {"Constant", import_constant},   {"ConstantOfShape", import_constant_of_shape}};
}

}  // namespace tw::compiler
