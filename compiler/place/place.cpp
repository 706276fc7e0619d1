#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "compiler/place/problem.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// Half-open address range that a request may lie in.
struct Bounds {
  std::uint32_t low = 0, high = 0;
};

Bounds bounds_of(const PlacementRequest& request, const hw::SramMap& sram) {
  switch (request.regions) {
    case RegionSet::region0: return {sram.base_bytes, sram.region1_base()};
    case RegionSet::region1: return {sram.region1_base(), sram.end()};
    case RegionSet::any: break;
  }
  return {sram.base_bytes, sram.end()};
}

std::uint32_t element_begin(std::uint32_t address, const hw::SramMap& sram) {
  const std::uint32_t base = address < sram.region1_base() ? sram.base_bytes : sram.region1_base();
  const std::uint32_t size = address < sram.region1_base() ? sram.element_bytes : sram.region1_element_bytes;
  return base + (address - base) / size * size;
}

std::uint32_t element_end(std::uint32_t address, const hw::SramMap& sram) {
  return element_begin(address, sram) +
         (address < sram.region1_base() ? sram.element_bytes : sram.region1_element_bytes);
}

bool live_together(const PlacementRequest& a, const PlacementRequest& b) {
  return a.first < b.last && b.first < a.last;
}

class Placer {
 public:
  Placer(const PlacementProblem& problem, const hw::SramMap& sram) : problem_(problem), sram_(sram) {
    partners_.resize(problem.requests.size());
    for (const auto& [a, b] : problem.separate) {
      if (a == b) continue;
      partners_[a].insert(b);
      partners_[b].insert(a);
    }
  }

  // First-fit in this order. Returns the request that found no room, or -1. `widest_gap`: then the most bytes in one
  // piece that there were for it.
  std::int32_t first_fit(const std::vector<std::int32_t>& order, std::vector<std::uint32_t>& address,
                         std::uint32_t& widest_gap) const {
    std::vector<std::int32_t> placed;
    address.assign(problem_.requests.size(), 0);
    for (const std::int32_t index : order) {
      const auto found = lowest_room(index, placed, address, widest_gap);
      if (!found) return index;
      address[index] = *found;
      placed.push_back(index);
    }
    return -1;
  }

 private:
  std::optional<std::uint32_t> lowest_room(std::int32_t index, const std::vector<std::int32_t>& placed,
                                           const std::vector<std::uint32_t>& address, std::uint32_t& widest_gap) const {
    const PlacementRequest& request = problem_.requests[index];
    if (request.fixed_address >= 0) return static_cast<std::uint32_t>(request.fixed_address);
    if (request.bytes == 0) return bounds_of(request, sram_).low;
    // Forbidden ranges [low, high), grown to whole elements for partners; the first gap that is wide enough wins.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;
    for (const std::int32_t other : placed) {
      const PlacementRequest& neighbour = problem_.requests[other];
      if (neighbour.bytes == 0 || !live_together(request, neighbour)) continue;
      std::uint32_t low = address[other], high = address[other] + neighbour.bytes;
      if (partners_[index].contains(other)) {
        low = element_begin(low, sram_);
        high = element_end(high - 1, sram_);
      }
      taken.emplace_back(low, high);
    }
    std::sort(taken.begin(), taken.end());
    const Bounds bounds = bounds_of(request, sram_);
    auto at = static_cast<std::uint32_t>(round_up(bounds.low, request.alignment_bytes));
    widest_gap = 0;
    for (const auto& [low, high] : taken) {
      if (low > at) widest_gap = std::max(widest_gap, std::min(low, bounds.high) - std::min(at, bounds.high));
      if (at + request.bytes <= low) break;
      at = std::max(at, static_cast<std::uint32_t>(round_up(high, request.alignment_bytes)));
    }
    if (at < bounds.high) widest_gap = std::max(widest_gap, bounds.high - at);
    if (at + request.bytes > bounds.high) return std::nullopt;
    return at;
  }

  const PlacementProblem& problem_;
  const hw::SramMap& sram_;
  std::vector<std::set<std::int32_t>> partners_;
};

std::int64_t area(const PlacementRequest& request) {
  return std::int64_t{request.bytes} * (request.last - request.first);
}

// Orders to try: fixed requests first, then each by another measure; ties by index.
std::vector<std::vector<std::int32_t>> orders_of(const PlacementProblem& problem) {
  std::vector<std::int32_t> base(problem.requests.size());
  std::iota(base.begin(), base.end(), 0);
  std::vector<std::int64_t> conflicts(problem.requests.size(), 0);
  for (const auto& [a, b] : problem.separate) {
    ++conflicts[a];
    ++conflicts[b];
  }
  const auto& requests = problem.requests;
  const auto by = [&](auto measure) {
    std::vector<std::int32_t> order = base;
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const bool fixed_a = requests[a].fixed_address >= 0, fixed_b = requests[b].fixed_address >= 0;
      if (fixed_a != fixed_b) return fixed_a;
      return measure(a) > measure(b);
    });
    return order;
  };
  return {by([&](std::int32_t i) { return area(requests[i]); }),
          by([&](std::int32_t i) { return std::int64_t{requests[i].bytes}; }),
          by([&](std::int32_t i) { return std::int64_t{requests[i].last - requests[i].first}; }),
          by([&](std::int32_t i) { return conflicts[i] * (std::int64_t{1} << 32) + requests[i].bytes; }),
          by([&](std::int32_t i) { return -std::int64_t{requests[i].first}; })};
}

// Live bytes by stage, all and those that only one region takes; the largest decides the arithmetic bound.
void fill_sums(const PlacementProblem& problem, const hw::SramMap& sram, PlacementResult& result) {
  std::int32_t stages = 1;
  for (const PlacementRequest& request : problem.requests) stages = std::max(stages, request.last);
  std::vector<std::int64_t> all(static_cast<std::size_t>(stages) + 1, 0), region1 = all;
  for (const PlacementRequest& request : problem.requests) {
    all[request.first] += request.bytes;
    all[request.last] -= request.bytes;
    if (request.regions != RegionSet::region1) continue;
    region1[request.first] += request.bytes;
    region1[request.last] -= request.bytes;
  }
  std::int64_t sum = 0, sum1 = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    sum += all[stage];
    sum1 += region1[stage];
    if (sum > result.peak_bytes) {
      result.peak_bytes = static_cast<std::uint32_t>(sum);
      result.peak_stage = stage;
    }
    const auto bound = [&](std::int64_t needed, std::int64_t available) {
      if (needed <= available || result.proven) return;
      result.proven = true;
      result.event_stage = stage;
      result.needed_bytes = static_cast<std::uint32_t>(needed);
      result.available_bytes = static_cast<std::uint32_t>(available);
    };
    bound(sum, sram.capacity_bytes());
    bound(sum1, sram.region1_bytes);
  }
}

void fill_live(const PlacementProblem& problem, PlacementResult& result) {
  for (std::size_t index = 0; index < problem.requests.size(); ++index) {
    const PlacementRequest& request = problem.requests[index];
    if (request.bytes > 0 && request.first <= result.event_stage && result.event_stage < request.last)
      result.live_requests.push_back(static_cast<std::int32_t>(index));
  }
  std::stable_sort(result.live_requests.begin(), result.live_requests.end(), [&](std::int32_t a, std::int32_t b) {
    return problem.requests[a].bytes > problem.requests[b].bytes;
  });
}

}  // namespace

PlacementResult place(const PlacementProblem& problem, const hw::SramMap& sram) {
  PlacementResult result;
  fill_sums(problem, sram, result);
  if (result.proven) {
    fill_live(problem, result);
    return result;
  }
  const Placer placer(problem, sram);
  std::int32_t failed = -1;
  std::uint32_t widest_gap = 0;
  // In each order, a request that found no room is moved to the front (behind the fixed ones) and the order tried
  // again.
  constexpr int repairs = 64;
  for (std::vector<std::int32_t> order : orders_of(problem)) {
    for (int repair = 0; repair < repairs; ++repair) {
      failed = placer.first_fit(order, result.address_bytes, widest_gap);
      if (failed < 0) {
        result.fits = true;
        return result;
      }
      const auto at = std::find(order.begin(), order.end(), failed);
      const auto front = std::find_if(order.begin(), order.end(),
                                      [&](std::int32_t index) { return problem.requests[index].fixed_address < 0; });
      if (at == front) break;
      std::rotate(front, at, at + 1);
    }
  }
  const PlacementRequest& request = problem.requests[failed];
  result.failed_request = failed;
  result.event_stage = request.first;
  // The stage of this request's life at which most is alive.
  std::int64_t most = -1;
  for (std::int32_t stage = request.first; stage < request.last; ++stage) {
    std::int64_t live = 0;
    for (const PlacementRequest& other : problem.requests)
      if (other.first <= stage && stage < other.last) live += other.bytes;
    if (live > most) {
      most = live;
      result.event_stage = stage;
    }
  }
  // Beside the others there were that many bytes in one piece, with their regions and elements.
  result.needed_bytes = static_cast<std::uint32_t>(most);
  result.available_bytes = result.needed_bytes - request.bytes + std::min(widest_gap, request.bytes - 1);
  result.address_bytes.clear();
  fill_live(problem, result);
  return result;
}

}  // namespace tw::compiler
