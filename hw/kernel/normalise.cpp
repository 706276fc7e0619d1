// hw/kernel/normalise.cpp: layer norm in two passes, softmax, attention's softmax and merge, reductions along rows.
#include "hw/base/units.h"
#include "hw/kernel/catalogue.h"

namespace tw::hw {
namespace {

constexpr std::int64_t statistics_bytes = 8;  // a pair of F32
double width_factor(NumberFormat format) { return format == NumberFormat::f32 ? 2.0 : 1.0; }
double elements_of(const KernelParams& p) { return static_cast<double>(p.rows * round_up(p.columns, 16)); }

std::vector<Operand> statistics_operands(const KernelParams& p) {
  return {{"statistics", 2, true, p.rows * statistics_bytes},
          {"in", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)}};
}

// 300 + 2.33 an element (from 2,976 for a row of 1,152, measured; that the rate holds for short rows is a guess).
double statistics_cycles(const KernelParams& p, const Machine& machine) {
  return machine.prices.statistics_call + machine.prices.statistics_element * width_factor(p.format) * elements_of(p);
}

std::vector<Operand> normalise_operands(const KernelParams& p) {
  std::vector<Operand> list{{"out", 2, true, panel_bytes(p.rows, p.columns, p.out_row_stride, p.format)},
                            {"in", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)},
                            {"statistics", 4, false, std::int64_t{p.groups} * p.rows * statistics_bytes}};
  const std::int64_t vector_bytes = round_up(p.columns, 16) * bytes_of(p.format);
  if (p.has_scale) list.push_back({"gamma", 5, false, vector_bytes});
  if (p.has_bias) list.push_back({"beta", 6, false, vector_bytes});
  return list;
}

// 300 + 3.78 an element (from 4,644 for a row of 1,152, measured), and two cycles for each pair that is combined
// (guess).
double normalise_cycles(const KernelParams& p, const Machine& machine) {
  constexpr double combine_cycles = 2.0;
  return machine.prices.normalise_call + machine.prices.normalise_element * width_factor(p.format) * elements_of(p) +
         combine_cycles * p.rows * (p.groups - 1);
}

std::vector<Operand> softmax_operands(const KernelParams& p) {
  return {{"out", 2, true, panel_bytes(p.rows, p.columns, p.out_row_stride, p.format)},
          {"in", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)}};
}

// A worker takes whole rows: ceil(rows / 6) rounds of 15.6 cycles an element (fit through 12,258 for one row of 768 and
// 25,350 for 7 or 8, measured).
double softmax_cycles(const KernelParams& p, const Machine& machine) {
  constexpr double worker_cycles_per_element = 15.6;
  return machine.prices.softmax_call + static_cast<double>(ceil_div(p.rows, machine.workers)) *
                                           worker_cycles_per_element * width_factor(p.format) *
                                           static_cast<double>(round_up(p.columns, 16));
}

std::vector<Operand> attention_softmax_operands(const KernelParams& p) {
  return {{"probabilities", 2, true, panel_bytes(p.rows, p.columns, p.row_stride, p.out_format)},
          {"scores", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)},
          {"statistics", 4, true, p.rows * statistics_bytes}};
}

// All workers share every row (maximum, exponentials, sum in three passes): 3,290 + 2.638 an element, through the two
// measured calls of that kernel: 19,500 for 8 rows of 768 and 5,232 for one row of 729, stored as 736.
double attention_softmax_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  return prices.split_softmax_call + prices.split_softmax_element * width_factor(p.format) * elements_of(p);
}

std::vector<Operand> merge_operands(const KernelParams& p) {
  const std::int64_t columns = p.column_offset + p.columns;  // of the partials
  const std::int64_t block = panel_bytes(p.rows, columns, p.rows, p.format);
  std::vector<Operand> list{{"out", 2, true, panel_bytes(p.rows, p.columns, p.out_row_stride, p.format)},
                            {"own partial", 3, false, panel_bytes(p.rows, columns, p.row_stride, p.format)}};
  if (p.partials > 1) list.push_back({"received partials", 4, false, block * (p.partials - 1)});
  list.push_back({"statistics", 5, false, std::int64_t{p.partials} * p.rows * statistics_bytes});
  return list;
}

// A scaled sum: 282 + 6 * ceil(n / 48) * (11 + 4 (P - 1)) (docs/fidelity.md, derived from the reduction).
double merge_cycles(const KernelParams& p, const Machine& machine) {
  const KernelPrices& prices = machine.prices;
  const auto elements = static_cast<std::int64_t>(elements_of(p) * width_factor(p.format));
  return prices.reduce_call + 6.0 * static_cast<double>(ceil_div(elements, 48)) *
                                  (prices.merge_round + prices.merge_partial * (p.partials - 1));
}

std::vector<Operand> row_reduce_operands(const KernelParams& p) {
  return {{"out", 2, true, panel_bytes(p.rows, 1, p.out_row_stride, p.format)},
          {"in", 3, false, panel_bytes(p.rows, p.columns, p.row_stride, p.format)}};
}

double block_flops(const KernelParams& p) { return 5.0 * p.rows * p.columns; }
double merge_flops(const KernelParams& p) { return 2.0 * p.rows * p.columns * p.partials; }

}  // namespace

const KernelSpec statistics_spec{"layer_norm_statistics",
                                 "measured on a row of 1,152; rate on other shapes is a guess",
                                 0.1,
                                 statistics_operands,
                                 statistics_cycles,
                                 block_flops};
const KernelSpec normalise_spec{"layer_norm_apply",
                                "measured on a row of 1,152; rate on other shapes is a guess",
                                0.1,
                                normalise_operands,
                                normalise_cycles,
                                block_flops};
const KernelSpec softmax_spec{"softmax",      "fit through measured rows of 768: one row 12,258, seven or eight 25,350",
                              0.05,           softmax_operands,
                              softmax_cycles, block_flops};
const KernelSpec attention_softmax_spec{"attention_softmax",
                                        "fit through two measured calls: 19,500 for 8 x 768, 5,232 for 1 x 729",
                                        0.06,
                                        attention_softmax_operands,
                                        attention_softmax_cycles,
                                        block_flops};
const KernelSpec attention_merge_spec{
    "attention_merge", "derived from the measured reduction", 0.15, merge_operands, merge_cycles, merge_flops};
const KernelSpec row_reduce_spec{
    "row_reduce", "guess: the statistics pass of layer norm", 0.3, row_reduce_operands, statistics_cycles, block_flops};

}  // namespace tw::hw
