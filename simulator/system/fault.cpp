// simulator/system/fault.cpp: the table of faults.
#include "simulator/system/fault.h"

namespace tw::sim {

const std::vector<FaultInfo>& fault_table() {
  static const std::vector<FaultInfo> table{
      {FaultKind::unwritten_read, "unwritten_read", "bytes are read that nothing has written",
       "a producer is missing or writes elsewhere; look at the buffers of this tile with \"tilewright inspect "
       "--memory\""},
      {FaultKind::out_of_range, "out_of_range", "an address lies outside the tile's SRAM",
       "the package is damaged or was placed for another machine; compile it again"},
      {FaultKind::bus_conflict, "bus_conflict", "a tile starts a send while its bus still carries another",
       "the exchange schedule is wrong; report it with the package"},
      {FaultKind::undriven_bus, "undriven_bus", "a tile listens to a bus at an event when nobody drives it",
       "sender and receiver disagree on time of flight, or the sender's row is missing"},
      {FaultKind::mistimed_write, "mistimed_write", "words arrive before the row set a write pointer",
       "the pointer control is late or missing; compare with \"tilewright inspect --exchange\""},
      {FaultKind::pair_rule, "pair_rule", "double words are sent or received against a rule of physical pairs",
       "the exchange schedule is wrong; compile for a machine with fabric.pair_min_items = 0 to do without, and report "
       "it with the package"},
      {FaultKind::unaligned, "unaligned", "an operand's address is not a multiple of what its kernel needs",
       "the package is damaged or the placement is wrong; compile it again"},
      {FaultKind::element_conflict, "element_conflict", "two accesses need one SRAM element at the same cycle",
       "buffers that are used together must lie in different elements; report it with the package"},
      {FaultKind::unknown_instruction, "unknown_instruction", "the word is no instruction that is documented",
       "the package is damaged; compile it again"},
      {FaultKind::unknown_kernel, "unknown_kernel", "a call leads to no kernel entry and no code",
       "the package is damaged or a kernel is missing from it; compile it again"},
      {FaultKind::deadlock, "deadlock", "tiles wait for each other and nothing can happen any more",
       "a tile left out a barrier; look at the tiles that the message names"},
      {FaultKind::host_protocol, "host_protocol", "a host packet is malformed or leaves its buffer",
       "the package is damaged or its bindings do not match; compile it again"},
      {FaultKind::runaway, "runaway", "a tile executes without end between two barriers",
       "a loop does not count down; report it with the package"},
  };
  return table;
}

const FaultInfo& info_of(FaultKind kind) { return fault_table()[static_cast<std::size_t>(kind)]; }

}  // namespace tw::sim
