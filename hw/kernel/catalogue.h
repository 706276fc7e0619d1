// hw/kernel/catalogue.h: one entry a kernel kind: name, operands, price, check. Internal to hw/kernel.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hw/kernel/kernel.h"

namespace tw::hw {

struct KernelSpec {
  const char* name;
  const char* source;     // where the price comes from
  double error_fraction;  // error bar of the price (docs/fidelity.md)
  std::vector<Operand> (*operands)(const KernelParams&);
  double (*cycles)(const KernelParams&, const Machine&);
  double (*flops)(const KernelParams&);
};

const KernelSpec& spec_of(KernelKind kind);

// Families, one file each.
extern const KernelSpec gemm_spec, reduce_spec, gelu_spec, unary_spec, binary_spec, cast_spec, statistics_spec,
    normalise_spec, softmax_spec, attention_softmax_spec, attention_merge_spec, row_reduce_spec, fill_spec, copy_spec;

// Bytes from the first to the last element of a panel tensor with this many rows and columns (pads of the last panel
// included) and `stride` rows a panel.
std::int64_t panel_bytes(std::int64_t rows, std::int64_t columns, std::int64_t stride, NumberFormat format);

}  // namespace tw::hw
