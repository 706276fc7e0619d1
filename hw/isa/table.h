// hw/isa/table.h: the instruction table: fixed bits and operand fields of every opcode.
#pragma once
#include <cstdint>
#include <span>

#include "hw/isa/instruction.h"

namespace tw::hw {

// The operand that a field holds. `address4` is the byte address in `immediate`, stored divided by 4; `signed16` is
// `immediate` with sign; `events` is `count` less one.
enum class OperandField : std::uint8_t {
  d,
  s,
  x,
  immediate,
  address4,
  signed16,
  events,
  select,
  value,
  address,
  delta,
  sctl
};

struct Field {
  OperandField operand;
  std::uint8_t shift;
  std::uint8_t width;
  std::uint8_t low_bit = 0;  // lowest bit of the operand that the field holds (sendoff cuts its count in two)
};

struct Encoding {
  Opcode opcode;
  const char* name;
  std::uint32_t match;  // fixed bits; all bits outside the fields are fixed
  std::uint8_t field_count;
  Field fields[4];

  std::uint32_t mask() const;
};

// In order of matching: aliases before what they stand for.
std::span<const Encoding> encodings();
const Encoding& encoding_of(Opcode opcode);

}  // namespace tw::hw
