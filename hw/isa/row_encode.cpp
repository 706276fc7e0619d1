// hw/isa/row_encode.cpp: a row's schedule as timed instructions.
//
// A walk over slots (slot t is where a word with send event t leaves; control event c is slot c - 1). Idle time becomes
// delays, controls end a delay (delaypic, delayxpic) or split a send (sendpic), and two controls in one slot become
// sendpicp, whose 8-byte alignment is reached by splitting an instruction before it.
#include <algorithm>

#include <fmt/format.h>

#include "hw/isa/instruction.h"
#include "hw/isa/row.h"

namespace tw::hw {
namespace {

constexpr int max_send = 64, max_sendoff = 4096, max_delay = 1 << 19, max_delaypic = 128, max_delayxpic = 4096;

// What happens in one slot besides sending.
struct Control {
  std::int32_t slot = 0;
  const SourceControl* source = nullptr;
  const PointerControl* pointer = nullptr;
  const FormatControl* format = nullptr;  // alone, as base
  const BaseWrite* base = nullptr;
};

tl::unexpected<Error> cannot(std::int32_t event, const std::string& what) {
  return fail(ErrorKind::unsupported, fmt::format("exchange row, event {}: {}", event, what),
              {{"event", std::to_string(event)}});
}

// Sends that continue each other joined into streams. Errors: overlap, extents.
Result<std::vector<Send>> streams_of(const RowSchedule& schedule) {
  std::vector<Send> streams;
  for (const Send& send : schedule.sends) {
    if (send.items < 1 || send.event < 0 || (send.sctl & 3) == 0 || send.sctl > 7 ||
        send.address_words + std::uint64_t{send.words()} > (1U << 18))
      return cannot(send.event, fmt::format("a send of {} items at word address 0x{:x} with sctl {} has no encoding",
                                            send.items, send.address_words, send.sctl));
    if (!streams.empty()) {
      Send& last = streams.back();
      const std::int32_t end = last.event + last.items;
      if (send.event < end) return cannot(send.event, fmt::format("the send before it lasts until event {}", end));
      if (send.event == end && send.sctl == last.sctl && send.address_words == last.address_words + last.words()) {
        last.items += send.items;
        continue;
      }
    }
    streams.push_back(send);
  }
  return streams;
}

// All controls merged by slot. Errors: two of a kind in one slot, out of order, values without encoding.
Result<std::vector<Control>> controls_of(const RowSchedule& schedule) {
  std::vector<Control> controls;
  auto source = schedule.sources.begin();
  auto pointer = schedule.pointers.begin();
  const auto check_order = [](const auto& list, auto at) {
    return at->event >= 1 && (at == list.begin() || (at - 1)->event < at->event);
  };
  while (source != schedule.sources.end() || pointer != schedule.pointers.end()) {
    const bool take_source =
        source != schedule.sources.end() && (pointer == schedule.pointers.end() || source->event <= pointer->event);
    const bool take_pointer =
        pointer != schedule.pointers.end() && (source == schedule.sources.end() || pointer->event <= source->event);
    Control control;
    if (take_source) {
      if (!check_order(schedule.sources, source) || source->source >= (1U << 13))
        return cannot(source->event,
                      fmt::format("source change to 0x{:x}: two in one event, before event 1, or no 13-bit "
                                  "number",
                                  source->source));
      control = {source->event - 1, &*source++, nullptr};
    }
    if (take_pointer) {
      if (!check_order(schedule.pointers, pointer) || pointer->pointer_words >= (1U << 18))
        return cannot(pointer->event,
                      fmt::format("pointer change to word 0x{:x}: two in one event, before event 1, or no "
                                  "18-bit address",
                                  pointer->pointer_words));
      control.slot = pointer->event - 1;
      control.pointer = &*pointer++;
    }
    controls.push_back(control);
  }
  const FormatControl* previous = nullptr;
  for (const FormatControl& format : schedule.formats) {
    const auto at = std::find_if(controls.begin(), controls.end(),
                                 [&](const Control& control) { return control.slot >= format.event - 1; });
    const bool taken = at != controls.end() && at->slot == format.event - 1;
    if (taken || format.event < 1 || format.format > 2 || (previous && previous->event >= format.event))
      return cannot(format.event, fmt::format("a change to receive format {}: beside another control, out of order or "
                                              "no format",
                                              format.format));
    controls.insert(at, {.slot = format.event - 1, .format = &format});
    previous = &format;
  }
  if (schedule.base_write.present()) {
    const auto at = std::find_if(controls.begin(), controls.end(),
                                 [&](const Control& control) { return control.slot >= schedule.base_write.slot; });
    controls.insert(at, {.slot = schedule.base_write.slot, .base = &schedule.base_write});
  }
  return controls;
}

// Nothing else happens while OUTGOING_BASE is written.
Status check_base_write(const BaseWrite& write, const std::vector<Send>& streams,
                        const std::vector<Control>& controls) {
  if (!write.present()) return {};
  if (write.slot < 1 || write.base_register < 0 || write.base_register > 15)
    return cannot(write.slot, "OUTGOING_BASE is written from a register, behind the first event");
  const auto clash = [&](std::int32_t event) {
    return cannot(event, fmt::format("OUTGOING_BASE is written in the {} events from {} on, in which nothing else fits",
                                     base_write_events, write.slot));
  };
  for (const Control& control : controls)
    if (control.base == nullptr && !write.allows(control.slot)) return clash(control.slot + 1);
  for (const Send& stream : streams)
    if (stream.event < write.slot + base_write_events && stream.event + stream.items > write.slot)
      return clash(stream.event);
  return {};
}

Status check_starts(const std::vector<Send>& streams, const std::vector<Control>& controls) {
  auto control = controls.begin();
  for (const Send& stream : streams) {
    while (control != controls.end() && control->slot + 1 < stream.event) ++control;
    if (control != controls.end() && control->base == nullptr && !control_allowed(control->slot + 1, stream))
      return cannot(control->slot + 1,
                    fmt::format("a control has no encoding at the event at which a send starts ({}) or "
                                "at the one after it",
                                stream.event));
  }
  return {};
}

class RowEncoder {
 public:
  explicit RowEncoder(std::uint32_t address_bytes) : odd_(address_bytes / 4 % 2) {
    add({.opcode = Opcode::sync, .immediate = 3});
  }

  std::int32_t now() const { return now_; }

  void delay_until(std::int32_t slot) {
    while (now_ < slot) timed({.opcode = Opcode::delay, .count = std::min(slot - now_, max_delay)});
  }

  // A control without a send; `idle_until`: nothing else happens before that slot.
  Status control(const Control& control, std::int32_t idle_until) {
    if (control.base) {
      delay_until(control.slot);
      Instruction put{.opcode = Opcode::put, .s = control.base->base_register};
      put.immediate = csr::outgoing_base;
      put.count = base_write_events;
      timed(put);
      return {};
    }
    if (control.source && control.pointer) {
      delay_until(control.slot);
      return combined(control, {.opcode = Opcode::sendpicp, .count = std::min(idle_until - control.slot, max_send)});
    }
    const int limit = control.source ? max_delayxpic : max_delaypic;
    delay_until(control.slot + 1 - limit);
    const int count = control.slot + 1 - now_;
    if (control.source)
      timed({.opcode = Opcode::delayxpic,
             .count = count,
             .select = control.source->pair,
             .value = control.source->source});
    else if (control.format)
      timed({.opcode = Opcode::delaypic, .count = count, .select = 1, .value = control.format->format});
    else
      timed({.opcode = Opcode::delaypic, .count = count, .value = control.pointer->pointer_words});
    return {};
  }

  // Items of the stream from now() on, until `end`; the first instruction opens the stream.
  void open(const Send& stream, std::int32_t end) {
    timed({.opcode = Opcode::send,
           .count = std::min(end - now_, max_send),
           .address = stream.address_words,
           .sctl = stream.sctl});
    continue_stream(stream, end);
  }

  // The same with a control in the first slot, inside a stream.
  Status open_with(const Control& control, const Send& stream, std::int32_t end) {
    const int count = std::min(end - now_, max_send);
    if (control.source && control.pointer) {
      const std::uint32_t address =
          stream.address_words + static_cast<std::uint32_t>(now_ - stream.event) * stream.item_words();
      TW_TRY_STATUS(
          combined(control, {.opcode = Opcode::sendpicp, .count = count, .address = address, .sctl = stream.sctl}));
    } else if (control.source) {
      timed(
          {.opcode = Opcode::sendpic, .count = count, .select = control.source->pair, .value = control.source->source});
    } else if (control.format) {
      timed({.opcode = Opcode::sendpic, .count = count, .select = 3, .value = control.format->format});
    } else {
      timed({.opcode = Opcode::sendpic, .count = count, .select = 2, .value = control.pointer->pointer_words});
    }
    continue_stream(stream, end);
    return {};
  }

  std::vector<std::uint32_t> finish() {
    add({.opcode = Opcode::br, .s = 10});
    std::vector<std::uint32_t> code;
    code.reserve(words_);
    for (const Instruction& instruction : instructions_) {
      const auto words = encode(instruction);
      code.insert(code.end(), words.begin(), words.begin() + instruction.words());
    }
    return code;
  }

 private:
  void continue_stream(const Send& stream, std::int32_t end) {
    while (now_ < end)
      timed({.opcode = Opcode::sendoff, .count = std::min(end - now_, max_sendoff), .sctl = stream.sctl});
  }

  Status combined(const Control& control, Instruction instruction) {
    if ((odd_ + words_) % 2 != 0 && !split_one())
      return cannot(control.slot + 1,
                    "a source and a pointer change in one event need an 8-byte aligned instruction, and "
                    "nothing before it can be split");
    instruction.xpic = control.source->source | (control.source->pair ? 1U << 13 : 0U);
    instruction.value = control.pointer->pointer_words;
    timed(instruction);
    return {};
  }

  // Makes the code one word longer by splitting the last instruction of two or more events, not before the last
  // sendpicp.
  bool split_one() {
    for (std::size_t i = instructions_.size(); i-- > 1;) {
      Instruction& whole = instructions_[i];
      if (whole.count >= 2 && whole.opcode != Opcode::put) {
        const bool control_is_last = whole.opcode == Opcode::delaypic || whole.opcode == Opcode::delayxpic;
        const bool idle = control_is_last || whole.opcode == Opcode::delay || whole.sctl == 0;
        // sendpic has no sctl field of its own: what it continues has it.
        const int sctl = whole.opcode == Opcode::sendpic ? stream_sctl_before(i) : whole.sctl;
        Instruction rest{.opcode = idle && whole.opcode != Opcode::sendpic ? Opcode::delay : Opcode::sendoff,
                         .count = whole.count - 1};
        if (rest.opcode == Opcode::sendoff) rest.sctl = sctl;
        whole.count = 1;
        instructions_.insert(instructions_.begin() + static_cast<std::ptrdiff_t>(control_is_last ? i : i + 1), rest);
        ++words_;
        return true;
      }
      if (whole.opcode == Opcode::sendpicp) return false;
    }
    return false;
  }

  int stream_sctl_before(std::size_t at) const {
    while (instructions_[at].opcode == Opcode::sendpic) --at;
    return instructions_[at].sctl;
  }

  void timed(const Instruction& instruction) {
    now_ += instruction.count;
    add(instruction);
  }
  void add(const Instruction& instruction) {
    words_ += static_cast<std::uint32_t>(instruction.words());
    instructions_.push_back(instruction);
  }

  std::uint32_t odd_ = 0;
  std::uint32_t words_ = 0;
  std::int32_t now_ = 0;
  std::vector<Instruction> instructions_;
};

}  // namespace

bool control_allowed(std::int32_t control_event, const Send& send) {
  return control_event != send.event && control_event != send.event + 1;
}

Result<std::vector<std::uint32_t>> encode_row(const RowSchedule& schedule, std::uint32_t address_bytes) {
  TW_TRY(const std::vector<Send> streams, streams_of(schedule));
  TW_TRY(const std::vector<Control> controls, controls_of(schedule));
  TW_TRY_STATUS(check_starts(streams, controls));
  TW_TRY_STATUS(check_base_write(schedule.base_write, streams, controls));
  const std::int32_t last_send = streams.empty() ? 0 : streams.back().event + streams.back().items;
  const std::int32_t last_control = controls.empty()       ? 0
                                    : controls.back().base ? controls.back().slot + base_write_events
                                                           : controls.back().slot + 1;
  if (schedule.events < std::max(last_send, last_control))
    return cannot(schedule.events,
                  fmt::format("the row ends before its last action at event {}", std::max(last_send, last_control)));
  RowEncoder encoder(address_bytes);
  std::size_t next = 0;  // control
  const auto idle_until = [&](std::int32_t until) {
    return next + 1 < controls.size() ? std::min(until, controls[next + 1].slot) : until;
  };
  for (const Send& stream : streams) {
    for (; next < controls.size() && controls[next].slot < stream.event; ++next) {
      TW_TRY_STATUS(encoder.control(controls[next], idle_until(stream.event)));
    }
    const std::int32_t end = stream.event + stream.items;
    const auto segment_end = [&] { return next < controls.size() ? std::min(end, controls[next].slot) : end; };
    encoder.delay_until(stream.event);
    encoder.open(stream, segment_end());
    while (encoder.now() < end) {
      const Control& control = controls[next++];
      TW_TRY_STATUS(encoder.open_with(control, stream, segment_end()));
    }
  }
  for (; next < controls.size(); ++next) TW_TRY_STATUS(encoder.control(controls[next], idle_until(schedule.events)));
  encoder.delay_until(schedule.events);
  return encoder.finish();
}

}  // namespace tw::hw
