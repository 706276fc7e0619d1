// hw/isa/disassemble.cpp: one line of text for one instruction.
#include <fmt/format.h>

#include "hw/isa/instruction.h"
#include "hw/isa/table.h"

namespace tw::hw {
namespace {

std::string csr_name(int number) {
  switch (number) {
    case csr::incoming_mux: return "INCOMING_MUX";
    case csr::incoming_muxpair: return "INCOMING_MUXPAIR";
    case csr::incoming_format: return "INCOMING_FORMAT";
    case csr::incoming_base: return "INCOMING_BASE";
    case csr::incoming_dcount: return "INCOMING_DCOUNT";
    case csr::outgoing_base: return "OUTGOING_BASE";
    default: return fmt::format("CSR 0x{:x}", number);
  }
}

std::string route(int sctl) { return fmt::format("direction {}{}", sctl & 3, sctl & 4 ? ", 64-bit items" : ""); }

std::string source_text(std::uint32_t source, bool pair) {
  return fmt::format("{}source 0x{:x}", pair ? "pair's " : "", source);
}

std::string pointer_text(std::uint32_t value, bool format) {
  return format ? fmt::format("format {}", value) : fmt::format("pointer 0x{:x}", 4 * value);
}

// Exchange addresses and pointers are printed in bytes, as everywhere else.
std::string exchange_text(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::delay: return fmt::format("delay {}", i.count);
    case Opcode::delaypic: return fmt::format("delaypic {}, {}", i.count, pointer_text(i.value, i.select != 0));
    case Opcode::delayxpic: return fmt::format("delayxpic {}, {}", i.count, source_text(i.value, i.select != 0));
    case Opcode::send: return fmt::format("send {} words at 0x{:x}, {}", i.count, 4 * i.address, route(i.sctl));
    case Opcode::sendoff:
      return i.delta == 0 ? fmt::format("sendoff {} words, {}", i.count, route(i.sctl))
                          : fmt::format("sendoff {} words after skipping {}, {}", i.count, i.delta, route(i.sctl));
    case Opcode::sendpic:
      return fmt::format("sendpic {} words, {}", i.count,
                         i.select < 2 ? source_text(i.value, i.select == 1) : pointer_text(i.value, i.select == 3));
    default: {
      const std::string controls =
          fmt::format("{}, {}", source_text(i.xpic & 0x1fff, i.xpic >> 13 != 0), pointer_text(i.value, i.select != 0));
      if (i.sctl == 0) return fmt::format("sendpicp {}, {}", i.count, controls);
      return fmt::format("sendpicp {} words at 0x{:x}, {}, {}", i.count, 4 * i.address, route(i.sctl), controls);
    }
  }
}

}  // namespace

std::string disassemble(const Instruction& i) {
  if (i.opcode == Opcode::unknown) return fmt::format(".word 0x{:08x} (unknown)", i.word);
  const char* name = encoding_of(i.opcode).name;
  switch (i.opcode) {
    case Opcode::nop: return name;
    case Opcode::setzi:
    case Opcode::call:
    case Opcode::brz: return fmt::format("{} m{}, 0x{:x}", name, i.d, i.immediate);
    case Opcode::br: return fmt::format("{} m{}", name, i.s);
    case Opcode::ld32:
    case Opcode::st32: return fmt::format("{} m{}, m{}, m{}, {}", name, i.d, i.s, i.x, i.immediate);
    case Opcode::add:
    case Opcode::and_:
    case Opcode::shl: return fmt::format("{} m{}, m{}, {}", name, i.d, i.s, i.immediate);
    case Opcode::put: return fmt::format("{} {}, m{}", name, csr_name(i.immediate), i.s);
    case Opcode::get: return fmt::format("{} m{}, {}", name, i.d, csr_name(i.immediate));
    case Opcode::sync:
    case Opcode::sans:
    case Opcode::trap: return fmt::format("{} {}", name, i.immediate);
    default: return exchange_text(i);
  }
}

}  // namespace tw::hw
