// simulator/system/host_port.cpp: the host's side of a host exchange: takes the packets that tiles sent between the two
// host barriers, and moves bytes between the staging buffers and the tiles.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hw/fabric/fabric.h"
#include "simulator/system/world.h"

namespace tw::sim {
namespace {

constexpr std::uint32_t incoming_bits = 0x40000200, last_bits = 0x0c000000;
constexpr std::uint32_t long_bit = 0x20000000, outgoing = 0x80000000;
constexpr std::uint32_t route_shift = 16, route_mask = 0x03ff8000, column_mask = 0x3d;
constexpr std::uint32_t granule_bytes = 64, page_bytes = 4096, tile_unit_bytes = 32, longest_outgoing_bytes = 256;

struct Packet {
  bool incoming = false, is_long = false, last = false;
  std::uint32_t tile_units = 0;  // 32-byte units in the host window
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

// Splits the stream of one tile into packets and serves them: every field is checked, and so is the time between
// packets. Returns the bytes that cross the link.
class HostStreamReader {
 public:
  HostStreamReader(const hw::Program& program, std::uint32_t tile, const TileState& state)
      : program_(program),
        tile_(tile),
        state_(state),
        stream_(state.stream),
        physical_(hw::physical_of({tile}, program.machine)) {}

  bool next(Packet& packet) {
    if (at_ == stream_.words.size()) return check_end();
    if (at_ + 2 > stream_.words.size()) fault("a host packet of one word");
    const std::uint32_t word0 = stream_.words[at_], word1 = stream_.words[at_ + 1];
    if ((word0 & outgoing) == 0) fault(fmt::format("host packet header {:#010x} is of no known kind", word0));
    const std::uint32_t route = (physical_.value >> 1 << route_shift) + ((physical_.value & 1) << 15);
    if ((word0 & route_mask) != route || word1 >> 31 != (physical_.value & 1))
      fault(fmt::format("host packet header {:#010x} {:#010x} carries the route of another tile, {:#x} is right", word0,
                        word1, route));
    packet = parse(word0, word1);
    check(packet);
    at_ += 2;
    return true;
  }

  std::span<const std::uint32_t> payload(const Packet& packet) {
    const std::size_t words = packet.bytes / 4;
    if (at_ + words > stream_.words.size()) fault("the payload of an outgoing packet is missing");
    at_ += words;
    return std::span(stream_.words).subspan(at_ - words, words);
  }

  [[noreturn]] void fault(std::string message) const {
    throw FaultError{FaultKind::host_protocol, std::move(message), tile_, piece_at(at_).pc};
  }

 private:
  const HostStream::Piece& piece_at(std::size_t word) const {
    auto after = std::upper_bound(stream_.pieces.begin(), stream_.pieces.end(), word,
                                  [](std::size_t at, const HostStream::Piece& piece) { return at < piece.first_word; });
    return *std::prev(after);
  }

  // Order within a stream: requests and payloads do not mix; only the last request carries the last bits; a stream of
  // payloads is closed by a zero-byte request.
  void check(const Packet& packet) {
    const std::int64_t cycle = piece_at(at_).cycle + static_cast<std::int64_t>(at_ - piece_at(at_).first_word);
    if (packet.incoming && state_.incoming_mux != static_cast<std::uint32_t>(program_.machine.fabric.host_mux) +
                                                      (physical_.value & column_mask))
      fault(fmt::format("INCOMING_MUX is {:#x}, not the host's for this tile's column", state_.incoming_mux));
    if (ended_) fault("a packet follows the last one of its stream");
    if (sends_ && spacing_from_ + program_.machine.host.packet_spacing_cycles > cycle)
      fault(fmt::format("a packet starts {} cycles after an outgoing one, {} are needed", cycle - spacing_from_,
                        program_.machine.host.packet_spacing_cycles));
    ended_ = packet.incoming && packet.last;
    if (packet.incoming && packet.bytes == 0 && !sends_)
      fault("a request of no bytes, and no outgoing packets to close");
    if (packet.incoming && packet.bytes != 0 && sends_) fault("a request within a stream of outgoing packets");
    if (packet.incoming) {
      requests_ = true;
      return;
    }
    if (requests_) fault("an outgoing packet within a stream of requests");
    if (packet.bytes == 0) fault("an outgoing packet of no bytes");
    if (packet.bytes > longest_outgoing_bytes)
      fault(fmt::format("an outgoing packet of {} bytes, {} are allowed", packet.bytes, longest_outgoing_bytes));
    sends_ = true;
    spacing_from_ = cycle;
  }

  bool check_end() const {
    if (!stream_.words.empty() && !ended_) {
      throw FaultError{FaultKind::host_protocol,
                       sends_ ? "outgoing packets without a closing request" : "no request carries the last bits",
                       tile_, stream_.pieces.back().pc};
    }
    return false;
  }

  const hw::Program& program_;
  std::uint32_t tile_;
  const TileState& state_;
  const HostStream& stream_;
  PhysicalTile physical_;
  std::size_t at_ = 0;
  bool ended_ = false, sends_ = false, requests_ = false;
  std::int64_t spacing_from_ = 0;
};

}  // namespace

std::int64_t World::deliver(std::uint32_t tile) {
  HostStreamReader reader(program_, tile, tiles_[tile]);
  const hw::SramMap& sram = program_.machine.sram;
  std::int64_t bytes = 0;
  for (Packet packet; reader.next(packet); bytes += packet.bytes) {
    if (packet.bytes == 0) continue;  // closes a tile-to-host stream
    if (packet.host_offset % page_bytes + packet.bytes > page_bytes)
      reader.fault(
          fmt::format("a host transfer of {} bytes at {:#x} crosses a page", packet.bytes, packet.host_offset));
    std::byte* host = nullptr;
    for (const hw::Binding& binding : program_.bindings)
      if (binding.input == packet.incoming && packet.host_offset >= binding.host_base &&
          packet.host_offset + packet.bytes <= binding.host_base + binding.bytes)
        host = host_[binding.name].data() + (packet.host_offset - binding.host_base);
    if (host == nullptr)
      reader.fault(fmt::format("a host transfer of {} bytes at {:#x} leaves the buffers of this program", packet.bytes,
                               packet.host_offset));
    if (packet.incoming) {
      const std::uint32_t offset = packet.tile_units * tile_unit_bytes;
      if (offset + packet.bytes > sram.host_window_incoming_bytes)
        reader.fault(
            fmt::format("an incoming packet of {} bytes at offset {:#x} leaves the host window", packet.bytes, offset));
      const std::uint32_t address = sram.host_window_base_bytes + offset;
      if (std::byte* to = sram_.at(tile, address)) std::memcpy(to, host, packet.bytes);
      sram_.mark_written(tile, address, packet.bytes);
    } else {
      const std::span<const std::uint32_t> payload = reader.payload(packet);
      if (!options_.timing_only) std::memcpy(host, payload.data(), packet.bytes);
    }
  }
  return bytes;
}

// Requests are dispatched as they arrive; the link's rate bounds all bytes of the stage together.
std::int64_t World::host_phase(std::int64_t latest) {
  std::int64_t bytes = 0, streams = 0;
  for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
    HostStream& stream = tiles_[tile].stream;
    if (stream.words.empty()) continue;
    ++streams;
    bytes += deliver(tile);
    stream = HostStream{};
  }
  const hw::HostTiming& host = program_.machine.host;
  const auto link =
      static_cast<std::int64_t>(static_cast<double>(bytes) / host.bytes_per_second * program_.machine.clock_hz);
  return latest + host.sync_cycles + (streams > 0 ? host.command_dispatch_cycles : 0) + link;
}

}  // namespace tw::sim
