// bench/exchange_bench.cpp: exchange schedules and the codec of rows, in words scheduled and rows coded a second.
#include <benchmark/benchmark.h>

#include <vector>

#include "compiler/exchange/phase.h"
#include "hw/isa/row.h"

namespace tw {
namespace {

const hw::Machine& machine() {
  static const hw::Machine loaded = *hw::load_machine("ipu21");
  return loaded;
}

// All-gather by multicast in groups of neighbours: each tile sends its shard once to the whole group.
std::vector<compiler::Transfer> all_gather(std::uint32_t group, std::uint32_t words) {
  std::vector<compiler::Transfer> transfers;
  const std::uint32_t tiles = 1472 / group * group;
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    compiler::Transfer transfer{{tile}, 0x50000, words, {}};
    const std::uint32_t first = tile / group * group;
    for (std::uint32_t to = first; to < first + group; ++to)
      transfer.destinations.push_back({{to}, 0x80000 + 4 * words * (tile - first)});
    transfers.push_back(std::move(transfer));
  }
  return transfers;
}

void schedule_phase(benchmark::State& state) {
  const auto group = static_cast<std::uint32_t>(state.range(0));
  const auto transfers = all_gather(group, 96);
  const auto once = compiler::schedule_phase(transfers, machine());
  if (!once || !compiler::verify_phase(transfers, *once, machine()).empty()) {
    state.SkipWithError("the schedule is wrong");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(compiler::schedule_phase(transfers, machine()));
  const double words = 96.0 * group * static_cast<double>(transfers.size());
  state.counters["words_per_second"] = benchmark::Counter(words, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["events"] = once->horizon_events;
  state.counters["busiest_items"] = static_cast<double>(once->busiest_items);
}
BENCHMARK(schedule_phase)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);

// The rows of such a phase, encoded and decoded again.
void row_codec(benchmark::State& state) {
  const auto phase = compiler::schedule_phase(all_gather(16, 96), machine());
  if (!phase) {
    state.SkipWithError(phase.error().message.c_str());
    return;
  }
  for (auto _ : state)
    for (const hw::RowSchedule& row : phase->rows) {
      const auto code = hw::encode_row(row, 0);
      const auto back = code ? hw::decode_row(*code) : fail(ErrorKind::corrupt, "not encoded");
      if (!back || !hw::equivalent(back->schedule, row)) {
        state.SkipWithError("decode(encode(row)) differs");
        return;
      }
    }
  state.counters["rows_per_second"] =
      benchmark::Counter(static_cast<double>(phase->rows.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(row_codec)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tw
