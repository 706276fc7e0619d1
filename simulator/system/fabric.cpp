// simulator/system/fabric.cpp: sends and receptions of a phase as intervals of events.
#include "simulator/system/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "hw/fabric/fabric.h"
#include "simulator/system/fault.h"

namespace tw::sim {
namespace {

// Words on their way into a tile: from a bus, written at events [event, event + words).
struct Arrival {
  std::int32_t event = 0, words = 0;
  std::uint32_t source_tile = 0, source_address = 0;
  std::int32_t read_event = 0;
};

// A timed access of a tile's own memory, for element conflicts.
struct Access {
  std::int32_t begin = 0, end = 0;
  std::uint32_t address = 0, bytes = 0;
};

class Resolver {
 public:
  Resolver(std::span<const Participant> participants, const hw::Machine& machine)
      : participants_(participants), machine_(machine), logical_(static_cast<std::size_t>(machine.tiles)) {
    for (std::uint32_t tile = 0; tile < logical_.size(); ++tile)
      logical_[hw::physical_of({tile}, machine).value] = tile;
  }

  ResolvedPhase run() {
    const auto tiles = static_cast<std::uint32_t>(participants_.size());
    phase_.words_in.assign(tiles, 0);
    phase_.words_out.assign(tiles, 0);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) check_sends(tile);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      phase_.first_move.push_back(static_cast<std::uint32_t>(phase_.moves.size()));
      if (participants_[tile].row != nullptr) receive(tile);
    }
    phase_.first_move.push_back(static_cast<std::uint32_t>(phase_.moves.size()));
    return std::move(phase_);
  }

 private:
  [[noreturn]] void fault(FaultKind kind, std::uint32_t tile, std::int32_t event, std::string message,
                          std::uint32_t code_word = 0) const {
    throw FaultError{kind, std::move(message), tile, participants_[tile].pc + code_word * 4, event};
  }

  // Index in the row of the instruction that started a send.
  std::uint32_t code_word_of(std::uint32_t tile, const hw::Send& send) const {
    const hw::DecodedRow& row = *participants_[tile].row;
    const auto index = static_cast<std::size_t>(&send - row.schedule.sends.data());
    return index < row.send_code_word.size() ? row.send_code_word[index] : 0;
  }

  std::uint32_t send_address(std::uint32_t tile, const hw::Send& send) const {
    const Participant& participant = participants_[tile];
    const hw::BaseWrite& write = participant.row->schedule.base_write;
    const bool second = write.present() && send.event > write.slot;
    return (second ? participant.second_base : participant.outgoing_base) + send.address_words * 4;
  }

  void check_sends(std::uint32_t tile) {
    const Participant& participant = participants_[tile];
    if (participant.row == nullptr) return;
    std::int32_t busy_until = 0;
    for (const hw::Send& send : participant.row->schedule.sends) {
      if (send.event < busy_until)
        fault(FaultKind::bus_conflict, tile, send.event,
              fmt::format("a send at event {} starts before the one that lasts until {} ends", send.event, busy_until),
              code_word_of(tile, send));
      busy_until = send.event + send.words;
      phase_.words_out[tile] += send.words;
      const std::uint32_t address = send_address(tile, send);
      if (!machine_.sram.contains(address, static_cast<std::uint32_t>(send.words) * 4))
        fault(FaultKind::out_of_range, tile, send.event,
              fmt::format("a send of {} words reads from {:#x}, outside the SRAM", send.words, address),
              code_word_of(tile, send));
    }
  }

  void receive(std::uint32_t tile) {
    const hw::RowSchedule& row = participants_[tile].row->schedule;
    const PhysicalTile self = hw::physical_of({tile}, machine_);
    arrivals_.clear();
    for (std::size_t index = 0; index < row.sources.size(); ++index) {
      const hw::SourceControl& control = row.sources[index];
      if (control.source == static_cast<std::uint32_t>(machine_.fabric.neutral_mux)) continue;
      if (control.source >= logical_.size())
        fault(FaultKind::undriven_bus, tile, control.event,
              fmt::format("source {} at event {} is no tile", control.source, control.event));
      const std::int32_t end = index + 1 < row.sources.size() ? row.sources[index + 1].event : row.events;
      listen(tile, self, {control.source}, control.event, end);
    }
    write(tile, row);
    check_elements(tile, row);
    phase_.ordered = phase_.ordered || reads_what_arrives(tile, row);
  }

  // The selected bus must be driven during the whole of [begin, end).
  void listen(std::uint32_t tile, PhysicalTile self, PhysicalTile source, std::int32_t begin, std::int32_t end) {
    const std::uint32_t sender = logical_[source.value];
    const hw::DecodedRow* row = participants_[sender].row;
    const std::int32_t shift = hw::flight_time(source, self) + 1;
    const int direction = hw::direction(source, self);
    bool other_direction = false;
    std::int32_t heard = begin;
    if (row != nullptr) {
      const auto& sends = row->schedule.sends;
      auto send = std::upper_bound(sends.begin(), sends.end(), begin - shift,
                                   [](std::int32_t event, const hw::Send& s) { return event < s.event; });
      if (send != sends.begin()) --send;
      for (; send != sends.end() && heard < end; ++send) {
        const std::int32_t from = send->event + shift, to = from + send->words;
        if (to <= heard) continue;
        if (from > heard) break;
        if ((send->sctl & direction) == 0) {
          other_direction = true;
          break;
        }
        const std::int32_t words = std::min(to, end) - heard;
        arrivals_.push_back({heard + hw::write_latency(self, machine_), words, sender,
                             send_address(sender, *send) + static_cast<std::uint32_t>(heard - from) * 4,
                             heard - shift});
        heard += words;
      }
    }
    if (heard < end)
      fault(FaultKind::undriven_bus, tile, heard,
            fmt::format("tile {} is selected from event {} to {}, but {} at event {}", sender, begin, end,
                        other_direction ? "it sends in the other direction" : "its bus is silent", heard));
  }

  // Walks arrivals and pointer controls in time and emits moves.
  void write(std::uint32_t tile, const hw::RowSchedule& row) {
    writes_.clear();
    auto control = row.pointers.begin();
    bool pointer_set = false;
    std::uint32_t pointer = 0;
    for (Arrival arrival : arrivals_) {
      while (arrival.words > 0) {
        while (control != row.pointers.end() && control->event <= arrival.event) {
          pointer = participants_[tile].incoming_base + control->pointer_words * 4;
          pointer_set = true;
          ++control;
        }
        if (!pointer_set)
          fault(FaultKind::mistimed_write, tile, arrival.event,
                fmt::format("words from tile {} arrive at event {} before a write pointer is set", arrival.source_tile,
                            arrival.event));
        std::int32_t words = arrival.words;
        if (control != row.pointers.end()) words = std::min(words, control->event - arrival.event);
        const auto bytes = static_cast<std::uint32_t>(words) * 4;
        const std::int32_t slot = arrival.event - 1;  // control event c is the slot of send event c - 1 (hw/isa/row.h)
        if (!machine_.sram.contains(pointer, bytes))
          fault(FaultKind::out_of_range, tile, arrival.event,
                fmt::format("{} words from tile {} are written to {:#x}, outside the SRAM", words, arrival.source_tile,
                            pointer));
        phase_.moves.push_back(
            {arrival.source_tile, arrival.source_address, tile, pointer, bytes, arrival.read_event, slot});
        writes_.push_back({slot, slot + words, pointer, bytes});
        phase_.words_in[tile] += words;
        pointer += bytes;
        arrival.event += words;
        arrival.read_event += words;
        arrival.words -= words;
        arrival.source_address += bytes;
      }
    }
  }

  // At each event the elements of: the fetch of the row, the word that is sent, the word that is written, must differ.
  void check_elements(std::uint32_t tile, const hw::RowSchedule& row) const {
    const hw::SramMap& sram = machine_.sram;
    const Participant& participant = participants_[tile];
    const int fetch_first = sram.element_of(participant.pc);
    const int fetch_last =
        sram.element_of(std::min(participant.pc + participant.row->words * 4 + sram.fetch_ahead_bytes, sram.end() - 1));
    const auto fetched = [&](const Access& access) {
      return sram.element_of(access.address) <= fetch_last &&
             sram.element_of(access.address + access.bytes - 1) >= fetch_first;
    };
    for (const Access& access : writes_)
      if (fetched(access))
        fault(FaultKind::element_conflict, tile, access.begin,
              fmt::format("words are written to {:#x} while the row is fetched from the same element", access.address));
    std::size_t at = 0;
    for (const hw::Send& send : row.sends) {
      const Access access{send.event, send.event + send.words, send_address(tile, send),
                          static_cast<std::uint32_t>(send.words) * 4};
      if (fetched(access))
        fault(FaultKind::element_conflict, tile, send.event,
              fmt::format("a send reads {:#x} while the row is fetched from the same element", access.address),
              code_word_of(tile, send));
      while (at < writes_.size() && writes_[at].end <= access.begin) ++at;
      for (std::size_t other = at; other < writes_.size() && writes_[other].begin < access.end; ++other)
        check_pair(tile, access, writes_[other]);
    }
  }

  // Some byte of the tile is both sent and received into in this phase.
  bool reads_what_arrives(std::uint32_t tile, const hw::RowSchedule& row) {
    std::sort(writes_.begin(), writes_.end(), [](const Access& a, const Access& b) { return a.address < b.address; });
    std::uint32_t longest = 0;  // a write starts at most so many bytes before a byte that it reaches
    for (const Access& access : writes_) longest = std::max(longest, access.bytes);
    for (const hw::Send& send : row.sends) {
      const std::uint32_t first = send_address(tile, send), last = first + static_cast<std::uint32_t>(send.words) * 4;
      auto at = std::lower_bound(writes_.begin(), writes_.end(), first > longest ? first - longest : 0,
                                 [](const Access& a, std::uint32_t address) { return a.address < address; });
      for (; at != writes_.end() && at->address < last; ++at)
        if (at->address + at->bytes > first) return true;
    }
    return false;
  }

  void check_pair(std::uint32_t tile, const Access& read, const Access& written) const {
    const hw::SramMap& sram = machine_.sram;
    // The part of each that happens at the same events.
    const std::int32_t begin = std::max(read.begin, written.begin), end = std::min(read.end, written.end);
    const auto elements = [&](const Access& access) {
      const std::uint32_t first = access.address + static_cast<std::uint32_t>(begin - access.begin) * 4;
      return std::pair{sram.element_of(first),
                       sram.element_of(first + static_cast<std::uint32_t>(end - begin) * 4 - 1)};
    };
    const auto [read_first, read_last] = elements(read);
    const auto [write_first, write_last] = elements(written);
    if (read_first <= write_last && write_first <= read_last)
      fault(FaultKind::element_conflict, tile, begin,
            fmt::format("at event {} SRAM element {} is read by a send and written by a reception", begin,
                        std::max(read_first, write_first)));
  }

  std::span<const Participant> participants_;
  const hw::Machine& machine_;
  std::vector<std::uint32_t> logical_;
  ResolvedPhase phase_;
  std::vector<Arrival> arrivals_;
  std::vector<Access> writes_;
};

}  // namespace

ResolvedPhase resolve_phase(std::span<const Participant> participants, const hw::Machine& machine) {
  return Resolver(participants, machine).run();
}

}  // namespace tw::sim
