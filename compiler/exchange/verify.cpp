// compiler/exchange/verify.cpp: replays a schedule word by word and compares what was written with the transfers.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/exchange/phase.h"
#include "hw/fabric/fabric.h"

namespace tw::compiler {
namespace {

// Where a word comes from: the tile and its word address there.
struct Origin {
  std::uint32_t tile = 0;
  std::uint32_t address_words = 0;
  bool second_section = false;  // counted from the base that the row writes itself
  friend auto operator<=>(const Origin&, const Origin&) = default;
};

// What arrives at a tile: pairs of word address and origin.
using Memory = std::vector<std::pair<std::uint32_t, Origin>>;

bool by_address(const Memory::value_type& a, const Memory::value_type& b) { return a.first < b.first; }

std::string text_of(const Origin& origin) {
  return fmt::format("tile {} 0x{:x}", origin.tile, 4 * origin.address_words);
}

// What a tile listens to at an event.
struct Selection {
  bool selected = false, pair = false;
  std::uint32_t source = 0;
};

class Replay {
 public:
  Replay(std::span<const Transfer> transfers, const PhaseSchedule& schedule, const hw::Machine& machine)
      : transfers_(transfers), schedule_(schedule), machine_(machine) {}

  std::vector<Violation> run() {
    if (schedule_.rows.size() != static_cast<std::size_t>(machine_.tiles)) {
      add("phase.rows", fmt::format("{} rows for {} tiles", schedule_.rows.size(), machine_.tiles));
      return std::move(found_);
    }
    buses_.resize(schedule_.rows.size());
    expected_.resize(schedule_.rows.size());
    for (const Transfer& transfer : transfers_) expect(transfer);
    for (std::uint32_t tile = 0; tile < schedule_.rows.size(); ++tile) {
      check_row(tile);
      drive_bus(tile);
    }
    for (std::uint32_t tile = 0; tile < schedule_.rows.size(); ++tile) {
      check_wide_sends(tile);
      compare(tile, expected_[tile], received(tile));
    }
    check_sums();
    return std::move(found_);
  }

 private:
  void add(const char* rule, std::string message) { found_.push_back({rule, std::move(message)}); }
  const hw::RowSchedule& row_of(std::uint32_t tile) const { return schedule_.rows[tile]; }

  // What can be said of one row alone: it can be encoded, says the same when decoded, and controls keep off send
  // starts.
  void check_row(std::uint32_t tile) {
    const hw::RowSchedule& row = row_of(tile);
    if (row.events == 0) return;
    if (const auto code = hw::encode_row(row, 0); !code) {
      add("row.encodes", fmt::format("tile {}: {}", tile, code.error().message));
    } else if (const auto decoded = hw::decode_row(*code); !decoded || !hw::equivalent(decoded->schedule, row)) {
      add("row.decodes_to_schedule",
          fmt::format("tile {}: {}", tile, decoded ? "another schedule" : decoded.error().message));
    }
    for (const hw::Send& send : row.sends) {
      const auto check = [&](std::int32_t event) {
        if (!hw::control_allowed(event, send))
          add("row.control_beside_send",
              fmt::format("tile {}: control at event {}, send at {}", tile, event, send.event));
      };
      for (const hw::SourceControl& control : row.sources) check(control.event);
      for (const hw::PointerControl& control : row.pointers) check(control.event);
      for (const hw::FormatControl& control : row.formats) check(control.event);
    }
  }

  std::uint32_t companion_of(std::uint32_t tile) const {
    return hw::logical_of(hw::pair_of(hw::physical_of({tile}, machine_)), machine_).value;
  }

  // Double words: enough of them, aligned, and the other tile of the pair is silent.
  void check_wide_sends(std::uint32_t tile) {
    const auto& other = buses_[companion_of(tile)];
    for (const hw::Send& send : row_of(tile).sends) {
      if (!send.wide()) continue;
      if (machine_.fabric.pair_min_items == 0 || send.items < machine_.fabric.pair_min_items)
        add("pair.items", fmt::format("tile {}: event {}: {} double words", tile, send.event, send.items));
      if (send.address_words % 2 != 0)
        add("pair.aligned", fmt::format("tile {}: event {}: from 0x{:x}", tile, send.event, 4 * send.address_words));
      for (std::int32_t event = std::max(send.event, 0); event < send.event + send.items; ++event)
        if (static_cast<std::size_t>(event) < other.size() && other[static_cast<std::size_t>(event)].sctl != 0)
          add("pair.companion_silent", fmt::format("tile {}: event {}: the pair's other tile sends", tile, event));
    }
  }

  void drive_bus(std::uint32_t tile) {
    auto& bus = buses_[tile];
    const hw::BaseWrite& write = row_of(tile).base_write;
    for (const hw::Send& send : row_of(tile).sends) {
      const bool second = write.present() && send.event > write.slot;
      for (std::int32_t i = 0; i < send.items; ++i) {
        const std::int32_t event = send.event + i;
        if (event < 0) continue;  // row.encodes has told
        if (static_cast<std::size_t>(event) >= bus.size()) bus.resize(static_cast<std::size_t>(event) + 1);
        BusWord& word = bus[static_cast<std::size_t>(event)];
        if (word.sctl != 0) add("bus.one_driver", fmt::format("tile {}: event {} is driven twice", tile, event));
        word = {{tile, send.address_words + static_cast<std::uint32_t>(i) * send.item_words(), second}, send.sctl};
      }
    }
    if (bus.size() > static_cast<std::size_t>(row_of(tile).events))
      add("row.covers_sends",
          fmt::format("tile {}: the row ends at event {} while sending", tile, row_of(tile).events));
  }

  void expect(const Transfer& transfer) {
    for (const Destination& destination : transfer.destinations)
      for (std::uint32_t i = 0; i < transfer.words; ++i)
        expected_[destination.tile.value].push_back(
            {destination.address_bytes / 4 + i,
             {transfer.source.value, transfer.address_bytes / 4 + i, transfer.moving}});
  }

  // The source that one kind of mux selects at each event, of the row of `of`; the neutral mux: none.
  void select(std::uint32_t of, bool pair, std::vector<Selection>& selections, std::uint32_t tile) {
    const auto neutral = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    std::uint32_t source = neutral;
    auto control = row_of(of).sources.begin();
    for (std::size_t event = 0; event < selections.size(); ++event) {
      for (; control != row_of(of).sources.end() && control->event <= static_cast<std::int32_t>(event); ++control)
        if (control->pair == pair) source = control->source;
      if (source == neutral) continue;
      if (selections[event].selected)
        add("mux.one_source",
            fmt::format("tile {}: event {} selects 0x{:x} and 0x{:x}", tile, event, selections[event].source, source));
      selections[event] = {true, pair, source};
    }
    if (source != neutral)
      add("mux.ends_neutral", fmt::format("tile {}: the last source 0x{:x} stays selected", tile, source));
  }

  Memory received(std::uint32_t tile) {
    Memory memory;
    const hw::RowSchedule& row = row_of(tile);
    std::vector<Selection> selections(static_cast<std::size_t>(row.events) + 1);
    select(tile, false, selections, tile);
    select(tile, true, selections, tile);
    select(companion_of(tile), true, selections, tile);
    const PhysicalTile here = hw::physical_of({tile}, machine_);
    std::uint32_t pointer = 0, format = 0;
    bool pointer_set = false;
    std::int32_t last_write = -1, items = 0;
    auto next_pointer = row.pointers.begin();
    auto next_format = row.formats.begin();
    for (std::int32_t event = 0; event <= row.events; ++event) {  // of selection; the write is `latency` later
      const Selection& now = selections[static_cast<std::size_t>(event)];
      if (!now.selected) continue;
      const int latency = now.pair ? hw::pair_write_latency(here, machine_) : hw::write_latency(here, machine_);
      const std::int32_t write = event + latency;
      for (; next_pointer != row.pointers.end() && next_pointer->event <= write; ++next_pointer) {
        pointer = next_pointer->pointer_words;
        pointer_set = true;
      }
      for (; next_format != row.formats.end() && next_format->event + hw::receive_format_lead <= write; ++next_format)
        format = next_format->format;
      if (now.source >= static_cast<std::uint32_t>(machine_.tiles)) {
        add("mux.is_tile", fmt::format("tile {}: event {} selects 0x{:x}", tile, event, now.source));
        return memory;
      }
      const PhysicalTile sender{now.source};
      const std::uint32_t sender_tile = hw::logical_of(sender, machine_).value;
      const int flight = now.pair ? hw::pair_flight_time(sender, here) : hw::flight_time(sender, here);
      const auto& bus = buses_[sender_tile];
      const std::int32_t sent = event - 1 - flight;
      if (sent < 0 || static_cast<std::size_t>(sent) >= bus.size() || bus[static_cast<std::size_t>(sent)].sctl == 0) {
        add("bus.read_while_driven",
            fmt::format("tile {}: event {} reads the idle bus of tile {}", tile, event, sender_tile));
        continue;
      }
      const BusWord& word = bus[static_cast<std::size_t>(sent)];
      if ((word.sctl & hw::direction(sender, here)) == 0)
        add("bus.direction", fmt::format("tile {}: event {} is out of the sender's direction", tile, event));
      if (!pointer_set) add("pointer.set", fmt::format("tile {}: the first write has no pointer", tile));
      const bool wide = (word.sctl & hw::Send::sctl_wide) != 0;
      if (wide != now.pair || format != (wide ? hw::pair_format(here) : 0) || (wide && pointer % 2 != 0))
        add("pair.receives",
            fmt::format("tile {}: event {}: {} words by the mux of {}, format {}, to 0x{:x}", tile, event,
                        wide ? "double" : "single", now.pair ? "the pair" : "the tile", format, 4 * pointer));
      memory.push_back({pointer++, word.origin});
      if (wide) {
        Origin second = word.origin;
        ++second.address_words;
        memory.push_back({pointer++, second});
      }
      last_write = write;
      ++items;
    }
    items_in_ = std::max<std::int64_t>(items_in_, items);
    if (last_write >= 0 && last_write + 1 + machine_.fabric.row_tail_cycles > row.events)
      add("row.covers_writes",
          fmt::format("tile {}: the row ends at event {}, the last write is at {}", tile, row.events, last_write));
    if (format_at_end(row) != 0) add("pair.format_ends", fmt::format("tile {}: stays in receive format", tile));
    return memory;
  }

  static std::uint32_t format_at_end(const hw::RowSchedule& row) {
    return row.formats.empty() ? 0 : row.formats.back().format;
  }

  // Both lists merged by address.
  void compare(std::uint32_t tile, Memory& expected, Memory received) {
    std::sort(expected.begin(), expected.end());
    std::sort(received.begin(), received.end());
    const auto twice = [&](const Memory& memory, const char* rule, const char* by) {
      for (std::size_t i = 1; i < memory.size(); ++i)
        if (memory[i].first == memory[i - 1].first)
          add(rule, fmt::format("tile {}: 0x{:x} is written twice by {}", tile, 4 * memory[i].first, by));
    };
    twice(expected, "transfer.one_writer", "the transfers");
    twice(received, "memory.written_once", "the rows");
    auto got = received.begin();
    for (const auto& wanted : expected) {
      for (; got != received.end() && by_address(*got, wanted); ++got) stray(tile, *got);
      const bool arrived = got != received.end() && got->first == wanted.first;
      if (!arrived || got->second != wanted.second)
        add("transfer.delivered",
            fmt::format("tile {}: 0x{:x} must hold the word of {} and holds {}", tile, 4 * wanted.first,
                        text_of(wanted.second), arrived ? text_of(got->second) : "nothing"));
      if (arrived) ++got;
    }
    for (; got != received.end(); ++got) stray(tile, *got);
  }

  void stray(std::uint32_t tile, const Memory::value_type& word) {
    add("transfer.no_stray_word",
        fmt::format("tile {}: 0x{:x} receives a stray word of {}", tile, 4 * word.first, text_of(word.second)));
  }

  void check_sums() {
    for (std::uint32_t tile = 0; tile < schedule_.rows.size(); ++tile) {
      std::int64_t items = 0;
      for (const hw::Send& send : row_of(tile).sends) items += send.items;
      items_out_ = std::max(items_out_, items);
    }
    const std::int64_t busiest = std::max(items_in_, items_out_);
    std::int32_t horizon = 0;
    for (const hw::RowSchedule& row : schedule_.rows) horizon = std::max(horizon, row.events);
    if (busiest != schedule_.busiest_items || horizon != schedule_.horizon_events)
      add("phase.sums", fmt::format("horizon {} and busiest lane {}, recounted {} and {}", schedule_.horizon_events,
                                    schedule_.busiest_items, horizon, busiest));
  }

  struct BusWord {
    Origin origin;
    std::uint8_t sctl = 0;
  };

  std::span<const Transfer> transfers_;
  const PhaseSchedule& schedule_;
  const hw::Machine& machine_;
  std::vector<std::vector<BusWord>> buses_;    // by tile and event; sctl 0: idle
  std::vector<Memory> expected_;               // by tile
  std::int64_t items_in_ = 0, items_out_ = 0;  // of the busiest tile
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify_phase(std::span<const Transfer> transfers, const PhaseSchedule& schedule,
                                    const hw::Machine& machine) {
  return Replay(transfers, schedule, machine).run();
}

}  // namespace tw::compiler
