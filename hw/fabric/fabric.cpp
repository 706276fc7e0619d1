// hw/fabric/fabric.cpp: the closed forms of physical numbering and flight.
#include "hw/fabric/fabric.h"

#include <algorithm>

#include <cstdlib>

namespace tw::hw {
namespace {

// Where a physical tile sits. A tile number's bits: row, column (4), lane (1), half (1).
struct Place {
  int row, column, half, fold, lane, parity;  // half: which side of the row's 16 columns; fold: distance from its end
};

Place place_of(PhysicalTile tile) {
  const int p = static_cast<int>(tile.value);
  const int column = (p >> 2) & 15;
  return {p >> 6, column, column >> 3, column < 8 ? column : 15 - column, (p >> 1) & 1, p & 1};
}

// D: signed steps along the row from the sender's drop point to the receiver; its sign gives the direction.
int signed_distance(const Place& s, const Place& d) {
  const int base = 6 * (d.fold - (s.fold + (s.half ^ s.parity)));
  const bool same = d.half == d.parity;
  if (d.lane) return base + (same ? 2 : 4);
  return base + (same ? 1 : 5);
}

}  // namespace

// Logical tiles run in pairs through blocks of one pair a row, up and down in turn (a serpentine).
PhysicalTile physical_of(TileId tile, const Machine& machine) {
  const auto rows = static_cast<std::uint32_t>(machine.rows());
  const std::uint32_t pair = tile.value / 2;
  const std::uint32_t lane = tile.value % 2;
  const std::uint32_t block = pair / rows;
  const std::uint32_t step = pair % rows;
  const std::uint32_t row = block % 2 ? rows - 1 - step : step;
  return {64 * row + 4 * (block / 2) + block % 2 + 2 * lane};
}

TileId logical_of(PhysicalTile tile, const Machine& machine) {
  const auto rows = static_cast<std::uint32_t>(machine.rows());
  const std::uint32_t row = tile.value / 64;
  const std::uint32_t block = 2 * (tile.value / 4 % 16) + tile.value % 2;
  const std::uint32_t lane = tile.value / 2 % 2;
  const std::uint32_t step = block % 2 ? rows - 1 - row : row;
  return {2 * (block * rows + step) + lane};
}

int flight_time(PhysicalTile source, PhysicalTile destination) {
  const Place s = place_of(source);
  const Place d = place_of(destination);
  const int turn = s.half == d.half ? (s.column & 7) + 1 : 16 - (s.column & 7);
  return 8 * s.half + 3 - d.column + 4 * s.fold + turn - 4 * d.fold + 2 * (s.row - d.row) +
         std::abs(signed_distance(s, d)) - 34;
}

int direction(PhysicalTile source, PhysicalTile destination) {
  return signed_distance(place_of(source), place_of(destination)) < 1 ? 2 : 1;
}

int write_latency(PhysicalTile destination, const Machine& machine) {
  return machine.fabric.write_latency_cycles + machine.fabric.write_latency_per_row_cycles * physical_row(destination);
}

int pair_flight_time(PhysicalTile source, PhysicalTile destination) {
  return std::max(flight_time(source, destination), flight_time(source, pair_of(destination)));
}

PhysicalTile pair_owner(PhysicalTile source, PhysicalTile destination) {
  const PhysicalTile other = pair_of(destination);
  const int here = flight_time(source, destination), there = flight_time(source, other);
  const bool is_owner = here != there ? here < there : destination.value < other.value;
  return is_owner ? destination : other;
}

int pair_write_latency(PhysicalTile destination, const Machine& machine) {
  return write_latency(destination, machine) + 1;
}

}  // namespace tw::hw
