// simulator/system/accounting.h: where the cycles of a run went: stage by stage, barrier by barrier.
//
// Time is cut into windows from one barrier's release to the next. Every tile records what it spent in the window, in
// order. A window's critical path is the work of the tile that arrives last (the lowest of equals), followed by the
// barrier itself: its cycles are split by kind and stage exactly so, hence all parts sum to the cycles of the run.
#pragma once
#include <cstdint>
#include <vector>

#include "hw/program/program.h"
#include "simulator/system/simulation.h"

namespace tw::sim {

// Consecutive cycles of one tile in one stage.
struct Spent {
  std::int32_t stage = 0;
  bool continued = false;  // the same execution of the stage began in an earlier window
  std::int64_t compute = 0, exchange = 0, host = 0;
  std::int64_t cycles() const { return compute + exchange + host; }
};

struct Barrier {
  std::int64_t latest = 0, release = 0;  // last arrival, and when tiles go on
  std::uint32_t critical = 0;            // the tile that arrived last
  std::int32_t stage = 0;                // of that tile
  bool host = false;
};

class Accounting {
 public:
  explicit Accounting(const hw::Program& program);
  void reset();

  // Ends the window. `spent` by tile, taken over; what a tile that is not waited for did after the release stays there.
  void close(std::vector<std::vector<Spent>*>& spent, const Barrier& barrier, RunResult& result);
  // Steady state of the loop that took longest; 0 without one that was executed twice.
  std::int64_t cycles_per_iteration() const;

 private:
  struct Loop {
    std::int32_t begin = 0, end = 0;  // stages between, exclusive
    std::int32_t anchor = -1;         // first exchange stage, by which iterations are told apart
    std::int64_t iterations = 1, last = -1, cycles = 0;
  };
  struct Window {  // of one stage
    std::int64_t tile_cycles = 0, busiest = 0;
    std::int32_t tile_executions = 0, executions = 0;
  };

  void add_tile(std::size_t tile, const std::vector<Spent>& spent, RunResult& result);
  void add_critical_path(const std::vector<Spent>& spent, const Barrier& barrier, RunResult& result);
  void note_iteration(const Barrier& barrier);

  std::vector<Loop> loops_;
  std::vector<Window> windows_;  // by stage; zero between uses
  std::vector<std::int32_t> touched_, touched_by_tile_;
  std::int64_t released_ = 0;
};

}  // namespace tw::sim
