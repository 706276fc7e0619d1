// simulator/kernels/execute.cpp: which function computes which kernel; blocks to F32 and back; fill and copy.
#include "simulator/kernels/execute.h"

#include <algorithm>
#include <cstring>

#include "hw/base/units.h"
#include "simulator/kernels/kernels.h"

namespace tw::sim {

void execute(const hw::KernelParams& p, const OperandPointers& operands) {
  switch (p.kind) {
    case hw::KernelKind::gemm: return run_gemm(p, operands);
    case hw::KernelKind::reduce: return run_reduce(p, operands);
    case hw::KernelKind::gelu: return run_gelu(p, operands);
    case hw::KernelKind::unary: return run_unary(p, operands);
    case hw::KernelKind::binary: return run_binary(p, operands);
    case hw::KernelKind::cast: return run_cast(p, operands);
    case hw::KernelKind::layer_norm_statistics: return run_layer_norm_statistics(p, operands);
    case hw::KernelKind::layer_norm_apply: return run_layer_norm_apply(p, operands);
    case hw::KernelKind::softmax: return run_softmax(p, operands);
    case hw::KernelKind::attention_softmax: return run_attention_softmax(p, operands);
    case hw::KernelKind::attention_merge: return run_attention_merge(p, operands);
    case hw::KernelKind::row_reduce: return run_row_reduce(p, operands);
    case hw::KernelKind::fill: return run_fill(p, operands);
    case hw::KernelKind::copy: return run_copy(p, operands);
  }
}

void decode_block(hw::NumberFormat format, const std::byte* from, std::int64_t count, std::vector<float>& out) {
  if (out.size() < static_cast<std::size_t>(count)) out.resize(static_cast<std::size_t>(count));
  hw::decode(format, {from, static_cast<std::size_t>(count * hw::bytes_of(format))}, 0,
             std::span(out).first(static_cast<std::size_t>(count)));
}

void encode_block(hw::NumberFormat format, std::span<const float> values, std::byte* to) {
  hw::encode(format, values, 0, {to, values.size() * hw::bytes_of(format)});
}

std::vector<float> load_matrix(const PanelShape& shape, const std::byte* from, int scale_exponent) {
  const std::int64_t b = hw::panel_width(shape.format), bytes = hw::bytes_of(shape.format);
  const std::int64_t stride = std::max(shape.row_stride, shape.rows);
  std::vector<float> matrix(static_cast<std::size_t>(shape.rows * shape.columns));
  std::vector<float> panel(static_cast<std::size_t>(shape.rows * b));
  for (std::int64_t first = 0; first < shape.columns; first += b) {
    hw::decode(shape.format, {from + first / b * stride * b * bytes, panel.size() * bytes}, scale_exponent, panel);
    const std::int64_t width = std::min(b, shape.columns - first);
    for (std::int64_t i = 0; i < shape.rows; ++i)
      std::copy_n(panel.begin() + i * b, width, matrix.begin() + i * shape.columns + first);
  }
  return matrix;
}

void store_matrix(const PanelShape& shape, std::span<const float> values, std::byte* to, int scale_exponent) {
  const std::int64_t b = shape.panel > 0 ? shape.panel : hw::panel_width(shape.format);
  const std::int64_t group = shape.group > 0 ? shape.group : b, bytes = hw::bytes_of(shape.format);
  const std::int64_t stride = std::max(shape.row_stride, shape.rows);
  std::vector<float> panel(static_cast<std::size_t>(shape.rows * b));
  for (std::int64_t first = 0; first < shape.columns; first += group) {
    const std::int64_t width = std::min(group, shape.columns - first);
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      std::copy_n(values.begin() + i * shape.columns + first, width, panel.begin() + i * b);
      std::fill_n(panel.begin() + i * b + width, b - width, 0.0F);
    }
    hw::encode(shape.format, panel, scale_exponent, {to + first / group * stride * b * bytes, panel.size() * bytes});
  }
}

void run_fill(const hw::KernelParams& p, const OperandPointers& operands) {
  for (std::int64_t run = 0; run < p.rows; ++run)
    std::memset(operands[2] + run * p.row_stride, 0, static_cast<std::size_t>(p.elements));
}

void run_copy(const hw::KernelParams& p, const OperandPointers& operands) {
  for (std::int64_t run = 0; run < p.rows; ++run)
    std::memmove(operands[2] + run * p.out_row_stride, operands[3] + run * p.row_stride,
                 static_cast<std::size_t>(p.elements));
}

}  // namespace tw::sim
