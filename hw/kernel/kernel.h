// hw/kernel/kernel.h: the kernel catalogue: what one kernel call is, its operands, price and code size.
//
// A kernel is a supervisor subroutine (docs/fidelity.md): output address in m2, inputs in m3..m9, `call m10, entry`.
// Everything else is fixed when the entry is generated ("specialised entry"): KernelParams. The planner prices a call
// with cycles(), the simulator charges the same cycles() and computes the numerics on the tile's SRAM bytes.
//
// Panel tensors: element (i, j) of a rows x columns block with panel width b and `row_stride` rows reserved per panel
// is at element offset ((j / b) * row_stride + i) * b + j % b. Activations in F16 and F32: b = 16. F8 (F143): b = 32.
// Every producer writes whole panels: pad elements (columns beyond the valid ones, up to a multiple of b) are zero.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hw/base/result.h"
#include "hw/machine/machine.h"
#include "hw/number/number.h"

namespace tw::hw {

enum class KernelKind : std::uint8_t {
  gemm,                   // m2 out, m3 left, m4 coefficients
  reduce,                 // m2 out, m3 own partial, m4 received partials, m5 bias, m6 residual
  gelu,                   // m2 out, m3 in
  unary,                  // m2 out, m3 in
  binary,                 // m2 out, m3 a, m4 b (absent when the scalar form)
  cast,                   // m2 out, m3 in
  layer_norm_statistics,  // m2 statistics out, m3 in
  layer_norm_apply,       // m2 out, m3 in, m4 statistics of all groups, m5 gamma, m6 beta
  softmax,                // m2 out, m3 in: whole rows
  attention_softmax,      // m2 probabilities out, m3 scores in, m4 statistics out
  attention_merge,        // m2 out, m3 own partial, m4 received partials, m5 statistics of all groups
  row_reduce,             // m2 out (one valid column), m3 in
  fill,                   // m2 out
  copy,                   // m2 out, m3 in
};
inline constexpr int kernel_kinds = 14;

enum class CoefficientForm : std::uint8_t {
  panel,  // [columns / 16][inner / g][16][g]: host-packed weights, one AMP micro-panel after the other
  row,    // [inner / g][coefficient_stride][g]: anything stored as a left operand of those rows (K of Q K^T)
  block,  // [columns / 16][coefficient_stride][16]: a result with rows = inner (V of P V)
};

enum class UnaryFunction : std::uint8_t {
  relu,
  tanh,
  sigmoid,
  exp,
  sqrt,
  erf,
  negate,
  absolute,
  reciprocal,
  log,
  identity
};
enum class BinaryFunction : std::uint8_t { add, subtract, multiply, divide, power, maximum, minimum };
enum class RowReduction : std::uint8_t { sum, mean, maximum };

// The parameters of one specialised entry. Unused fields stay at their defaults; each kind uses:
//  gemm        rows, inner (multiple of g = 16, F8 32), columns (multiple of 16), format (of both operands),
//              out_format (f16 for f16/f8 operands, f32 for f32), coefficient_form, coefficient_stride,
//              row_stride (left rows per panel), out_row_stride, scale_exponent (each panel's sum is multiplied by
//              2^scale_exponent before it is added, so the accumulator holds real units), weights_region (0: slower
//              feed). The accumulator is rounded to F16 after each inner panel (32 F8 / 16 F16 elements); F32 is not
//              rounded.
//  reduce      rows, columns (valid columns), partials (own + received, >= 1), has_bias, has_residual, format
//  (f16/f32),
//              row_stride (own partial), out_row_stride. Received partials: partials-1 blocks, contiguous, each
//              [ceil(columns/16)][rows][16]. Bias: [round_up(columns, 16)] values. Residual: row stride out_row_stride.
//              Sum in F32 in the order own, received, bias, residual; rounded once. scale_exponent as in gemm: 0.
//  gelu        elements (contiguous), gelu_tanh, format. Argument as F32, result rounded once.
//  unary       rows, columns (valid), row_stride = out_row_stride, format, unary.
//  binary      the same, binary, has_scalar: b is `scalar` (scalar_first: scalar OP a).
//  cast        rows, columns (valid), format -> out_format, row_stride, out_row_stride, scale_exponent (of the F8
//  side).
//              Panel width changes with the format; pads of the output are written as zero. F8 only: out_group (real
//              columns that each output panel takes, zeros behind; 0: all 32), out_panel (16: panels stay 16 wide, the
//              block form of coefficients; 0: 32).
//  layer_norm_statistics  rows, columns (valid), row_stride, format; writes [rows] pairs (sum, M2) of F32, M2 about the
//  local mean. layer_norm_apply  rows, columns (valid), row_stride, out_row_stride, format, groups, total_columns,
//  column_unit, group,
//              epsilon. Statistics [groups][rows] pairs; group g owns columns
//              [column_unit * cut(g), column_unit * cut(g + 1)) clipped to total_columns, where
//              cut(g) = balanced_cut(g, ceil(total_columns / column_unit), groups). Combined by Chan's formula in F32.
//              gamma, beta: [round_up(columns, 16)] values of `format` (has_bias false: no beta; has_scale false: no
//              gamma).
//  softmax     rows, columns (valid), row_stride, out_row_stride, format.
//  attention_softmax  rows, columns (valid keys here), row_stride, format, out_format (f143: scale_exponent), scale,
//              causal, row_offset, column_offset.
//              Writes exp(scale * s - local max) rounded to `out_format` and per row (max, sum) in F32; a row with no
//              allowed key gets max = -inf, sum = 0, zeros. sum is of the rounded probabilities.
//  attention_merge  rows, columns (valid, one head), partials, format, row_stride (own partial), out_row_stride,
//              group (index of the own partial in the statistics), column_offset (of the valid columns in the partials:
//              0 to 15). Statistics [partials][rows] pairs (max, sum), in
//              group order; received partials skip the own one and keep group order. result = sum_p 2^.. e^(max_p -
//              max) O_p / sum.
//  row_reduce  rows, columns (valid), row_stride, out_row_stride, format, reduction.
//  fill        rows (runs), elements (bytes of a run, multiple of 8), row_stride (bytes from run to run): writes zero.
//  copy        rows (runs), elements (bytes of a run, multiple of 4), row_stride, out_row_stride (bytes from run to
//  run).
struct KernelParams {
  KernelKind kind = KernelKind::fill;
  NumberFormat format = NumberFormat::f16;
  NumberFormat out_format = NumberFormat::f16;
  CoefficientForm coefficient_form = CoefficientForm::panel;
  UnaryFunction unary = UnaryFunction::identity;
  BinaryFunction binary = BinaryFunction::add;
  RowReduction reduction = RowReduction::sum;
  bool gelu_tanh = true;
  bool has_bias = false, has_residual = false, has_scale = false;
  bool has_scalar = false, scalar_first = false;
  bool causal = false;
  std::int32_t rows = 0, inner = 0, columns = 0, elements = 0, partials = 1;
  std::int32_t row_stride = 0, out_row_stride = 0, coefficient_stride = 0;
  std::int32_t groups = 1, group = 0, total_columns = 0, column_unit = 16;
  std::int32_t row_offset = 0, column_offset = 0;
  std::int32_t out_group = 0, out_panel = 0;
  std::int32_t scale_exponent = 0;
  std::int32_t weights_region = 1;
  float scale = 1.0F, scalar = 0.0F, epsilon = 0.0F;
  friend bool operator==(const KernelParams&, const KernelParams&) = default;
};

constexpr int panel_width(NumberFormat format) { return bytes_of(format) == 1 ? 32 : 16; }

const char* name_of(KernelKind kind);
Result<KernelKind> kernel_from(std::string_view name);  // hint names the nearest

// One operand of a call, as the simulator, the verifier and `tilewright kernel` see it.
struct Operand {
  const char* name = "";    // "left", "coefficients", "out", ...
  int register_number = 0;  // 2..9
  bool written = false;
  std::int64_t bytes = 0;  // bytes touched from the address on, strides included
  int alignment_bytes = 8;
  bool region1_required = false;   // GEMM output
  int separate_from_register = 0;  // must not share an SRAM element with the operand in that register; 0: none
};
std::vector<Operand> operands(const KernelParams& params);

// Price of one call, supervisor's register set-up excluded. Sources per kind: docs/fidelity.md and kernel/*.cpp.
std::int64_t cycles(const KernelParams& params, const Machine& machine);

// Floating point operations of the call (2 per multiply-add), for shares of peak.
std::int64_t flops(const KernelParams& params);

// Where the price comes from: "measured fit, within 2 % on tall tiles", "guess", ...
const char* price_source(const KernelParams& params);

// Relative error bar of the price, from the calibration rows of its kind (docs/fidelity.md).
double price_error_fraction(KernelKind kind);

// Code bytes of the shared family and of one specialised entry.
std::uint32_t family_code_bytes(KernelKind kind, const Machine& machine);
std::uint32_t entry_code_bytes(const KernelParams& params, const Machine& machine);

// Checks extents, multiples and formats of the parameters. Errors (bad_input): the field, its value, what is allowed.
Status check(const KernelParams& params);

// Short text for people: "gemm f143 82x192x160".
std::string describe(const KernelParams& params);

}  // namespace tw::hw
