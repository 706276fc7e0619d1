// compiler/exchange/verify.cpp: replays a schedule word by word and compares what was written with the transfers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

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
    for (std::uint32_t tile = 0; tile < schedule_.rows.size(); ++tile) compare(tile, expected_[tile], received(tile));
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
    }
  }

  void drive_bus(std::uint32_t tile) {
    auto& bus = buses_[tile];
    const hw::BaseWrite& write = row_of(tile).base_write;
    for (const hw::Send& send : row_of(tile).sends) {
      const bool second = write.present() && send.event > write.slot;
      for (std::int32_t i = 0; i < send.words; ++i) {
        const std::int32_t event = send.event + i;
        if (event < 0) continue;  // row.encodes has told
        if (static_cast<std::size_t>(event) >= bus.size()) bus.resize(static_cast<std::size_t>(event) + 1);
        BusWord& word = bus[static_cast<std::size_t>(event)];
        if (word.sctl != 0) add("bus.one_driver", fmt::format("tile {}: event {} is driven twice", tile, event));
        word = {{tile, send.address_words + static_cast<std::uint32_t>(i), second}, send.sctl};
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

  Memory received(std::uint32_t tile) {
    Memory memory;
    const hw::RowSchedule& row = row_of(tile);
    const PhysicalTile here = hw::physical_of({tile}, machine_);
    const int latency = hw::write_latency(here, machine_);
    std::uint32_t source = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    std::uint32_t pointer = 0;
    bool pointer_set = false;
    std::int32_t last_write = -1;
    PhysicalTile sender;  // what is known of `source`
    bool sender_known = false;
    std::uint32_t sender_tile = 0;
    int flight = 0, direction = 0;
    auto next_source = row.sources.begin();
    auto next_pointer = row.pointers.begin();
    for (std::int32_t event = 0; event <= row.events; ++event) {  // of selection; the write is `latency` later
      while (next_source != row.sources.end() && next_source->event <= event) source = next_source++->source;
      while (next_pointer != row.pointers.end() && next_pointer->event <= event + latency) {
        pointer = next_pointer++->pointer_words;
        pointer_set = true;
      }
      if (source == static_cast<std::uint32_t>(machine_.fabric.neutral_mux)) continue;
      if (source >= static_cast<std::uint32_t>(machine_.tiles)) {
        add("mux.is_tile", fmt::format("tile {}: event {} selects 0x{:x}", tile, event, source));
        return memory;
      }
      if (source != sender.value || !sender_known) {
        sender = {source};
        sender_known = true;
        sender_tile = hw::logical_of(sender, machine_).value;
        flight = hw::flight_time(sender, here);
        direction = hw::direction(sender, here);
      }
      const auto& bus = buses_[sender_tile];
      const std::int32_t sent = event - 1 - flight;
      if (sent < 0 || static_cast<std::size_t>(sent) >= bus.size() || bus[static_cast<std::size_t>(sent)].sctl == 0) {
        add("bus.read_while_driven",
            fmt::format("tile {}: event {} reads the idle bus of tile {}", tile, event, sender_tile));
        continue;
      }
      const BusWord& word = bus[static_cast<std::size_t>(sent)];
      if ((word.sctl & direction) == 0)
        add("bus.direction", fmt::format("tile {}: event {} is out of the sender's direction", tile, event));
      if (!pointer_set) add("pointer.set", fmt::format("tile {}: the first write has no pointer", tile));
      memory.push_back({pointer++, word.origin});
      last_write = event + latency;
    }
    if (source != static_cast<std::uint32_t>(machine_.fabric.neutral_mux))
      add("mux.ends_neutral", fmt::format("tile {}: the last source 0x{:x} stays selected", tile, source));
    if (last_write >= 0 && last_write + 1 + machine_.fabric.row_tail_cycles > row.events)
      add("row.covers_writes",
          fmt::format("tile {}: the row ends at event {}, the last write is at {}", tile, row.events, last_write));
    return memory;
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
    std::map<std::uint32_t, std::int64_t> in, out;
    for (const Transfer& transfer : transfers_) {
      out[transfer.source.value] += transfer.words;
      for (const Destination& destination : transfer.destinations) in[destination.tile.value] += transfer.words;
    }
    std::int64_t busiest = 0;
    for (const auto& lane : {in, out})
      for (const auto& [tile, words] : lane) busiest = std::max(busiest, words);
    std::int32_t horizon = 0;
    for (const hw::RowSchedule& row : schedule_.rows) horizon = std::max(horizon, row.events);
    if (busiest != schedule_.busiest_words || horizon != schedule_.horizon_events)
      add("phase.sums", fmt::format("horizon {} and busiest lane {}, recounted {} and {}", schedule_.horizon_events,
                                    schedule_.busiest_words, horizon, busiest));
  }

  struct BusWord {
    Origin origin;
    std::uint8_t sctl = 0;
  };

  std::span<const Transfer> transfers_;
  const PhaseSchedule& schedule_;
  const hw::Machine& machine_;
  std::vector<std::vector<BusWord>> buses_;  // by tile and event; sctl 0: idle
  std::vector<Memory> expected_;             // by tile
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify_phase(std::span<const Transfer> transfers, const PhaseSchedule& schedule,
                                    const hw::Machine& machine) {
  return Replay(transfers, schedule, machine).run();
}

}  // namespace tw::compiler
