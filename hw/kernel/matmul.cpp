// hw/kernel/matmul.cpp: GEMM and the reduction of partial sums.
#include "hw/base/units.h"
#include "hw/kernel/catalogue.h"

namespace tw::hw {
namespace {

std::int64_t coefficient_bytes(const KernelParams& p) {
  switch (p.coefficient_form) {
    case CoefficientForm::panel: return std::int64_t{p.inner} * p.columns * bytes_of(p.format);
    case CoefficientForm::row: return panel_bytes(p.columns, p.inner, p.coefficient_stride, p.format);
    case CoefficientForm::block:
      return ((p.columns / 16 - 1) * std::int64_t{p.coefficient_stride} + p.inner) * 16 * bytes_of(p.format);
  }
  return 0;
}

std::vector<Operand> gemm_operands(const KernelParams& p) {
  return {{"out", 2, true, panel_bytes(p.rows, p.columns, p.out_row_stride, p.out_format), 8, true, 3},
          {"left", 3, false, panel_bytes(p.rows, p.inner, p.row_stride, p.format), 8, false, 2},
          {"coefficients", 4, false, coefficient_bytes(p), 8}};
}

// docs/fidelity.md: 294 + ceil(K / g) * ceil(C / 16) * (4 R + 160), within 2 % on tall tiles [measured fit]; weights
// in region 0 feed at half speed (191 a panel); F32 counts rows four times and the feed twice.
double gemm_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const bool f32 = p.format == NumberFormat::f32;
  const double panels = static_cast<double>(ceil_div(p.inner, panel_width(p.format)) * ceil_div(p.columns, 16));
  const double rows = prices.gemm_row * p.rows * (f32 ? prices.gemm_f32_row_factor : 1.0);
  const double feed = (p.weights_region == 0 ? prices.gemm_panel_region0 : prices.gemm_panel) *
                      (f32 ? prices.gemm_f32_panel_factor : 1.0);
  return prices.gemm_call + panels * (rows + feed);
}

double gemm_flops(const KernelParams& p) { return 2.0 * p.rows * p.inner * p.columns; }

std::vector<Operand> reduce_operands(const KernelParams& p) {
  const std::int64_t block = panel_bytes(p.rows, p.columns, p.rows, p.format);
  std::vector<Operand> list{{"out", 2, true, panel_bytes(p.rows, p.columns, p.out_row_stride, p.format)},
                            {"own partial", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)}};
  if (p.partials > 1) list.push_back({"received partials", 4, false, block * (p.partials - 1)});
  if (p.has_bias) list.push_back({"bias", 5, false, round_up(p.columns, 16) * bytes_of(p.format)});
  if (p.has_residual)
    list.push_back({"residual", 6, false, panel_bytes(p.rows, p.columns, p.out_row_stride, p.format)});
  return list;
}

// 282 + 6 * ceil(n / 48) * (11 + 2 (P - 1)) [measured fit]; bias and residual are one more partial each
// (docs/fidelity.md).
double reduce_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const std::int64_t elements = p.rows * round_up(p.columns, 16) * (p.format == NumberFormat::f32 ? 2 : 1);
  const int partials = p.partials + (p.has_bias ? 1 : 0) + (p.has_residual ? 1 : 0);
  return prices.reduce_call + 6.0 * static_cast<double>(ceil_div(elements, 48)) *
                                  (prices.reduce_round + prices.reduce_partial * (partials - 1));
}

double reduce_flops(const KernelParams& p) { return 1.0 * p.rows * p.columns * p.partials; }

}  // namespace

const KernelSpec gemm_spec{"gemm",      "measured fit, within 2 % on tall tiles (f32: guess from f16)",
                           0.02,        gemm_operands,
                           gemm_cycles, gemm_flops};
const KernelSpec reduce_spec{"reduce",      "measured fit on sums of six partials (f32: guess, twice the bytes)",
                             0.02,          reduce_operands,
                             reduce_cycles, reduce_flops};

}  // namespace tw::hw
