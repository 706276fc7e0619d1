// compiler/canonical/constants.cpp: folds operations whose operands are all parameters; drops operations that do
// nothing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/canonical/rewriter.h"

namespace tw::compiler {
namespace {

using Values = std::span<const std::vector<float>>;

std::vector<std::int64_t> row_major(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Fills out[i] = value(source offset) over `shape` with strides on a source.
void gather(const Shape& shape, const std::vector<std::int64_t>& strides, std::int64_t offset, std::span<float> out,
            std::span<const float> in) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (float& value : out) {
    value = in[static_cast<std::size_t>(offset)];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::vector<std::int64_t> own = row_major(operand);
  for (std::size_t back = 1; back <= operand.size(); ++back)
    strides[shape.size() - back] = operand[operand.size() - back] == 1 ? 0 : own[operand.size() - back];
  return strides;
}

float apply(Binary function, float a, float b) {
  switch (function) {
    case Binary::add: return a + b;
    case Binary::subtract: return a - b;
    case Binary::multiply: return a * b;
    case Binary::divide: return a / b;
    case Binary::power: return std::pow(a, b);
    case Binary::maximum: return std::max(a, b);
    case Binary::minimum: return std::min(a, b);
  }
  return a;
}

float apply(Unary function, float x) {
  switch (function) {
    case Unary::relu: return std::max(x, 0.0F);
    case Unary::tanh: return std::tanh(x);
    case Unary::sigmoid: return 1.0F / (1.0F + std::exp(-x));
    case Unary::exp: return std::exp(x);
    case Unary::sqrt: return std::sqrt(x);
    case Unary::erf: return std::erf(x);
    case Unary::negate: return -x;
    case Unary::absolute: return std::fabs(x);
    case Unary::reciprocal: return 1.0F / x;
    case Unary::log: return std::log(x);
  }
  return x;
}

using Compute = std::function<void(Values, std::span<float>)>;

// How to compute the operation from its operands' numbers; nothing when it is not folded.
Compute compute_of(const Rewriter& rewriter, const Operation& operation) {
  const Attributes attributes = operation.attributes;
  const Shape shape = rewriter.shape(operation.results[0]);
  const Shape x = rewriter.shape(operation.operands[0]);
  switch (operation.kind) {
    case OpKind::reshape:
      return [](Values in, std::span<float> out) { std::copy(in[0].begin(), in[0].end(), out.begin()); };
    case OpKind::transpose: {
      std::vector<std::int64_t> strides;
      for (const std::int64_t axis : attributes.permutation) strides.push_back(row_major(x)[axis]);
      return [=](Values in, std::span<float> out) { gather(shape, strides, 0, out, in[0]); };
    }
    case OpKind::slice: {
      std::vector<std::int64_t> strides = row_major(x);
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < strides.size(); ++axis) {
        offset += attributes.starts[axis] * strides[axis];
        strides[axis] *= attributes.steps[axis];
      }
      return [=](Values in, std::span<float> out) { gather(shape, strides, offset, out, in[0]); };
    }
    case OpKind::expand: {
      const std::vector<std::int64_t> strides = broadcast_strides(x, shape);
      return [=](Values in, std::span<float> out) { gather(shape, strides, 0, out, in[0]); };
    }
    case OpKind::unary:
      return [=](Values in, std::span<float> out) {
        std::transform(in[0].begin(), in[0].end(), out.begin(), [&](float v) { return apply(attributes.unary, v); });
      };
    case OpKind::binary: {
      const auto a = broadcast_strides(x, shape), b = broadcast_strides(rewriter.shape(operation.operands[1]), shape);
      return [=](Values in, std::span<float> out) {
        std::vector<float> right(out.size());
        gather(shape, a, 0, out, in[0]);
        gather(shape, b, 0, right, in[1]);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = apply(attributes.binary, out[i], right[i]);
      };
    }
    case OpKind::matmul: {
      // Only two-axis products: projections of learned constants such as a probe.
      const Shape b = rewriter.shape(operation.operands[1]);
      if (attributes.transpose_a || attributes.transpose_b || b.size() != 2) return {};
      const std::int64_t inner = b[0], columns = b[1], rows = elements_of(x) / inner;
      return [=](Values in, std::span<float> out) {
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            double sum = in.size() > 2 ? in[2][j] : 0.0;
            for (std::int64_t k = 0; k < inner; ++k)
              sum += static_cast<double>(in[0][i * inner + k]) * in[1][k * columns + j];
            out[i * columns + j] = static_cast<float>(sum);
          }
      };
    }
    case OpKind::concat: {
      const auto axis = static_cast<std::size_t>(attributes.axis);
      std::vector<std::int64_t> runs;
      std::int64_t inner = 1;
      for (std::size_t at = axis + 1; at < shape.size(); ++at) inner *= shape[at];
      for (const ValueId operand : operation.operands) runs.push_back(rewriter.shape(operand)[axis] * inner);
      const std::int64_t outer = elements_of(shape) / (shape[axis] * inner);
      return [=](Values in, std::span<float> out) {
        auto to = out.begin();
        for (std::int64_t o = 0; o < outer; ++o)
          for (std::size_t piece = 0; piece < in.size(); ++piece)
            to = std::copy_n(in[piece].begin() + o * runs[piece], runs[piece], to);
      };
    }
    default: return {};
  }
}

}  // namespace

bool fold_constants(Rewriter& rewriter, OperationId id) {
  const Operation operation = rewriter.operation(id);
  if (operation.kind == OpKind::repeat || operation.operands.empty()) return false;
  for (const ValueId operand : operation.operands)
    if (!rewriter.is_parameter(operand)) return false;
  const Compute compute = compute_of(rewriter, operation);
  if (!compute) return false;
  const Shape shape = rewriter.shape(operation.results[0]);
  std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs;
  bool uniform = true;
  for (const ValueId operand : operation.operands) {
    inputs.emplace_back(rewriter.graph().value(operand).source, elements_of(rewriter.shape(operand)));
    uniform = uniform && inputs.back().first->uniform().has_value();
  }
  const std::int64_t elements = elements_of(shape);
  TensorSourcePtr source = computed_source(inputs, elements, compute);
  // Small results are computed now, so that later patterns can look at their numbers; large ones stay on demand.
  constexpr std::int64_t computed_now = 4096;
  const bool elementwise = operation.kind == OpKind::unary || operation.kind == OpKind::binary ||
                           operation.kind == OpKind::reshape || operation.kind == OpKind::expand ||
                           operation.kind == OpKind::transpose || operation.kind == OpKind::slice;
  constexpr std::int64_t largest_uniform = 1 << 24;
  if (elements <= computed_now || (uniform && elementwise && elements <= largest_uniform)) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    if (!source->read(values)) return false;
    const bool same = std::all_of(values.begin(), values.end(), [&](float value) { return value == values.front(); });
    source = same ? uniform_source(values.front(), elements) : dense_source(std::move(values));
  }
  const ValueId folded = rewriter.add_parameter(operation.name, shape, std::move(source));
  rewriter.replace_uses(operation.results[0], folded);
  rewriter.erase(id);
  return true;
}

bool drop_identity(Rewriter& rewriter, OperationId id) {
  const Operation operation = rewriter.operation(id);
  if (operation.operands.empty()) return false;
  const ValueId x = operation.operands[0], result = operation.results[0];
  bool identity = false;
  switch (operation.kind) {
    case OpKind::reshape:
    case OpKind::expand: identity = rewriter.shape(x) == rewriter.shape(result); break;
    case OpKind::slice:
      identity = rewriter.shape(x) == rewriter.shape(result) &&
                 std::all_of(operation.attributes.steps.begin(), operation.attributes.steps.end(),
                             [](std::int64_t step) { return step == 1; });
      break;
    case OpKind::transpose:
      identity = std::is_sorted(operation.attributes.permutation.begin(), operation.attributes.permutation.end());
      break;
    case OpKind::concat: identity = operation.operands.size() == 1; break;
    case OpKind::reduce:
      identity = operation.attributes.keep_dims && rewriter.shape(x) == rewriter.shape(result);
      break;
    case OpKind::binary: {
      const std::optional<float> b = rewriter.constant(operation.operands[1]);
      const Binary function = operation.attributes.binary;
      const bool neutral =
          b && ((*b == 0 && (function == Binary::add || function == Binary::subtract)) ||
                (*b == 1 && (function == Binary::multiply || function == Binary::divide || function == Binary::power)));
      identity = neutral && rewriter.shape(x) == rewriter.shape(result);
      break;
    }
    default: break;
  }
  if (!identity) return false;
  rewriter.replace_uses(result, x);
  rewriter.erase(id);
  return true;
}

// Two reshapes, or two transposes, in a row are one.
bool merge_views(Rewriter& rewriter, OperationId id) {
  const Operation operation = rewriter.operation(id);
  if (operation.kind != OpKind::reshape && operation.kind != OpKind::transpose) return false;
  const Operation* first = rewriter.producer(operation.operands[0], operation.kind);
  if (first == nullptr) return false;
  const ValueId x = first->operands[0];
  Attributes attributes;
  if (operation.kind == OpKind::transpose)
    for (const std::int64_t axis : operation.attributes.permutation)
      attributes.permutation.push_back(first->attributes.permutation[axis]);
  const ValueId merged = rewriter.insert(id, operation.kind, operation.name + ".merged", {x}, attributes,
                                         rewriter.shape(operation.results[0]));
  rewriter.replace_uses(operation.results[0], merged);
  rewriter.erase(id);
  return true;
}

}  // namespace tw::compiler
