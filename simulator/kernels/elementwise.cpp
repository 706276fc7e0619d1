// simulator/kernels/elementwise.cpp: reduce, gelu, unary, binary, cast.
#include <algorithm>
#include <cmath>

#include "hw/base/units.h"
#include "simulator/kernels/kernels.h"

namespace tw::sim {
namespace {

float apply(hw::UnaryFunction function, float x) {
  switch (function) {
    case hw::UnaryFunction::relu: return x > 0 ? x : 0.0F;
    case hw::UnaryFunction::tanh: return std::tanh(x);
    case hw::UnaryFunction::sigmoid: return 1.0F / (1.0F + std::exp(-x));
    case hw::UnaryFunction::exp: return std::exp(x);
    case hw::UnaryFunction::sqrt: return std::sqrt(x);
    case hw::UnaryFunction::erf: return std::erf(x);
    case hw::UnaryFunction::negate: return -x;
    case hw::UnaryFunction::absolute: return std::fabs(x);
    case hw::UnaryFunction::reciprocal: return 1.0F / x;
    case hw::UnaryFunction::log: return std::log(x);
    case hw::UnaryFunction::identity: return x;
  }
  return x;
}

float apply(hw::BinaryFunction function, float a, float b) {
  switch (function) {
    case hw::BinaryFunction::add: return a + b;
    case hw::BinaryFunction::subtract: return a - b;
    case hw::BinaryFunction::multiply: return a * b;
    case hw::BinaryFunction::divide: return a / b;
    case hw::BinaryFunction::power: return std::pow(a, b);
    case hw::BinaryFunction::maximum: return std::max(a, b);
    case hw::BinaryFunction::minimum: return std::min(a, b);
  }
  return a;
}

// The tanh form for F16: coefficient products rounded to F16 and the argument clamped to [-8, 8], as measured on the
// machine (docs/fidelity.md); the F32 form is exact.
float gelu_tanh(float x, bool f16) {
  const float coefficient = f16 ? hw::round_to_f16(0.7978845608F) : 0.7978845608F;
  const float cubic = f16 ? hw::round_to_f16(0.044715F * 0.7978845608F) : 0.044715F * 0.7978845608F;
  float u = x * (coefficient + cubic * x * x);
  if (f16) u = std::clamp(u, -8.0F, 8.0F);
  return 0.5F * x * (1.0F + std::tanh(u));
}

float gelu_erf(float x) { return 0.5F * x * (1.0F + std::erf(x * 0.7071067811865475F)); }

}  // namespace

void run_reduce(const hw::KernelParams& p, const OperandPointers& operands) {
  const std::int64_t columns = round_up(p.columns, 16), rows = p.rows;
  PanelShape shape{rows, columns, p.row_stride, p.format};
  std::vector<float> sum = load_matrix(shape, operands[3]);
  const std::int64_t block_bytes = rows * columns * hw::bytes_of(p.format);
  shape.row_stride = rows;
  for (std::int64_t partial = 0; partial + 1 < p.partials; ++partial) {
    const std::vector<float> received = load_matrix(shape, operands[4] + partial * block_bytes);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received[i];
  }
  if (p.has_bias) {
    std::vector<float> bias;
    decode_block(p.format, operands[5], columns, bias);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) sum[i * columns + j] += bias[j];
  }
  shape.row_stride = p.out_row_stride;
  if (p.has_residual) {
    const std::vector<float> residual = load_matrix(shape, operands[6]);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += residual[i];
  }
  store_matrix(shape, sum, operands[2]);
}

void run_gelu(const hw::KernelParams& p, const OperandPointers& operands) {
  std::vector<float> values;
  decode_block(p.format, operands[3], p.elements, values);
  const bool f16 = p.format == hw::NumberFormat::f16;
  for (float& value : values) value = p.gelu_tanh ? gelu_tanh(value, f16) : gelu_erf(value);
  encode_block(p.format, values, operands[2]);
}

void run_unary(const hw::KernelParams& p, const OperandPointers& operands) {
  const PanelShape shape{p.rows, p.columns, p.row_stride, p.format};
  std::vector<float> values = load_matrix(shape, operands[3]);
  for (float& value : values) value = apply(p.unary, value);
  store_matrix(shape, values, operands[2]);
}

void run_binary(const hw::KernelParams& p, const OperandPointers& operands) {
  const PanelShape shape{p.rows, p.columns, p.row_stride, p.format};
  std::vector<float> a = load_matrix(shape, operands[3]);
  if (p.has_scalar) {
    for (float& value : a) value = p.scalar_first ? apply(p.binary, p.scalar, value) : apply(p.binary, value, p.scalar);
  } else {
    const std::vector<float> b = load_matrix(shape, operands[4]);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = apply(p.binary, a[i], b[i]);
  }
  store_matrix(shape, a, operands[2]);
}

void run_cast(const hw::KernelParams& p, const OperandPointers& operands) {
  const bool from_f8 = hw::bytes_of(p.format) == 1, to_f8 = hw::bytes_of(p.out_format) == 1;
  const std::vector<float> values =
      load_matrix({p.rows, p.columns, p.row_stride, p.format}, operands[3], from_f8 ? p.scale_exponent : 0);
  PanelShape out{p.rows, p.columns, p.out_row_stride, p.out_format};
  out.panel = p.out_panel;
  out.group = p.out_group;
  store_matrix(out, values, operands[2], to_f8 ? p.scale_exponent : 0);
}

}  // namespace tw::sim
