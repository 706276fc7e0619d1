// simulator/system/accounting.cpp: splits each window between barriers among stages and kinds.
#include "simulator/system/accounting.h"

#include <algorithm>

#include "hw/base/check.h"

namespace tw::sim {
namespace {

// Cuts off and returns what lies behind the first `cycles` cycles.
std::vector<Spent> cut_after(std::vector<Spent>& spent, std::int64_t cycles) {
  std::size_t index = 0;
  for (; index < spent.size() && spent[index].cycles() <= cycles; ++index) cycles -= spent[index].cycles();
  std::vector<Spent> rest(spent.begin() + static_cast<std::ptrdiff_t>(index), spent.end());
  spent.resize(index);
  if (rest.empty() || cycles == 0) return rest;
  Spent before = rest.front();
  const auto take = [&](std::int64_t& part, std::int64_t& remaining) {
    part = std::min(remaining, cycles);
    remaining -= part;
    cycles -= part;
  };
  take(before.compute, rest.front().compute);
  take(before.exchange, rest.front().exchange);
  take(before.host, rest.front().host);
  rest.front().continued = true;
  spent.push_back(before);
  return rest;
}

}  // namespace

Accounting::Accounting(const hw::Program& program) : windows_(program.stages.size()) {
  std::vector<std::int32_t> open;
  for (std::size_t stage = 0; stage < program.stages.size(); ++stage) {
    const hw::StageInfo& info = program.stages[stage];
    if (info.kind == hw::StageKind::loop_begin) open.push_back(static_cast<std::int32_t>(stage));
    if (info.kind == hw::StageKind::loop_end && !open.empty()) {
      Loop loop{.begin = open.back(), .end = static_cast<std::int32_t>(stage)};
      for (std::int32_t inside = loop.begin; inside <= loop.end; ++inside)
        loop.iterations = std::max<std::int64_t>(loop.iterations, program.stages[inside].iterations);
      for (std::int32_t inside = loop.end; inside > loop.begin; --inside)
        if (program.stages[inside].kind == hw::StageKind::exchange) loop.anchor = inside;
      loops_.push_back(loop);
      open.pop_back();
    }
  }
}

void Accounting::reset() {
  released_ = 0;
  for (Loop& loop : loops_) {
    loop.last = -1;
    loop.cycles = 0;
  }
}

void Accounting::close(std::vector<std::vector<Spent>*>& spent, const Barrier& barrier, RunResult& result) {
  for (std::size_t tile = 0; tile < spent.size(); ++tile) {
    std::vector<Spent> rest = cut_after(*spent[tile], barrier.release - released_);
    add_tile(tile, *spent[tile], result);
    if (tile == barrier.critical) add_critical_path(*spent[tile], barrier, result);
    *spent[tile] = std::move(rest);
  }
  for (const std::int32_t stage : touched_) {
    Window& window = windows_[stage];
    result.stages[stage].busiest_tile_cycles += window.busiest;
    result.stages[stage].executions += window.executions;
    window = Window{};
  }
  touched_.clear();
  released_ = barrier.release;
  if (!barrier.host) note_iteration(barrier);
}

void Accounting::add_tile(std::size_t tile, const std::vector<Spent>& spent, RunResult& result) {
  std::int64_t at = released_;
  touched_by_tile_.clear();
  for (const Spent& entry : spent) {
    Window& window = windows_[entry.stage];
    StageResult& stage = result.stages[entry.stage];
    if (window.tile_cycles == 0) touched_by_tile_.push_back(entry.stage);
    if (!entry.continued) ++window.tile_executions;
    const std::int64_t end = at + entry.cycles();
    const bool first = entry.continued ? stage.executions == 1 : stage.executions == 0 && window.tile_executions == 1;
    if (first) {
      if (!entry.continued) stage.start_cycle = stage.end_cycle == 0 ? at : std::min(stage.start_cycle, at);
      stage.end_cycle = std::max(stage.end_cycle, end);
    }
    window.tile_cycles += entry.cycles();
    at = end;
  }
  for (const std::int32_t index : touched_by_tile_) {
    Window& window = windows_[index];
    if (window.busiest == 0) touched_.push_back(index);
    window.busiest = std::max(window.busiest, window.tile_cycles);
    window.executions = std::max(window.executions, window.tile_executions);
    result.stages[index].busy_tile_cycles += window.tile_cycles;
    result.tile_busy_cycles[tile] += window.tile_cycles;
    window.tile_cycles = 0;
    window.tile_executions = 0;
  }
}

void Accounting::add_critical_path(const std::vector<Spent>& spent, const Barrier& barrier, RunResult& result) {
  std::int64_t at = released_;
  for (const Spent& entry : spent) {
    at += entry.cycles();
    result.stages[entry.stage].cycles += entry.cycles();
    result.compute_cycles += entry.compute;
    result.exchange_cycles += entry.exchange;
    result.host_cycles += entry.host;
  }
  TW_CHECK(at == barrier.latest, "critical path ends at {}, barrier at {}", at, barrier.latest);
  const std::int64_t cycles = barrier.release - barrier.latest;
  StageResult& stage = result.stages[barrier.stage];
  stage.cycles += cycles;
  const bool continued = !spent.empty() && spent.back().continued;
  if (stage.executions == (continued ? 1 : 0)) stage.end_cycle = std::max(stage.end_cycle, barrier.release);
  (barrier.host ? result.host_cycles : result.sync_cycles) += cycles;
}

void Accounting::note_iteration(const Barrier& barrier) {
  for (Loop& loop : loops_) {
    if (barrier.stage != loop.anchor) continue;
    if (loop.last >= 0) loop.cycles = barrier.release - loop.last;
    loop.last = barrier.release;
  }
}

std::int64_t Accounting::cycles_per_iteration() const {
  const Loop* largest = nullptr;
  for (const Loop& loop : loops_)
    if (largest == nullptr || loop.cycles * loop.iterations > largest->cycles * largest->iterations) largest = &loop;
  return largest == nullptr ? 0 : largest->cycles;
}

}  // namespace tw::sim
