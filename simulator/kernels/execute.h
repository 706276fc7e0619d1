// simulator/kernels/execute.h: what each catalogue kernel computes, on host memory: bit-exact for every thread count.
// Products and sums are so on every instruction set too; exp, tanh and erf are the host library's, within one F32 unit.
// Rounding and accumulation order as in hw/kernel/kernel.h.
#pragma once
#include <array>
#include <cstddef>

#include "hw/kernel/kernel.h"

namespace tw::sim {

// Host addresses of the operands by register number (m2..m9: index 2..9); null where absent.
using OperandPointers = std::array<std::byte*, 10>;

// Executes one call. The caller has checked bounds and alignment of every operand (hw::operands).
void execute(const hw::KernelParams& params, const OperandPointers& operands);

}  // namespace tw::sim
