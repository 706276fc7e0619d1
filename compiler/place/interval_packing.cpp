// compiler/place/interval_packing.cpp: live bytes, first-fit in a few orders with repair, then branch and bound.
#include "compiler/place/interval_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "compiler/place/packing_search.h"

namespace tw::compiler {
namespace {

using Order = std::vector<std::int32_t>;
using Clock = PackingSearch::Clock;

Status check(const PackingProblem& problem) {
  if (problem.capacity < 0)
    return fail(ErrorKind::bad_input, fmt::format("a capacity of {} bytes; 0 or more are allowed", problem.capacity));
  std::int64_t sum = 0;
  for (std::size_t index = 0; index < problem.buffers.size(); ++index) {
    const PackingBuffer& buffer = problem.buffers[index];
    const auto bad = [&](const std::string& what) {
      return fail(ErrorKind::bad_input, fmt::format("buffer {}: {}", index, what), {{"buffer", std::to_string(index)}});
    };
    if (buffer.lower >= buffer.upper)
      return bad(fmt::format("it lives from {} to {}, which is no time", buffer.lower, buffer.upper));
    if (buffer.size < 0) return bad(fmt::format("a size of {} bytes", buffer.size));
    if (buffer.size >= largest_packing_bytes - sum)
      return bad(fmt::format("all sizes up to this one sum to more than {} bytes", largest_packing_bytes));
    sum += buffer.size;
  }
  return {};
}

bool overlap(const PackingBuffer& a, const PackingBuffer& b) { return a.lower < b.upper && b.lower < a.upper; }

// One buffer after the other at the lowest offset that is free during its life.
struct FirstFit {
  std::vector<std::int64_t> offsets;
  std::int64_t peak = 0;
  std::int32_t failed = -1;  // position in the order of the first that ends above the capacity
};

FirstFit first_fit(const PackingProblem& problem, const Order& order) {
  FirstFit result;
  result.offsets.assign(problem.buffers.size(), -1);
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const PackingBuffer& buffer = problem.buffers[order[at]];
    taken.clear();
    for (std::size_t before = 0; before < at; ++before) {
      const PackingBuffer& other = problem.buffers[order[before]];
      if (overlap(buffer, other))
        taken.emplace_back(result.offsets[order[before]], result.offsets[order[before]] + other.size);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + buffer.size <= begin) break;
      offset = std::max(offset, end);
    }
    result.offsets[order[at]] = offset;
    result.peak = std::max(result.peak, offset + buffer.size);
    if (result.failed < 0 && offset + buffer.size > problem.capacity) result.failed = static_cast<std::int32_t>(at);
  }
  return result;
}

Order sorted_by(const PackingProblem& problem, const std::function<double(const PackingBuffer&)>& key) {
  Order order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return key(problem.buffers[a]) > key(problem.buffers[b]); });
  return order;
}

double life(const PackingBuffer& buffer) {
  return static_cast<double>(buffer.upper) - static_cast<double>(buffer.lower);
}

// By live bytes at the buffer's fullest time: what is alive when it is tight goes first.
double tightness(const PackingProblem& problem, const PackingBuffer& buffer) {
  double fullest = 0;
  for (const PackingBuffer& at : problem.buffers) {
    const std::int64_t time = std::max(at.lower, buffer.lower);
    if (time >= buffer.upper || time >= at.upper) continue;
    double sum = 0;
    for (const PackingBuffer& other : problem.buffers)
      if (other.lower <= time && time < other.upper) sum += static_cast<double>(other.size);
    fullest = std::max(fullest, sum);
  }
  return fullest;
}

std::vector<Order> orders_of(const PackingProblem& problem) {
  const auto size = [](const PackingBuffer& b) { return static_cast<double>(b.size); };
  const auto area = [&](const PackingBuffer& b) { return size(b) * life(b); };
  std::vector<Order> orders{sorted_by(problem, size), sorted_by(problem, life), sorted_by(problem, area)};
  std::vector<double> tight;
  for (const PackingBuffer& buffer : problem.buffers) tight.push_back(tightness(problem, buffer));
  const auto by_tightness = [&](const std::function<double(const PackingBuffer&)>& then) {
    Order order(problem.buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(tight[a], then(problem.buffers[a])) > std::pair(tight[b], then(problem.buffers[b]));
    });
    return order;
  };
  orders.push_back(by_tightness(life));
  orders.push_back(by_tightness(area));
  orders.push_back(by_tightness(size));
  return orders;
}

// Promotes the buffer that did not fit before the first of those that it overlaps, again and again.
FirstFit repaired(const PackingProblem& problem, Order order) {
  constexpr int attempts = 64;
  FirstFit best = first_fit(problem, order);
  FirstFit now = best;
  for (int attempt = 0; attempt < attempts && now.failed >= 0; ++attempt) {
    const std::int32_t failed = order[now.failed];
    auto to = std::find_if(order.begin(), order.begin() + now.failed, [&](std::int32_t other) {
      return overlap(problem.buffers[failed], problem.buffers[other]);
    });
    if (to == order.begin() + now.failed) break;
    std::rotate(to, order.begin() + now.failed, order.begin() + now.failed + 1);
    now = first_fit(problem, order);
    if (now.peak < best.peak) best = now;
  }
  return best;
}

// Lifetimes in sections between neighbouring ends, buffers in `order`.
std::vector<SectionBuffer> sections_of(const PackingProblem& problem, const Order& order) {
  std::vector<std::int64_t> times;
  for (const PackingBuffer& buffer : problem.buffers) {
    times.push_back(buffer.lower);
    times.push_back(buffer.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto section = [&](std::int64_t time) {
    return static_cast<std::int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<SectionBuffer> buffers;
  for (const std::int32_t index : order) {
    const PackingBuffer& buffer = problem.buffers[index];
    buffers.push_back({section(buffer.lower), section(buffer.upper), buffer.size});
  }
  return buffers;
}

// An order that learns: what often did not fit moves to the front, and slowly falls back.
class LearningOrder {
 public:
  explicit LearningOrder(Order base) : order_(base), base_(std::move(base)), weight_(base_.size()) {}
  const Order& order() const { return order_; }
  const Order& base() const { return base_; }

  void learn(std::span<const std::int64_t> conflicts) {
    constexpr double kept = 0.9, places = 8;  // measured on the public minimalloc problems
    for (std::size_t at = 0; at < order_.size(); ++at) {
      double& weight = weight_[order_[at]];
      weight = weight * kept + std::log2(1 + static_cast<double>(conflicts[at]));
    }
    std::vector<std::pair<double, std::int32_t>> keys;
    for (std::size_t rank = 0; rank < base_.size(); ++rank)
      keys.emplace_back(static_cast<double>(rank) - places * weight_[base_[rank]], base_[rank]);
    std::sort(keys.begin(), keys.end());
    for (std::size_t at = 0; at < keys.size(); ++at) order_[at] = keys[at].second;
  }

 private:
  Order order_, base_;
  std::vector<double> weight_;  // by buffer
};

// Branch and bound in each order by turns. Short tries in orders that learn find what there is to find; now and then
// the orders as they were get more and more nodes, so that the search ends some day.
class TurnSearch {
 public:
  TurnSearch(const PackingProblem& problem, const PackingLimits& limits, PackingResult& result)
      : problem_(problem), limits_(limits), result_(result) {
    if (limits.seconds > 0)
      deadline_ =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  }

  void run(const std::vector<Order>& orders) {
    constexpr std::int64_t short_nodes = 1500, growth = 2;
    constexpr int short_tries = 16;
    std::vector<LearningOrder> learning(orders.begin(), orders.end());
    for (std::int64_t nodes = short_nodes * short_tries;; nodes *= growth) {
      for (int turn = 0; turn < short_tries; ++turn)
        for (LearningOrder& order : learning) {
          if (ended(order.order(), short_nodes)) return;
          order.learn(conflicts_);
        }
      for (const LearningOrder& order : learning)
        if (ended(order.base(), nodes)) return;
    }
  }

 private:
  // One try. True when there is an answer or no time left.
  bool ended(const Order& order, std::int64_t nodes) {
    PackingSearch search(sections_of(problem_, order), problem_.capacity);
    const SearchEnd end = search.run(std::min(nodes, limits_.nodes - result_.nodes), deadline_);
    result_.nodes += search.nodes();
    conflicts_.assign(search.conflicts().begin(), search.conflicts().end());
    if (end == SearchEnd::exhausted) {
      result_.answer = PackingAnswer::does_not_fit;
      result_.proof = PackingProof::search;
      result_.lower_bound = std::max(result_.lower_bound, problem_.capacity + 1);
      return true;
    }
    if (end == SearchEnd::found) {
      result_.answer = PackingAnswer::fits;
      result_.proof = PackingProof::placement;
      result_.offsets.assign(problem_.buffers.size(), 0);
      for (std::size_t at = 0; at < order.size(); ++at) result_.offsets[order[at]] = search.offsets()[at];
      return true;
    }
    result_.out_of_time = search.out_of_time();
    return result_.out_of_time || result_.nodes >= limits_.nodes;
  }

  const PackingProblem& problem_;
  const PackingLimits& limits_;
  PackingResult& result_;
  std::optional<Clock::time_point> deadline_;
  std::vector<std::int64_t> conflicts_;
};

}  // namespace

const char* name_of(PackingProof proof) {
  switch (proof) {
    case PackingProof::placement: return "placement";
    case PackingProof::bound: return "bound";
    case PackingProof::search: return "search";
    case PackingProof::none: break;
  }
  return "none";
}

std::int64_t live_bytes(std::span<const PackingBuffer> buffers) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const PackingBuffer& buffer : buffers) {
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, -buffer.size);
  }
  std::sort(changes.begin(), changes.end());  // at one time, what ends goes first
  std::int64_t live = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, live += change);
  return most;
}

Result<PackingResult> pack(const PackingProblem& problem, const PackingLimits& limits) {
  TW_TRY_STATUS(check(problem));
  PackingResult result;
  result.lower_bound = live_bytes(problem.buffers);
  if (result.lower_bound > problem.capacity) {
    result.answer = PackingAnswer::does_not_fit;
    result.proof = PackingProof::bound;
    return result;
  }
  const std::vector<Order> orders = orders_of(problem);
  for (const Order& order : orders) {
    FirstFit found = repaired(problem, order);
    if (found.peak > problem.capacity) continue;
    result.answer = PackingAnswer::fits;
    result.proof = PackingProof::placement;
    result.offsets = std::move(found.offsets);
    break;
  }
  if (result.answer == PackingAnswer::unknown) TurnSearch(problem, limits, result).run(orders);
  for (std::size_t index = 0; index < result.offsets.size(); ++index)
    result.peak = std::max(result.peak, result.offsets[index] + problem.buffers[index].size);
  return result;
}

std::vector<Violation> verify_packing(const PackingProblem& problem, std::span<const std::int64_t> offsets) {
  std::vector<Violation> found;
  const auto& buffers = problem.buffers;
  if (offsets.size() != buffers.size())
    return {{"packing.count", fmt::format("{} offsets for {} buffers", offsets.size(), buffers.size())}};
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    if (offsets[a] < 0 || buffers[a].size > problem.capacity - offsets[a])
      found.push_back({"packing.capacity", fmt::format("buffer {}: {} bytes at {} leave the capacity of {}", a,
                                                       buffers[a].size, offsets[a], problem.capacity)});
    for (std::size_t b = 0; b < a; ++b) {
      const bool in_time = buffers[a].lower < buffers[b].upper && buffers[b].lower < buffers[a].upper;
      const bool in_space = offsets[a] < offsets[b] + buffers[b].size && offsets[b] < offsets[a] + buffers[a].size;
      if (in_time && in_space)
        found.push_back(
            {"packing.disjoint", fmt::format("buffers {} at {} and {} at {} overlap", b, offsets[b], a, offsets[a])});
    }
  }
  return found;
}

}  // namespace tw::compiler
