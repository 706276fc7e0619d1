// simulator/system/fault.h: the faults that a run can stop with, one table: kind, likely cause, what to do.
#pragma once
#include <string>
#include <vector>

#include "simulator/system/simulation.h"

namespace tw::sim {

enum class FaultKind : std::uint8_t {
  unwritten_read,
  out_of_range,
  bus_conflict,
  undriven_bus,
  mistimed_write,
  pair_rule,
  unaligned,
  element_conflict,
  unknown_instruction,
  unknown_kernel,
  deadlock,
  host_protocol,
  runaway,
};

struct FaultInfo {
  FaultKind kind;
  const char* name;
  const char* meaning;
  const char* hint;
};
const std::vector<FaultInfo>& fault_table();
const FaultInfo& info_of(FaultKind kind);

// Thrown where a fault is found; caught in one place, which adds cycle, instruction and operation.
struct FaultError {
  FaultKind kind;
  std::string message;
  std::uint32_t tile = 0;
  std::uint32_t pc = 0;
  std::int64_t event = -1;  // of the exchange row, when the fault lies in one
};

}  // namespace tw::sim
