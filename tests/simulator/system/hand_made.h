// tests/simulator/system/hand_made.h: small programs made instruction by instruction.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "hw/fabric/fabric.h"
#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/program/program.h"
#include "simulator/system/simulation.h"

namespace tw::test {

using hw::Opcode;

inline const hw::Machine& small_machine() {
  static const hw::Machine machine = *hw::load_machine("ipu21-64");
  return machine;
}

inline constexpr std::uint32_t code_address = 0x4c800;    // element 0
inline constexpr std::uint32_t kernel_address = 0x4c100;  // entries lie before the program
inline constexpr std::uint32_t window = 0x50000;          // host window
inline constexpr std::uint32_t data = 0x5c000;            // element 4
inline constexpr std::uint32_t headers = 0x60000;         // element 5: packet headers
inline constexpr std::uint32_t region1 = 0x80000;

// One tile's program under construction. Rows are placed behind the code; their calls are patched.
class Code {
 public:
  Code& emit(const hw::Instruction& instruction) {
    const auto words = hw::encode(instruction);
    for (int index = 0; index < instruction.words(); ++index) word(words[index]);
    return *this;
  }
  Code& word(std::uint32_t value) {
    words.push_back(value);
    stages.push_back(stage);
    return *this;
  }
  Code& setzi(int d, std::uint32_t value) {
    return emit({.opcode = Opcode::setzi, .d = d, .immediate = static_cast<std::int32_t>(value)});
  }
  Code& put(int csr, int s) { return emit({.opcode = Opcode::put, .s = s, .immediate = csr}); }
  Code& sync(int zone) { return emit({.opcode = Opcode::sync, .immediate = zone}); }
  Code& call(std::uint32_t address) {
    return emit({.opcode = Opcode::call, .d = 10, .immediate = static_cast<std::int32_t>(address)});
  }
  Code& load(int d, int s, int offset = 0) {
    return emit({.opcode = Opcode::ld32, .d = d, .s = s, .x = 15, .immediate = offset});
  }
  Code& store(int d, int s, int offset = 0) {
    return emit({.opcode = Opcode::st32, .d = d, .s = s, .x = 15, .immediate = offset});
  }
  Code& trap() { return emit({.opcode = Opcode::trap, .immediate = 0}); }
  std::uint32_t here() const { return code_address + static_cast<std::uint32_t>(words.size()) * 4; }
  // Store of a constant of up to 20 bits.
  Code& poke(std::uint32_t address, std::uint32_t value) { return setzi(7, value).setzi(8, address).store(7, 8); }

  std::vector<std::uint32_t> words;
  std::vector<std::int32_t> stages;
  std::int32_t stage = 0;
  std::vector<std::pair<std::size_t, hw::RowSchedule>> rows;  // word index of the call, and its row
};

class HandMade {
 public:
  HandMade() : tiles(static_cast<std::size_t>(small_machine().tiles)) {
    program.machine = small_machine();
    program.tiles.resize(tiles.size());
    stage(hw::StageKind::compute, "start");
  }

  // From here on, code of all tiles belongs to a new stage.
  std::int32_t stage(hw::StageKind kind, const std::string& operation, std::int32_t iterations = 1) {
    program.stages.push_back(
        {.kind = kind, .operation = operation, .what = operation + " stage", .iterations = iterations});
    for (Code& code : tiles) code.stage = static_cast<std::int32_t>(program.stages.size()) - 1;
    return static_cast<std::int32_t>(program.stages.size()) - 1;
  }

  std::uint32_t kernel(const hw::KernelParams& params) {
    program.kernels.push_back(params);
    const std::uint32_t address = kernel_address + static_cast<std::uint32_t>(program.kernels.size()) * 16;
    for (hw::TileProgram& tile : program.tiles)
      tile.entries.push_back({address, static_cast<std::uint32_t>(program.kernels.size()) - 1});
    return address;
  }

  // Every tile enters the barrier; those with a row run it. Rows need their base registers set before.
  void exchange(const std::map<std::uint32_t, hw::RowSchedule>& rows) {
    for (std::uint32_t tile = 0; tile < tiles.size(); ++tile) {
      if (const auto found = rows.find(tile); found != rows.end()) {
        tiles[tile].rows.emplace_back(tiles[tile].words.size(), found->second);
        tiles[tile].call(0);
      } else {
        tiles[tile].sync(3);
      }
    }
  }

  // A binding of `bytes`, moved by the given packets of one tile: two header words each, and payload addresses.
  struct Packet {
    std::uint32_t word0 = 0, word1 = 0, payload_address = 0, payload_bytes = 0;
  };
  void binding(const std::string& name, bool input, std::uint64_t bytes, std::uint64_t host_base) {
    hw::Binding made;
    made.name = name;
    made.input = input;
    made.bytes = bytes;
    made.host_base = host_base;
    program.bindings.push_back(made);
  }
  void host(std::uint32_t tile, const std::vector<Packet>& packets, int spacing = 18) {
    for (std::uint32_t other = 0; other < tiles.size(); ++other)
      if (other != tile) tiles[other].sync(15).sync(15);
    const PhysicalTile physical = hw::physical_of({tile}, small_machine());
    Code& code = tiles[tile];
    code.setzi(9, 0x600 + (physical.value & 0x3d))
        .put(hw::csr::incoming_mux, 9)
        .put(hw::csr::outgoing_base, 15)
        .sync(15);
    for (const Packet& packet : packets) {
      const std::uint32_t address = headers + header_bytes_[tile];
      segment(tile, address, {packet.word0, packet.word1});
      header_bytes_[tile] += 8;
      code.emit({.opcode = Opcode::send, .count = 2, .address = address / 4, .sctl = 3});
      const int words = static_cast<int>(packet.payload_bytes / 4);
      if (words > 0)
        code.emit({.opcode = Opcode::send, .count = words, .address = packet.payload_address / 4, .sctl = 3});
      if (words + 2 < spacing) code.emit({.opcode = Opcode::delay, .count = spacing - words - 2});
    }
    code.sync(15).setzi(9, 0x640).put(hw::csr::incoming_mux, 9);
  }
  // The packets that read or write `bytes` (< 64: one short packet, else a long one and a short rest) at a host
  // address.
  std::vector<Packet> packets(std::uint32_t tile, bool input, std::uint32_t address, std::uint32_t bytes,
                              std::uint64_t host_base) const {
    const std::uint32_t physical = hw::physical_of({tile}, small_machine()).value;
    const std::uint32_t route = (physical >> 1 << 16) + ((physical & 1) << 15), bit = (physical & 1) << 31;
    std::vector<Packet> result;
    while (bytes > 0) {
      const bool is_long = bytes >= 64;
      const std::uint32_t part = is_long ? std::min<std::uint32_t>(bytes / 64 * 64, 256) : bytes;
      const std::uint32_t kind = input ? (is_long ? 0xec000200 : 0xcc000200) : (is_long ? 0xa0000000 : 0x80000000);
      Packet packet;
      packet.word0 = kind + route + (input ? (address - window) / 32 : 0);
      packet.word1 =
          bit + (static_cast<std::uint32_t>(host_base >> (is_long ? 6 : 2)) << 4) + (is_long ? part / 64 : part / 4);
      if (!input) {
        packet.payload_address = address;
        packet.payload_bytes = part;
      }
      result.push_back(packet);
      bytes -= part;
      address += part;
      host_base += part;
    }
    if (input)
      for (std::size_t index = 0; index + 1 < result.size(); ++index) result[index].word0 &= ~0x0c000000U;
    else
      result.push_back({0xcc000200 + route, bit});
    return result;
  }

  void segment(std::uint32_t tile, std::uint32_t address, const std::vector<std::uint32_t>& words) {
    hw::Segment made{.address_bytes = address, .bytes = std::vector<std::byte>(words.size() * 4)};
    std::memcpy(made.bytes.data(), words.data(), made.bytes.size());
    program.tiles[tile].segments.push_back(std::move(made));
  }

  // Places everything. Every tile that does not end by itself ends with a trap.
  const hw::Program& finish() {
    for (std::uint32_t tile = 0; tile < tiles.size(); ++tile) {
      Code& code = tiles[tile];
      code.trap();
      for (const auto& [at, schedule] : code.rows) {
        if (code.words.size() % 2 != 0) code.emit({.opcode = Opcode::nop});
        const std::uint32_t address = code.here();
        const auto row = hw::encode_row(schedule, address);
        EXPECT_TRUE(row) << (row ? "" : row.error().message);
        code.words[at] =
            hw::encode({.opcode = Opcode::call, .d = 10, .immediate = static_cast<std::int32_t>(address)})[0];
        code.stage = code.stages[at];
        for (const std::uint32_t value : *row) code.word(value);
      }
      hw::TileProgram& made = program.tiles[tile];
      made.code = code.words;
      made.code_address_bytes = made.entry_bytes = code_address;
      for (std::uint32_t index = 0; index < code.stages.size(); ++index)
        made.origins.push_back({index, 1, {static_cast<std::uint32_t>(code.stages[index])}});
    }
    return program;
  }

  hw::Program program;
  std::vector<Code> tiles;

 private:
  std::map<std::uint32_t, std::uint32_t> header_bytes_;
};

// One message: rows of its sender and receiver, the first word leaving at `event` (late enough for any receiver).
struct Message {
  std::uint32_t from = 0, to = 0;
  std::int32_t words = 1;
  std::uint32_t from_address = 0, to_address = 0;
  std::int32_t event = 130;
};

inline void add(std::map<std::uint32_t, hw::RowSchedule>& rows, const Message& message, std::uint8_t sctl = 3) {
  const hw::Machine& machine = small_machine();
  const PhysicalTile source = hw::physical_of({message.from}, machine), target = hw::physical_of({message.to}, machine);
  const std::int32_t select = message.event + hw::flight_time(source, target) + 1,
                     write = select + hw::write_latency(target, machine);
  hw::RowSchedule& sender = rows[message.from];
  sender.sends.push_back({message.event, message.words, message.from_address / 4, sctl});
  sender.events = std::max(sender.events, message.event + message.words);
  hw::RowSchedule& receiver = rows[message.to];
  receiver.sources.push_back({select, source.value});
  receiver.sources.push_back({select + message.words, static_cast<std::uint32_t>(machine.fabric.neutral_mux)});
  receiver.pointers.push_back({write, message.to_address / 4});
  receiver.events = std::max(receiver.events, write + message.words + machine.fabric.row_tail_cycles);
}

// The same in double words to the physical pair of message.to: `words` counts items.
inline void add_wide(std::map<std::uint32_t, hw::RowSchedule>& rows, const Message& message) {
  const hw::Machine& machine = small_machine();
  const PhysicalTile source = hw::physical_of({message.from}, machine), target = hw::physical_of({message.to}, machine);
  const auto neutral = static_cast<std::uint32_t>(machine.fabric.neutral_mux);
  const std::int32_t select = message.event + hw::pair_flight_time(source, target) + 1;
  hw::RowSchedule& sender = rows[message.from];
  sender.sends.push_back({message.event, message.words, message.from_address / 4, 3 | hw::Send::sctl_wide});
  sender.events = std::max(sender.events, message.event + message.words);
  for (const PhysicalTile tile : {target, hw::pair_of(target)}) {
    hw::RowSchedule& receiver = rows[hw::logical_of(tile, machine).value];
    if (hw::pair_owner(source, target) == tile) {
      receiver.sources.push_back({select, source.value, true});
      receiver.sources.push_back({select + message.words, neutral, true});
    }
    const std::int32_t write = select + hw::pair_write_latency(tile, machine);
    receiver.pointers.push_back({write, message.to_address / 4});
    receiver.formats.push_back({write - hw::receive_format_lead, hw::pair_format(tile)});
    receiver.formats.push_back({write - hw::receive_format_lead + message.words, 0});
    receiver.events = std::max(receiver.events, write + message.words + machine.fabric.row_tail_cycles);
  }
}

inline sim::RunResult run(const hw::Program& program, const std::map<std::string, std::vector<std::byte>>& inputs = {},
                          const sim::Options& options = {}) {
  auto simulation = sim::Simulation::create(program, options);
  EXPECT_TRUE(simulation) << (simulation ? "" : simulation.error().message);
  if (!simulation) return {};
  auto result = (*simulation)->run(inputs);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : sim::RunResult{};
}

inline std::vector<std::byte> bytes_of_words(const std::vector<std::uint32_t>& words) {
  std::vector<std::byte> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

inline std::string text_of(const sim::RunResult& result) {
  return result.fault ? result.fault->kind + ": " + result.fault->message : "no fault";
}

}  // namespace tw::test
