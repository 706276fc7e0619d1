// compiler/lower/weight_homes.h: the homes of all weights of a plan, balanced jointly within each Repeat.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/lower/lowered.h"
#include "compiler/place/homes.h"
#include "compiler/plan/plan.h"

namespace tw::compiler {

// Weights are stored in panels. What is iterated by one Repeat (or by none) shares a pool: on each tile the panels of
// one matmul behind those of the one before, so that a tile's sum counts and not the sum of the maxima.
class WeightHomes {
 public:
  WeightHomes(const Plan& plan, std::size_t tiles);

  // One pool: as many panels as its fullest tile has.
  struct Pool {
    std::int64_t panel_bytes = 0, panels = 0;
    bool iterated = false;
    Place base;  // set when it is reserved
    bool reserved = false;
  };
  struct StepHomes {
    std::size_t pool = 0;
    Grid grid;
    std::vector<std::vector<std::int64_t>> counts;  // by c * inner groups + k, by row group
    std::vector<std::int64_t> first;                // by tile: panels of the pool before this step's
  };

  // The homes of one step.
  class Home {
   public:
    Home(const StepHomes& step, const Pool& pool) : step_(step), pool_(pool) {}
    std::int64_t panel_bytes() const { return pool_.panel_bytes; }
    // Panels [first, second) of block (c, k), in block order, that live with row group r.
    std::pair<std::int64_t, std::int64_t> panels(int r, int c, int k) const;
    // Where this tile's panels start.
    Place place(std::uint32_t tile) const;

   private:
    const StepHomes& step_;
    const Pool& pool_;
  };

  StepHomes& of(const Step& step) { return steps_.at(step.result); }
  std::vector<Pool>& pools() { return pools_; }

 private:
  void add_pool(const Plan& plan, const std::vector<const Step*>& steps, bool iterated, std::size_t tiles);

  std::map<std::int32_t, StepHomes> steps_;  // by the step's result
  std::vector<Pool> pools_;
};

}  // namespace tw::compiler
