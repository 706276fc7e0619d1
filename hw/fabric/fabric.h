// hw/fabric/fabric.h: physical tile numbering, route direction and time of flight (docs/fidelity.md).
#pragma once
#include "hw/base/id.h"
#include "hw/machine/machine.h"

namespace tw::hw {

// Logical to physical numbering and back; a permutation of 0 .. tiles-1 for machines of whole 64-tile rows.
PhysicalTile physical_of(TileId tile, const Machine& machine);
TileId logical_of(PhysicalTile tile, const Machine& machine);
// The other tile of the physical pair.
constexpr PhysicalTile pair_of(PhysicalTile tile) { return {tile.value ^ 2U}; }
constexpr int physical_row(PhysicalTile tile) { return static_cast<int>(tile.value >> 6); }

// T(s, d): a word that leaves s at event e is selected by d's source control at event e + T + 1.
int flight_time(PhysicalTile source, PhysicalTile destination);

// 1 or 2: the direction bit of sctl for a send from source to this destination. A multicast uses 3.
int direction(PhysicalTile source, PhysicalTile destination);

// Events from source selection to the first write at this receiver: 52 + 2 * row.
int write_latency(PhysicalTile destination, const Machine& machine);

// Double words to a physical pair: both of its tiles hear an item at the same event, as late as the later of them
// would; the half that would hear it earlier owns the pair's source control, and items are written one event later
// than words (docs/fidelity.md).
int pair_flight_time(PhysicalTile source, PhysicalTile destination);
PhysicalTile pair_owner(PhysicalTile source, PhysicalTile destination);
int pair_write_latency(PhysicalTile destination, const Machine& machine);
// The receive format of double words in this tile.
constexpr std::uint32_t pair_format(PhysicalTile tile) { return 1 + (tile.value >> 1 & 1U); }

}  // namespace tw::hw
