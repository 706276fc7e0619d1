#include "compiler/place/homes.h"

#include <algorithm>
#include <deque>
#include <numeric>

namespace tw::compiler {
namespace {

class Balance {
 public:
  Balance(std::span<const HomeGroup> groups, std::size_t tile_count)
      : groups_(groups), load_(tile_count), memberships_(tile_count) {
    for (std::uint32_t group = 0; group < groups.size(); ++group) {
      homes_.counts.emplace_back(groups[group].tiles.size(), 0);
      for (std::uint32_t slot = 0; slot < groups[group].tiles.size(); ++slot)
        memberships_[groups[group].tiles[slot]].push_back({group, slot});
    }
  }

  Homes run() {
    spread_greedily();
    while (lower_the_fullest()) {
    }
    homes_.most_panels = fullest();
    return std::move(homes_);
  }

 private:
  struct Membership {
    std::uint32_t group = 0, slot = 0;
  };
  // How a tile was reached: a panel of `group` moves from slot `from` to slot `to`.
  struct Step {
    std::int32_t group = -1;
    std::uint32_t from = 0, to = 0;
  };

  std::int64_t fullest() const { return load_.empty() ? 0 : *std::max_element(load_.begin(), load_.end()); }

  void spread_greedily() {
    std::vector<std::uint32_t> order(groups_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return groups_[a].panels > groups_[b].panels; });
    for (const std::uint32_t index : order) {
      const HomeGroup& group = groups_[index];
      if (group.tiles.empty()) continue;
      for (std::int64_t panel = 0; panel < group.panels; ++panel) {
        const auto least = std::min_element(
            group.tiles.begin(), group.tiles.end(),
            [&](std::uint32_t a, std::uint32_t b) { return std::pair(load_[a], a) < std::pair(load_[b], b); });
        ++homes_.counts[index][static_cast<std::size_t>(least - group.tiles.begin())];
        ++load_[*least];
      }
    }
  }

  // Brings every tile with the largest load below it; false when one of them cannot: then the load is the smallest.
  bool lower_the_fullest() {
    const std::int64_t most = fullest();
    if (most == 0) return false;
    for (std::uint32_t tile = 0; tile < load_.size(); ++tile)
      if (load_[tile] == most && !hand_on(tile, most - 2)) return false;
    return true;
  }

  // Breadth first over tiles: a panel of the first tile moves to the second, one of the second to the third, ... until
  // a tile has room.
  bool hand_on(std::uint32_t first, std::int64_t room_below) {
    std::vector<Step> reached(load_.size());
    std::vector<char> seen(load_.size());
    std::deque<std::uint32_t> queue{first};
    seen[first] = 1;
    while (!queue.empty()) {
      const std::uint32_t tile = queue.front();
      queue.pop_front();
      for (const auto [group, slot] : memberships_[tile]) {
        if (homes_.counts[group][slot] == 0) continue;
        for (std::uint32_t to = 0; to < groups_[group].tiles.size(); ++to) {
          const std::uint32_t other = groups_[group].tiles[to];
          if (seen[other] != 0) continue;
          seen[other] = 1;
          reached[other] = {static_cast<std::int32_t>(group), slot, to};
          if (load_[other] <= room_below) {
            move_along(first, other, reached);
            return true;
          }
          queue.push_back(other);
        }
      }
    }
    return false;
  }

  void move_along(std::uint32_t first, std::uint32_t last, const std::vector<Step>& reached) {
    --load_[first];
    ++load_[last];
    for (std::uint32_t tile = last; tile != first;) {
      const Step& step = reached[tile];
      const auto group = static_cast<std::size_t>(step.group);
      --homes_.counts[group][step.from];
      ++homes_.counts[group][step.to];
      tile = groups_[group].tiles[step.from];
    }
  }

  std::span<const HomeGroup> groups_;
  Homes homes_;
  std::vector<std::int64_t> load_;                    // by tile
  std::vector<std::vector<Membership>> memberships_;  // by tile
};

}  // namespace

Homes balance_homes(std::span<const HomeGroup> groups, std::size_t tile_count) {
  return Balance(groups, tile_count).run();
}

}  // namespace tw::compiler
