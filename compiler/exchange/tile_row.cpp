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
  const auto in_the_way = [&](const auto& list) { return any_at(list, slot + 1, slot + hw::base_write_events); };
  while (in_the_way(row_.sources) || in_the_way(row_.pointers) || in_the_way(row_.formats)) ++slot;
  row_.base_write = {slot, base_register};
  send_end = slot + hw::base_write_events;
  own_end_ = std::max(own_end_, send_end);
}

std::int32_t TileRow::send_start(std::int32_t event) const {
  const auto in_the_way = [&](const auto& list) { return any_at(list, event, event + 1); };
  while (in_the_way(row_.sources) || in_the_way(row_.pointers) || in_the_way(row_.formats)) ++event;
  return event;
}

TileRow::Attempt TileRow::attempt(std::int32_t event, std::int32_t items, const Reception& reception, bool self) {
  return {event, event + items, reception.selects, self ? event - reception.flight - 1 : -2};
}

// hw::control_allowed for all sends of the tile: none starts at the event or at the one before.
bool TileRow::beside_sends(std::int32_t control_event, std::int32_t own_send) const {
  return control_event != own_send && control_event != own_send + 1 && row_.base_write.allows(control_event - 1) &&
         !any_at(row_.sends, control_event - 1, control_event);
}

// A combined control is aligned by splitting an instruction before it: two events without controls leave one to split.
bool TileRow::may_combine(std::int32_t event, const Attempt& attempt) const {
  const auto free = [&](const auto& list) { return !any_at(list, event - 2, event - 1); };
  return combine && event > 2 && !attempt.has_source_at(event - 1) && !attempt.has_source_at(event - 2) &&
         free(row_.sources) && free(row_.pointers) && free(row_.formats);
}

// The event of the pointer control: when its exact event is taken, any event since the last write serves as well.
// 0 when the pointer is already right, -1 when there is no such event.
std::int32_t TileRow::pointer_event(const Attempt& attempt, const Reception& reception) const {
  if (pointer_ == reception.address_words) return 0;
  const auto source_at = [&](std::int32_t at) { return attempt.has_source_at(at) || any_at(row_.sources, at); };
  for (const bool combined : {false, true})
    for (std::int32_t at = attempt.select + reception.latency; at >= write_end_; --at)
      if (beside_sends(at, attempt.own_send) && source_at(at) == combined && !any_at(row_.formats, at) &&
          (!combined || may_combine(at, attempt)))
        return at;
  return -1;
}

// The event of the change of the receive format, between the last write in the old one and the first in the new one,
// alone. 0 when the format is already right, -1 when there is no such event.
std::int32_t TileRow::format_event(const Attempt& attempt, const Reception& reception, std::int32_t pointer_at) const {
  if (format_ == reception.format) return 0;
  const std::int32_t last = attempt.select + reception.latency - hw::receive_format_lead;
  const std::int32_t first = std::max(write_end_ - hw::receive_format_lead, 1);
  for (std::int32_t at = last; at >= first; --at)
    if (at != pointer_at && !attempt.has_source_at(at) && beside_sends(at, attempt.own_send) &&
        !any_at(row_.sources, at) && !any_at(row_.pointers, at))
      return at;
  return -1;
}

std::int32_t TileRow::receive_start(std::int32_t event, std::int32_t items, const Reception& reception,
                                    bool self) const {
  for (;; ++event) {
    const Attempt now = attempt(event, items, reception, self);
    const auto allowed = [&](std::int32_t control_event) {
      return beside_sends(control_event, now.own_send) && !any_at(row_.formats, control_event) &&
             (!any_at(row_.pointers, control_event) || may_combine(control_event, now));
    };
    if (now.selects) {
      // Muxes of the tile and of the pair are two registers: one is not set in the event in which the other is left.
      const bool other_mux = !row_.sources.empty() && row_.sources.back().event == now.select &&
                             row_.sources.back().pair != reception.wide();
      if (other_mux || !allowed(now.select) || !allowed(now.end)) continue;
    }
    const std::int32_t pointer_at = pointer_event(now, reception);
    if (pointer_at >= 0 && format_event(now, reception, pointer_at) >= 0) return event;
  }
}

void TileRow::add_send(const hw::Send& send) {
  row_.sends.push_back(send);
  send_end = send.event + send.items;
  own_end_ = std::max(own_end_, send_end);
}

void TileRow::add_reception(std::int32_t event, std::int32_t items, std::uint32_t source, std::uint32_t neutral,
                            const Reception& reception, bool self) {
  const Attempt now = attempt(event, items, reception, self);
  const std::int32_t pointer_at = pointer_event(now, reception);
  const std::int32_t format_at = format_event(now, reception, pointer_at);
  if (pointer_at > 0) row_.pointers.push_back({pointer_at, reception.address_words});
  if (format_at > 0) row_.formats.push_back({format_at, reception.format});
  if (reception.selects) {
    auto& sources = row_.sources;
    const bool wide = reception.wide();
    if (!sources.empty() && sources.back().event == event) sources.pop_back();  // no neutral between
    if (sources.empty() || sources.back().source != source || sources.back().pair != wide)
      sources.push_back({event, source, wide});
    sources.push_back({event + items, neutral, wide});
  }
  pointer_ = reception.address_words + static_cast<std::uint32_t>(items) * reception.item_words();
  format_ = reception.format;
  write_end_ = event + reception.latency + items;
}

hw::RowSchedule TileRow::finish(std::int32_t tail) {
  if (row_.sends.empty() && row_.sources.empty() && row_.pointers.empty()) return {};
  row_.events = std::max(own_end_, write_end_ > 1 ? write_end_ + tail : 0);
  if (format_ != 0) {
    // Back to words behind the last write, alone and beside all sends.
    std::int32_t at = write_end_ - hw::receive_format_lead;
    while (!beside_sends(at, -2) || any_at(row_.sources, at) || any_at(row_.pointers, at)) ++at;
    row_.formats.push_back({at, 0});
    row_.events = std::max(row_.events, at);
  }
  return std::move(row_);
}

}  // namespace tw::compiler
