// bench/place_bench.cpp: SRAM placement of one tile, in buffers a second.
#include <benchmark/benchmark.h>

#include "compiler/place/problem.h"
#include "hw/base/random.h"

namespace tw {
namespace {

// Buffers with short lifetimes over 100 stages, about half of the SRAM alive at a time.
compiler::PlacementProblem problem_of(int buffers) {
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t limit) { return random_bits(7, drawn++) % limit; };
  compiler::PlacementProblem problem;
  for (int i = 0; i < buffers; ++i) {
    const auto first = static_cast<std::int32_t>(below(96));
    compiler::PlacementRequest request;
    request.name = std::to_string(i);
    request.bytes = static_cast<std::uint32_t>(8 * (1 + below(3000 * 40 / static_cast<std::uint64_t>(buffers))));
    request.first = first;
    request.last = first + 1 + static_cast<std::int32_t>(below(4));
    problem.requests.push_back(request);
  }
  return problem;
}

void place(benchmark::State& state) {
  const auto machine = hw::load_machine("ipu21");
  if (!machine) {
    state.SkipWithError(machine.error().message.c_str());
    return;
  }
  const auto problem = problem_of(static_cast<int>(state.range(0)));
  const auto once = compiler::place(problem, machine->sram);
  if (!once.fits || !compiler::verify_placement(problem, once, machine->sram).empty()) {
    state.SkipWithError("the placement is wrong");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(compiler::place(problem, machine->sram));
  state.counters["buffers_per_second"] =
      benchmark::Counter(static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(place)->Arg(40)->Arg(200)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tw
