// hw/isa/row.h: one tile's exchange row: what it sends and receives at which events, encoded as timed instructions
// and decoded again. Event 0 is the first event after the barrier.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hw/base/id.h"
#include "hw/base/result.h"
#include "hw/machine/machine.h"

namespace tw::hw {

// Items leave the tile's bus at events [event, event + items), read from consecutive addresses: words, or double words
// where sctl says so, which also take the lane of the physical pair's other tile.
struct Send {
  std::int32_t event = 0;
  std::int32_t items = 0;
  std::uint32_t address_words = 0;  // byte address / 4, relative to OUTGOING_BASE
  std::uint8_t sctl = 0;            // bits 0 and 1: directions; bit 2: double words
  bool wide() const { return (sctl & sctl_wide) != 0; }
  std::uint32_t item_words() const { return wide() ? 2 : 1; }
  std::uint32_t words() const { return static_cast<std::uint32_t>(items) * item_words(); }
  static constexpr std::uint8_t sctl_wide = 4;
  friend auto operator<=>(const Send&, const Send&) = default;
};

// Control events count slots from 1, as in "control event = send event + T + 1": event c takes effect in the slot in
// which a word with send event c - 1 could leave, so 1 is the earliest.
// A change of the source selection (mux) at an event: a physical tile number, or the machine's neutral or host mux.
// `pair`: of the mux that both tiles of the physical pair listen to, for double words.
struct SourceControl {
  std::int32_t event = 0;
  std::uint32_t source = 0;
  bool pair = false;
  friend auto operator<=>(const SourceControl&, const SourceControl&) = default;
};

// A change of the write pointer at an event (word address relative to INCOMING_BASE).
struct PointerControl {
  std::int32_t event = 0;
  std::uint32_t pointer_words = 0;
  friend auto operator<=>(const PointerControl&, const PointerControl&) = default;
};

// A change of the width in which arriving items are written: 0 words, 1 or 2 double words (in a pair's even or odd
// tile). It counts for items that are written receive_format_lead events later.
inline constexpr std::int32_t receive_format_lead = 2;  // measured on silicon (docs/fidelity.md)
struct FormatControl {
  std::int32_t event = 0;
  std::uint32_t format = 0;
  friend auto operator<=>(const FormatControl&, const FormatControl&) = default;
};

// A row of two sections: OUTGOING_BASE is written from a register in slots [slot, slot + base_write_events), in which
// the tile neither sends nor applies a control; sends from then on count from the new base.
inline constexpr std::int32_t base_write_events = 13;  // measured on silicon (docs/fidelity.md)
struct BaseWrite {
  std::int32_t slot = -1;  // at least 1; -1: none, all sends count from the base at the row's start
  std::int32_t base_register = 0;
  bool present() const { return slot >= 0; }
  // Whether something else may happen in this slot.
  bool allows(std::int32_t other) const { return !present() || other < slot || other >= slot + base_write_events; }
  friend bool operator==(const BaseWrite&, const BaseWrite&) = default;
};

// Everything in one row, each list in order of events. `events` is the row's length: where br m10 is reached.
struct RowSchedule {
  std::vector<Send> sends;
  std::vector<SourceControl> sources;
  std::vector<PointerControl> pointers;
  std::vector<FormatControl> formats;
  BaseWrite base_write;
  std::int32_t events = 0;
  friend bool operator==(const RowSchedule&, const RowSchedule&) = default;
};

// Encodes `sync 3`, the timed instructions, `br m10`. `address_bytes`: where the row will lie (a multiple of 4; only
// its remainder by 8 matters, because sendpicp must be 8-byte aligned). Adjacent sends that continue each other may be
// encoded as one stream. Errors (unsupported): a hazard that the instruction set cannot express, with the event: a
// control at the first event of a send or at the one after it, two source or two pointer changes in one event, ...
Result<std::vector<std::uint32_t>> encode_row(const RowSchedule& schedule, std::uint32_t address_bytes);

// Whether the control/send combination at these events can be encoded. Schedulers ask this before placing: a control
// at event c against a send [event, event + items) of the same tile.
bool control_allowed(std::int32_t control_event, const Send& send);

// Decodes a row starting at `sync`; stops at br m10. Errors (corrupt): unknown or untimed instruction, no end.
struct DecodedRow {
  RowSchedule schedule;
  std::uint32_t words = 0;                    // code words from sync to br inclusive
  std::vector<std::uint32_t> send_code_word;  // for messages: index of the code word that each send started at
};
Result<DecodedRow> decode_row(std::span<const std::uint32_t> code);

// True when both say the same: equal lists after joining sends that continue each other, equal length.
bool equivalent(const RowSchedule& a, const RowSchedule& b);

}  // namespace tw::hw
