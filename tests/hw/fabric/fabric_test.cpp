// tests/hw/fabric/fabric_test.cpp: numbering and flight times against vendor rows.
#include "hw/fabric/fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tw::hw {
namespace {

Machine machine_of(const char* name) {
  auto machine = load_machine(name);
  EXPECT_TRUE(machine) << machine.error().message;
  return *machine;
}

TEST(Fabric, NumberingIsAPermutation) {
  for (const char* name : {"ipu21", "ipu21-64"}) {
    const Machine machine = machine_of(name);
    std::vector<int> seen(static_cast<std::size_t>(machine.tiles));
    for (std::uint32_t tile = 0; tile < seen.size(); ++tile) {
      const PhysicalTile physical = physical_of(TileId{tile}, machine);
      ASSERT_LT(physical.value, seen.size());
      ++seen[physical.value];
      EXPECT_EQ(logical_of(physical, machine), TileId{tile});
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), machine.tiles);
  }
}

TEST(Fabric, NeighboursArePairs) {
  const Machine machine = machine_of("ipu21");
  for (std::uint32_t tile = 0; tile < 1472; tile += 2)
    EXPECT_EQ(pair_of(physical_of(TileId{tile}, machine)), physical_of(TileId{tile + 1}, machine));
}

TEST(Fabric, FlightTimesOfPhysicalTiles) {
  const auto flight = [](std::uint32_t s, std::uint32_t d) { return flight_time(PhysicalTile{s}, PhysicalTile{d}); };
  EXPECT_EQ(flight(0, 53), -23);
  EXPECT_EQ(flight(32, 260), 49);
  EXPECT_EQ(flight(53, 63), -14);
  EXPECT_EQ(flight(1024, 0), 3);
}

// Vendor rows select the source at event 113 and start to send after a delay: 113 = event + T + 1.
TEST(Fabric, FlightTimesAndDirectionsOfVendorRows) {
  const Machine machine = machine_of("ipu21");
  struct Row {
    std::uint32_t source, destination;
    int send_event, direction;
  };
  for (const Row& row :
       {Row{0, 1286, 0x87, 1}, Row{736, 100, 0x3f, 2}, Row{1286, 1471, 0x7e, 2}, Row{32, 0, 0x6d, 1}}) {
    const PhysicalTile source = physical_of(TileId{row.source}, machine);
    const PhysicalTile destination = physical_of(TileId{row.destination}, machine);
    EXPECT_EQ(row.send_event + flight_time(source, destination) + 1, 113) << row.source << " to " << row.destination;
    EXPECT_EQ(direction(source, destination), row.direction);
  }
}

TEST(Fabric, ExtremesOverAllPairs) {
  const Machine machine = machine_of("ipu21");
  int least = 0, most = 0, shortest = 1000, longest = 0;
  std::int64_t sum = 0;
  for (std::uint32_t s = 0; s < 1472; ++s) {
    for (std::uint32_t d = 0; d < 1472; ++d) {
      const int flight = flight_time(PhysicalTile{s}, PhysicalTile{d});
      const int whole = flight + write_latency(PhysicalTile{d}, machine);
      least = std::min(least, flight);
      most = std::max(most, flight);
      shortest = std::min(shortest, whole);
      longest = std::max(longest, whole);
      sum += whole;
    }
  }
  EXPECT_EQ(least, -78);
  EXPECT_EQ(most, 112);
  EXPECT_EQ(shortest, 18);
  EXPECT_EQ(longest, 164);
  EXPECT_NEAR(static_cast<double>(sum) / (1472.0 * 1472.0), 64.0, 1.0);
}

}  // namespace
}  // namespace tw::hw
