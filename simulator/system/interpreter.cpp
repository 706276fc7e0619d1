// simulator/system/interpreter.cpp: the supervisor of one tile: executes instructions until the tile has to wait.
#include <fmt/format.h>

#include <cstring>

#include "simulator/system/world.h"

namespace tw::sim {
namespace {

constexpr int sync_internal = 3, sync_host = 15;
constexpr std::int64_t longest_segment_instructions = 10'000'000;  // between two barriers; more is a runaway loop

bool is_row_instruction(hw::Opcode opcode) {
  switch (opcode) {
    case hw::Opcode::delay:
    case hw::Opcode::delaypic:
    case hw::Opcode::delayxpic:
    case hw::Opcode::send:
    case hw::Opcode::sendoff:
    case hw::Opcode::sendpic:
    case hw::Opcode::sendpicp: return true;
    default: return false;
  }
}

}  // namespace

// Executes one tile's instructions; friend of World, whose state it works on.
class Interpreter {
 public:
  Interpreter(World& world, std::uint32_t tile) : world_(world), tile_(tile), state_(world.tiles_[tile]) {}

  void run() {
    if (state_.waiting == Waiting::internal && state_.row != nullptr) finish_row();
    state_.waiting = Waiting::nothing;
    for (std::int64_t count = 0; state_.waiting == Waiting::nothing; ++count) {
      if (count > longest_segment_instructions)
        fault(FaultKind::runaway, fmt::format("{} instructions without a barrier", count));
      step();
    }
  }

 private:
  [[noreturn]] void fault(FaultKind kind, std::string message) const {
    throw FaultError{kind, std::move(message), tile_, state_.pc};
  }

  Spent& spent() {
    if (state_.spent.empty() || state_.spent.back().stage != state_.stage) {
      const bool continued = state_.spent.empty() && state_.stage == state_.resumed_stage;
      state_.spent.push_back({.stage = state_.stage, .continued = continued});
    }
    return state_.spent.back();
  }

  void charge(std::int64_t cycles) {
    state_.cycle += cycles;
    (state_.in_host_phase ? spent().host : spent().compute) += cycles;
  }

  // The row ran while the tile waited: its time, then back to the caller.
  void finish_row() {
    const std::int64_t events = state_.row->schedule.events;
    state_.cycle += events;
    spent().exchange += events;
    if (const hw::BaseWrite& write = state_.row->schedule.base_write; write.present())
      state_.outgoing_base = state_.m[write.base_register];
    state_.row = nullptr;
    state_.pc = state_.m[10];
  }

  void step() {
    const std::span<const std::uint32_t> code = world_.code_from(tile_, state_.pc);
    if (code.empty() || world_.program_.machine.sram.region_of(state_.pc) != 0)
      fault(FaultKind::unknown_instruction, fmt::format("nothing executable lies at {:#x}", state_.pc));
    const hw::Instruction instruction = hw::decode(code);
    const std::int32_t stage = world_.stage_at(tile_, state_.pc);
    if (stage < state_.stage) ++state_.turn;
    state_.stage = stage;
    execute(instruction, code);
  }

  std::uint32_t memory_address(const hw::Instruction& i) const {
    return state_.m[i.s] + state_.m[i.x] + static_cast<std::uint32_t>(i.immediate) * 4;
  }

  void execute(const hw::Instruction& i, std::span<const std::uint32_t> code) {
    const std::uint32_t next = state_.pc + static_cast<std::uint32_t>(i.words()) * 4;
    std::int64_t cycles = world_.program_.machine.supervisor_cycles;
    std::uint32_t target = next;
    switch (i.opcode) {
      case hw::Opcode::nop: break;
      case hw::Opcode::setzi: set(i.d, static_cast<std::uint32_t>(i.immediate)); break;
      case hw::Opcode::add: set(i.d, state_.m[i.s] + static_cast<std::uint32_t>(i.immediate)); break;
      case hw::Opcode::and_: set(i.d, state_.m[i.s] & static_cast<std::uint32_t>(i.immediate)); break;
      case hw::Opcode::shl: set(i.d, i.immediate > 31 ? 0 : state_.m[i.s] << i.immediate); break;
      case hw::Opcode::br: target = state_.m[i.s]; break;
      case hw::Opcode::brz: target = state_.m[i.d] == 0 ? static_cast<std::uint32_t>(i.immediate) : next; break;
      case hw::Opcode::put: put(i.immediate, state_.m[i.s]); break;
      case hw::Opcode::get: set(i.d, get(i.immediate)); break;
      case hw::Opcode::ld32: load(i); break;
      case hw::Opcode::st32: store(i); break;
      case hw::Opcode::sans: state_.inactive = i.immediate == 0; break;
      case hw::Opcode::trap:
        if (i.immediate != 0)
          fault(FaultKind::unknown_instruction,
                fmt::format("trap {} is not modelled; trap 0 ends the program", i.immediate));
        charge(cycles);
        state_.resumed_stage = state_.stage;
        state_.waiting = Waiting::done;
        return;
      case hw::Opcode::sync: return sync(i.immediate, next, code);
      case hw::Opcode::call: {
        const auto address = static_cast<std::uint32_t>(i.immediate);
        charge(cycles);
        if (const auto entry = world_.entries_[tile_].find(address); entry != world_.entries_[tile_].end()) {
          call_kernel(entry->second);
          state_.pc = next;
          return;
        }
        if (world_.code_from(tile_, address).empty())
          fault(FaultKind::unknown_kernel,
                fmt::format("a call to {:#x}, where neither a kernel nor code lies", address));
        set(i.d, next);
        state_.pc = address;
        return;
      }
      case hw::Opcode::delay:
        if (!state_.in_host_phase) fault(FaultKind::unknown_instruction, "a timed instruction outside an exchange row");
        cycles = i.count;
        break;
      case hw::Opcode::send:
        if (!state_.in_host_phase) fault(FaultKind::unknown_instruction, "a send outside an exchange row");
        host_send(state_.outgoing_base + i.address * 4, i.count);
        cycles = i.count;
        break;
      case hw::Opcode::sendoff:
        if (!state_.in_host_phase || state_.stream.words.empty())
          fault(FaultKind::unknown_instruction, "there is no send to continue");
        host_send(host_stream_end_ + static_cast<std::uint32_t>(i.delta) * 4, i.count);
        cycles = i.count;
        break;
      default: fault(FaultKind::unknown_instruction, fmt::format("the word {:#010x} is not executable here", code[0]));
    }
    charge(cycles);
    state_.pc = target;
  }

  void set(int d, std::uint32_t value) {
    if (d != 15) state_.m[d] = value;  // m15 reads as zero
  }

  void put(int csr, std::uint32_t value) {
    if (csr == hw::csr::outgoing_base) state_.outgoing_base = value;
    if (csr == hw::csr::incoming_base) state_.incoming_base = value;
    if (csr == hw::csr::incoming_mux) state_.incoming_mux = value;
  }

  std::uint32_t get(int csr) const {
    if (csr == hw::csr::outgoing_base) return state_.outgoing_base;
    if (csr == hw::csr::incoming_base) return state_.incoming_base;
    if (csr == hw::csr::incoming_mux) return state_.incoming_mux;
    return 0;
  }

  void check_access(std::uint32_t address, std::int64_t bytes, const char* what) const {
    if (address % 4 != 0)
      fault(FaultKind::unaligned, fmt::format("{} at {:#x}, which is not a multiple of 4", what, address));
    if (bytes < 0 || !world_.program_.machine.sram.contains(address, static_cast<std::uint32_t>(bytes)))
      fault(FaultKind::out_of_range, fmt::format("{} of {} bytes at {:#x} leaves the SRAM", what, bytes, address));
  }

  void check_written(std::uint32_t address, std::int64_t bytes, const std::string& what) const {
    if (const std::uint32_t hole = world_.sram_.first_unwritten(tile_, address, bytes); hole != 0)
      fault(FaultKind::unwritten_read,
            fmt::format("{} of {} bytes at {:#x}: {:#x} was never written", what, bytes, address, hole));
  }

  void load(const hw::Instruction& i) {
    const std::uint32_t address = memory_address(i);
    check_access(address, 4, "a load");
    check_written(address, 4, "a load");
    world_.run_queued(tile_);
    set(i.d, world_.word_at(tile_, address));
  }

  void store(const hw::Instruction& i) {
    const std::uint32_t address = memory_address(i);
    check_access(address, 4, "a store");
    if (world_.overlaps_code(tile_, address, 4))
      fault(FaultKind::out_of_range, fmt::format("a store at {:#x}, over the program", address));
    world_.run_queued(tile_);
    world_.store_word(tile_, address, state_.m[i.d]);
  }

  void sync(int zone, std::uint32_t next, std::span<const std::uint32_t> code) {
    charge(world_.program_.machine.supervisor_cycles);
    state_.resumed_stage = state_.stage;
    if (zone == sync_internal) {
      const hw::Instruction following = code.size() > 1 ? hw::decode(code.subspan(1)) : hw::Instruction{};
      const bool empty_row = following.opcode == hw::Opcode::br && following.s == 10;
      if (is_row_instruction(following.opcode) || empty_row) {
        state_.row = world_.row_at(tile_, state_.pc);
        state_.row_pc = state_.pc;
      } else {
        state_.row = nullptr;
        state_.pc = next;
      }
      state_.waiting = Waiting::internal;
    } else if (zone == sync_host) {
      state_.waiting = state_.in_host_phase ? Waiting::host_end : Waiting::host_begin;
      state_.in_host_phase = !state_.in_host_phase;
      state_.pc = next;
    } else {
      fault(FaultKind::unknown_instruction, fmt::format("sync zone {} is not modelled; 3 and 15 are", zone));
    }
  }

  void call_kernel(std::int32_t kernel) {
    const hw::KernelParams& params = world_.program_.kernels[kernel];
    QueuedCall call{kernel, state_.stage, state_.turn, {}};
    const hw::SramMap& sram = world_.program_.machine.sram;
    for (const hw::Operand& operand : world_.kernel_operands_[kernel]) {
      const std::uint32_t address = state_.m[operand.register_number];
      if (operand.bytes < 0 || operand.bytes > sram.capacity_bytes() ||
          !sram.contains(address, static_cast<std::uint32_t>(operand.bytes)))
        fault(FaultKind::out_of_range, fmt::format("{}: operand \"{}\" of {} bytes at {:#x} leaves the SRAM",
                                                   hw::describe(params), operand.name, operand.bytes, address));
      if (address % static_cast<std::uint32_t>(operand.alignment_bytes) != 0)
        fault(FaultKind::unaligned, fmt::format("{}: operand \"{}\" at {:#x} must be a multiple of {} bytes",
                                                hw::describe(params), operand.name, address, operand.alignment_bytes));
      if (operand.region1_required && sram.region_of(address) != 1)
        fault(FaultKind::element_conflict, fmt::format("{}: operand \"{}\" at {:#x} must lie in region 1",
                                                       hw::describe(params), operand.name, address));
      if (operand.written && world_.overlaps_code(tile_, address, operand.bytes))
        fault(FaultKind::out_of_range,
              fmt::format("{}: operand \"{}\" of {} bytes at {:#x} is written over the program", hw::describe(params),
                          operand.name, operand.bytes, address));
      if (!operand.written)
        check_written(address, operand.bytes, fmt::format("{}: operand \"{}\"", hw::describe(params), operand.name));
      call.operands[operand.register_number] = world_.sram_.at(tile_, address);
    }
    check_separation(params, kernel);
    for (const hw::Operand& operand : world_.kernel_operands_[kernel])
      if (operand.written) world_.sram_.mark_written(tile_, state_.m[operand.register_number], operand.bytes);
    if (!world_.options_.timing_only) state_.calls.push_back(call);
    charge(world_.kernel_cycles_[kernel]);
  }

  void check_separation(const hw::KernelParams& params, std::int32_t kernel) const {
    const hw::SramMap& sram = world_.program_.machine.sram;
    const auto& operands = world_.kernel_operands_[kernel];
    for (const hw::Operand& a : operands) {
      if (a.separate_from_register == 0 || a.bytes == 0) continue;
      for (const hw::Operand& b : operands) {
        if (b.register_number != a.separate_from_register || b.bytes == 0) continue;
        const std::uint32_t at = state_.m[a.register_number], bt = state_.m[b.register_number];
        const int a0 = sram.element_of(at), a1 = sram.element_of(at + static_cast<std::uint32_t>(a.bytes) - 1);
        const int b0 = sram.element_of(bt), b1 = sram.element_of(bt + static_cast<std::uint32_t>(b.bytes) - 1);
        if (a0 <= b1 && b0 <= a1)
          fault(FaultKind::element_conflict, fmt::format("{}: operands \"{}\" and \"{}\" share SRAM element {}",
                                                         hw::describe(params), a.name, b.name, std::max(a0, b0)));
      }
    }
  }

  void host_send(std::uint32_t address, int count) {
    check_access(address, std::int64_t{count} * 4, "a host send");
    check_written(address, std::int64_t{count} * 4, "a host send");
    state_.stream.pieces.push_back({state_.stream.words.size(), state_.cycle, state_.pc});
    for (int word = 0; word < count; ++word)
      state_.stream.words.push_back(world_.word_at(tile_, address + static_cast<std::uint32_t>(word) * 4));
    host_stream_end_ = address + static_cast<std::uint32_t>(count) * 4;
  }

  World& world_;
  std::uint32_t tile_;
  TileState& state_;
  std::uint32_t host_stream_end_ = 0;  // where a sendoff goes on
};

void World::run_tile(std::uint32_t tile) {
  try {
    Interpreter(*this, tile).run();
  } catch (const FaultError& error) {
    keep_fault(error);
  }
}

}  // namespace tw::sim
