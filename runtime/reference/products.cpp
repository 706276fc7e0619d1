// runtime/reference/products.cpp: matmul and attention with Eigen.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "compiler/plan/attention_form.h"
#include "hw/base/parallel.h"
#include "hw/base/units.h"
#include "hw/kernel/kernel.h"
#include "hw/number/number.h"
#include "runtime/reference/operations.h"

namespace tw::runtime {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using Map = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

void round_all(Matrix& matrix) {
  float* values = matrix.data();
  for (Eigen::Index i = 0; i < matrix.size(); ++i) values[i] = hw::round_to_f16(values[i]);
}

// out = a * b, rows cut into fixed stripes so that any number of threads gives the same bits.
void multiply(const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b, Map out) {
  constexpr Eigen::Index stripe = 128;
  const auto stripes = static_cast<std::size_t>(ceil_div(a.rows(), stripe));
  parallel_for(stripes, [&](std::size_t index) {
    const Eigen::Index first = static_cast<Eigen::Index>(index) * stripe, rows = std::min(stripe, a.rows() - first);
    out.middleRows(first, rows).noalias() = a.middleRows(first, rows) * b;
  });
}

// Inner elements of each stored panel, as runs: column groups start a panel anew or share one for their tails, and pads
// are not multiplied.
struct InnerRun {
  Eigen::Index from = 0, width = 0;
};
using InnerPanel = std::vector<InnerRun>;

std::vector<InnerPanel> inner_panels(Eigen::Index inner, std::int64_t panel, const hw::PlannedOperation* plan) {
  hw::ColumnGroups order{1, static_cast<std::int32_t>(inner), static_cast<std::int32_t>(round_up(inner, panel))};
  if (plan != nullptr && plan->inner_width > 0) {
    order = {static_cast<std::int32_t>(inner / plan->inner_width), plan->inner_width, plan->inner_padded,
             plan->inner_tail_share};
    if (order.tail_share <= 1) order.padded = static_cast<std::int32_t>(round_up(order.padded, panel));
  }
  std::vector<InnerPanel> panels(static_cast<std::size_t>(order.stored() / panel));
  for (std::int64_t stored = 0; stored < order.stored(); ++stored) {
    const std::int64_t column = order.column_of(stored);
    if (column < 0) continue;
    InnerPanel& runs = panels[static_cast<std::size_t>(stored / panel)];
    if (!runs.empty() && runs.back().from + runs.back().width == column)
      ++runs.back().width;
    else
      runs.push_back({column, 1});
  }
  return panels;
}

// The product with the machine's accumulation: within each inner group the accumulator is rounded to F16 after every
// panel; the groups' partial sums are added in F32.
void multiply_rounded(const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b,
                      const std::vector<InnerPanel>& panels, std::int64_t groups, Map out) {
  constexpr Eigen::Index stripe = 32;
  const auto stripes = static_cast<std::size_t>(ceil_div(a.rows(), stripe));
  const auto count = static_cast<std::int64_t>(panels.size());
  parallel_for(stripes, [&](std::size_t index) {
    const Eigen::Index first = static_cast<Eigen::Index>(index) * stripe, rows = std::min(stripe, a.rows() - first);
    Matrix sum = Matrix::Zero(rows, b.cols()), accumulator, product;
    for (std::int64_t group = 0; group < groups; ++group) {
      accumulator.setZero(rows, b.cols());
      for (std::int64_t p = balanced_cut(group, count, groups); p < balanced_cut(group + 1, count, groups); ++p) {
        if (panels[p].empty()) continue;
        product.setZero(rows, b.cols());
        for (const InnerRun& run : panels[p])
          product.noalias() += a.block(first, run.from, rows, run.width) * b.middleRows(run.from, run.width);
        accumulator += product;
        round_all(accumulator);
      }
      sum += accumulator;
    }
    out.middleRows(first, rows) = sum;
  });
}

// out += a * b, rounded to F16 after each panel of inner elements when the machine would (panel 0: it would not).
void accumulate(const Matrix& a, const Matrix& b, Eigen::Index panel, Matrix& out) {
  if (panel == 0) {
    out.noalias() += a * b;
    return;
  }
  for (Eigen::Index from = 0; from < a.cols(); from += panel) {
    const Eigen::Index width = std::min<Eigen::Index>(panel, a.cols() - from);
    out.noalias() += a.middleCols(from, width) * b.middleRows(from, width);
    round_all(out);
  }
}

// Copies the last two axes of every matrix transposed.
Tensor swapped(const Tensor& x) {
  Tensor result{x.shape, std::vector<float>(x.data.size())};
  const std::size_t axes = x.shape.size();
  const std::int64_t rows = x.shape[axes - 2], columns = x.shape[axes - 1];
  std::swap(result.shape[axes - 1], result.shape[axes - 2]);
  for (std::int64_t matrix = 0; matrix < static_cast<std::int64_t>(x.data.size()) / (rows * columns); ++matrix)
    Eigen::Map<Matrix>(result.data.data() + matrix * rows * columns, columns, rows) =
        Eigen::Map<const Matrix>(x.data.data() + matrix * rows * columns, rows, columns).transpose();
  return result;
}

// Index of the matrix of `operand` that output matrix `index` uses, under numpy broadcasting of the leading axes.
std::int64_t broadcast_matrix(std::int64_t index, const compiler::Shape& shape, const compiler::Shape& operand) {
  std::int64_t result = 0, stride = 1;
  for (std::size_t back = 3; back <= shape.size(); ++back) {
    const std::int64_t dim = shape[shape.size() - back], digit = index % dim;
    index /= dim;
    const std::int64_t own = back <= operand.size() ? operand[operand.size() - back] : 1;
    result += (own == 1 ? 0 : digit) * stride;
    stride *= own;
  }
  return result;
}

}  // namespace

void round_to_f16(Tensor& tensor) {
  for (float& value : tensor.data) value = hw::round_to_f16(value);
}

void round_to_f143(std::vector<float>& values, int scale_exponent) {
  std::vector<std::byte> bytes(values.size());
  hw::encode(hw::NumberFormat::f143, values, scale_exponent, bytes);
  hw::decode(hw::NumberFormat::f143, bytes, scale_exponent, values);
}

Tensor matmul(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape,
              const Rounding& rounding) {
  Tensor left = operation.attributes.transpose_a ? swapped(*operands[0]) : *operands[0];
  Tensor right = operation.attributes.transpose_b ? swapped(*operands[1]) : *operands[1];
  const bool f8 = rounding.plan != nullptr && rounding.plan->left_f8;
  if (rounding.f16) {
    f8 ? round_to_f143(left.data, rounding.plan->left_scale_exponent) : round_to_f16(left);
    f8 ? round_to_f143(right.data, rounding.plan->right_scale_exponent) : round_to_f16(right);
  }
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back(), inner = left.shape.back();
  const std::int64_t groups = rounding.plan != nullptr ? rounding.plan->inner_groups : 1;
  const auto product = [&](const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b, const Map& out) {
    if (!rounding.f16) return multiply(a, b, out);
    const int panel = hw::panel_width(f8 ? hw::NumberFormat::f143 : hw::NumberFormat::f16);
    multiply_rounded(a, b, inner_panels(a.cols(), panel, rounding.plan), groups, out);
  };
  Tensor result{shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)))};
  const bool one_right = compiler::elements_of(right.shape) == inner * columns;
  const std::int64_t matrices = compiler::elements_of(shape) / (rows * columns);
  const bool left_is_whole = compiler::elements_of(left.shape) == matrices * rows * inner;
  if (one_right && left_is_whole) {
    product(Eigen::Map<const Matrix>(left.data.data(), matrices * rows, inner),
            Eigen::Map<const Matrix>(right.data.data(), inner, columns),
            Map(result.data.data(), matrices * rows, columns, Eigen::OuterStride<>(columns)));
  } else {
    for (std::int64_t matrix = 0; matrix < matrices; ++matrix)
      product(Eigen::Map<const Matrix>(left.data.data() + broadcast_matrix(matrix, shape, left.shape) * rows * inner,
                                       rows, inner),
              Eigen::Map<const Matrix>(
                  right.data.data() + broadcast_matrix(matrix, shape, right.shape) * inner * columns, inner, columns),
              Map(result.data.data() + matrix * rows * columns, rows, columns, Eigen::OuterStride<>(columns)));
  }
  if (operands.size() > 2)
    for (std::int64_t row = 0; row < matrices * rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        result.data[row * columns + column] += operands[2]->data[column];
  return result;
}

Tensor attention(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape,
                 const Rounding& rounding) {
  const compiler::Shape &q = operands[0]->shape, &k = operands[1]->shape, &v = operands[2]->shape;
  const std::int64_t heads = operation.attributes.heads, width = q[2] / heads, value_width = v[2] / heads;
  const std::int64_t queries = q[1], keys = k[1];
  const auto scale = static_cast<float>(operation.attributes.scale);
  const hw::PlannedOperation* plan = rounding.f16 ? rounding.plan : nullptr;
  const bool f8 = plan != nullptr && plan->left_f8;
  const int panel = f8 ? 32 : rounding.f16 ? 16 : 0;
  const Eigen::Index width_panel = f8 ? plan->inner_width : panel;
  Tensor result{shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(shape)))};
  parallel_for(static_cast<std::size_t>(q[0] * heads), [&](std::size_t index) {
    const std::int64_t batch = static_cast<std::int64_t>(index) / heads,
                       head = static_cast<std::int64_t>(index) % heads;
    const auto part = [&](const Tensor& tensor, std::int64_t tokens, std::int64_t part_width, int scale_exponent) {
      const std::int64_t stride = tensor.shape[2];
      Matrix matrix = ConstMap(tensor.data.data() + batch * tokens * stride + head * part_width, tokens, part_width,
                               Eigen::OuterStride<>(stride));
      const float unit = std::ldexp(1.0F, scale_exponent);
      if (f8)
        for (float& value : matrix.reshaped()) value = hw::round_to_f143(value / unit) * unit;
      else if (rounding.f16)
        for (float& value : matrix.reshaped()) value = hw::round_to_f16(value);
      return matrix;
    };
    const Matrix query = part(*operands[0], queries, width, f8 ? plan->left_scale_exponent : 0);
    const Matrix key = part(*operands[1], keys, width, f8 ? plan->right_scale_exponent : 0);
    const Matrix value = part(*operands[2], keys, value_width, f8 ? plan->value_scale_exponent : 0);
    const std::int64_t groups = plan != nullptr ? plan->inner_groups : 1;
    const std::int64_t key_unit = f8 ? 32 : 16;
    const float probability_unit = std::ldexp(1.0F, compiler::probability_scale_exponent);
    Matrix scores = Matrix::Zero(queries, keys);
    accumulate(query, key.transpose(), width_panel, scores);
    // Key groups: each has its own maximum; weighted values are divided by the sum of all groups at the end.
    Matrix weighted = Matrix::Zero(queries, value_width);
    Eigen::VectorXf maximum = Eigen::VectorXf::Constant(queries, -INFINITY), sum = Eigen::VectorXf::Zero(queries);
    std::vector<Eigen::VectorXf> group_maximum;
    std::vector<Matrix> parts;
    std::vector<Eigen::VectorXf> group_sum;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t panels = ceil_div(keys, key_unit);
      const std::int64_t begin = key_unit * balanced_cut(group, panels, groups);
      const std::int64_t end = std::min<std::int64_t>(keys, key_unit * balanced_cut(group + 1, panels, groups));
      Matrix p = scores.middleCols(begin, end - begin) * scale;
      Eigen::VectorXf top = Eigen::VectorXf::Constant(queries, -INFINITY), total = Eigen::VectorXf::Zero(queries);
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t allowed =
            operation.attributes.causal ? std::clamp<std::int64_t>(i + 1 - begin, 0, end - begin) : end - begin;
        for (std::int64_t j = 0; j < allowed; ++j) top(i) = std::max(top(i), p(i, j));
        for (std::int64_t j = 0; j < end - begin; ++j) {
          p(i, j) = j < allowed ? std::exp(p(i, j) - top(i)) : 0.0F;
          if (f8)
            p(i, j) = hw::round_to_f143(p(i, j) / probability_unit) * probability_unit;
          else if (rounding.f16)
            p(i, j) = hw::round_to_f16(p(i, j));
          total(i) += p(i, j);
        }
      }
      Matrix part_sum = Matrix::Zero(queries, value_width);
      accumulate(p, value.middleRows(begin, end - begin), panel, part_sum);
      maximum = maximum.cwiseMax(top);
      group_maximum.push_back(std::move(top));
      group_sum.push_back(std::move(total));
      parts.push_back(std::move(part_sum));
    }
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t i = 0; i < queries; ++i) {
        if (group_sum[group](i) == 0) continue;
        const float weight = std::exp(group_maximum[group](i) - maximum(i));
        sum(i) += weight * group_sum[group](i);
        weighted.row(i) += weight * parts[group].row(i);
      }
    for (std::int64_t i = 0; i < queries; ++i) {
      float* out = result.data.data() + (batch * queries + i) * shape[2] + head * value_width;
      for (std::int64_t j = 0; j < value_width; ++j) out[j] = weighted(i, j) / sum(i);
    }
  });
  return result;
}

}  // namespace tw::runtime
