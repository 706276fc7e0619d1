// tests/simulator/system/fabric_test.cpp: interval algebra against a fabric that is walked slot by slot and word by
// word.
#include "simulator/system/fabric.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "hand_made.h"
#include "simulator/system/fault.h"

namespace tw::test {
namespace {

using Rows = std::map<std::uint32_t, hw::RowSchedule>;
using Word = std::pair<std::uint32_t, std::uint32_t>;  // tile and byte address
using Words = std::vector<std::pair<Word, Word>>;      // target and source, in order of time at each target

constexpr std::uint32_t row_pc = code_address;
constexpr std::uint32_t outgoing_base = 0x100, incoming_base = 0x40;

struct Outcome {
  std::set<sim::FaultKind> faults;  // all that a slow look finds
  Words words;
};

// Slot by slot: what each bus carries, then what each receiver hears and writes.
class SlowFabric {
 public:
  explicit SlowFabric(const Rows& rows) : rows_(rows), machine_(small_machine()) {}

  Outcome run() {
    for (const auto& [tile, row] : rows_) drive(tile, row);
    for (const auto& [tile, row] : rows_) check_pairs(tile);
    for (const auto& [tile, row] : rows_) receive(tile, row);
    return std::move(outcome_);
  }

 private:
  struct Driven {
    std::uint32_t address = 0;
    int sctl = 0;
  };

  void drive(std::uint32_t tile, const hw::RowSchedule& row) {
    for (const hw::Send& send : row.sends) {
      if (send.wide() && send.items < machine_.fabric.pair_min_items) outcome_.faults.insert(sim::FaultKind::pair_rule);
      for (int item = 0; item < send.items; ++item) {
        const std::uint32_t address =
            outgoing_base + send.address_words * 4 + static_cast<std::uint32_t>(item) * send.item_words() * 4;
        if (send.wide() && address % 8 != 0) outcome_.faults.insert(sim::FaultKind::unaligned);
        if (!machine_.sram.contains(address, send.item_words() * 4))
          outcome_.faults.insert(sim::FaultKind::out_of_range);
        if (!bus_[tile].emplace(send.event + item, Driven{address, send.sctl}).second)
          outcome_.faults.insert(sim::FaultKind::bus_conflict);
      }
    }
  }

  std::uint32_t companion_of(std::uint32_t tile) const {
    return hw::logical_of(hw::pair_of(hw::physical_of({tile}, machine_)), machine_).value;
  }

  void check_pairs(std::uint32_t tile) {
    for (const auto& [event, driven] : bus_[tile])
      if ((driven.sctl & hw::Send::sctl_wide) != 0 && bus_[companion_of(tile)].count(event) == 1U)
        outcome_.faults.insert(sim::FaultKind::bus_conflict);
  }

  std::uint32_t selected(const hw::RowSchedule& row, std::int32_t event, bool pair) const {
    std::uint32_t source = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    for (const hw::SourceControl& control : row.sources)
      if (control.event <= event && control.pair == pair) source = control.source;
    return source;
  }

  void receive(std::uint32_t tile, const hw::RowSchedule& row) {
    const PhysicalTile self = hw::physical_of({tile}, machine_);
    const auto neutral = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    const auto companion = rows_.find(companion_of(tile));
    std::map<std::int32_t, std::uint32_t> written;  // by slot
    std::uint32_t pointer = 0;
    bool pointer_set = false;
    std::size_t next_pointer = 0;
    for (std::int32_t event = 0; event < row.events; ++event) {
      const std::uint32_t single = selected(row, event, false), own_pair = selected(row, event, true);
      const std::uint32_t other_pair = companion == rows_.end() ? neutral : selected(companion->second, event, true);
      if (own_pair != neutral && companion == rows_.end()) outcome_.faults.insert(sim::FaultKind::pair_rule);
      if ((single != neutral) + (own_pair != neutral) + (other_pair != neutral) > 1)
        outcome_.faults.insert(sim::FaultKind::pair_rule);
      const bool pair = single == neutral;
      const std::uint32_t source = !pair ? single : own_pair != neutral ? own_pair : other_pair;
      if (source == neutral) continue;
      const int latency = pair ? hw::pair_write_latency(self, machine_) : hw::write_latency(self, machine_);
      const std::uint32_t sender = hw::logical_of({source}, machine_).value;
      const auto driven = bus_[sender].find(
          event - 1 - (pair ? hw::pair_flight_time({source}, self) : hw::flight_time({source}, self)));
      if (driven == bus_[sender].end() || (driven->second.sctl & hw::direction({source}, self)) == 0) {
        outcome_.faults.insert(sim::FaultKind::undriven_bus);
        continue;
      }
      for (; next_pointer < row.pointers.size() && row.pointers[next_pointer].event <= event + latency;
           ++next_pointer) {
        pointer = incoming_base + row.pointers[next_pointer].pointer_words * 4;
        pointer_set = true;
      }
      std::uint32_t format = 0;
      for (const hw::FormatControl& control : row.formats)
        if (control.event + hw::receive_format_lead <= event + latency) format = control.format;
      const bool wide = (driven->second.sctl & hw::Send::sctl_wide) != 0;
      if (wide != pair || format != (wide ? hw::pair_format(self) : 0))
        outcome_.faults.insert(sim::FaultKind::pair_rule);
      const std::uint32_t bytes = wide ? 8 : 4;
      if (pointer_set && pointer % bytes != 0) outcome_.faults.insert(sim::FaultKind::unaligned);
      if (!pointer_set) outcome_.faults.insert(sim::FaultKind::mistimed_write);
      if (pointer_set && !machine_.sram.contains(pointer, bytes)) outcome_.faults.insert(sim::FaultKind::out_of_range);
      for (std::uint32_t byte = 0; byte < bytes; byte += 4)
        outcome_.words.push_back({{tile, pointer + byte}, {sender, driven->second.address + byte}});
      written[event + latency - 1] = pointer;
      pointer += bytes;
    }
    check_elements(tile, written);
  }

  void check_elements(std::uint32_t tile, const std::map<std::int32_t, std::uint32_t>& written) {
    const int fetched = machine_.sram.element_of(row_pc);
    const auto element = [&](std::uint32_t address) {
      return machine_.sram.contains(address, 4) ? machine_.sram.element_of(address) : -1;
    };
    for (const auto& [slot, address] : written) {
      const auto read = bus_[tile].find(slot);
      const bool both = read != bus_[tile].end() && element(read->second.address) == element(address);
      if (both || element(address) == fetched) outcome_.faults.insert(sim::FaultKind::element_conflict);
    }
    for (const auto& [slot, driven] : bus_[tile])
      if (element(driven.address) == fetched) outcome_.faults.insert(sim::FaultKind::element_conflict);
  }

  const Rows& rows_;
  const hw::Machine& machine_;
  std::map<std::uint32_t, std::map<std::int32_t, Driven>> bus_;
  Outcome outcome_;
};

struct Fast {
  std::optional<sim::FaultKind> fault;
  Words words;
  bool ordered = false;
};

Fast resolve(const Rows& rows) {
  std::vector<hw::DecodedRow> decoded(static_cast<std::size_t>(small_machine().tiles));
  std::vector<sim::Participant> participants(decoded.size());
  for (const auto& [tile, row] : rows) {
    decoded[tile].schedule = row;
    decoded[tile].words = 8;
    participants[tile] = {&decoded[tile], outgoing_base, incoming_base, row_pc};
  }
  try {
    const sim::ResolvedPhase phase = sim::resolve_phase(participants, small_machine());
    Fast fast;
    fast.ordered = phase.ordered;
    for (const sim::Move& move : phase.moves)
      for (std::uint32_t byte = 0; byte < move.bytes; byte += 4)
        fast.words.push_back(
            {{move.target_tile, move.target_address + byte}, {move.source_tile, move.source_address + byte}});
    return fast;
  } catch (const sim::FaultError& error) {
    return {.fault = error.kind};
  }
}

// Good messages of a few tiles, then perhaps a damage.
Rows random_rows() {
  Rows rows;
  const int messages = *rc::gen::inRange(1, 7);
  std::map<std::uint32_t, std::int32_t> free_from;  // by tile: when its bus and its mux are free again, about
  for (int index = 0; index < messages; ++index) {
    Message message;
    message.from = *rc::gen::inRange<std::uint32_t>(0, 6) * 11;
    message.to = *rc::gen::inRange<std::uint32_t>(0, 6) * 11;
    message.words = *rc::gen::inRange(1, 12);
    message.from_address = *rc::gen::element(region1, data) + *rc::gen::inRange<std::uint32_t>(0, 64) * 4;
    message.to_address =
        *rc::gen::element(region1 + 0x8000U, region1, 0xa0000U) + *rc::gen::inRange<std::uint32_t>(0, 64) * 4;
    std::int32_t& from = free_from[message.from];
    std::int32_t& to = free_from[message.to];
    message.event = std::max(from, to) + 130 + *rc::gen::inRange(0, 4);
    from = to = message.event + message.words + *rc::gen::element(0, 0, -135);
    if (*rc::gen::inRange(0, 3) == 0) {
      message.words = *rc::gen::inRange(63, 80);
      message.from_address = message.from_address / 8 * 8;
      message.to_address = message.to_address / 8 * 8;
      // Later: both tiles of the pair and the sender's companion must be free.
      for (const auto& entry : free_from) message.event = std::max(message.event, entry.second + 130);
      from = to = message.event + message.words;
      add_wide(rows, message);
      continue;
    }
    add(rows, message, static_cast<std::uint8_t>(*rc::gen::element(3, 3, 3, 3, 1)));
  }
  for (auto& [tile, row] : rows) {
    const auto by_event = [](const auto& a, const auto& b) { return a.event < b.event; };
    std::stable_sort(row.sends.begin(), row.sends.end(), by_event);
    std::stable_sort(row.sources.begin(), row.sources.end(), by_event);
    std::stable_sort(row.pointers.begin(), row.pointers.end(), by_event);
    std::stable_sort(row.formats.begin(), row.formats.end(), by_event);
    if (*rc::gen::inRange(0, 6) != 0) continue;
    if (!row.pointers.empty()) row.pointers[0].event += *rc::gen::inRange(-3, 4);
    if (!row.sources.empty()) row.sources[0].event += *rc::gen::inRange(-1, 2);
    if (!row.formats.empty()) row.formats[0].event += *rc::gen::inRange(-2, 3);
    if (!row.pointers.empty() && *rc::gen::inRange(0, 3) == 0) row.pointers.erase(row.pointers.begin());
    if (!row.sends.empty() && *rc::gen::inRange(0, 3) == 0)
      row.sends[0].address_words = *rc::gen::element(code_address / 4, 0xe7ffcU / 4);
  }
  return rows;
}

RC_GTEST_PROP(Fabric, equals_a_walk_slot_by_slot, ()) {
  const Rows rows = random_rows();
  const Outcome slow = SlowFabric(rows).run();
  const Fast fast = resolve(rows);
  RC_TAG(slow.faults.empty() ? "moves" : "faults");
  if (fast.fault) {
    RC_ASSERT(slow.faults.count(*fast.fault) == 1U);
  } else {
    RC_ASSERT(slow.faults.empty());
    RC_ASSERT(fast.words == slow.words);
  }
}

TEST(Fabric, two_sends_on_one_bus_conflict) {
  Rows rows;
  rows[3].sends = {{10, 5, data / 4, 3}, {14, 2, data / 4, 3}};
  rows[3].events = 16;
  EXPECT_EQ(resolve(rows).fault, sim::FaultKind::bus_conflict);
  rows[3].sends[1].event = 15;
  EXPECT_FALSE(resolve(rows).fault);
}

TEST(Fabric, selecting_what_is_no_tile_is_undriven) {
  Rows rows;
  rows[3].sources = {{10, 64}, {12, 0x640}};
  rows[3].events = 16;
  EXPECT_EQ(resolve(rows).fault, sim::FaultKind::undriven_bus);
}

TEST(Fabric, memory_sent_and_received_is_moved_in_order) {
  Rows rows;
  add(rows, {3, 9, 4, region1, region1});
  add(rows, {9, 20, 4, region1 + 0x20, region1, 400});
  EXPECT_FALSE(resolve(rows).ordered);
  Rows forward;
  add(forward, {3, 9, 4, region1, region1 + 0x100});
  add(forward, {9, 20, 4, region1 + 0x40, region1, 400});  // OUTGOING_BASE and INCOMING_BASE differ by 0xc0
  EXPECT_TRUE(resolve(forward).ordered);
}

}  // namespace
}  // namespace tw::test
