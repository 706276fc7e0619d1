// compiler/place/packing_search.h: branch and bound over canonical packings (docs/decisions/0009-exact-placement.md).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw::compiler {

// A buffer whose time is counted in sections: the ranges between neighbouring ends of lifetimes.
struct SectionBuffer {
  std::int32_t first = 0, last = 0;  // half-open
  std::int64_t size = 0;
};

enum class SearchEnd : std::uint8_t { found, exhausted, stopped };

// One depth-first search. The order of the buffers is the order in which they are tried at equal offsets.
class PackingSearch {
 public:
  using Clock = std::chrono::steady_clock;

  PackingSearch(std::vector<SectionBuffer> buffers, std::int64_t capacity);

  // Starts from the beginning and visits at most `nodes` nodes.
  SearchEnd run(std::int64_t nodes, std::optional<Clock::time_point> deadline);

  const std::vector<std::int64_t>& offsets() const { return floor_; }  // by buffer, when found
  // How often each buffer was the one that no longer fitted.
  const std::vector<std::int64_t>& conflicts() const { return conflicts_; }
  std::int64_t nodes() const { return nodes_; }
  bool out_of_time() const { return out_of_time_; }

 private:
  // What a step changed about one buffer, to be taken back.
  struct Change {
    std::int32_t buffer;
    bool placed, waiting;
    std::int64_t floor;
  };

  bool solve(const std::vector<std::int32_t>& open);
  bool solve_parts(const std::vector<std::int32_t>& open, std::int32_t placed);
  std::int32_t lowest(const std::vector<std::int32_t>& open) const;
  bool may_fit(const std::vector<std::int32_t>& open, std::int64_t level);
  bool raise_waiting(const std::vector<std::int32_t>& open, std::int64_t level);
  void place(std::int32_t buffer);
  void remember(std::int32_t buffer);
  void undo(std::size_t mark);
  bool stop();

  std::vector<SectionBuffer> buffers_;
  std::int64_t capacity_;
  std::vector<std::vector<std::int32_t>> neighbours_;  // alive at the same time
  std::vector<std::int32_t> by_start_;

  std::vector<std::int64_t> floor_;  // lowest offset above everything placed so far; the offset itself once placed
  std::vector<std::int64_t> bound_;  // lowest offset that is still possible, at the node in hand
  std::vector<char> placed_;
  std::vector<char> waiting_;  // not at its floor: something that is still open goes below it
  std::vector<Change> changes_;
  std::vector<std::int64_t> conflicts_;
  std::vector<std::int64_t> height_;  // by section, scratch
  std::vector<std::int32_t> sorted_;  // scratch
  std::int64_t nodes_ = 0, node_limit_ = 0;
  std::optional<Clock::time_point> deadline_;
  bool stopped_ = false, out_of_time_ = false;
};

}  // namespace tw::compiler
