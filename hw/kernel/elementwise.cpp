// hw/kernel/elementwise.cpp: kernels over elements where they lie: gelu, unary, binary, cast, fill, copy.
#include <algorithm>

#include "hw/base/units.h"
#include "hw/kernel/catalogue.h"

namespace tw::hw {
namespace {

// F32 moves twice the bytes of F16: elementwise prices, measured in F16, are doubled (guess).
double width_factor(NumberFormat format) { return format == NumberFormat::f32 ? 2.0 : 1.0; }

double block_elements(const KernelParams& p) { return static_cast<double>(p.rows * round_up(p.columns, 16)); }

std::vector<Operand> gelu_operands(const KernelParams& p) {
  const std::int64_t bytes = std::int64_t{p.elements} * bytes_of(p.format);
  return {{"out", 2, true, bytes}, {"in", 3, false, bytes}};
}

// One row of n elements: 222 + 228 + 90 * ceil(n / 24) [measured: 2,208 values 8,730, ours the same].
double gelu_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  return prices.gelu_call + prices.gelu_row +
         prices.gelu_group * width_factor(p.format) * static_cast<double>(ceil_div(p.elements, 24));
}

double gelu_flops(const KernelParams& p) { return 10.0 * p.elements; }

std::vector<Operand> unary_operands(const KernelParams& p) {
  const std::int64_t bytes = panel_bytes(p.rows, p.columns, p.row_stride, p.format);
  return {{"out", 2, true, bytes}, {"in", 3, false, bytes}};
}

// The price of an add for functions of one instruction, with the price of GELU's polynomial for the others (guess).
double unary_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const bool cheap = p.unary == UnaryFunction::relu || p.unary == UnaryFunction::negate ||
                     p.unary == UnaryFunction::absolute || p.unary == UnaryFunction::identity;
  const double element = prices.elementwise_element + (cheap ? 0.0 : prices.transcendental_element);
  return prices.elementwise_call + element * width_factor(p.format) * block_elements(p);
}

double block_flops(const KernelParams& p) { return 1.0 * p.rows * p.columns; }

std::vector<Operand> binary_operands(const KernelParams& p) {
  const std::int64_t bytes = panel_bytes(p.rows, p.columns, p.row_stride, p.format);
  std::vector<Operand> list{{"out", 2, true, bytes}, {"a", 3, false, bytes}};
  if (!p.has_scalar) list.push_back({"b", 4, false, bytes});
  return list;
}

// Fit through the measured adds: 1,152 elements 1,368 cycles, 2,152 elements 2,124.
double binary_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const bool dear = p.binary == BinaryFunction::divide || p.binary == BinaryFunction::power;
  const double element = prices.elementwise_element + (dear ? prices.transcendental_element : 0.0);
  return prices.elementwise_call + element * width_factor(p.format) * block_elements(p);
}

// Columns that the output of a cast takes, pads included.
std::int64_t cast_columns(const KernelParams& p) {
  if (p.out_panel > 0) return round_up(p.columns, p.out_panel);
  const std::int64_t panel = panel_width(p.out_format);
  return ceil_div(p.columns, p.out_group > 0 ? p.out_group : panel) * panel;
}

std::vector<Operand> cast_operands(const KernelParams& p) {
  const std::int64_t columns = cast_columns(p);
  const std::int64_t out = p.out_panel > 0 ? ((columns / p.out_panel - 1) * p.out_row_stride + p.rows) * p.out_panel
                                           : panel_bytes(p.rows, columns, p.out_row_stride, p.out_format);
  return {{"out", 2, true, out}, {"in", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)}};
}

// 330 + 24 * ceil(n / 48) [measured, F16 to FP8], n with the pads that are written; the same for F32 (guess).
double cast_cycles(const KernelParams& p, const Machine& machine) {
  const std::int64_t elements = p.rows * cast_columns(p);
  return machine.prices.cast_call + machine.prices.cast_round * static_cast<double>(ceil_div(elements, 48));
}

std::int64_t strided_bytes(std::int64_t runs, std::int64_t bytes, std::int64_t stride) {
  return (runs - 1) * stride + bytes;
}

std::vector<Operand> fill_operands(const KernelParams& p) {
  return {{"out", 2, true, strided_bytes(p.rows, p.elements, p.row_stride)}};
}

std::vector<Operand> copy_operands(const KernelParams& p) {
  return {{"out", 2, true, strided_bytes(p.rows, p.elements, p.out_row_stride), 4},
          {"in", 3, false, strided_bytes(p.rows, p.elements, p.row_stride), 4}};
}

// 8-byte words: 246 + 12 * ceil(w / 6) in one run, 294 + 6 * ceil(r / 6) * (2 w + 6) in r runs [measured].
double copy_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const std::int64_t words = ceil_div(p.elements, 8);
  if (p.rows == 1) return prices.copy_call + prices.copy_word * static_cast<double>(ceil_div(words, 6));
  return prices.strided_copy_call +
         6.0 * static_cast<double>(ceil_div(p.rows, 6)) *
             (prices.strided_copy_word * static_cast<double>(words) + prices.strided_copy_row);
}

// A fill stores without loading: half the issue slots of a copy (guess).
double fill_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const double call = p.rows == 1 ? prices.copy_call : prices.strided_copy_call;
  return call + (copy_cycles(p, machine) - call) / 2;
}

double no_flops(const KernelParams&) { return 0.0; }

}  // namespace

const KernelSpec gelu_spec{"gelu",      "measured fit on rows of 1,408 to 2,208 values (erf form, f32: guess)",
                           0.01,        gelu_operands,
                           gelu_cycles, gelu_flops};
const KernelSpec unary_spec{
    "unary",      "guess: the price of an add, plus GELU's polynomial for transcendental functions",
    0.5,          unary_operands,
    unary_cycles, block_flops};
const KernelSpec binary_spec{"binary",      "fit through two measured adds (divide, power, f32: guess)",
                             0.1,           binary_operands,
                             binary_cycles, block_flops};
const KernelSpec cast_spec{"cast",  "measured fit F16 to FP8 (others: guess)", 0.05, cast_operands, cast_cycles,
                           no_flops};
const KernelSpec fill_spec{"fill", "guess: half the issue slots of a copy", 0.3, fill_operands, fill_cycles, no_flops};
const KernelSpec copy_spec{"copy", "measured fit", 0.05, copy_operands, copy_cycles, no_flops};

}  // namespace tw::hw
