// bench/gather_bench.cpp: which runs of bytes make up an operand, in operand bytes a second.
#include <benchmark/benchmark.h>

#include "compiler/layout/gather.h"

namespace tw {
namespace {

// One row block of a 729 x 1152 activation on a 24 x 12 grid: 31 rows, all columns.
void gather_runs(benchmark::State& state) {
  hw::TensorLayout source{.format = hw::NumberFormat::f16, .groups = {1, 1152, 1152}};
  source.row_cuts = hw::balanced_cuts(729, 24, 1, true);
  source.column_cuts = hw::balanced_cuts(1152, 12, source.panel(), false);
  const hw::MatrixView view = hw::plain_view(729, 1152);
  const compiler::OperandBlock block{50, 81, 0, 1152, 31};
  const auto runs = compiler::gather_runs({&source, 1152}, view, source.groups, block);
  if (!compiler::covers(runs, block, source)) {
    state.SkipWithError("the runs leave bytes out");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(compiler::gather_runs({&source, 1152}, view, source.groups, block));
  state.counters["runs"] = static_cast<double>(runs.size());
  state.counters["bytes_per_second"] =
      benchmark::Counter(31.0 * 1152 * 2, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(gather_runs)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tw
