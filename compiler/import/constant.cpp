#include "compiler/import/constant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw::compiler {
namespace {

constexpr std::int64_t largest_constant = 1 << 20;  // elements; shape arithmetic is far smaller

tl::unexpected<Error> bad(const ConstantNode& node, const std::string& what) {
  return fail(ErrorKind::bad_input, fmt::format("constant {}: {}", node.op_type, what));
}

std::vector<std::int64_t> row_major(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Elements of `in` walked with strides over `shape`.
Constant gathered(const Constant& in, const Shape& shape, const std::vector<std::int64_t>& strides,
                  std::int64_t offset) {
  Constant out{shape, {}, in.integer};
  std::vector<std::int64_t> index(shape.size(), 0);
  const std::int64_t count = elements_of(shape);
  out.values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    out.values.push_back(in.values[static_cast<std::size_t>(offset)]);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

// Nothing when they do not go together or the result would be too large.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  std::int64_t elements = 1;
  for (std::size_t back = 1; back <= shape.size(); ++back) {
    const std::int64_t da = back <= a.size() ? a[a.size() - back] : 1, db = back <= b.size() ? b[b.size() - back] : 1;
    if (da != db && da != 1 && db != 1) return std::nullopt;
    const std::int64_t dim = da == 1 ? db : da;
    if (dim < 0 || (dim > 0 && elements > largest_constant / dim)) return std::nullopt;
    elements *= dim;
    shape[shape.size() - back] = dim;
  }
  return shape;
}

Constant expanded(const Constant& in, const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::vector<std::int64_t> own = row_major(in.shape);
  for (std::size_t back = 1; back <= in.shape.size(); ++back)
    strides[shape.size() - back] = in.shape[in.shape.size() - back] == 1 ? 0 : own[in.shape.size() - back];
  return gathered(in, shape, strides, 0);
}

double binary(const std::string& op, double a, double b, bool integer) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return integer ? std::trunc(a / b) : a / b;
  if (op == "Mod") return a - std::floor(a / b) * b;
  if (op == "Pow") return std::pow(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Equal") return a == b ? 1 : 0;
  if (op == "Greater") return a > b ? 1 : 0;
  if (op == "Less") return a < b ? 1 : 0;
  if (op == "And") return a != 0 && b != 0 ? 1 : 0;
  return a != 0 || b != 0 ? 1 : 0;  // Or
}

bool is_binary(const std::string& op) {
  static const std::vector<std::string> names{"Add", "Sub",   "Mul",     "Div",  "Mod", "Pow", "Min",
                                              "Max", "Equal", "Greater", "Less", "And", "Or"};
  return std::find(names.begin(), names.end(), op) != names.end();
}

Result<std::optional<Constant>> gather(const ConstantNode& node) {
  const Constant &data = *node.inputs[0], &indices = *node.inputs[1];
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t axis = node.axis < 0 ? node.axis + rank : node.axis;
  if (axis < 0 || axis >= rank) return bad(node, fmt::format("axis {} of {}", node.axis, to_string(data.shape)));
  std::int64_t inner = 1, outer = 1;
  for (std::int64_t at = 0; at < rank; ++at) (at < axis ? outer : inner) *= at == axis ? 1 : data.shape[at];
  Constant out{{}, {}, data.integer};
  out.shape.assign(data.shape.begin(), data.shape.begin() + axis);
  out.shape.insert(out.shape.end(), indices.shape.begin(), indices.shape.end());
  out.shape.insert(out.shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  if (out.shape.size() > 64 || indices.count() > largest_constant / std::max<std::int64_t>(1, outer * inner))
    return bad(node, "a result that is too large");
  const std::vector<std::int64_t> wanted = indices.as_integers();
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t index : wanted) {
      const std::int64_t at = index + (index < 0 ? data.shape[axis] : 0);
      if (at < 0 || at >= data.shape[axis]) return bad(node, fmt::format("index {} of {}", index, data.shape[axis]));
      for (std::int64_t i = 0; i < inner; ++i)
        out.values.push_back(data.values[(o * data.shape[axis] + at) * inner + i]);
    }
  return out;
}

Result<std::optional<Constant>> concat(const ConstantNode& node) {
  const auto rank = static_cast<std::int64_t>(node.inputs[0]->shape.size());
  const std::int64_t axis = node.axis < 0 ? node.axis + rank : node.axis;
  if (axis < 0 || axis >= rank) return bad(node, fmt::format("axis {} of rank {}", node.axis, rank));
  Constant out{node.inputs[0]->shape, {}, node.inputs[0]->integer};
  out.shape[axis] = 0;
  std::int64_t outer = 1, elements = 0;
  for (std::int64_t at = 0; at < axis; ++at) outer *= out.shape[at];
  for (const Constant* piece : node.inputs) {
    if (static_cast<std::int64_t>(piece->shape.size()) != rank) return bad(node, "pieces of different rank");
    out.shape[axis] += piece->shape[axis];
    elements += piece->count();
    if (elements > largest_constant) return bad(node, "a result that is too large");
    for (std::int64_t at = 0; at < rank; ++at)
      if (at != axis && piece->shape[at] != out.shape[at]) return bad(node, "pieces of different shapes");
  }
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Constant* piece : node.inputs) {
      const std::int64_t run = outer == 0 ? 0 : piece->count() / outer;
      out.values.insert(out.values.end(), piece->values.begin() + o * run, piece->values.begin() + (o + 1) * run);
    }
  if (elements_of(out.shape) != out.count()) return bad(node, "pieces of different shapes");
  return out;
}

Result<std::optional<Constant>> slice(const ConstantNode& node) {
  const Constant& data = *node.inputs[0];
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::vector<std::int64_t> starts = node.inputs[1]->as_integers(), ends = node.inputs[2]->as_integers();
  std::vector<std::int64_t> axes =
      node.inputs.size() > 3 && node.inputs[3] ? node.inputs[3]->as_integers() : std::vector<std::int64_t>{};
  std::vector<std::int64_t> steps = node.inputs.size() > 4 && node.inputs[4]
                                        ? node.inputs[4]->as_integers()
                                        : std::vector<std::int64_t>(starts.size(), 1);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (axes.size() != starts.size() || ends.size() != starts.size() || steps.size() != starts.size())
    return bad(node, "starts, ends, axes and steps differ in number");
  Shape shape = data.shape;
  std::vector<std::int64_t> strides = row_major(data.shape);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || steps[i] == 0 || data.shape[axis] == 0)
      return bad(node, fmt::format("axis {} or step {}", axes[i], steps[i]));
    const std::int64_t dim = data.shape[axis];
    steps[i] = std::clamp(steps[i], -dim - 1, dim + 1);  // longer steps than the axis all take one element
    const bool forward = steps[i] > 0;
    const std::int64_t start =
        std::clamp<std::int64_t>(starts[i] < 0 ? starts[i] + dim : starts[i], 0, forward ? dim : dim - 1);
    const std::int64_t end = std::clamp<std::int64_t>(ends[i] < 0 ? ends[i] + dim : ends[i], forward ? 0 : -1, dim);
    const std::int64_t size =
        forward ? (end - start + steps[i] - 1) / steps[i] : (start - end - steps[i] - 1) / -steps[i];
    shape[axis] = std::max<std::int64_t>(0, size);
    offset += start * strides[axis];
    strides[axis] *= steps[i];
  }
  if (elements_of(shape) == 0) return Constant{shape, {}, data.integer};
  return gathered(data, shape, strides, offset);
}

}  // namespace

std::vector<std::int64_t> Constant::as_integers() const {
  constexpr double beyond = 9223372036854775808.0;  // 2^63
  std::vector<std::int64_t> integers;
  integers.reserve(values.size());
  for (const double value : values)
    integers.push_back(std::isnan(value) ? 0
                       : value >= beyond ? std::numeric_limits<std::int64_t>::max()
                       : value < -beyond ? std::numeric_limits<std::int64_t>::min()
                                         : static_cast<std::int64_t>(value));
  return integers;
}

Result<std::optional<Constant>> evaluate_constant(const ConstantNode& node) {
  const std::string& op = node.op_type;
  const Constant& x = *node.inputs[0];
  if (is_binary(op) && node.inputs.size() == 2) {
    const Constant& y = *node.inputs[1];
    const auto shape = broadcast(x.shape, y.shape);
    if (!shape) return bad(node, fmt::format("{} and {} do not broadcast", to_string(x.shape), to_string(y.shape)));
    Constant out = expanded(x, *shape);
    const Constant right = expanded(y, *shape);
    const bool integer = x.integer && y.integer;
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      if (integer && (op == "Div" || op == "Mod") && right.values[i] == 0) return bad(node, "division by zero");
      out.values[i] = binary(op, out.values[i], right.values[i], integer);
    }
    const bool comparison = op == "Equal" || op == "Greater" || op == "Less" || op == "And" || op == "Or";
    out.integer = integer || comparison;
    return out;
  }
  if (op == "Identity") return x;
  if (op == "Cast") {
    Constant out = x;
    out.integer = node.to_integer;
    if (node.to_integer)
      for (double& value : out.values) value = node.to_bool ? (value != 0 ? 1.0 : 0.0) : std::trunc(value);
    return out;
  }
  if (op == "Neg" || op == "Sqrt" || op == "Abs" || op == "Floor" || op == "Ceil" || op == "Not" ||
      op == "Reciprocal") {
    Constant out = x;
    for (double& v : out.values)
      v = op == "Neg"     ? -v
          : op == "Sqrt"  ? std::sqrt(v)
          : op == "Abs"   ? std::fabs(v)
          : op == "Floor" ? std::floor(v)
          : op == "Ceil"  ? std::ceil(v)
          : op == "Not"   ? (v == 0 ? 1.0 : 0.0)
                          : 1.0 / v;
    return out;
  }
  if (op == "Gather" && node.inputs.size() == 2) return gather(node);
  if (op == "Concat") return concat(node);
  if (op == "Slice" && node.inputs.size() >= 3) return slice(node);
  if (op == "Where" && node.inputs.size() == 3) {
    const auto first = broadcast(x.shape, node.inputs[1]->shape);
    const auto shape = first ? broadcast(*first, node.inputs[2]->shape) : std::nullopt;
    if (!shape) return bad(node, "operands do not broadcast");
    const Constant condition = expanded(x, *shape), a = expanded(*node.inputs[1], *shape),
                   b = expanded(*node.inputs[2], *shape);
    Constant out = a;
    for (std::size_t i = 0; i < out.values.size(); ++i)
      out.values[i] = condition.values[i] != 0 ? a.values[i] : b.values[i];
    return out;
  }
  if (op == "Range" && node.inputs.size() == 3) {
    if (x.values.empty() || node.inputs[1]->values.empty() || node.inputs[2]->values.empty())
      return bad(node, "an empty limit");
    const double start = x.values[0], limit = node.inputs[1]->values[0], delta = node.inputs[2]->values[0];
    const double count = delta == 0 ? -1 : std::ceil((limit - start) / delta);
    if (!(count >= 0 && count <= static_cast<double>(largest_constant))) return bad(node, "an empty or endless range");
    Constant out{{static_cast<std::int64_t>(count)}, {}, x.integer};
    for (std::int64_t i = 0; i < out.shape[0]; ++i) out.values.push_back(start + static_cast<double>(i) * delta);
    return out;
  }
  if (op == "Expand" && node.inputs.size() == 2) {
    const auto shape = broadcast(x.shape, node.inputs[1]->as_integers());
    if (!shape) return std::optional<Constant>{};
    return expanded(x, *shape);
  }
  if (op == "Transpose") {
    const std::vector<std::int64_t> strides = row_major(x.shape);
    Shape shape;
    std::vector<std::int64_t> permuted;
    for (const std::int64_t axis : node.permutation) {
      if (axis < 0 || axis >= static_cast<std::int64_t>(x.shape.size())) return bad(node, fmt::format("axis {}", axis));
      shape.push_back(x.shape[axis]);
      permuted.push_back(strides[axis]);
    }
    if (shape.size() != x.shape.size()) return bad(node, "permutation of another rank");
    return gathered(x, shape, permuted, 0);
  }
  if (op == "ReduceProd" || op == "ReduceSum") {
    Constant out{{}, {op == "ReduceProd" ? 1.0 : 0.0}, x.integer};
    for (const double value : x.values)
      out.values[0] = op == "ReduceProd" ? out.values[0] * value : out.values[0] + value;
    if (node.keep_dims) out.shape.assign(x.shape.size(), 1);
    return out;
  }
  return std::optional<Constant>{};
}

}  // namespace tw::compiler
