// simulator/system/fabric.h: resolves one exchange phase by interval algebra: who hears what, and where it is written.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hw/isa/row.h"
#include "hw/machine/machine.h"

namespace tw::sim {

// One tile's part in a phase. `row` is null for a tile that only synchronises.
struct Participant {
  const hw::DecodedRow* row = nullptr;
  std::uint32_t outgoing_base = 0;  // bytes
  std::uint32_t incoming_base = 0;
  std::uint32_t pc = 0;           // of the row's first word
  std::uint32_t second_base = 0;  // OUTGOING_BASE after the row's own write of it; else the same as outgoing_base
};

// Bytes that move in a phase.
struct Move {
  std::uint32_t source_tile = 0, source_address = 0;
  std::uint32_t target_tile = 0, target_address = 0;
  std::uint32_t bytes = 0;
  std::int32_t read_event = 0, write_event = 0;  // slot of the first item; the others follow one a slot
  std::uint32_t item_bytes = 4;
};

struct ResolvedPhase {
  std::vector<Move> moves;                        // grouped by target tile
  std::vector<std::uint32_t> first_move;          // by tile, one more at the end
  std::vector<std::int32_t> words_in, words_out;  // by tile
  bool ordered = false;  // some memory is sent and received into: words must move in order of events
};

// Throws FaultError: bus_conflict, undriven_bus, mistimed_write, pair_rule, unaligned, element_conflict, out_of_range.
ResolvedPhase resolve_phase(std::span<const Participant> participants, const hw::Machine& machine);

}  // namespace tw::sim
