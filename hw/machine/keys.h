// hw/machine/keys.h: the table of numeric machine keys, from which files are read, checked, printed and written.
#pragma once
#include <cstdint>
#include <span>
#include <variant>

#include "hw/machine/machine.h"

namespace tw::hw {

using MachineField = std::variant<int*, std::uint32_t*, double*>;

struct MachineKey {
  const char* path;                 // "sram.base_bytes"; no dot: a key of the top level
  const char* unit;                 // "" for plain numbers; "address" is printed in hexadecimal
  double minimum, maximum;          // allowed range, inclusive
  MachineField (*field)(Machine&);  // where the value lies
  double known;                     // the value of ipu21 ...
  const char* source;               // ... and where that value comes from
};

std::span<const MachineKey> machine_keys();

double value_of(const MachineKey& key, const Machine& machine);

}  // namespace tw::hw
