// simulator/system/host_port.cpp: the host's side of a host exchange: takes the packets that tiles sent between the two
// host barriers, and moves bytes between the staging buffers and the tiles.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hw/fabric/fabric.h"
#include "simulator/system/world.h"

namespace tw::sim {
namespace {

constexpr std::uint32_t kind_mask = 0xa0000000, incoming_bits = 0x40000200, last_bits = 0x0c000000;
constexpr std::uint32_t long_bit = 0x20000000, outgoing = 0x80000000;
constexpr std::uint32_t route_shift = 16, granule_bytes = 64, page_bytes = 4096;

struct Packet {
  bool incoming = false, is_long = false, last = false;
  std::uint32_t tile_units = 0;     // 32-byte units in the host window
  std::uint64_t host_offset = 0;
  std::uint32_t bytes = 0;
};

Packet parse(std::uint32_t word0, std::uint32_t word1) {
  Packet packet;
  packet.incoming = (word0 & incoming_bits) == incoming_bits;
  packet.is_long = (word0 & long_bit) != 0;
  packet.last = (word0 & last_bits) == last_bits;
  packet.tile_units = word0 & 0x1ff;
  const std::uint32_t count = word1 & 15;
  packet.host_offset = std::uint64_t{(word1 & 0x7fffffff) >> 4} << (packet.is_long ? 6 : 2);
  packet.bytes = packet.is_long ? (count == 0 ? 16 : count) * granule_bytes : count * 4;
  return packet;
}

}  // namespace

// Splits the stream of one tile into packets and serves them. Every field is checked: a damaged header is a fault.
void World::deliver(std::uint32_t tile, const HostStream& stream) {
  const PhysicalTile physical = hw::physical_of({tile}, program_.machine);
  const std::uint32_t route = (physical.value >> 1 << route_shift) + ((physical.value & 1) << 15);
  const hw::SramMap& sram = program_.machine.sram;
  const auto fault = [&](std::string message) { throw FaultError{FaultKind::host_protocol, std::move(message), tile, tiles_[tile].pc}; };
  std::size_t at = 0;
  while (at < stream.words.size()) {
    if (at + 2 > stream.words.size()) fault("a host packet of one word");
    const std::uint32_t word0 = stream.words[at], word1 = stream.words[at + 1];
    at += 2;
    if ((word0 & kind_mask & outgoing) == 0) fault(fmt::format("host packet header {:#010x} is of no known kind", word0));
    if ((word0 & 0x03ff8000) != route || word1 >> 31 != (physical.value & 1))
      fault(fmt::format("host packet header {:#010x} {:#010x} carries the route of another tile", word0, word1));
    const Packet packet = parse(word0, word1);
    if (packet.incoming && packet.bytes == 0) continue;  // closes a tile-to-host stream
    if (packet.host_offset % page_bytes + packet.bytes > page_bytes) fault(fmt::format("a host transfer of {} bytes at {:#x} crosses a page", packet.bytes, packet.host_offset));
    std::byte* host = nullptr;
    for (const hw::Binding& binding : program_.bindings)
      if (binding.input == packet.incoming && packet.host_offset >= binding.host_base && packet.host_offset + packet.bytes <= binding.host_base + binding.bytes)
        host = host_[binding.name].data() + (packet.host_offset - binding.host_base);
    if (host == nullptr) fault(fmt::format("a host transfer of {} bytes at {:#x} leaves the buffers of this program", packet.bytes, packet.host_offset));
    if (packet.incoming) {
      const std::uint32_t offset = packet.tile_units * 32;
      if (offset + packet.bytes > sram.host_window_incoming_bytes) fault(fmt::format("an incoming packet of {} bytes at offset {:#x} leaves the host window", packet.bytes, offset));
      const std::uint32_t address = sram.host_window_base_bytes + offset;
      std::memcpy(sram_.at(tile, address), host, packet.bytes);
      sram_.mark_written(tile, address, packet.bytes);
    } else {
      const std::size_t words = packet.bytes / 4;
      if (at + words > stream.words.size()) fault("the payload of an outgoing packet is missing");
      std::memcpy(host, stream.words.data() + at, packet.bytes);
      at += words;
    }
  }
}

std::int64_t World::host_phase(std::int64_t latest) {
  std::int64_t bytes = 0;
  std::int64_t streams = 0;
  for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
    if (tiles_[tile].stream.words.empty()) continue;
    ++streams;
    if (!options_.timing_only) deliver(tile, tiles_[tile].stream);
    tiles_[tile].stream.words.clear();
  }
  // All blocks of the stage's binding move; the link's rate bounds them (timing only counts the same bytes).
  const hw::StageInfo& info = program_.stages[tiles_[0].stage];
  for (const hw::Binding& binding : program_.bindings)
    if (binding.name == info.operation && binding.input == (info.kind == hw::StageKind::host_input)) bytes = static_cast<std::int64_t>(binding.bytes);
  const hw::HostTiming& host = program_.machine.host;
  const auto link = static_cast<std::int64_t>(static_cast<double>(bytes) / host.bytes_per_second * program_.machine.clock_hz);
  return latest + host.sync_cycles + (streams > 0 ? host.command_dispatch_cycles : 0) + link;
}

}  // namespace tw::sim
