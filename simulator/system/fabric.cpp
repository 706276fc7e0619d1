// simulator/system/fabric.cpp: sends and receptions of a phase as intervals of events.
#include "simulator/system/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "hw/fabric/fabric.h"
#include "simulator/system/fault.h"

namespace tw::sim {
namespace {

// Items on their way into a tile: from a bus, written at events [event, event + items).
struct Arrival {
  std::int32_t event = 0, items = 0;
  std::uint32_t item_bytes = 4;
  std::uint32_t source_tile = 0, source_address = 0;
  std::int32_t read_event = 0;
};

// A timed access of a tile's own memory, for element conflicts.
struct Access {
  std::int32_t begin = 0, end = 0;
  std::uint32_t address = 0, bytes = 0;
  std::uint32_t item_bytes = 4;
};

// The events [begin, end) in which a tile listens to a source.
struct Listening {
  std::int32_t begin = 0, end = 0;
  std::uint32_t source = 0;
  bool pair = false;
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
      busy_until = send.event + send.items;
      phase_.words_out[tile] += static_cast<std::int32_t>(send.words());
      if (send.wide()) check_wide(tile, send);
      const std::uint32_t address = send_address(tile, send);
      if (!machine_.sram.contains(address, send.words() * 4))
        fault(FaultKind::out_of_range, tile, send.event,
              fmt::format("a send of {} words reads from {:#x}, outside the SRAM", send.words(), address),
              code_word_of(tile, send));
    }
  }

  // Double words: long enough, aligned, and the other tile of the pair is silent meanwhile.
  void check_wide(std::uint32_t tile, const hw::Send& send) const {
    const std::int32_t end = send.event + send.items;
    if (machine_.fabric.pair_min_items == 0 || send.items < machine_.fabric.pair_min_items)
      fault(FaultKind::pair_rule, tile, send.event,
            fmt::format("a send of {} double words, the machine needs {}", send.items,
                        machine_.fabric.pair_min_items == 0 ? "single ones"
                                                            : fmt::format("{}", machine_.fabric.pair_min_items)),
            code_word_of(tile, send));
    if (send_address(tile, send) % 8 != 0)
      fault(FaultKind::unaligned, tile, send.event,
            fmt::format("double words are sent from {:#x}, no multiple of 8", send_address(tile, send)),
            code_word_of(tile, send));
    const hw::DecodedRow* other = participants_[companion_of(tile)].row;
    if (other == nullptr) return;
    for (const hw::Send& busy : other->schedule.sends)
      if (busy.event < end && busy.event + busy.items > send.event)
        fault(FaultKind::bus_conflict, tile, std::max(send.event, busy.event),
              fmt::format("double words are sent at events {} to {}, in which tile {} of the same pair sends, too",
                          send.event, end, companion_of(tile)),
              code_word_of(tile, send));
  }

  std::uint32_t companion_of(std::uint32_t tile) const {
    return logical_[hw::pair_of(hw::physical_of({tile}, machine_)).value];
  }

  void receive(std::uint32_t tile) {
    const hw::RowSchedule& row = participants_[tile].row->schedule;
    const PhysicalTile self = hw::physical_of({tile}, machine_);
    arrivals_.clear();
    listening_.clear();
    select(tile, row, row.events, false);
    select(tile, row, row.events, true);
    const std::uint32_t companion = companion_of(tile);
    if (participants_[companion].row == nullptr && !listening_.empty() && listening_.back().pair)
      fault(FaultKind::pair_rule, tile, listening_.back().begin,
            fmt::format("the pair's mux is selected, and tile {} of the pair has no row", companion));
    if (const hw::DecodedRow* other = participants_[companion].row)
      select(companion, other->schedule, row.events, true);
    std::sort(listening_.begin(), listening_.end(),
              [](const Listening& a, const Listening& b) { return a.begin < b.begin; });
    for (std::size_t index = 0; index < listening_.size(); ++index) {
      const Listening& now = listening_[index];
      if (index > 0 && now.begin < listening_[index - 1].end)
        fault(FaultKind::pair_rule, tile, now.begin,
              fmt::format("tile {} is selected at event {}, while tile {} still is, by the tile or by its pair",
                          now.source, now.begin, listening_[index - 1].source));
      listen(tile, self, now);
    }
    write(tile, self, row);
    check_elements(tile, row);
    phase_.ordered = phase_.ordered || reads_what_arrives(tile, row);
  }

  // What the source controls of one kind in a row select.
  void select(std::uint32_t tile, const hw::RowSchedule& row, std::int32_t row_end, bool pair) {
    Listening now{.pair = pair};
    bool listens = false;
    const auto stop = [&](std::int32_t event) {
      if (!listens) return;
      now.end = event;
      if (now.begin < now.end) listening_.push_back(now);
      listens = false;
    };
    for (const hw::SourceControl& control : row.sources) {
      if (control.pair != pair) continue;
      stop(control.event);
      if (control.source == static_cast<std::uint32_t>(machine_.fabric.neutral_mux)) continue;
      if (control.source >= logical_.size())
        fault(FaultKind::undriven_bus, tile, control.event,
              fmt::format("source {} at event {} is no tile", control.source, control.event));
      now.begin = control.event;
      now.source = control.source;
      listens = true;
    }
    stop(row_end);
  }

  // The selected bus must be driven during the whole of [begin, end).
  void listen(std::uint32_t tile, PhysicalTile self, const Listening& now) {
    const PhysicalTile source{now.source};
    const std::int32_t begin = now.begin, end = now.end;
    const std::uint32_t sender = logical_[source.value];
    const hw::DecodedRow* row = participants_[sender].row;
    const std::int32_t shift = (now.pair ? hw::pair_flight_time(source, self) : hw::flight_time(source, self)) + 1;
    const int latency = now.pair ? hw::pair_write_latency(self, machine_) : hw::write_latency(self, machine_);
    const int direction = hw::direction(source, self);
    bool other_direction = false;
    std::int32_t heard = begin;
    if (row != nullptr) {
      const auto& sends = row->schedule.sends;
      auto send = std::upper_bound(sends.begin(), sends.end(), begin - shift,
                                   [](std::int32_t event, const hw::Send& s) { return event < s.event; });
      if (send != sends.begin()) --send;
      for (; send != sends.end() && heard < end; ++send) {
        const std::int32_t from = send->event + shift, to = from + send->items;
        if (to <= heard) continue;
        if (from > heard) break;
        if ((send->sctl & direction) == 0) {
          other_direction = true;
          break;
        }
        if (send->wide() != now.pair)
          fault(FaultKind::pair_rule, tile, heard,
                fmt::format("tile {} sends {} words at event {}, the mux of {} is selected", sender,
                            send->wide() ? "double" : "single", heard, now.pair ? "the pair" : "this tile"));
        const std::int32_t items = std::min(to, end) - heard;
        const std::uint32_t item_bytes = send->item_words() * 4;
        arrivals_.push_back({heard + latency, items, item_bytes, sender,
                             send_address(sender, *send) + static_cast<std::uint32_t>(heard - from) * item_bytes,
                             heard - shift});
        heard += items;
      }
    }
    if (heard < end)
      fault(FaultKind::undriven_bus, tile, heard,
            fmt::format("tile {} is selected from event {} to {}, but {} at event {}", sender, begin, end,
                        other_direction ? "it sends in the other direction" : "its bus is silent", heard));
  }

  // Double words are written in the pair's receive format, words in format 0.
  void check_format(std::uint32_t tile, PhysicalTile self, const hw::RowSchedule& row, const Arrival& arrival) const {
    const std::uint32_t wanted = arrival.item_bytes == 8 ? hw::pair_format(self) : 0;
    const std::int32_t last = arrival.event + arrival.items - 1;
    std::uint32_t format = 0;
    for (const hw::FormatControl& control : row.formats) {
      if (control.event + hw::receive_format_lead > last) break;
      if (control.event + hw::receive_format_lead > arrival.event && control.format != format) format = 3;  // changes
      if (format != 3) format = control.format;
    }
    if (format != wanted)
      fault(FaultKind::pair_rule, tile, arrival.event,
            fmt::format("{} words of tile {} arrive at event {} in receive format {}, {} is right",
                        arrival.item_bytes == 8 ? "double" : "single", arrival.source_tile, arrival.event,
                        format == 3 ? "that changes" : fmt::format("{}", format), wanted));
  }

  // Walks arrivals and pointer controls in time and emits moves.
  void write(std::uint32_t tile, PhysicalTile self, const hw::RowSchedule& row) {
    writes_.clear();
    auto control = row.pointers.begin();
    bool pointer_set = false;
    std::uint32_t pointer = 0;
    for (Arrival arrival : arrivals_) {
      check_format(tile, self, row, arrival);
      while (arrival.items > 0) {
        while (control != row.pointers.end() && control->event <= arrival.event) {
          pointer = participants_[tile].incoming_base + control->pointer_words * 4;
          pointer_set = true;
          ++control;
        }
        if (!pointer_set)
          fault(FaultKind::mistimed_write, tile, arrival.event,
                fmt::format("words from tile {} arrive at event {} before a write pointer is set", arrival.source_tile,
                            arrival.event));
        std::int32_t items = arrival.items;
        if (control != row.pointers.end()) items = std::min(items, control->event - arrival.event);
        const std::uint32_t bytes = static_cast<std::uint32_t>(items) * arrival.item_bytes;
        const std::int32_t slot = arrival.event - 1;  // control event c is the slot of send event c - 1 (hw/isa/row.h)
        if (!machine_.sram.contains(pointer, bytes))
          fault(FaultKind::out_of_range, tile, arrival.event,
                fmt::format("{} words from tile {} are written to {:#x}, outside the SRAM", bytes / 4,
                            arrival.source_tile, pointer));
        if (pointer % arrival.item_bytes != 0)
          fault(FaultKind::unaligned, tile, arrival.event,
                fmt::format("double words from tile {} are written to {:#x}, no multiple of 8", arrival.source_tile,
                            pointer));
        phase_.moves.push_back({arrival.source_tile, arrival.source_address, tile, pointer, bytes, arrival.read_event,
                                slot, arrival.item_bytes});
        writes_.push_back({slot, slot + items, pointer, bytes, arrival.item_bytes});
        phase_.words_in[tile] += static_cast<std::int32_t>(bytes / 4);
        pointer += bytes;
        arrival.event += items;
        arrival.read_event += items;
        arrival.items -= items;
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
      const Access access{send.event, send.event + send.items, send_address(tile, send), send.words() * 4,
                          send.item_words() * 4};
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
      const std::uint32_t first = send_address(tile, send), last = first + send.words() * 4;
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
      const std::uint32_t first = access.address + static_cast<std::uint32_t>(begin - access.begin) * access.item_bytes;
      return std::pair{sram.element_of(first),
                       sram.element_of(first + static_cast<std::uint32_t>(end - begin) * access.item_bytes - 1)};
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
  std::vector<Listening> listening_;
  std::vector<Arrival> arrivals_;
  std::vector<Access> writes_;
};

}  // namespace

ResolvedPhase resolve_phase(std::span<const Participant> participants, const hw::Machine& machine) {
  return Resolver(participants, machine).run();
}

}  // namespace tw::sim
