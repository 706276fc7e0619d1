// compiler/exchange/tile_row.cpp: where a tile's growing row has room for a send or a reception.
#include <algorithm>

#include "compiler/exchange/scheduler.h"

namespace tw::compiler {
namespace {

// Whether a sorted list has an entry at an event in [first, last]. Mostly asked beyond the end of the list.
template <class Entry>
bool any_at(const std::vector<Entry>& list, std::int32_t first, std::int32_t last) {
  if (list.empty() || list.back().event < first) return false;
  const auto at =
      std::partition_point(list.begin(), list.end(), [&](const Entry& entry) { return entry.event < first; });
  return at != list.end() && at->event <= last;
}

template <class Entry>
bool any_at(const std::vector<Entry>& list, std::int32_t event) {
  return any_at(list, event, event);
}

}  // namespace

void TileRow::write_base(int base_register) {
  if (row_.base_write.present()) return;
  std::int32_t slot = std::max(send_end, 1);
  // Controls at events (slot, slot + base_write_events] are in the way.
  while (any_at(row_.sources, slot + 1, slot + hw::base_write_events) ||
         any_at(row_.pointers, slot + 1, slot + hw::base_write_events))
    ++slot;
  row_.base_write = {slot, base_register};
  send_end = slot + hw::base_write_events;
}

std::int32_t TileRow::send_start(std::int32_t event) const {
  while (any_at(row_.sources, event, event + 1) || any_at(row_.pointers, event, event + 1)) ++event;
  return event;
}

// hw::control_allowed for all sends of the tile: none starts at the event or at the one before.
bool TileRow::beside_sends(std::int32_t control_event, std::int32_t own_send) const {
  return control_event != own_send && control_event != own_send + 1 && row_.base_write.allows(control_event - 1) &&
         !any_at(row_.sends, control_event - 1, control_event);
}

// A combined control is aligned by splitting an instruction before it: two events without controls leave one to split.
// `select` and `end`: the source controls of the reception that is being placed.
bool TileRow::may_combine(std::int32_t event, std::int32_t select, std::int32_t end) const {
  const auto just_before = [&](std::int32_t other) { return other == event - 1 || other == event - 2; };
  return combine && event > 2 && !just_before(select) && !just_before(end) &&
         !any_at(row_.sources, event - 2, event - 1) && !any_at(row_.pointers, event - 2, event - 1);
}

// The event of the pointer control: when its exact event is taken, any event since the last write serves as well.
// 0 when the pointer is already right, -1 when there is no such event.
std::int32_t TileRow::pointer_event(std::int32_t select, std::int32_t end, const Reception& reception,
                                    std::int32_t own_send) const {
  if (pointer_ == reception.address_words) return 0;
  const auto source_at = [&](std::int32_t at) { return at == end || any_at(row_.sources, at); };
  for (const bool combined : {false, true})
    for (std::int32_t at = select + reception.latency; at >= write_end_; --at)
      if (beside_sends(at, own_send) && source_at(at) == combined && (!combined || may_combine(at, select, end)))
        return at;
  return -1;
}

std::int32_t TileRow::receive_start(std::int32_t event, std::int32_t words, const Reception& reception,
                                    bool self) const {
  for (;; ++event) {
    const std::int32_t own_send = self ? event - reception.flight - 1 : -2;
    const std::int32_t end = event + words;
    const auto allowed = [&](std::int32_t control_event) {
      return beside_sends(control_event, own_send) &&
             (!any_at(row_.pointers, control_event) || may_combine(control_event, event, end));
    };
    if (allowed(event) && allowed(end) && pointer_event(event, end, reception, own_send) >= 0) return event;
  }
}

void TileRow::add_send(const hw::Send& send) {
  row_.sends.push_back(send);
  send_end = send.event + send.words;
}

void TileRow::add_reception(std::int32_t event, std::int32_t words, std::uint32_t source, std::uint32_t neutral,
                            const Reception& reception, bool self) {
  const std::int32_t pointer_at =
      pointer_event(event, event + words, reception, self ? event - reception.flight - 1 : -2);
  if (pointer_at > 0) row_.pointers.push_back({pointer_at, reception.address_words});
  auto& sources = row_.sources;
  if (!sources.empty() && sources.back().event == event) sources.pop_back();  // no neutral between
  if (sources.empty() || sources.back().source != source) sources.push_back({event, source});
  sources.push_back({event + words, neutral});
  pointer_ = reception.address_words + static_cast<std::uint32_t>(words);
  write_end_ = event + reception.latency + words;
}

hw::RowSchedule TileRow::finish(std::int32_t tail) {
  if (row_.sends.empty() && row_.sources.empty()) return {};
  row_.events = std::max(send_end, row_.sources.empty() ? 0 : write_end_ + tail);
  return std::move(row_);
}

}  // namespace tw::compiler
