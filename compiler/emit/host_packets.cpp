// compiler/emit/host_packets.cpp: host exchange packets of a binding's block (docs/fidelity.md).
#include <algorithm>

#include "compiler/emit/emit.h"
#include "hw/fabric/fabric.h"

namespace tw::compiler {
namespace {

constexpr std::uint64_t host_page_bytes = 4096;  // a transfer may not cross a page
constexpr std::uint32_t granule_bytes = 64;      // of long packets
constexpr std::uint32_t longest_incoming_bytes = 1024, longest_outgoing_bytes = 256;
constexpr std::uint32_t incoming_short = 0xcc000200, incoming_long = 0xec000200;
constexpr std::uint32_t outgoing_short = 0x80000000, outgoing_long = 0xa0000000;
constexpr std::uint32_t not_last_mask = 0x0c000000;  // cleared in all packets of an incoming stream but the last

}  // namespace

std::vector<HostPacket> host_packets(const hw::Binding& binding, int block, std::uint32_t block_address,
                                     const hw::Machine& machine) {
  const int columns = binding.layout.column_blocks();
  const TileId tile = binding.layout.tile_of(block / columns, block % columns);
  const PhysicalTile physical = hw::physical_of(tile, machine);
  const std::uint32_t route = (physical.value >> 1 << 16) + ((physical.value & 1) << 15);
  const std::uint32_t route_bit = (physical.value & 1) << 31;
  std::uint64_t host = binding.host_base + binding.block_offsets[block];
  std::uint64_t remaining = static_cast<std::uint64_t>(binding.layout.block_bytes(block / columns, block % columns));
  std::uint32_t address = block_address;
  std::vector<HostPacket> packets;
  while (remaining > 0) {
    const std::uint64_t in_page = host_page_bytes - host % host_page_bytes;
    const std::uint32_t longest = binding.input ? longest_incoming_bytes : longest_outgoing_bytes;
    auto bytes = static_cast<std::uint32_t>(std::min({remaining, in_page, std::uint64_t{longest}}));
    const bool is_long = bytes >= granule_bytes;
    if (is_long) bytes = bytes / granule_bytes * granule_bytes;
    HostPacket packet;
    const std::uint32_t kind =
        binding.input ? (is_long ? incoming_long : incoming_short) : (is_long ? outgoing_long : outgoing_short);
    packet.word0 = kind + route + (binding.input ? (address - machine.sram.host_window_base_bytes) >> 5 : 0);
    packet.word1 = route_bit + (static_cast<std::uint32_t>(host >> (is_long ? 6 : 2)) << 4) +
                   (is_long ? bytes / granule_bytes % 16 : bytes / 4);
    if (!binding.input) {
      packet.payload_address_bytes = address;
      packet.payload_bytes = bytes;
    }
    remaining -= bytes;
    host += bytes;
    address += bytes;
    packets.push_back(packet);
  }
  if (binding.input) {
    for (std::size_t index = 0; index + 1 < packets.size(); ++index) packets[index].word0 &= ~not_last_mask;
  } else if (!packets.empty()) {
    packets.push_back({incoming_short + route, route_bit, 0, 0});  // a zero-byte read closes the stream
  }
  return packets;
}

}  // namespace tw::compiler
