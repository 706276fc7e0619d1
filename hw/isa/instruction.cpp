// hw/isa/instruction.cpp: the table of encodings, and encode and decode that work from it.
#include "hw/isa/instruction.h"

#include "hw/base/check.h"
#include "hw/isa/table.h"

namespace tw::hw {
namespace {

using enum OperandField;

// clang-format off
constexpr Encoding table[] = {
  {Opcode::nop,       "nop",       0x19e00000, 0, {}},  // also setzi m14, 0
  {Opcode::setzi,     "setzi",     0x19000000, 2, {{d, 20, 4}, {immediate, 0, 20}}},
  {Opcode::call,      "call",      0x18000000, 2, {{d, 20, 4}, {address4, 0, 19}}},
  {Opcode::br,        "br",        0x43000000, 1, {{s, 20, 4}}},
  {Opcode::brz,       "brz",       0x13000000, 2, {{d, 20, 4}, {address4, 0, 19}}},
  {Opcode::ld32,      "ld32",      0x01000000, 4, {{s, 20, 4}, {d, 16, 4}, {x, 12, 4}, {immediate, 0, 12}}},
  {Opcode::st32,      "st32",      0x4f000000, 4, {{s, 20, 4}, {d, 16, 4}, {x, 12, 4}, {immediate, 0, 12}}},
  {Opcode::add,       "add",       0x22000000, 3, {{s, 20, 4}, {d, 16, 4}, {signed16, 0, 16}}},
  {Opcode::and_,      "and",       0x42000000, 3, {{s, 20, 4}, {d, 16, 4}, {immediate, 0, 12}}},
  {Opcode::shl,       "shl",       0x4200a000, 3, {{s, 20, 4}, {d, 16, 4}, {immediate, 0, 12}}},
  {Opcode::put,       "put",       0x43008000, 2, {{s, 20, 4}, {immediate, 0, 8}}},
  {Opcode::get,       "get",       0x41000000, 2, {{d, 16, 4}, {immediate, 0, 8}}},
  {Opcode::sync,      "sync",      0x41800000, 1, {{immediate, 0, 4}}},
  {Opcode::sans,      "sans",      0x40c00000, 1, {{immediate, 0, 4}}},
  {Opcode::trap,      "trap",      0x41801000, 1, {{immediate, 0, 4}}},
  {Opcode::delay,     "delay",     0x40a00000, 1, {{events, 0, 19}}},
  {Opcode::delaypic,  "delaypic",  0x60000000, 3, {{events, 19, 7}, {select, 18, 1}, {value, 0, 18}}},
  {Opcode::delayxpic, "delayxpic", 0x64000000, 3, {{events, 14, 12}, {select, 13, 1}, {value, 0, 13}}},
  {Opcode::send,      "send",      0x78000000, 3, {{events, 21, 6}, {address, 3, 18}, {sctl, 0, 3}}},
  {Opcode::sendoff,   "sendoff",   0x70000000, 4, {{events, 21, 6}, {events, 14, 6, 6}, {delta, 3, 11}, {sctl, 0, 3}}},
  {Opcode::sendpic,   "sendpic",   0x70100000, 3, {{events, 21, 6}, {select, 18, 2}, {value, 0, 18}}},
  {Opcode::sendpicp,  "sendpicp",  0xf0000000, 4, {{select, 27, 1}, {events, 21, 6}, {address, 3, 18}, {sctl, 0, 3}}},
};
// clang-format on

std::int64_t operand_of(const Instruction& instruction, OperandField operand) {
  switch (operand) {
    case d: return instruction.d;
    case s: return instruction.s;
    case x: return instruction.x;
    case immediate:
    case signed16: return instruction.immediate;
    case address4: return instruction.immediate % 4 == 0 ? instruction.immediate / 4 : -1;
    case events: return instruction.count - 1;
    case select: return instruction.select;
    case value: return instruction.value;
    case address: return instruction.address;
    case delta: return instruction.delta;
    case sctl: return instruction.sctl;
  }
  return 0;
}

void set_operand(Instruction& instruction, const Field& field, std::uint32_t bits) {
  const int number = static_cast<int>(bits);
  switch (field.operand) {
    case d: instruction.d = number; break;
    case s: instruction.s = number; break;
    case x: instruction.x = number; break;
    case immediate: instruction.immediate = number; break;
    case signed16: instruction.immediate = static_cast<std::int16_t>(bits); break;
    case address4: instruction.immediate = 4 * number; break;
    case events: instruction.count += (number << field.low_bit) + (field.low_bit == 0 ? 1 : 0); break;
    case select: instruction.select = number; break;
    case value: instruction.value = bits; break;
    case address: instruction.address = bits; break;
    case delta: instruction.delta = number; break;
    case sctl: instruction.sctl = number; break;
  }
}

constexpr std::uint32_t mask_of(const Field& field) { return (1U << field.width) - 1; }

constexpr std::uint32_t fixed_bits(const Encoding& encoding) {
  std::uint32_t mask = 0xffffffffU;
  for (int i = 0; i < encoding.field_count; ++i) mask &= ~(mask_of(encoding.fields[i]) << encoding.fields[i].shift);
  return mask;
}

struct Masks {
  std::uint32_t mask[std::size(table)];
};
constexpr Masks masks = [] {
  Masks all{};
  for (std::size_t i = 0; i < std::size(table); ++i) all.mask[i] = fixed_bits(table[i]);
  return all;
}();

}  // namespace

std::uint32_t Encoding::mask() const { return fixed_bits(*this); }

std::span<const Encoding> encodings() { return table; }

const Encoding& encoding_of(Opcode opcode) {
  for (const Encoding& encoding : table)
    if (encoding.opcode == opcode) return encoding;
  check_failed(__FILE__, __LINE__, "opcode in table", "an unknown instruction has no encoding");
}

std::array<std::uint32_t, 2> encode(const Instruction& instruction) {
  const Encoding& encoding = encoding_of(instruction.opcode);
  std::uint32_t word = encoding.match;
  for (int i = 0; i < encoding.field_count; ++i) {
    const Field& field = encoding.fields[i];
    const std::int64_t whole = operand_of(instruction, field.operand);
    const bool fits = field.operand == signed16
                          ? whole >= -32768 && whole < 32768
                          // Of a count in two fields, the upper one limits it.
                          : whole >= 0 && (field.operand == events && instruction.opcode == Opcode::sendoff
                                               ? whole < 4096
                                               : whole >> field.width == 0);
    TW_CHECK(fits, "operand {} of {} does not fit {} bits", whole, encoding.name, field.width);
    word |= (static_cast<std::uint32_t>(whole >> field.low_bit) & mask_of(field)) << field.shift;
  }
  if (instruction.opcode != Opcode::sendpicp) return {word, 0};
  TW_CHECK(instruction.xpic < (1U << 14) && instruction.value < (1U << 18), "sendpicp controls {} and {} do not fit",
           instruction.xpic, instruction.value);
  return {word, instruction.xpic << 18 | instruction.value};
}

Instruction decode(std::span<const std::uint32_t> code) {
  Instruction instruction;
  if (code.empty()) return instruction;
  instruction.word = code[0];
  for (std::size_t row = 0; row < std::size(table); ++row) {
    const Encoding& encoding = table[row];
    if ((code[0] & masks.mask[row]) != encoding.match) continue;
    if (encoding.opcode == Opcode::sendpicp) {
      if (code.size() < 2) return instruction;
      instruction.xpic = code[1] >> 18;
      instruction.value = code[1] & 0x3ffffU;
    }
    instruction.opcode = encoding.opcode;
    for (int i = 0; i < encoding.field_count; ++i) {
      const Field& field = encoding.fields[i];
      set_operand(instruction, field, code[0] >> field.shift & mask_of(field));
    }
    break;
  }
  return instruction;
}

}  // namespace tw::hw
