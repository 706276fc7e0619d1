// tests/compiler/exchange/phase_test.cpp: schedules of regular and random phases, replayed word by word.
#include "compiler/exchange/phase.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <algorithm>

#include "hw/base/random.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

const hw::Machine& machine_of(const char* name) {
  static const hw::Machine full = *hw::load_machine("ipu21");
  static const hw::Machine small = *hw::load_machine("ipu21-64");
  return name == std::string("ipu21") ? full : small;
}
const hw::Machine& full() { return machine_of("ipu21"); }
const hw::Machine& small() { return machine_of("ipu21-64"); }

// The full machine without double words.
const hw::Machine& full_single() {
  static const hw::Machine machine = [] {
    hw::Machine single = full();
    single.fabric.pair_min_items = 0;
    return single;
  }();
  return machine;
}

std::string first_of(const std::vector<Violation>& violations) {
  return violations.empty() ? "" : violations.front().rule + ": " + violations.front().message;
}

PhaseSchedule scheduled(const std::vector<Transfer>& transfers, const hw::Machine& machine) {
  auto schedule = schedule_phase(transfers, machine);
  EXPECT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(first_of(verify_phase(transfers, *schedule, machine)), "");
  return std::move(*schedule);
}

constexpr std::uint32_t from = 0x50000, to = 0x80000;

TEST(Phase, NothingToDo) {
  const PhaseSchedule schedule = scheduled({}, full());
  EXPECT_EQ(schedule.rows.size(), 1472U);
  EXPECT_EQ(schedule.horizon_events, 0);
}

// The vendor's rows of 3 words from tile 0 to tiles 274 and 1286: the first receiver selects at event 1.
TEST(Phase, MulticastOfVendorRows) {
  const std::vector<Transfer> transfers = {{TileId{0}, 0, 3, {{TileId{274}, 0x50000}, {TileId{1286}, 0x50000}}}};
  const PhaseSchedule schedule = scheduled(transfers, full());
  EXPECT_EQ(*hw::encode_row(schedule.rows[0], 0),
            (std::vector<std::uint32_t>{0x41800003, 0x40a00016, 0x78400003, 0x43a00000}));
  const auto starts_at_1 = [&](std::uint32_t tile) { return schedule.rows[tile].sources.front().event == 1; };
  const std::uint32_t first = starts_at_1(274) ? 274 : 1286;
  EXPECT_EQ(*hw::encode_row(schedule.rows[first], 0),
            (std::vector<std::uint32_t>{0x41800003, 0x64000000, 0x64008640, 0x61814000, 0x40a00007, 0x43a00000}));
}

TEST(Phase, TileReceivesFromItself) {
  for (const std::uint32_t words : {1U, 2U, 26U, 27U, 28U, 29U, 30U, 600U})  // about 28: the way round its own bus
    for (const std::uint32_t tile : {0U, 1U, 6U, 700U, 1471U})
      scheduled({{TileId{tile}, from, words, {{TileId{tile}, to}, {TileId{(tile + 5) % 1472}, to}}}}, full());
}

TEST(Phase, LongTransfersAreCut) {
  const PhaseSchedule schedule = scheduled({{TileId{3}, from, 10000, {{TileId{9}, to}}}}, small());
  EXPECT_EQ(schedule.busiest_items, 10000);
  EXPECT_LE(schedule.horizon_events, 10000 + 170);
  EXPECT_EQ(schedule.rows[9].pointers.size(), 1U);  // the pointer runs on
  EXPECT_EQ(schedule.rows[9].sources.size(), 2U);   // and so does the source
}

TEST(Phase, SameTransfersSameSchedule) {
  std::vector<Transfer> transfers;
  for (std::uint32_t i = 0; i < 60; ++i) transfers.push_back({TileId{i}, from, 10 + i, {{TileId{(i * 7) % 64}, to}}});
  const PhaseSchedule a = scheduled(transfers, small());
  const PhaseSchedule b = scheduled(transfers, small());
  EXPECT_EQ(a.rows, b.rows);
}

// All-gather by multicast: every tile of a group sends its shard once to the whole group.
std::vector<Transfer> multicast_gather(int group, int words, int tiles) {
  std::vector<Transfer> transfers;
  for (int tile = 0; tile < tiles / group * group; ++tile) {
    const int first = tile / group * group;
    Transfer transfer{{static_cast<std::uint32_t>(tile)}, from, static_cast<std::uint32_t>(words), {}};
    for (int to_tile = first; to_tile < first + group; ++to_tile)
      transfer.destinations.push_back(
          {{static_cast<std::uint32_t>(to_tile)}, to + static_cast<std::uint32_t>(4 * words * (tile - first))});
    transfers.push_back(transfer);
  }
  return transfers;
}

// Reduce-scatter: tile i of a group sends block j to tile j; members of a group are `stride` tiles apart.
std::vector<Transfer> reduce_scatter(int group, int words, int stride, int tiles) {
  std::vector<Transfer> transfers;
  for (int first = 0; first < tiles; ++first) {
    const int last = first + (group - 1) * stride;
    if (first / stride % group != 0 || last >= tiles) continue;
    for (int i = 0; i < group; ++i)
      for (int j = 0; j < group; ++j)
        if (i != j)
          transfers.push_back({{static_cast<std::uint32_t>(first + i * stride)},
                               from + static_cast<std::uint32_t>(4 * words * j),
                               static_cast<std::uint32_t>(words),
                               {{{static_cast<std::uint32_t>(first + j * stride)},
                                 to + static_cast<std::uint32_t>(4 * words * (i < j ? i : i - 1))}}});
  }
  return transfers;
}

// Regular collectives stay near the words of the busiest lane (planner's price: words + 100, plus 2 % for gathers).
TEST(Phase, GathersReachTheirBound) {
  for (const auto& [group, words] : {std::pair{72, 146}, {18, 144}, {5, 691}}) {
    const PhaseSchedule schedule = scheduled(multicast_gather(group, words, 1472), full_single());
    EXPECT_EQ(schedule.busiest_items, group * words);
    EXPECT_LE(schedule.horizon_events, schedule.busiest_items * 102 / 100 + 140) << group << " x " << words;
  }
}

// The same to whole physical pairs: double words, half the events.
TEST(Phase, PairedGathersReachTheirBound) {
  for (const auto& [group, words] : {std::pair{72, 146}, {18, 144}, {46, 128}}) {
    const PhaseSchedule schedule = scheduled(multicast_gather(group, words, 1472), full());
    EXPECT_EQ(schedule.busiest_items, group * words / 2);
    EXPECT_LE(schedule.horizon_events, schedule.busiest_items * 103 / 100 + 140) << group << " x " << words;
  }
}

// A run of fewer than 64 items, an odd number of words, an odd receiver, an address between double words: words.
TEST(Phase, PairsKeepTheirRules) {
  const auto is_wide = [](const Transfer& transfer) {
    const PhaseSchedule schedule = scheduled({transfer}, full());
    return schedule.rows[transfer.source.value].sends[0].wide();
  };
  const Transfer good{TileId{9}, from, 128, {{TileId{100}, to}, {TileId{101}, to + 8}}};
  EXPECT_TRUE(is_wide(good));
  Transfer other = good;
  other.words = 126;
  EXPECT_FALSE(is_wide(other));
  other.words = 129;
  EXPECT_FALSE(is_wide(other));
  other = good;
  other.destinations[1].tile = TileId{102};
  EXPECT_FALSE(is_wide(other));
  other = good;
  other.destinations[1].address_bytes = to + 4;
  EXPECT_FALSE(is_wide(other));
  other = good;
  other.address_bytes = from + 4;
  EXPECT_FALSE(is_wide(other));
  other = good;
  other.destinations.push_back({TileId{102}, to});
  EXPECT_FALSE(is_wide(other));
  const PhaseSchedule single = *schedule_phase(std::vector{good}, full_single());
  EXPECT_FALSE(single.rows[9].sends[0].wide());
}

TEST(Phase, ReduceScattersReachTheirBound) {
  for (const auto& [group, words, stride] :
       {std::tuple{4, 657, 1}, {9, 288, 1}, {15, 293, 1}, {27, 288, 54}, {4, 657, 72}, {15, 293, 24}}) {
    const PhaseSchedule schedule = scheduled(reduce_scatter(group, words, stride, 1472), full());
    EXPECT_EQ(schedule.busiest_items, (group - 1) * words);
    EXPECT_LE(schedule.horizon_events, schedule.busiest_items * 102 / 100 + 140) << group << " x " << words;
  }
}

// Two collectives in one phase: multicasts to 60 tiles, and an uneven all-gather of 4 tiles sent once to the other
// three.
TEST(Phase, MixedCollectivesStayNearTheirBound) {
  std::vector<Transfer> transfers = multicast_gather(60, 100, 60);
  for (std::uint32_t tile = 0; tile < 60; ++tile) {
    const std::uint32_t first = tile / 4 * 4;
    const auto begin = static_cast<std::uint32_t>(balanced_cut(tile - first, 23, 4)) * 64;
    const auto end = static_cast<std::uint32_t>(balanced_cut(tile - first + 1, 23, 4)) * 64;
    Transfer transfer{TileId{tile}, 0x60000, end - begin, {}};
    for (std::uint32_t other = first; other < first + 4; ++other)
      if (other != tile) transfer.destinations.push_back({TileId{other}, 0xa0000 + 4 * begin});
    transfers.push_back(transfer);
  }
  const PhaseSchedule schedule = scheduled(transfers, small());
  EXPECT_EQ(schedule.busiest_items, 6000 + 1152);  // 18 of 23 blocks: the tile of 5 receives them
  EXPECT_LE(schedule.horizon_events, schedule.busiest_items * 104 / 100 + 140);
}

// In a small group everybody can send at once: a multicast to the others would take 5 x 691 events.
TEST(Phase, SmallGathersBecomeRotations) {
  std::vector<Transfer> transfers = multicast_gather(5, 691, 60);
  for (Transfer& transfer : transfers)
    std::erase_if(transfer.destinations, [&](const Destination& to_tile) { return to_tile.tile == transfer.source; });
  const PhaseSchedule schedule = scheduled(transfers, small());
  EXPECT_EQ(schedule.busiest_items, 4 * 691);
  EXPECT_LE(schedule.horizon_events, 4 * 691 + 140);
}

TEST(Phase, VeryShortTransfersArriveToo) {
  for (const int words : {1, 2, 3, 4}) scheduled(reduce_scatter(23, words, 1, 64), small());
}

// Both tiles of a physical pair, at multiples of 8.
void add_pair(Transfer& transfer, std::uint32_t first, std::vector<std::uint32_t>& next) {
  const auto same = [&](const Destination& other) { return other.tile == TileId{first}; };
  if (first + 1 >= next.size() || std::any_of(transfer.destinations.begin(), transfer.destinations.end(), same)) return;
  for (const std::uint32_t tile : {first, first + 1})
    if (next[tile] + 8 + 4 * transfer.words > 0xe8000) return;
  for (const std::uint32_t tile : {first, first + 1}) {
    next[tile] = round_up(next[tile], 8);
    transfer.destinations.push_back({TileId{tile}, next[tile]});
    next[tile] += 4 * transfer.words;
  }
}

// Random multicasts to disjoint addresses; sizes drawn from several scales.
std::vector<Transfer> random_transfers(std::uint64_t seed, std::uint32_t tiles) {
  std::uint64_t index = 0;
  const auto draw = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random_bits(seed, index++) % limit); };
  std::vector<std::uint32_t> next(tiles, to);
  std::vector<Transfer> transfers;
  const std::uint32_t scale = 1 + draw(3) * 70 + draw(4);
  const std::uint32_t fan = 1 + draw(8);
  const std::uint32_t hot = 2 + draw(tiles - 1);  // few tiles: crowded lanes
  for (std::uint32_t count = draw(120); count > 0; --count) {
    Transfer transfer{TileId{draw(hot)}, from + 4 * draw(1000), 1 + draw(draw(10) == 0 ? 5000 : scale), {}};
    // Some go to whole pairs, in even numbers of words.
    const bool pairs = draw(3) == 0;
    if (pairs) transfer = {transfer.source, transfer.address_bytes / 8 * 8, 128 + 2 * draw(200), {}};
    for (std::uint32_t receivers = 1 + draw(fan); receivers > 0; --receivers) {
      const std::uint32_t first = draw(hot);
      if (pairs) {
        add_pair(transfer, first / 2 * 2, next);
        continue;
      }
      const TileId tile{first};
      const auto same = [&](const Destination& other) { return other.tile == tile; };
      if (std::any_of(transfer.destinations.begin(), transfer.destinations.end(), same)) continue;
      if (draw(3) == 0) next[tile.value] += 4 * draw(20);  // else the pointer may run on
      if (next[tile.value] + 4 * transfer.words > 0xe8000) continue;
      transfer.destinations.push_back({tile, next[tile.value]});
      next[tile.value] += 4 * transfer.words;
    }
    if (!transfer.destinations.empty()) transfers.push_back(transfer);
  }
  return transfers;
}

RC_GTEST_PROP(Phase, RandomPhasesDeliverEveryWordOnce, (std::uint64_t seed, bool large)) {
  const hw::Machine& machine = large ? full() : small();
  const std::vector<Transfer> transfers = random_transfers(seed, static_cast<std::uint32_t>(machine.tiles));
  const auto schedule = schedule_phase(transfers, machine);
  RC_ASSERT(schedule.has_value());
  RC_ASSERT(first_of(verify_phase(transfers, *schedule, machine)) == "");
}

// Changes one thing of a good schedule; the replay must notice.
class Damage : public testing::Test {
 protected:
  void SetUp() override {
    transfers_ = multicast_gather(4, 20, 64);
    schedule_ = scheduled(transfers_, small());
  }
  bool noticed(const char* rule) const {
    const auto violations = verify_phase(transfers_, schedule_, small());
    return std::any_of(violations.begin(), violations.end(), [&](const Violation& v) { return v.rule == rule; });
  }
  std::vector<Transfer> transfers_;
  PhaseSchedule schedule_;
};

TEST_F(Damage, LateSend) {
  ++schedule_.rows[5].sends[0].event;
  EXPECT_TRUE(noticed("bus.read_while_driven"));
}

TEST_F(Damage, WrongAddress) {
  ++schedule_.rows[5].sends[0].address_words;
  EXPECT_TRUE(noticed("transfer.delivered"));
}

TEST_F(Damage, WrongPointer) {
  ++schedule_.rows[5].pointers[0].pointer_words;
  EXPECT_TRUE(noticed("transfer.delivered"));
  EXPECT_TRUE(noticed("transfer.no_stray_word"));
}

TEST_F(Damage, LateSource) {
  ++schedule_.rows[5].sources[0].event;
  EXPECT_TRUE(noticed("transfer.delivered"));
}

TEST_F(Damage, MissingNeutral) {
  schedule_.rows[5].sources.pop_back();
  EXPECT_TRUE(noticed("mux.ends_neutral"));
}

TEST_F(Damage, ShortRow) {
  schedule_.rows[5].events -= 3;
  EXPECT_TRUE(noticed("row.covers_writes"));
}

TEST_F(Damage, OneDirectionOnly) {
  schedule_.rows[5].sends[0].sctl = 1;
  const bool first = noticed("bus.direction");
  schedule_.rows[5].sends[0].sctl = 2;
  EXPECT_TRUE(first || noticed("bus.direction"));
}

TEST_F(Damage, ControlBesideSend) {
  schedule_.rows[5].pointers.insert(schedule_.rows[5].pointers.begin(), {schedule_.rows[5].sends[0].event + 1, 0});
  EXPECT_TRUE(noticed("row.control_beside_send"));
}

TEST_F(Damage, TwoWriters) {
  transfers_[1].destinations = transfers_[0].destinations;
  EXPECT_TRUE(noticed("transfer.one_writer"));
}

TEST_F(Damage, MissingTransfer) {
  transfers_.pop_back();
  EXPECT_TRUE(noticed("transfer.no_stray_word"));
}

// A good schedule of double words, damaged.
TEST_F(Damage, PairRules) {
  transfers_ = multicast_gather(4, 200, 64);
  const PhaseSchedule good = schedule_ = scheduled(transfers_, small());
  ASSERT_TRUE(schedule_.rows[5].sends[0].wide());
  const auto damaged = [&](auto change, const char* rule) {
    schedule_ = good;
    change(schedule_.rows);
    EXPECT_TRUE(noticed(rule)) << rule;
  };
  using Rows = std::vector<hw::RowSchedule>;
  damaged([](Rows& rows) { rows[5].sends[0].items = 63; }, "pair.items");
  damaged([](Rows& rows) { ++rows[5].sends[0].address_words; }, "pair.aligned");
  damaged([](Rows& rows) { rows[5].formats[0].format = 3 - rows[5].formats[0].format; }, "pair.receives");
  damaged([](Rows& rows) { rows[5].formats.pop_back(); }, "pair.format_ends");
  damaged([](Rows& rows) { rows[5].sends[0].sctl = 3; }, "pair.receives");
  damaged([](Rows& rows) { rows[4].sends[0].event = rows[5].sends[0].event + 1; }, "pair.companion_silent");
  damaged(
      [](Rows& rows) {
        hw::RowSchedule& row = rows[4].sources.empty() ? rows[5] : rows[4];
        const hw::SourceControl first = row.sources.front();
        row.sources.insert(row.sources.begin() + 1, {first.event + 5, first.source, false});
        row.sources.insert(row.sources.begin() + 2, {first.event + 6, 0x640, false});
      },
      "mux.one_source");
}

TEST_F(Damage, WrongSums) {
  ++schedule_.busiest_items;
  EXPECT_TRUE(noticed("phase.sums"));
}

}  // namespace
}  // namespace tw::compiler
