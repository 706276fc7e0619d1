// simulator/kernels/kernels.h: one function a kernel kind, and how blocks become F32 and back. Internal.
#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "simulator/kernels/execute.h"

namespace tw::sim {

void run_gemm(const hw::KernelParams& p, const OperandPointers& operands);
void run_reduce(const hw::KernelParams& p, const OperandPointers& operands);
void run_gelu(const hw::KernelParams& p, const OperandPointers& operands);
void run_unary(const hw::KernelParams& p, const OperandPointers& operands);
void run_binary(const hw::KernelParams& p, const OperandPointers& operands);
void run_cast(const hw::KernelParams& p, const OperandPointers& operands);
void run_layer_norm_statistics(const hw::KernelParams& p, const OperandPointers& operands);
void run_layer_norm_apply(const hw::KernelParams& p, const OperandPointers& operands);
void run_softmax(const hw::KernelParams& p, const OperandPointers& operands);
void run_attention_softmax(const hw::KernelParams& p, const OperandPointers& operands);
void run_attention_merge(const hw::KernelParams& p, const OperandPointers& operands);
void run_row_reduce(const hw::KernelParams& p, const OperandPointers& operands);
void run_fill(const hw::KernelParams& p, const OperandPointers& operands);
void run_copy(const hw::KernelParams& p, const OperandPointers& operands);

// One column panel of a GEMM, decoded: left [inner / g][rows][g], coefficients of one column panel [inner][16].
struct PanelProduct {
  const float* left;
  const float* coefficients;
  float* accumulator;  // [rows][16]
  std::int64_t rows, inner_panels, panel;
  float scale;
  bool round;
};

// Accumulates the product; the portable form is for processors without AVX2 and F16C, with the same bits.
void run_product(const PanelProduct& p);
void run_product_portable(const PanelProduct& p);

inline float power_of_two(int exponent) { return std::ldexp(1.0F, exponent); }

// `count` consecutive elements as F32 (out is resized when smaller), and back.
void decode_block(hw::NumberFormat format, const std::byte* from, std::int64_t count, std::vector<float>& out);
void encode_block(hw::NumberFormat format, std::span<const float> values, std::byte* to);

// A panel tensor as a row-major matrix of rows x columns F32, and back; pads of the last panel are written as zero.
struct PanelShape {
  std::int64_t rows = 0, columns = 0, row_stride = 0;
  hw::NumberFormat format = hw::NumberFormat::f16;
  std::int64_t panel = 0;  // columns of a panel; 0: the format's own
  std::int64_t group = 0;  // real columns that a stored panel takes; 0: all
};
std::vector<float> load_matrix(const PanelShape& shape, const std::byte* from, int scale_exponent = 0);
void store_matrix(const PanelShape& shape, std::span<const float> values, std::byte* to, int scale_exponent = 0);

}  // namespace tw::sim
