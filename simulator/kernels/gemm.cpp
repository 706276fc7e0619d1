// simulator/kernels/gemm.cpp: GEMM with the AMP's order: within an inner panel products are summed in F32 in ascending
// inner order, the panel's sum is scaled and added to the accumulator, and the accumulator is rounded to F16 (F32
// operands: not rounded). Vectors run over columns, never over the inner extent, so every instruction set agrees.
#include <algorithm>
#include <vector>

#include "hw/base/units.h"
#include "simulator/kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tw::sim {
namespace {

constexpr int columns_per_panel = 16;

// The sum over one inner panel for four rows (fewer at the end) and 16 columns, then scale, add, round.
template <int rows_at_once, class Round>
inline __attribute__((always_inline)) void product_of_rows(const PanelProduct& p, std::int64_t row,
                                                           std::int64_t k_panel, Round round) {
  float sum[rows_at_once][columns_per_panel] = {};
  const float* a = p.left + (k_panel * p.rows + row) * p.panel;
  const float* b = p.coefficients + k_panel * p.panel * columns_per_panel;
  for (std::int64_t k = 0; k < p.panel; ++k)
    for (int r = 0; r < rows_at_once; ++r)
      for (int c = 0; c < columns_per_panel; ++c) sum[r][c] += a[r * p.panel + k] * b[k * columns_per_panel + c];
  for (int r = 0; r < rows_at_once; ++r) {
    float* out = p.accumulator + (row + r) * columns_per_panel;
    for (int c = 0; c < columns_per_panel; ++c) out[c] += sum[r][c] * p.scale;
    if (p.round) round(out);
  }
}

template <class Round>
inline __attribute__((always_inline)) void product(const PanelProduct& p, Round round) {
  for (std::int64_t k_panel = 0; k_panel < p.inner_panels; ++k_panel) {
    std::int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) product_of_rows<4>(p, row, k_panel, round);
    for (; row < p.rows; ++row) product_of_rows<1>(p, row, k_panel, round);
  }
}

void round_portable(float* values) {
  for (int c = 0; c < columns_per_panel; ++c) values[c] = hw::round_to_f16(values[c]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) void product_avx2(const PanelProduct& p) {
  for (std::int64_t k_panel = 0; k_panel < p.inner_panels; ++k_panel) {
    const float* b = p.coefficients + k_panel * p.panel * columns_per_panel;
    std::int64_t row = 0;
    const __m256 scale = _mm256_set1_ps(p.scale);
    const auto finish = [&](float* out, __m256 low, __m256 high) __attribute__((target("avx2,f16c"))) {
      low = _mm256_add_ps(_mm256_loadu_ps(out), _mm256_mul_ps(low, scale));
      high = _mm256_add_ps(_mm256_loadu_ps(out + 8), _mm256_mul_ps(high, scale));
      if (p.round) {
        low = _mm256_cvtph_ps(_mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        high = _mm256_cvtph_ps(_mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
      }
      _mm256_storeu_ps(out, low);
      _mm256_storeu_ps(out + 8, high);
    };
    for (; row + 4 <= p.rows; row += 4) {
      const float* a = p.left + (k_panel * p.rows + row) * p.panel;
      __m256 sum[4][2];
      for (auto& pair : sum) pair[0] = pair[1] = _mm256_setzero_ps();
      for (std::int64_t k = 0; k < p.panel; ++k) {
        const __m256 low = _mm256_loadu_ps(b + k * columns_per_panel),
                     high = _mm256_loadu_ps(b + k * columns_per_panel + 8);
        for (int r = 0; r < 4; ++r) {
          const __m256 value = _mm256_broadcast_ss(a + r * p.panel + k);
          sum[r][0] = _mm256_add_ps(sum[r][0], _mm256_mul_ps(value, low));
          sum[r][1] = _mm256_add_ps(sum[r][1], _mm256_mul_ps(value, high));
        }
      }
      for (int r = 0; r < 4; ++r) finish(p.accumulator + (row + r) * columns_per_panel, sum[r][0], sum[r][1]);
    }
    for (; row < p.rows; ++row) {
      const float* a = p.left + (k_panel * p.rows + row) * p.panel;
      __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
      for (std::int64_t k = 0; k < p.panel; ++k) {
        const __m256 value = _mm256_broadcast_ss(a + k);
        low = _mm256_add_ps(low, _mm256_mul_ps(value, _mm256_loadu_ps(b + k * columns_per_panel)));
        high = _mm256_add_ps(high, _mm256_mul_ps(value, _mm256_loadu_ps(b + k * columns_per_panel + 8)));
      }
      finish(p.accumulator + row * columns_per_panel, low, high);
    }
  }
}
#endif

// Coefficients of column panel `column_panel` as [inner][16] of F32.
void load_coefficients(const hw::KernelParams& p, const std::byte* base, std::int64_t column_panel,
                       std::vector<float>& raw, std::vector<float>& out) {
  const std::int64_t g = hw::panel_width(p.format), bytes = hw::bytes_of(p.format), inner = p.inner;
  const std::int64_t columns = columns_per_panel;
  switch (p.coefficient_form) {
    case hw::CoefficientForm::panel: {
      decode_block(p.format, base + column_panel * columns * inner * bytes, columns * inner, raw);
      for (std::int64_t k = 0; k < inner; ++k)
        for (std::int64_t c = 0; c < columns; ++c) out[k * columns + c] = raw[(k / g * columns + c) * g + k % g];
      return;
    }
    case hw::CoefficientForm::row: {
      for (std::int64_t panel = 0; panel < inner / g; ++panel) {
        decode_block(p.format, base + (panel * p.coefficient_stride + column_panel * columns) * g * bytes, columns * g,
                     raw);
        for (std::int64_t k = 0; k < g; ++k)
          for (std::int64_t c = 0; c < columns; ++c) out[(panel * g + k) * columns + c] = raw[c * g + k];
      }
      return;
    }
    case hw::CoefficientForm::block:
      decode_block(p.format, base + column_panel * p.coefficient_stride * columns * bytes, inner * columns, out);
      return;
  }
}

#if defined(__x86_64__)
// Compilers do not all know the name of F16C, so its bit is looked up; the system's support is that of AVX2.
bool has_avx2_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

}  // namespace

void run_product_portable(const PanelProduct& p) { product(p, round_portable); }

void run_product(const PanelProduct& p) {
#if defined(__x86_64__)
  static const bool fast = has_avx2_and_f16c();
  if (fast) return product_avx2(p);
#endif
  run_product_portable(p);
}

void run_gemm(const hw::KernelParams& p, const OperandPointers& operands) {
  const std::int64_t g = hw::panel_width(p.format), bytes = hw::bytes_of(p.format);
  const std::int64_t inner_panels = p.inner / g, rows = p.rows, row_stride = std::max(p.row_stride, p.rows);
  const std::int64_t out_stride = std::max(p.out_row_stride, p.rows);
  std::vector<float> left(static_cast<std::size_t>(rows * p.inner)), raw;
  for (std::int64_t panel = 0; panel < inner_panels; ++panel) {
    const std::byte* from = operands[3] + panel * row_stride * g * bytes;
    hw::decode(p.format, {from, static_cast<std::size_t>(rows * g * bytes)}, 0,
               std::span(left).subspan(static_cast<std::size_t>(panel * rows * g), static_cast<std::size_t>(rows * g)));
  }
  std::vector<float> coefficients(static_cast<std::size_t>(p.inner) * columns_per_panel);
  std::vector<float> accumulator(static_cast<std::size_t>(rows) * columns_per_panel);
  const std::int64_t out_bytes = hw::bytes_of(p.out_format);
  for (std::int64_t column_panel = 0; column_panel < p.columns / columns_per_panel; ++column_panel) {
    load_coefficients(p, operands[4], column_panel, raw, coefficients);
    std::fill(accumulator.begin(), accumulator.end(), 0.0F);
    run_product({left.data(), coefficients.data(), accumulator.data(), rows, inner_panels, g,
                 power_of_two(p.scale_exponent), p.format != hw::NumberFormat::f32});
    encode_block(p.out_format, accumulator, operands[2] + column_panel * out_stride * columns_per_panel * out_bytes);
  }
}

}  // namespace tw::sim
