// compiler/place/packing_search.cpp: every packing can be pushed down until each buffer lies at 0 or on another one,
// and then be built from the lowest buffer to the highest. The search builds exactly those: at each node, the buffer
// with the lowest floor is either put there, or has to wait until an open buffer has been put below it.
#include "compiler/place/packing_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace tw::compiler {

PackingSearch::PackingSearch(std::vector<SectionBuffer> buffers, std::int64_t capacity)
    : buffers_(std::move(buffers)), capacity_(capacity) {
  const auto count = static_cast<std::int32_t>(buffers_.size());
  neighbours_.resize(buffers_.size());
  std::int32_t sections = 0;
  for (std::int32_t a = 0; a < count; ++a) {
    sections = std::max(sections, buffers_[a].last);
    for (std::int32_t b = 0; b < count; ++b)
      if (a != b && buffers_[a].first < buffers_[b].last && buffers_[b].first < buffers_[a].last)
        neighbours_[a].push_back(b);
  }
  conflicts_.resize(buffers_.size());
  height_.resize(static_cast<std::size_t>(sections));
  by_start_.resize(buffers_.size());
  std::iota(by_start_.begin(), by_start_.end(), 0);
  std::stable_sort(by_start_.begin(), by_start_.end(),
                   [&](std::int32_t a, std::int32_t b) { return buffers_[a].first < buffers_[b].first; });
}

SearchEnd PackingSearch::run(std::int64_t nodes, std::optional<Clock::time_point> deadline) {
  floor_.assign(buffers_.size(), 0);
  bound_.assign(buffers_.size(), 0);
  placed_.assign(buffers_.size(), 0);
  waiting_.assign(buffers_.size(), 0);
  changes_.clear();
  nodes_ = 0;
  node_limit_ = nodes;
  deadline_ = deadline;
  stopped_ = out_of_time_ = false;
  if (solve_parts(by_start_, -1)) return SearchEnd::found;
  return stopped_ ? SearchEnd::stopped : SearchEnd::exhausted;
}

bool PackingSearch::stop() {
  constexpr std::int64_t nodes_between_looks = 256;
  if (++nodes_ > node_limit_) stopped_ = true;
  if (deadline_ && nodes_ % nodes_between_looks == 0 && Clock::now() >= *deadline_) stopped_ = out_of_time_ = true;
  return stopped_;
}

void PackingSearch::remember(std::int32_t buffer) {
  changes_.push_back({buffer, placed_[buffer] != 0, waiting_[buffer] != 0, floor_[buffer]});
}

void PackingSearch::undo(std::size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) {
    const Change& change = changes_.back();
    placed_[change.buffer] = change.placed ? 1 : 0;
    waiting_[change.buffer] = change.waiting ? 1 : 0;
    floor_[change.buffer] = change.floor;
  }
}

// Puts a buffer on its floor; those that wait for something below them and now lie on this one wait no longer.
void PackingSearch::place(std::int32_t buffer) {
  remember(buffer);
  placed_[buffer] = 1;
  const std::int64_t top = floor_[buffer] + buffers_[buffer].size;
  for (const std::int32_t other : neighbours_[buffer]) {
    if (placed_[other] != 0 || floor_[other] >= top) continue;
    remember(other);
    floor_[other] = top;
    waiting_[other] = 0;
  }
}

std::int32_t PackingSearch::lowest(const std::vector<std::int32_t>& open) const {
  std::int32_t best = -1;
  for (const std::int32_t buffer : open)
    if (waiting_[buffer] == 0 && (best < 0 || std::pair(floor_[buffer], buffer) < std::pair(floor_[best], best)))
      best = buffer;
  return best;
}

// A waiting buffer ends up on an open one that takes some of the room at its floor: at least as high as the lowest of
// those ends. When nothing takes that room, the buffer might as well lie there: another node does that.
bool PackingSearch::raise_waiting(const std::vector<std::int32_t>& open, std::int64_t level) {
  for (const std::int32_t buffer : open) bound_[buffer] = waiting_[buffer] != 0 ? level : floor_[buffer];
  for (const std::int32_t buffer : open) {
    if (waiting_[buffer] == 0) continue;
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    const std::int64_t room_end = floor_[buffer] + buffers_[buffer].size;
    std::int64_t raised = none;
    for (const std::int32_t other : neighbours_[buffer])
      if (placed_[other] == 0 && bound_[other] < room_end)
        raised = std::min(raised, bound_[other] + buffers_[other].size);
    if (raised == none) return false;
    bound_[buffer] = std::max(bound_[buffer], raised);
  }
  return true;
}

// Stacks, section by section, what is open there in order of its lowest offset: no packing ends lower.
bool PackingSearch::may_fit(const std::vector<std::int32_t>& open, std::int64_t level) {
  if (!raise_waiting(open, level)) return false;
  sorted_ = open;
  std::sort(sorted_.begin(), sorted_.end(), [&](std::int32_t a, std::int32_t b) { return bound_[a] < bound_[b]; });
  std::fill(height_.begin(), height_.end(), 0);
  for (const std::int32_t buffer : sorted_) {
    const auto& [first, last, size] = buffers_[buffer];
    std::int64_t highest = 0;
    for (std::int32_t section = first; section < last; ++section) {
      height_[section] = std::max(height_[section], bound_[buffer]) + size;
      highest = std::max(highest, height_[section]);
    }
    if (highest > capacity_) {
      ++conflicts_[buffer];
      return false;
    }
  }
  return true;
}

// Open buffers of one stretch of time, sorted by start.
bool PackingSearch::solve(const std::vector<std::int32_t>& open) {
  const std::size_t mark = changes_.size();
  while (!stop()) {
    const std::int32_t buffer = lowest(open);
    if (buffer < 0 || !may_fit(open, floor_[buffer])) break;
    const std::size_t before = changes_.size();
    place(buffer);
    if (solve_parts(open, buffer)) return true;
    if (stopped_) return false;
    undo(before);
    remember(buffer);
    waiting_[buffer] = 1;
  }
  undo(mark);
  return false;
}

// Solves what is open but `placed`, each stretch of time that nothing crosses the ends of on its own.
bool PackingSearch::solve_parts(const std::vector<std::int32_t>& open, std::int32_t placed) {
  const std::size_t mark = changes_.size();
  std::vector<std::int32_t> part;
  std::int32_t end = 0;
  for (const std::int32_t buffer : open) {
    if (buffer == placed) continue;
    if (!part.empty() && buffers_[buffer].first >= end) {
      if (!solve(part)) {
        if (!stopped_) undo(mark);
        return false;
      }
      part.clear();
    }
    part.push_back(buffer);
    end = std::max(end, buffers_[buffer].last);
  }
  if (part.empty() || solve(part)) return true;
  if (!stopped_) undo(mark);
  return false;
}

}  // namespace tw::compiler
