// hw/isa/instruction.h: supervisor and exchange instructions: one table, from which encode, decode and disassemble
// work. Encodings: docs/fidelity.md. Words that are not in the table decode to `unknown` and are never
// invented.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tw::hw {

enum class Opcode : std::uint8_t {
  unknown,
  setzi,
  call,
  br,
  brz,
  ld32,
  st32,
  add,
  and_,
  shl,
  put,
  get,
  sync,
  sans,
  trap,
  nop,
  delay,
  delaypic,
  delayxpic,
  send,
  sendoff,
  sendpic,
  sendpicp,
};

// Control and status registers used by generated code.
namespace csr {
inline constexpr int incoming_mux = 0xa0, incoming_muxpair = 0xa1, incoming_format = 0xa3, incoming_base = 0xa4,
                     incoming_dcount = 0xa6, outgoing_base = 0xa7;
}

// Operand fields by meaning. Fields are natural values (events and words as counts, not minus one; addresses in bytes
// for call/brz, in words for exchange fields). Used by
//   setzi, call, brz   d, immediate           get               d, immediate (CSR)
//   br                 s                      put               s, immediate (CSR)
//   ld32, st32         d (loaded or stored), s (base), x (index), immediate (offset in words)
//   add, and_, shl     d, s, immediate        sync, sans, trap  immediate
//   delay              count                  delaypic, delayxpic  count, select, value
//   send               count, address, sctl   sendoff           count, delta, sctl
//   sendpic            count, select, value   sendpicp          count, select, address, sctl, xpic, value (the pointer)
struct Instruction {
  Opcode opcode = Opcode::unknown;
  int d = 0, s = 0, x = 0;     // registers: destination or tested, source or base, index
  std::int32_t immediate = 0;  // setzi imm20, call/brz byte address, add simm16, ld32/st32 off12, csr number, sync k
  int count = 0;               // events of delay*, words of send*
  int select = 0;              // sel of delaypic/delayxpic/sendpic (2 bits)/picsel of sendpicp
  std::uint32_t value = 0;     // control value: pointer (words) or source number; sendpicp: pic18
  std::uint32_t xpic = 0;      // sendpicp: source number with its select bit (14 bits)
  std::uint32_t address = 0;   // word address of send and sendpicp
  int delta = 0;               // words skipped by sendoff
  int sctl = 0;                // bits 0, 1 direction, bit 2 64-bit items
  std::uint32_t word = 0;      // the raw word, for unknown ones and for messages; filled by decode

  int words() const { return opcode == Opcode::sendpicp ? 2 : 1; }  // instruction words occupied
};

// Encodes one instruction: 1 or 2 words in result[0..words()). TW_CHECK on fields out of range.
std::array<std::uint32_t, 2> encode(const Instruction& instruction);

// Decodes at code[0] (and code[1] for sendpicp; a missing second word gives unknown). Aliases first (nop).
Instruction decode(std::span<const std::uint32_t> code);

// One line of assembly: "send 52 words at 0x4d1f0, direction 2", "setzi m2, 0x50000", ".word 0x........ (unknown)".
std::string disassemble(const Instruction& instruction);

}  // namespace tw::hw
