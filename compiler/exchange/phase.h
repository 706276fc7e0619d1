// compiler/exchange/phase.h: from the transfers of one exchange phase to the rows of all tiles.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hw/base/id.h"
#include "hw/base/result.h"
#include "hw/base/violation.h"
#include "hw/isa/row.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

struct Destination {
  TileId tile;
  std::uint32_t address_bytes = 0;  // where the words are written, a multiple of 4
};

// A contiguous run of words that one tile sends to one or more tiles (multicast; the sender may be among them:
// a tile may select its own bus). Longer runs than the machine's limit are cut by the scheduler.
struct Transfer {
  TileId source;
  std::uint32_t address_bytes = 0;  // multiple of 4, relative to the phase's OUTGOING_BASE
  std::uint32_t words = 0;
  std::vector<Destination> destinations;  // distinct tiles
  // In a phase that has both kinds: relative to the base that the row itself loads, after all fixed sends of the tile.
  bool moving = false;
};

struct PhaseSchedule {
  std::vector<hw::RowSchedule> rows;  // by logical tile; a row with events == 0 belongs to an inactive tile
  std::int32_t horizon_events = 0;    // longest row
  std::int64_t busiest_items = 0;     // items in or out of the busiest tile: the lower bound of this choice of widths
};

// The register whose value a row writes to OUTGOING_BASE between its fixed and its moving sends: the address of the
// current parameter record (compiler/emit/tile_code.cpp).
inline constexpr int record_register = 13;

// Schedules the transfers: one word a cycle out and in of each tile, flight times honoured, one source at a time,
// controls never where the instruction set forbids them. Order: list scheduling by remaining directional work
// (docs/fidelity.md: ranking by remaining work of each direction is worth a factor of two). Deterministic.
// Errors (unsupported): a row that cannot be encoded.
Result<PhaseSchedule> schedule_phase(std::span<const Transfer> transfers, const hw::Machine& machine);

// Independent check of a schedule against its transfers by walking every word's event (slow, obvious):
// every word arrives once at its address, one driver per bus, one source per receiver, flight times, no stray word.
std::vector<Violation> verify_phase(std::span<const Transfer> transfers, const PhaseSchedule& schedule,
                                    const hw::Machine& machine);

}  // namespace tw::compiler
