// bench/gemm_bench.cpp: numerics of the matmul kernel on the host, in multiply-adds a second.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "hw/kernel/kernel.h"
#include "simulator/kernels/execute.h"

namespace tw {
namespace {

hw::KernelParams params_of(hw::NumberFormat format, int rows, int inner, int columns) {
  hw::KernelParams p;
  p.kind = hw::KernelKind::gemm;
  p.format = format;
  p.out_format = hw::NumberFormat::f16;
  p.rows = rows;
  p.inner = inner;
  p.columns = columns;
  p.row_stride = rows;
  p.out_row_stride = rows;
  return p;
}

// A tile's share of an encoder layer: 82 rows, 192 inner, 160 columns. All operands zero, so the result is zero.
void gemm(benchmark::State& state, hw::NumberFormat format) {
  const hw::KernelParams params = params_of(format, 82, 192, 160);
  if (const Status status = hw::check(params); !status) {
    state.SkipWithError(status.error().message.c_str());
    return;
  }
  std::vector<std::vector<std::byte>> memory(10);
  sim::OperandPointers pointers{};
  for (const hw::Operand& operand : hw::operands(params)) {
    memory[operand.register_number].resize(static_cast<std::size_t>(operand.bytes),
                                           operand.written ? std::byte{0xff} : std::byte{0});
    pointers[operand.register_number] = memory[operand.register_number].data();
  }
  for (auto _ : state) sim::execute(params, pointers);
  for (const std::byte byte : memory[2])
    if (byte != std::byte{0}) {
      state.SkipWithError("zero times zero is not zero");
      return;
    }
  state.counters["macs_per_second"] =
      benchmark::Counter(82.0 * 192 * 160, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(gemm, f143, hw::NumberFormat::f143);
BENCHMARK_CAPTURE(gemm, f16, hw::NumberFormat::f16);

}  // namespace
}  // namespace tw
