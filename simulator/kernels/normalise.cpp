// simulator/kernels/normalise.cpp: layer norm in two passes, softmax, attention's softmax and merge, row reductions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "hw/base/units.h"
#include "simulator/kernels/kernels.h"

namespace tw::sim {
namespace {

// A pair of F32 in tile memory: (sum, M2) of layer norm, (maximum, sum) of attention.
struct Pair {
  float first = 0, second = 0;
};

Pair load_pair(const std::byte* base, std::int64_t index) {
  Pair pair;
  std::memcpy(&pair, base + index * static_cast<std::int64_t>(sizeof pair), sizeof pair);
  return pair;
}

void store_pair(std::byte* base, std::int64_t index, Pair pair) {
  std::memcpy(base + index * static_cast<std::int64_t>(sizeof pair), &pair, sizeof pair);
}

float rounded(hw::NumberFormat format, float value) {
  return format == hw::NumberFormat::f16 ? hw::round_to_f16(value) : value;
}

// Columns that group g of a layer norm owns (hw/kernel/kernel.h).
std::int64_t group_columns(const hw::KernelParams& p, std::int64_t group) {
  const std::int64_t units = ceil_div(p.total_columns, p.column_unit);
  const auto cut = [&](std::int64_t at) {
    return std::min<std::int64_t>(p.total_columns, p.column_unit * balanced_cut(at, units, p.groups));
  };
  return cut(group + 1) - cut(group);
}

}  // namespace

void run_layer_norm_statistics(const hw::KernelParams& p, const OperandPointers& operands) {
  const std::vector<float> x = load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3]);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const float* row = x.data() + i * p.columns;
    float sum = 0;
    for (std::int64_t j = 0; j < p.columns; ++j) sum += row[j];
    const float mean = sum / static_cast<float>(p.columns);
    float m2 = 0;
    for (std::int64_t j = 0; j < p.columns; ++j) m2 += (row[j] - mean) * (row[j] - mean);
    store_pair(operands[2], i, {sum, m2});
  }
}

void run_layer_norm_apply(const hw::KernelParams& p, const OperandPointers& operands) {
  std::vector<float> x = load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3]);
  std::vector<float> gamma(static_cast<std::size_t>(p.columns), 1.0F), beta(static_cast<std::size_t>(p.columns), 0.0F);
  if (p.has_scale) decode_block(p.format, operands[5], p.columns, gamma);
  if (p.has_bias) decode_block(p.format, operands[6], p.columns, beta);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    // Chan's combination of the groups' sums and squared deviations, in group order.
    float sum = 0, m2 = 0, count = 0;
    for (std::int64_t g = 0; g < p.groups; ++g) {
      const Pair pair = load_pair(operands[4], g * p.rows + i);
      const auto n = static_cast<float>(group_columns(p, g));
      if (n == 0) continue;
      if (count > 0) {
        const float delta = pair.first / n - sum / count;
        m2 += pair.second + delta * delta * count * n / (count + n);
      } else {
        m2 = pair.second;
      }
      sum += pair.first;
      count += n;
    }
    const float mean = sum / count, scale = 1.0F / std::sqrt(m2 / count + p.epsilon);
    float* row = x.data() + i * p.columns;
    for (std::int64_t j = 0; j < p.columns; ++j) row[j] = (row[j] - mean) * scale * gamma[j] + beta[j];
  }
  store_matrix({p.rows, p.columns, p.out_row_stride, p.format}, x, operands[2]);
}

void run_softmax(const hw::KernelParams& p, const OperandPointers& operands) {
  std::vector<float> x = load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3]);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    float* row = x.data() + i * p.columns;
    const float maximum = *std::max_element(row, row + p.columns);
    float sum = 0;
    for (std::int64_t j = 0; j < p.columns; ++j) sum += row[j] = std::exp(row[j] - maximum);
    for (std::int64_t j = 0; j < p.columns; ++j) row[j] /= sum;
  }
  store_matrix({p.rows, p.columns, p.out_row_stride, p.format}, x, operands[2]);
}

void run_attention_softmax(const hw::KernelParams& p, const OperandPointers& operands) {
  std::vector<float> scores = load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3]);
  constexpr float none = -std::numeric_limits<float>::infinity();
  const bool f8 = hw::bytes_of(p.out_format) == 1;
  const float unit = power_of_two(p.scale_exponent);
  const auto round = [&](float value) {
    return f8 ? hw::round_to_f143(value / unit) * unit : rounded(p.out_format, value);
  };
  for (std::int64_t i = 0; i < p.rows; ++i) {
    float* row = scores.data() + i * p.columns;
    const std::int64_t allowed =
        p.causal ? std::clamp<std::int64_t>(p.row_offset + i - p.column_offset + 1, 0, p.columns) : p.columns;
    float maximum = none;
    for (std::int64_t j = 0; j < allowed; ++j) maximum = std::max(maximum, row[j] * p.scale);
    float sum = 0;
    for (std::int64_t j = 0; j < p.columns; ++j) {
      row[j] = j < allowed ? round(std::exp(row[j] * p.scale - maximum)) : 0.0F;
      sum += row[j];
    }
    store_pair(operands[4], i, {maximum, sum});
  }
  store_matrix({p.rows, p.columns, p.row_stride, p.out_format}, scores, operands[2], f8 ? p.scale_exponent : 0);
}

void run_attention_merge(const hw::KernelParams& p, const OperandPointers& operands) {
  const std::int64_t rows = p.rows, columns = p.columns, stored = p.column_offset + columns;
  const std::int64_t block_bytes = rows * round_up(stored, 16) * hw::bytes_of(p.format);
  std::vector<float> total(static_cast<std::size_t>(rows * columns), 0.0F);
  std::vector<float> maximum(static_cast<std::size_t>(rows), -std::numeric_limits<float>::infinity());
  std::vector<float> sum(static_cast<std::size_t>(rows), 0.0F);
  for (std::int64_t part = 0; part < p.partials; ++part)
    for (std::int64_t i = 0; i < rows; ++i)
      maximum[i] = std::max(maximum[i], load_pair(operands[5], part * rows + i).first);
  for (std::int64_t part = 0; part < p.partials; ++part) {
    const bool own = part == p.group;
    const std::byte* base = own ? operands[3] : operands[4] + (part < p.group ? part : part - 1) * block_bytes;
    const std::vector<float> block = load_matrix({rows, stored, own ? p.row_stride : rows, p.format}, base);
    for (std::int64_t i = 0; i < rows; ++i) {
      const Pair pair = load_pair(operands[5], part * rows + i);
      if (pair.second == 0) continue;  // no key of this group was allowed
      const float weight = std::exp(pair.first - maximum[i]);
      sum[i] += weight * pair.second;
      for (std::int64_t j = 0; j < columns; ++j)
        total[i * columns + j] += weight * block[i * stored + p.column_offset + j];
    }
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) total[i * columns + j] /= sum[i];
  store_matrix({rows, columns, p.out_row_stride, p.format}, total, operands[2]);
}

void run_row_reduce(const hw::KernelParams& p, const OperandPointers& operands) {
  const std::vector<float> x = load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3]);
  std::vector<float> result(static_cast<std::size_t>(p.rows));
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const float* row = x.data() + i * p.columns;
    float value = p.reduction == hw::RowReduction::maximum ? *std::max_element(row, row + p.columns) : 0.0F;
    if (p.reduction != hw::RowReduction::maximum)
      for (std::int64_t j = 0; j < p.columns; ++j) value += row[j];
    if (p.reduction == hw::RowReduction::mean) value /= static_cast<float>(p.columns);
    result[i] = value;
  }
  store_matrix({p.rows, 1, p.out_row_stride, p.format}, result, operands[2]);
}

}  // namespace tw::sim
