// tests/compiler/place/homes_test.cpp: joint homes against written-out numbers, brute force, and their invariants.
#include "compiler/place/homes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "hw/base/units.h"

namespace tw::compiler {
namespace {

std::vector<std::int64_t> loads(const std::vector<HomeGroup>& groups, const Homes& homes, std::size_t tiles) {
  std::vector<std::int64_t> load(tiles);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    EXPECT_EQ(std::accumulate(homes.counts[group].begin(), homes.counts[group].end(), std::int64_t{0}),
              groups[group].panels);
    for (std::size_t slot = 0; slot < groups[group].tiles.size(); ++slot) {
      EXPECT_GE(homes.counts[group][slot], 0);
      load[groups[group].tiles[slot]] += homes.counts[group][slot];
    }
  }
  return load;
}

// The smallest maximum of all ways to share out, one group after the other.
std::int64_t smallest_maximum(const std::vector<HomeGroup>& groups, std::vector<std::int64_t>& load, std::size_t group,
                              std::size_t slot, std::int64_t left) {
  if (group == groups.size()) return *std::max_element(load.begin(), load.end());
  const HomeGroup& now = groups[group];
  const auto next = [&] {
    return smallest_maximum(groups, load, group + 1, 0, group + 1 < groups.size() ? groups[group + 1].panels : 0);
  };
  std::int64_t best = INT64_MAX;
  for (std::int64_t here = slot + 1 == now.tiles.size() ? left : 0; here <= left; ++here) {
    load[now.tiles[slot]] += here;
    best = std::min(
        best, slot + 1 == now.tiles.size() ? next() : smallest_maximum(groups, load, group, slot + 1, left - here));
    load[now.tiles[slot]] -= here;
  }
  return best;
}

TEST(Homes, FourGroupsInARingNeedThreeEach) {
  const std::vector<HomeGroup> groups{{{0, 1}, 3}, {{2, 3}, 3}, {{0, 2}, 3}, {{1, 3}, 3}};
  const Homes homes = balance_homes(groups, 4);
  EXPECT_EQ(homes.most_panels, 3);  // one group after the other: 2 + 2
  EXPECT_EQ(loads(groups, homes, 4), (std::vector<std::int64_t>{3, 3, 3, 3}));
}

// The four products of a layer of the So400m tower: 27 x 1152 ... panels of 32 x 16 on 1472 tiles.
TEST(Homes, S17_TheFourWeightShapesOfALayerTake21Panels) {
  struct Shape {
    int rows, columns, inner;
    std::int64_t column_panels, column_unit, inner_panels;
  };
  std::vector<HomeGroup> groups;
  std::int64_t panels = 0;
  for (const Shape& shape :
       {Shape{5, 72, 4, 216, 1, 36}, {9, 18, 9, 72, 2, 36}, {7, 68, 3, 270, 2, 36}, {3, 18, 27, 72, 2, 135}})
    for (int c = 0; c < shape.columns; ++c)
      for (int k = 0; k < shape.inner; ++k) {
        HomeGroup group;
        const std::int64_t units = shape.column_panels / shape.column_unit;
        const std::int64_t columns =
            shape.column_unit * (balanced_cut(c + 1, units, shape.columns) - balanced_cut(c, units, shape.columns));
        group.panels = columns * (balanced_cut(k + 1, shape.inner_panels, shape.inner) -
                                  balanced_cut(k, shape.inner_panels, shape.inner));
        for (int r = 0; r < shape.rows; ++r)
          group.tiles.push_back(static_cast<std::uint32_t>((r * shape.inner + k) * shape.columns + c));
        panels += group.panels;
        groups.push_back(std::move(group));
      }
  const Homes homes = balance_homes(groups, 1472);
  loads(groups, homes, 1472);
  EXPECT_EQ(homes.most_panels, 21);
  EXPECT_EQ(ceil_div(panels, 1472), 21);  // no homes are smaller
}

RC_GTEST_PROP(Homes, S3_AreAsLowAsBruteForce, ()) {
  const int tiles = *rc::gen::inRange(1, 6);
  std::vector<HomeGroup> groups;
  for (int count = *rc::gen::inRange(1, 4); count > 0; --count) {
    HomeGroup group{{}, *rc::gen::inRange<std::int64_t>(0, 5)};
    for (int tile = 0; tile < tiles; ++tile)
      if (*rc::gen::inRange(0, 2) == 1) group.tiles.push_back(static_cast<std::uint32_t>(tile));
    if (group.tiles.empty()) group.tiles.push_back(0);
    groups.push_back(std::move(group));
  }
  const Homes homes = balance_homes(groups, static_cast<std::size_t>(tiles));
  const std::vector<std::int64_t> load = loads(groups, homes, static_cast<std::size_t>(tiles));
  RC_ASSERT(*std::max_element(load.begin(), load.end()) == homes.most_panels);
  std::vector<std::int64_t> scratch(static_cast<std::size_t>(tiles));
  RC_ASSERT(homes.most_panels == smallest_maximum(groups, scratch, 0, 0, groups[0].panels));
}

TEST(Homes, NothingToPlace) {
  EXPECT_EQ(balance_homes({}, 4).most_panels, 0);
  EXPECT_EQ(balance_homes({}, 0).most_panels, 0);
}

}  // namespace
}  // namespace tw::compiler
