// runtime/reference/rows.cpp: operations along rows and on elements.
#include <algorithm>
#include <cmath>
#include <span>

#include "hw/base/parallel.h"
#include "hw/base/units.h"
#include "hw/number/number.h"
#include "runtime/reference/operations.h"

namespace tw::runtime {
namespace {

// Strides that walk `operand` in step with `shape` under numpy broadcasting.
std::vector<std::int64_t> broadcast_strides(const compiler::Shape& operand, const compiler::Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t back = 1; back <= operand.size(); ++back) {
    const std::int64_t dim = operand[operand.size() - back];
    strides[shape.size() - back] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  return strides;
}

// Calls visit(flat output index, source offset) for all elements of `shape` in row-major order.
template <class Visit>
void walk(const compiler::Shape& shape, const std::vector<std::int64_t>& strides, std::int64_t offset, Visit visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  const std::int64_t count = compiler::elements_of(shape);
  for (std::int64_t flat = 0; flat < count; ++flat) {
    visit(flat, offset);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

Tensor gathered(const Tensor& x, const compiler::Shape& shape, const std::vector<std::int64_t>& strides,
                std::int64_t offset) {
  Tensor result{shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)))};
  walk(shape, strides, offset, [&](std::int64_t flat, std::int64_t from) { result.data[flat] = x.data[from]; });
  return result;
}

std::vector<std::int64_t> row_major(const compiler::Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

float apply(compiler::Binary function, float a, float b) {
  switch (function) {
    case compiler::Binary::add: return a + b;
    case compiler::Binary::subtract: return a - b;
    case compiler::Binary::multiply: return a * b;
    case compiler::Binary::divide: return a / b;
    case compiler::Binary::power: return std::pow(a, b);
    case compiler::Binary::maximum: return std::max(a, b);
    case compiler::Binary::minimum: return std::min(a, b);
  }
  return a;
}

float apply(compiler::Unary function, float x) {
  switch (function) {
    case compiler::Unary::relu: return std::max(x, 0.0F);
    case compiler::Unary::tanh: return std::tanh(x);
    case compiler::Unary::sigmoid: return 1.0F / (1.0F + std::exp(-x));
    case compiler::Unary::exp: return std::exp(x);
    case compiler::Unary::sqrt: return std::sqrt(x);
    case compiler::Unary::erf: return std::erf(x);
    case compiler::Unary::negate: return -x;
    case compiler::Unary::absolute: return std::fabs(x);
    case compiler::Unary::reciprocal: return 1.0F / x;
    case compiler::Unary::log: return std::log(x);
  }
  return x;
}

}  // namespace

namespace {

// Mean and variance of a row: in double, or as the machine holds them: F32 sums of each column group, combined
// pairwise.
struct Moments {
  double mean = 0, variance = 0;
};

Moments exact_moments(std::span<const float> x) {
  Moments moments;
  for (const float value : x) moments.mean += value;
  moments.mean /= static_cast<double>(x.size());
  for (const float value : x) moments.variance += (value - moments.mean) * (value - moments.mean);
  moments.variance /= static_cast<double>(x.size());
  return moments;
}

Moments grouped_moments(std::span<const float> x, std::int64_t groups, std::int64_t unit) {
  const auto width = static_cast<std::int64_t>(x.size());
  const std::int64_t units = ceil_div(width, unit);
  float sum = 0, squares = 0, count = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t begin = std::min(width, unit * balanced_cut(g, units, groups));
    const std::int64_t end = std::min(width, unit * balanced_cut(g + 1, units, groups));
    if (begin == end) continue;
    const auto n = static_cast<float>(end - begin);
    float own = 0, deviations = 0;
    for (std::int64_t j = begin; j < end; ++j) own += x[static_cast<std::size_t>(j)];
    const float mean = own / n;
    for (std::int64_t j = begin; j < end; ++j)
      deviations += (x[static_cast<std::size_t>(j)] - mean) * (x[static_cast<std::size_t>(j)] - mean);
    if (count > 0) {
      const float delta = mean - sum / count;
      squares += deviations + delta * delta * count * n / (count + n);
    } else {
      squares = deviations;
    }
    sum += own;
    count += n;
  }
  return {sum / count, squares / count};
}

}  // namespace

Tensor layer_norm(const compiler::Operation& operation, const Operands& operands, const Rounding& rounding) {
  Tensor result = *operands[0];
  const std::int64_t columns = result.shape.back();
  const auto rows = static_cast<std::size_t>(result.data.size() / static_cast<std::size_t>(columns));
  const auto epsilon = static_cast<float>(operation.attributes.epsilon);
  const bool as_planned = rounding.f16 && rounding.plan != nullptr && rounding.plan->inner_width > 0;
  parallel_for(rows, [&](std::size_t row) {
    const std::span<float> x(result.data.data() + row * static_cast<std::size_t>(columns),
                             static_cast<std::size_t>(columns));
    const Moments moments =
        as_planned ? grouped_moments(x, rounding.plan->inner_groups, rounding.plan->inner_width) : exact_moments(x);
    const auto mean = static_cast<float>(moments.mean);
    const float scale = as_planned
                            ? 1.0F / std::sqrt(static_cast<float>(moments.variance) + epsilon)
                            : static_cast<float>(1.0 / std::sqrt(moments.variance + operation.attributes.epsilon));
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float gamma = operands.size() > 1 ? operands[1]->data[j] : 1.0F;
      const float beta = operands.size() > 2 ? operands[2]->data[j] : 0.0F;
      x[j] = (x[j] - mean) * scale * gamma + beta;
    }
  });
  return result;
}

Tensor softmax(const Operands& operands) {
  Tensor result = *operands[0];
  const std::int64_t columns = result.shape.back();
  for (std::size_t row = 0; row < result.data.size(); row += static_cast<std::size_t>(columns)) {
    float* x = result.data.data() + row;
    const float maximum = *std::max_element(x, x + columns);
    float sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += x[j] = std::exp(x[j] - maximum);
    for (std::int64_t j = 0; j < columns; ++j) x[j] /= sum;
  }
  return result;
}

Tensor gelu(const compiler::Operation& operation, const Operands& operands, const Rounding& rounding) {
  Tensor result = *operands[0];
  if (!operation.attributes.gelu_tanh) {
    for (float& x : result.data) x = 0.5F * x * (1.0F + std::erf(x * 0.7071067811865475F));
    return result;
  }
  // The machine's F16 kernel: products of coefficients rounded to F16, argument clamped to [-8, 8] (docs/fidelity.md).
  const auto rounded = [&](float value) { return rounding.f16 ? hw::round_to_f16(value) : value; };
  const float linear = rounded(0.7978845608F), cubic = rounded(0.044715F * 0.7978845608F);
  for (float& x : result.data) {
    if (rounding.f16) x = hw::round_to_f16(x);
    float u = x * (linear + cubic * x * x);
    if (rounding.f16) u = std::clamp(u, -8.0F, 8.0F);
    x = 0.5F * x * (1.0F + std::tanh(u));
  }
  return result;
}

Tensor unary(const compiler::Operation& operation, const Operands& operands) {
  Tensor result = *operands[0];
  for (float& x : result.data) x = apply(operation.attributes.unary, x);
  return result;
}

Tensor binary(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape) {
  Tensor result{shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)))};
  const Tensor &a = *operands[0], &b = *operands[1];
  if (a.shape == shape && b.shape == shape) {
    for (std::size_t i = 0; i < result.data.size(); ++i)
      result.data[i] = apply(operation.attributes.binary, a.data[i], b.data[i]);
    return result;
  }
  walk(shape, broadcast_strides(a.shape, shape), 0,
       [&](std::int64_t flat, std::int64_t from) { result.data[flat] = a.data[from]; });
  walk(shape, broadcast_strides(b.shape, shape), 0, [&](std::int64_t flat, std::int64_t from) {
    result.data[flat] = apply(operation.attributes.binary, result.data[flat], b.data[from]);
  });
  return result;
}

Tensor reduce(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape) {
  const Tensor& x = *operands[0];
  const bool maximum = operation.attributes.reduction == compiler::Reduction::maximum;
  Tensor result{shape,
                std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)), maximum ? -INFINITY : 0.0F)};
  std::vector<double> sums(result.data.size(), 0.0);
  // Strides of the result along the axes of x: zero where reduced.
  std::vector<std::int64_t> strides(x.shape.size(), 0);
  std::int64_t stride = 1, count = 1;
  for (std::size_t axis = x.shape.size(); axis-- > 0;) {
    const auto& axes = operation.attributes.axes;
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end()) {
      count *= x.shape[axis];
    } else {
      strides[axis] = stride;
      stride *= x.shape[axis];
    }
  }
  walk(x.shape, strides, 0, [&](std::int64_t flat, std::int64_t to) {
    sums[to] += x.data[flat];
    result.data[to] = std::max(result.data[to], x.data[flat]);
  });
  if (!maximum)
    for (std::size_t i = 0; i < sums.size(); ++i)
      result.data[i] = static_cast<float>(
          operation.attributes.reduction == compiler::Reduction::mean ? sums[i] / static_cast<double>(count) : sums[i]);
  return result;
}

Tensor transpose(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape) {
  const std::vector<std::int64_t> strides = row_major(operands[0]->shape);
  std::vector<std::int64_t> permuted;
  for (const std::int64_t axis : operation.attributes.permutation) permuted.push_back(strides[axis]);
  return gathered(*operands[0], shape, permuted, 0);
}

Tensor slice(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape) {
  std::vector<std::int64_t> strides = row_major(operands[0]->shape);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    offset += operation.attributes.starts[axis] * strides[axis];
    strides[axis] *= operation.attributes.steps[axis];
  }
  return gathered(*operands[0], shape, strides, offset);
}

Tensor concat(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape) {
  Tensor result{shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)))};
  const auto axis = static_cast<std::size_t>(operation.attributes.axis);
  std::int64_t inner = 1, outer = 1, begin = 0;
  for (std::size_t at = 0; at < shape.size(); ++at) (at < axis ? outer : inner) *= at == axis ? 1 : shape[at];
  for (const Tensor* piece : operands) {
    const std::int64_t run = piece->shape[axis] * inner;
    for (std::int64_t o = 0; o < outer; ++o)
      std::copy_n(piece->data.begin() + o * run, run, result.data.begin() + (o * shape[axis] + begin) * inner);
    begin += piece->shape[axis];
  }
  return result;
}

Tensor expand(const Operands& operands, const compiler::Shape& shape) {
  return gathered(*operands[0], shape, broadcast_strides(operands[0]->shape, shape), 0);
}

}  // namespace tw::runtime
