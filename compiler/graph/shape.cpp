// compiler/graph/shape.cpp: shape inference of every graph operation.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/graph.h"

namespace tw::compiler {
namespace {

tl::unexpected<Error> bad(const Operation& operation, std::string what) {
  return fail(ErrorKind::bad_input,
              fmt::format("operation \"{}\" ({}): {}", operation.name, name_of(operation.kind), what),
              {{"node", operation.name}});
}

Result<Shape> broadcast(const Operation& operation, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t axis = 0; axis < result.size(); ++axis) {
    const std::size_t from_end = result.size() - axis;
    const std::int64_t da = from_end <= a.size() ? a[a.size() - from_end] : 1;
    const std::int64_t db = from_end <= b.size() ? b[b.size() - from_end] : 1;
    if (da != db && da != 1 && db != 1)
      return bad(operation, fmt::format("{} and {} do not broadcast", to_string(a), to_string(b)));
    result[axis] = da == 1 ? db : da;
  }
  return result;
}

Result<Shape> matmul_shape(const Operation& operation, std::span<const Shape> operands) {
  Shape a = operands[0], b = operands[1];
  if (a.size() < 2 || b.size() < 2)
    return bad(operation, "operands need two axes at least; vectors are reshaped on import");
  if (operation.attributes.transpose_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (operation.attributes.transpose_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2])
    return bad(operation,
               fmt::format("inner extents differ: {} and {}", to_string(operands[0]), to_string(operands[1])));
  const Shape batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
  auto result = broadcast(operation, batch_a, batch_b);
  if (!result) return result;
  result->push_back(a[a.size() - 2]);
  result->push_back(b.back());
  if (operands.size() > 2 && (operands[2].size() != 1 || operands[2][0] != b.back()))
    return bad(operation, fmt::format("bias {} for {} columns", to_string(operands[2]), b.back()));
  return result;
}

Result<Shape> attention_shape(const Operation& operation, std::span<const Shape> operands) {
  const Shape &q = operands[0], &k = operands[1], &v = operands[2];
  const std::int64_t heads = operation.attributes.heads;
  if (q.size() != 3 || k.size() != 3 || v.size() != 3) return bad(operation, "q, k and v need three axes");
  if (q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || q[2] != k[2] || heads < 1 || q[2] % heads || v[2] % heads)
    return bad(operation, fmt::format("q {}, k {}, v {} with {} heads do not belong together", to_string(q),
                                      to_string(k), to_string(v), heads));
  return Shape{q[0], q[1], v[2]};
}

}  // namespace

Result<Shape> infer_shape(const Operation& operation, std::span<const Shape> operands, const Shape& wanted) {
  const Attributes& attributes = operation.attributes;
  const std::size_t least = operation.kind == OpKind::matmul || operation.kind == OpKind::binary ? 2
                            : operation.kind == OpKind::attention                                ? 3
                                                                                                 : 1;
  if (operands.size() < least)
    return bad(operation, fmt::format("{} operands, at least {} are needed", operands.size(), least));
  const Shape& x = operands[0];
  switch (operation.kind) {
    case OpKind::matmul: return matmul_shape(operation, operands);
    case OpKind::attention: return attention_shape(operation, operands);
    case OpKind::layer_norm:
      for (std::size_t extra = 1; extra < operands.size(); ++extra)
        if (x.empty() || operands[extra].size() != 1 || operands[extra][0] != x.back())
          return bad(operation, fmt::format("gamma or beta {} for {}", to_string(operands[extra]), to_string(x)));
      return x;
    case OpKind::softmax:
    case OpKind::gelu:
    case OpKind::unary: return x;
    case OpKind::binary: return broadcast(operation, x, operands[1]);
    case OpKind::reduce: {
      Shape result;
      for (std::size_t axis = 0; axis < x.size(); ++axis) {
        const bool reduced = std::find(attributes.axes.begin(), attributes.axes.end(),
                                       static_cast<std::int64_t>(axis)) != attributes.axes.end();
        if (!reduced) result.push_back(x[axis]);
        if (reduced && attributes.keep_dims) result.push_back(1);
      }
      return result;
    }
    case OpKind::reshape:
      if (elements_of(x) != elements_of(wanted))
        return bad(operation, fmt::format("{} to {}", to_string(x), to_string(wanted)));
      return wanted;
    case OpKind::transpose: {
      if (attributes.permutation.size() != x.size()) return bad(operation, "permutation of another rank");
      Shape result;
      for (const std::int64_t axis : attributes.permutation) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(x.size()))
          return bad(operation, fmt::format("axis {} of {}", axis, to_string(x)));
        result.push_back(x[axis]);
      }
      return result;
    }
    case OpKind::slice:
      if (attributes.starts.size() != x.size() || attributes.steps.size() != x.size() || wanted.size() != x.size())
        return bad(operation, "starts, steps or sizes of another rank");
      for (std::size_t axis = 0; axis < x.size(); ++axis) {
        const std::int64_t first = attributes.starts[axis], last = first + (wanted[axis] - 1) * attributes.steps[axis];
        if (wanted[axis] < 1 || first < 0 || first >= x[axis] || last < 0 || last >= x[axis])
          return bad(operation, fmt::format("{} elements from {} in steps of {} of axis {} of {}", wanted[axis], first,
                                            attributes.steps[axis], axis, to_string(x)));
      }
      return wanted;
    case OpKind::concat: {
      Shape result = x;
      const auto axis = static_cast<std::size_t>(attributes.axis);
      if (axis >= x.size()) return bad(operation, fmt::format("axis {} of {}", axis, to_string(x)));
      for (std::size_t piece = 1; piece < operands.size(); ++piece) {
        if (operands[piece].size() != x.size()) return bad(operation, "pieces of different rank");
        for (std::size_t at = 0; at < x.size(); ++at)
          if (at != axis && operands[piece][at] != x[at])
            return bad(operation, fmt::format("{} beside {}", to_string(operands[piece]), to_string(x)));
        result[axis] += operands[piece][axis];
      }
      return result;
    }
    case OpKind::expand: {
      auto result = broadcast(operation, x, wanted);
      if (result && *result != wanted) return bad(operation, fmt::format("{} to {}", to_string(x), to_string(wanted)));
      return result;
    }
    case OpKind::repeat: return x;
  }
  return x;
}

}  // namespace tw::compiler
