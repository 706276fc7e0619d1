// compiler/plan/choice.h: what can be chosen for an operation, pinned by a user, and what the runners-up would cost.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "hw/base/result.h"

namespace tw::compiler {

// The cheapest choices of one operation, best first, distinct. Keeps at most `most`.
class Ranking {
 public:
  explicit Ranking(std::size_t most) : most_(most) {}
  const Alternative* best() const { return kept_.empty() ? nullptr : &kept_.front(); }
  // Whether an alternative of this rank would be kept.
  bool wants(const Alternative& alternative) const {
    return kept_.size() < most_ || alternative.rank() < kept_.back().rank();
  }
  void add(const Alternative& alternative);
  std::vector<Alternative> take() { return std::move(kept_); }

 private:
  std::size_t most_;
  std::vector<Alternative> kept_;
};

// Why the first is worse than the second: where its cycles go, or the bytes that it needs beyond the budget.
std::string reason_against(const Alternative& worse, const Alternative& chosen);

// A plan file: pins by operation, in TOML. Reading reports every problem with its line: unknown keys, a grid that is
// no grid, ... (bad_input).
std::string plan_toml(const std::vector<OperationChoice>& choices, const std::string& header);
Result<Pins> read_plan_toml(const std::string& text, const std::string& file);

}  // namespace tw::compiler
