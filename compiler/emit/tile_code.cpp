// compiler/emit/tile_code.cpp: the supervisor program of one tile: stage after stage, rows and kernels as calls.
// Registers: m2..m9 operands of a kernel, m10 return, m12 iterations left, m13 address of the current parameter record.
#include <algorithm>
#include <map>

#include "compiler/emit/emit.h"
#include "compiler/exchange/phase.h"
#include "hw/base/check.h"
#include "hw/base/units.h"
#include "hw/fabric/fabric.h"
#include "hw/isa/instruction.h"

namespace tw::compiler {
namespace {

constexpr int return_register = 10, counter_register = 12, zero_register = 15;
constexpr int scratch_register = 9;
constexpr int sync_host = 15;
constexpr std::int32_t largest_add = 32764;  // add takes a signed 16-bit immediate

class Writer {
 public:
  explicit Writer(const Addresses& addresses) : addresses_(addresses) {}

  void emit(const hw::Instruction& instruction) {
    const auto encoded = hw::encode(instruction);
    words.insert(words.end(), encoded.begin(), encoded.begin() + instruction.words());
  }
  void setzi(int d, std::uint32_t value) {
    emit({.opcode = hw::Opcode::setzi, .d = d, .immediate = static_cast<std::int32_t>(value)});
  }
  void put(int csr, int s) { emit({.opcode = hw::Opcode::put, .s = s, .immediate = csr}); }
  void call(std::uint32_t address) {
    emit({.opcode = hw::Opcode::call, .d = return_register, .immediate = static_cast<std::int32_t>(address)});
  }
  void sync(int zone) { emit({.opcode = hw::Opcode::sync, .immediate = zone}); }
  // d = s + value, in as many steps as the immediate needs.
  void add(int d, int s, std::int32_t value) {
    do {
      const std::int32_t step = std::min(value, largest_add);
      emit({.opcode = hw::Opcode::add, .d = d, .s = s, .immediate = step});
      value -= step;
      s = d;
    } while (value > 0);
  }
  std::uint32_t here(std::uint32_t base) const { return base + static_cast<std::uint32_t>(words.size()) * 4; }

  void load_operand(int register_number, const Place& place) {
    if (place.buffer < 0) return;
    if (place.moving) {
      add(register_number, record_register, static_cast<std::int32_t>(place.offset_bytes));
    } else {
      setzi(register_number, addresses_.buffer[place.buffer] + place.offset_bytes);
    }
  }

  void begin_loop(const LoweredRepeat& repeat, std::uint32_t base) {
    setzi(counter_register, static_cast<std::uint32_t>(repeat.count));
    setzi(record_register, addresses_.buffer[repeat.records]);
    loop_top_ = here(base);
  }
  void end_loop(const LoweredRepeat& repeat, std::uint32_t base) {
    add(record_register, record_register, static_cast<std::int32_t>(repeat.record_bytes));
    emit({.opcode = hw::Opcode::add, .d = counter_register, .s = counter_register, .immediate = -1});
    const std::uint32_t exit = here(base) + 3 * 4;  // behind brz, setzi, br
    emit({.opcode = hw::Opcode::brz, .d = counter_register, .immediate = static_cast<std::int32_t>(exit)});
    setzi(scratch_register, loop_top_);
    emit({.opcode = hw::Opcode::br, .s = scratch_register});
  }

  std::vector<std::uint32_t> words;

 private:
  const Addresses& addresses_;
  std::uint32_t loop_top_ = 0;
};

// What one tile does in each stage: indexes into the stages' lists, made once for all tiles by the caller's order.
struct TileWork {
  std::vector<std::vector<const StageCall*>> calls;  // by stage
};

TileWork work_of(std::uint32_t tile, const Lowered& lowered) {
  TileWork work;
  work.calls.resize(lowered.stages.size());
  for (std::size_t stage = 0; stage < lowered.stages.size(); ++stage) {
    const std::vector<StageCall>& calls = lowered.stages[stage].calls;
    // Calls are sorted by tile (stable): a binary search finds this tile's.
    auto at = std::lower_bound(calls.begin(), calls.end(), tile,
                               [](const StageCall& call, std::uint32_t wanted) { return call.tile < wanted; });
    for (; at != calls.end() && at->tile == tile; ++at) work.calls[stage].push_back(&*at);
  }
  return work;
}

// Header words of all packets of this tile, in stage order, and the code that sends them.
void emit_host_stage(Writer& writer, const std::vector<HostPacket>& packets, std::uint32_t headers_address,
                     bool outgoing, PhysicalTile physical, const hw::Machine& machine) {
  if (packets.empty()) {
    writer.sync(sync_host);
    writer.sync(sync_host);
    return;
  }
  constexpr std::uint32_t column_mask = 0x3d;  // the host mux of the tile's column (docs/fidelity.md)
  writer.setzi(scratch_register, static_cast<std::uint32_t>(machine.fabric.host_mux) + (physical.value & column_mask));
  writer.put(hw::csr::incoming_mux, scratch_register);
  writer.put(hw::csr::outgoing_base, zero_register);
  writer.sync(sync_host);
  const auto send = [&](std::uint32_t address, std::uint32_t words) {
    writer.emit({.opcode = hw::Opcode::send, .count = static_cast<int>(words), .address = address / 4, .sctl = 3});
  };
  for (std::size_t index = 0; index < packets.size(); ++index) {
    const HostPacket& packet = packets[index];
    send(headers_address + static_cast<std::uint32_t>(index) * 8, 2);
    if (packet.payload_bytes > 0) send(packet.payload_address_bytes, packet.payload_bytes / 4);
    const auto words = static_cast<int>(2 + packet.payload_bytes / 4);
    if (outgoing && words < machine.host.packet_spacing_cycles)
      writer.emit({.opcode = hw::Opcode::delay, .count = machine.host.packet_spacing_cycles - words});
  }
  writer.sync(sync_host);
  writer.setzi(scratch_register, static_cast<std::uint32_t>(machine.fabric.neutral_mux));
  writer.put(hw::csr::incoming_mux, scratch_register);
}

}  // namespace

KernelArea kernel_area(const Lowered& lowered, const std::vector<std::int32_t>& kernels, const hw::Machine& machine) {
  KernelArea area;
  std::vector<bool> families(hw::kernel_kinds, false);
  for (const std::int32_t index : kernels) {
    const hw::KernelParams& params = lowered.kernels[index];
    const auto kind = static_cast<std::size_t>(params.kind);
    if (!families[kind]) {
      families[kind] = true;
      area.bytes += hw::family_code_bytes(params.kind, machine);
    }
    area.entries.push_back({area.bytes, static_cast<std::uint32_t>(index)});
    area.bytes += static_cast<std::uint32_t>(round_up(hw::entry_code_bytes(params, machine), 8));
  }
  return area;
}

TileCode generate_tile(std::uint32_t tile, const Lowered& lowered, const Addresses& addresses,
                       const std::vector<hw::Binding>& bindings, const std::vector<StageRows>& rows,
                       const hw::Machine& machine) {
  const TileWork work = work_of(tile, lowered);
  std::vector<std::int32_t> kernels;
  for (const auto& calls : work.calls)
    for (const StageCall* call : calls) kernels.push_back(call->kernel);
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  KernelArea area = kernel_area(lowered, kernels, machine);
  std::map<std::int32_t, std::uint32_t> entry;
  for (hw::KernelEntry& kernel : area.entries) {
    kernel.address_bytes += addresses.code;
    entry[static_cast<std::int32_t>(kernel.kernel)] = kernel.address_bytes;
  }
  const auto base = static_cast<std::uint32_t>(round_up(addresses.code + area.bytes, 8));
  const PhysicalTile physical = hw::physical_of({tile}, machine);

  TileCode code;
  code.program.entries = area.entries;
  code.program.code_address_bytes = code.program.entry_bytes = base;

  // Two passes: the first finds the program's length (row addresses do not change it), the second has the addresses.
  std::uint32_t program_bytes = 0;
  for (int pass = 0; pass < 2; ++pass) {
    Writer writer(addresses);
    code.program.origins.clear();
    code.program.segments.clear();
    std::vector<std::uint32_t> headers;
    std::uint32_t row_address = static_cast<std::uint32_t>(round_up(base + program_bytes, 8));
    writer.put(hw::csr::incoming_base, zero_register);
    writer.setzi(scratch_register, static_cast<std::uint32_t>(machine.fabric.neutral_mux));
    writer.put(hw::csr::incoming_mux, scratch_register);
    for (std::size_t index = 0; index < lowered.stages.size(); ++index) {
      const Stage& stage = lowered.stages[index];
      const auto first = static_cast<std::uint32_t>(writer.words.size());
      switch (stage.info.kind) {
        case hw::StageKind::loop_begin: writer.begin_loop(lowered.repeats[stage.repeat], base); break;
        case hw::StageKind::loop_end: writer.end_loop(lowered.repeats[stage.repeat], base); break;
        case hw::StageKind::compute:
          for (const StageCall* call : work.calls[index]) {
            for (int r = 2; r < 10; ++r) writer.load_operand(r, call->registers[r]);
            writer.call(entry.at(call->kernel));
          }
          break;
        case hw::StageKind::exchange:
          if (rows[index][tile].empty()) {
            writer.sync(3);
          } else {
            writer.put(hw::csr::outgoing_base, stage.moving_sources ? record_register : zero_register);
            writer.call(row_address);
            row_address += static_cast<std::uint32_t>(round_up(rows[index][tile].size() * 4, 8));
          }
          break;
        case hw::StageKind::host_input:
        case hw::StageKind::host_output: {
          const hw::Binding& binding = bindings[stage.binding];
          const auto block = static_cast<std::int64_t>(tile) - binding.layout.first_tile;
          std::vector<HostPacket> packets;
          if (block >= 0 && block < binding.layout.blocks())
            packets = host_packets(binding, static_cast<int>(block), binding.block_address_bytes[block], machine);
          emit_host_stage(writer, packets, addresses.packets + static_cast<std::uint32_t>(headers.size()) * 4,
                          stage.info.kind == hw::StageKind::host_output, physical, machine);
          for (const HostPacket& packet : packets) {
            headers.push_back(packet.word0);
            headers.push_back(packet.word1);
          }
          break;
        }
      }
      const auto count = static_cast<std::uint32_t>(writer.words.size()) - first;
      if (count > 0) code.program.origins.push_back({first, count, {static_cast<std::uint32_t>(index)}});
    }
    writer.emit({.opcode = hw::Opcode::trap, .immediate = 0});
    program_bytes = static_cast<std::uint32_t>(writer.words.size()) * 4;
    code.program.code = std::move(writer.words);
    if (!headers.empty()) {
      hw::Segment segment{.address_bytes = addresses.packets, .bytes = {}};
      const auto bytes = std::as_bytes(std::span(headers));
      segment.bytes.assign(bytes.begin(), bytes.end());
      code.program.segments.push_back(std::move(segment));
    }
  }
  // Rows behind the program, in stage order, each at a multiple of 8 bytes.
  constexpr std::uint32_t nop = 0x19e00000;
  for (std::size_t index = 0; index < lowered.stages.size(); ++index) {
    if (lowered.stages[index].info.kind != hw::StageKind::exchange || rows[index][tile].empty()) continue;
    if (code.program.code.size() % 2 != 0) code.program.code.push_back(nop);
    const std::vector<std::uint32_t>& row = rows[index][tile];
    code.program.origins.push_back({static_cast<std::uint32_t>(code.program.code.size()),
                                    static_cast<std::uint32_t>(row.size()),
                                    {static_cast<std::uint32_t>(index)}});
    code.program.code.insert(code.program.code.end(), row.begin(), row.end());
    code.table_bytes += static_cast<std::uint32_t>(row.size()) * 4;
  }
  code.used_bytes = base - addresses.code + static_cast<std::uint32_t>(code.program.code.size()) * 4;
  return code;
}

}  // namespace tw::compiler
