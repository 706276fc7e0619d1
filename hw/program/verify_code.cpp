// hw/program/verify_code.cpp: follows a tile's supervisor program with known registers and checks what it does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/program/verify.h"

namespace tw::hw {
namespace {

using Register = std::optional<std::uint32_t>;  // empty: not known

// Words of a straight program are far fewer; a longer walk does not end.
constexpr std::int64_t most_steps = 20'000'000;
constexpr int registers = 16, zero_register = 15;

class CodeWalk {
 public:
  CodeWalk(const Program& program, const KernelOperands& operands, const TileImages& images, TileFindings& findings)
      : program_(program),
        sram_(program.machine.sram),
        code_(program.tiles[findings.tile]),
        operands_(operands),
        images_(images),
        findings_(findings),
        base_(code_.code_address_bytes),
        end_(base_ + static_cast<std::uint32_t>(code_.code.size()) * 4) {
    for (const KernelEntry& entry : code_.entries) entries_[entry.address_bytes] = entry.kernel;
    decoded_.resize(code_.code.size());
    m_[zero_register] = 0;
  }

  void run() {
    std::uint32_t pc = code_.entry_bytes;
    for (std::int64_t step = 0; step < most_steps; ++step) {
      if (pc < base_ || pc >= end_ || pc % 4 != 0)
        return findings_.add("code.ends", fmt::format("the program leaves its code at {:#x} before a trap", pc));
      const Instruction& instruction = at(pc);
      if (instruction.opcode == Opcode::trap) return;
      const std::optional<std::uint32_t> next = execute(instruction, pc);
      if (!next || findings_.list.size() > most_findings) return;
      pc = *next;
    }
    findings_.add("code.ends", fmt::format("no trap within {} instructions", most_steps));
  }

 private:
  static constexpr std::size_t most_findings = 20;  // of one tile: the rest follows from them

  const Instruction& at(std::uint32_t pc) {
    std::optional<Instruction>& slot = decoded_[(pc - base_) / 4];
    if (!slot) slot = decode(std::span(code_.code).subspan((pc - base_) / 4));
    return *slot;
  }

  void set(int d, Register value) {
    if (d != zero_register) m_[static_cast<std::size_t>(d)] = value;
  }
  Register get(int s) const { return m_[static_cast<std::size_t>(s)]; }

  // The next pc, or nothing when the walk cannot go on (said already).
  std::optional<std::uint32_t> execute(const Instruction& i, std::uint32_t pc) {
    const std::uint32_t next = pc + static_cast<std::uint32_t>(i.words()) * 4;
    const auto immediate = static_cast<std::uint32_t>(i.immediate);
    const Register s = get(i.s);
    switch (i.opcode) {
      case Opcode::setzi: set(i.d, immediate); break;
      case Opcode::add: set(i.d, s ? Register(*s + immediate) : Register()); break;
      case Opcode::and_: set(i.d, s ? Register(*s & immediate) : Register()); break;
      case Opcode::shl: set(i.d, s && immediate < 32 ? Register(*s << immediate) : Register()); break;
      case Opcode::ld32:
      case Opcode::get: set(i.d, {}); break;
      case Opcode::put:
        if (i.immediate == csr::outgoing_base) outgoing_base_ = s;
        if (i.immediate == csr::incoming_base) incoming_base_ = s;
        break;
      case Opcode::brz: return branch(i, pc, next);
      case Opcode::br:
        if (!s) findings_.add("code.branches", fmt::format("the branch at {:#x} leads to no known address", pc));
        return s;
      case Opcode::call: call(pc, immediate); break;
      case Opcode::send: check_host_send(i, pc); break;
      case Opcode::st32:
      case Opcode::sync:
      case Opcode::sans:
      case Opcode::nop:
      case Opcode::sendoff:
      case Opcode::delay: break;
      default:
        findings_.add("code.decodes",
                      fmt::format("the word {:#010x} at {:#x} is no instruction of a supervisor program",
                                  code_.code[(pc - base_) / 4], pc));
        return {};
    }
    return next;
  }

  std::optional<std::uint32_t> branch(const Instruction& i, std::uint32_t pc, std::uint32_t next) {
    const auto target = static_cast<std::uint32_t>(i.immediate);
    if (target < base_ || target >= end_) {
      findings_.add("code.branches", fmt::format("the branch at {:#x} leads to {:#x}, outside its code", pc, target));
      return {};
    }
    const Register tested = get(i.d);
    return tested && *tested == 0 ? target : next;
  }

  void call(std::uint32_t pc, std::uint32_t target) {
    if (const auto entry = entries_.find(target); entry != entries_.end()) return check_call(pc, entry->second);
    if (target < base_ || target >= end_ || target % 4 != 0)
      return findings_.add(
          "code.calls",
          fmt::format("the call at {:#x} leads to {:#x}, where neither a kernel nor code lies", pc, target));
    const auto [found, added] = rows_.try_emplace(target);
    if (added) {
      Result<DecodedRow> row = decode_row(std::span(code_.code).subspan((target - base_) / 4));
      if (!row) return findings_.add("row.decodes", fmt::format("the row at {:#x}: {}", target, row.error().message));
      found->second = std::move(row->schedule);
    }
    if (found->second) check_row(target, *found->second);
  }

  bool in_code(std::uint32_t address, std::uint64_t bytes) const { return address < end_ && address + bytes > base_; }

  bool in_parameters(std::uint32_t address, std::uint64_t bytes) const {
    return std::any_of(images_.begin(), images_.end(), [&](const ParameterImage* image) {
      return address < std::uint64_t{image->address_bytes} + image->bytes && address + bytes > image->address_bytes;
    });
  }

  void check_row(std::uint32_t row, const RowSchedule& schedule) {
    const Register second = schedule.base_write.present() ? get(schedule.base_write.base_register) : outgoing_base_;
    if (outgoing_base_ && second && checked_rows_.insert({row, *outgoing_base_, *second}).second)
      for (const Send& send : schedule.sends) {
        const std::uint32_t base = send.event > schedule.base_write.slot ? *second : *outgoing_base_;
        const std::uint32_t from = base + send.address_words * 4;
        if (!sram_.contains(from, send.words() * 4))
          findings_.add(
              "row.send_bounds",
              fmt::format("the row at {:#x} sends {} words from {:#x}, which leaves the SRAM", row, send.words(), from));
      }
    if (!incoming_base_) return;
    for (const PointerControl& pointer : schedule.pointers) {
      const std::uint32_t to = *incoming_base_ + pointer.pointer_words * 4;
      if (!sram_.contains(to, 4) || in_code(to, 4) || in_parameters(to, 4))
        findings_.add(
            "row.receive_bounds",
            fmt::format("the row at {:#x} receives at {:#x}, outside the SRAM or over what is loaded", row, to));
    }
  }

  void check_host_send(const Instruction& i, std::uint32_t pc) {
    if (!outgoing_base_) return;
    const std::uint32_t from = *outgoing_base_ + i.address * 4;
    if (!sram_.contains(from, static_cast<std::uint32_t>(i.count) * 4))
      findings_.add(
          "host.send_bounds",
          fmt::format("the send at {:#x} takes {} words from {:#x}, which leaves the SRAM", pc, i.count, from));
  }

  // A kernel's call: each operand by itself, then the pairs that must not share an SRAM element.
  void check_call(std::uint32_t pc, std::uint32_t kernel) {
    for (const Operand& operand : operands_[kernel])
      if (const Register address = get(operand.register_number)) {
        check_operand(pc, kernel, operand, *address);
      } else {
        findings_.add("kernel.operand_known",
                      fmt::format("{} called at {:#x}: operand \"{}\" (m{}) has no known address",
                                  describe(program_.kernels[kernel]), pc, operand.name, operand.register_number));
      }
    if (!findings_.list.empty()) return;
    for (const Operand& a : operands_[kernel])
      for (const Operand& b : operands_[kernel])
        if (a.separate_from_register != 0 && b.register_number == a.separate_from_register)
          check_separate(pc, kernel, a, b);
  }

  void check_operand(std::uint32_t pc, std::uint32_t kernel, const Operand& operand, std::uint32_t address) {
    const auto found = [&](const char* rule, const std::string& what) {
      findings_.add(rule,
                    fmt::format("{} called at {:#x}: operand \"{}\" of {} bytes at {:#x} {}",
                                describe(program_.kernels[kernel]), pc, operand.name, operand.bytes, address, what));
    };
    if (operand.bytes < 0 || operand.bytes > sram_.capacity_bytes() ||
        !sram_.contains(address, static_cast<std::uint32_t>(operand.bytes)))
      return found("kernel.operand_bounds", "leaves the SRAM");
    if (address % static_cast<std::uint32_t>(operand.alignment_bytes) != 0)
      found("kernel.operand_alignment", fmt::format("is no multiple of {} bytes", operand.alignment_bytes));
    if (operand.region1_required && sram_.region_of(address) != 1)
      found("kernel.operand_region", "must lie in region 1");
    if (operand.written && in_code(address, static_cast<std::uint64_t>(operand.bytes)))
      found("kernel.writes_code", "is written over the program");
    if (operand.written && in_parameters(address, static_cast<std::uint64_t>(operand.bytes)))
      found("kernel.writes_parameters", "is written over parameters");
  }

  void check_separate(std::uint32_t pc, std::uint32_t kernel, const Operand& a, const Operand& b) {
    if (a.bytes == 0 || b.bytes == 0) return;
    const std::uint32_t at = *get(a.register_number), bt = *get(b.register_number);
    const auto last = [](std::uint32_t from, const Operand& o) {
      return from + static_cast<std::uint32_t>(o.bytes) - 1;
    };
    if (sram_.element_of(at) > sram_.element_of(last(bt, b)) || sram_.element_of(bt) > sram_.element_of(last(at, a)))
      return;
    findings_.add("kernel.operand_elements",
                  fmt::format("{} called at {:#x}: operands \"{}\" at {:#x} and \"{}\" at {:#x} share an SRAM element",
                              describe(program_.kernels[kernel]), pc, a.name, at, b.name, bt));
  }

  const Program& program_;
  const SramMap& sram_;
  const TileProgram& code_;
  const KernelOperands& operands_;
  const TileImages& images_;
  TileFindings& findings_;
  std::uint32_t base_, end_;
  std::map<std::uint32_t, std::uint32_t> entries_;
  std::vector<std::optional<Instruction>> decoded_;
  std::map<std::uint32_t, std::optional<RowSchedule>> rows_;
  std::set<std::array<std::uint32_t, 3>> checked_rows_;  // row, base of its first and of its second section
  std::array<Register, registers> m_{};
  Register outgoing_base_, incoming_base_;
};

}  // namespace

void verify_code(const Program& program, const KernelOperands& operands, const TileImages& images,
                 TileFindings& findings) {
  CodeWalk(program, operands, images, findings).run();
}

}  // namespace tw::hw
