// hw/isa/row_decode.cpp: timed instructions back into a row's schedule.
#include <fmt/format.h>

#include "hw/isa/instruction.h"
#include "hw/isa/row.h"

namespace tw::hw {
namespace {

class RowDecoder {
 public:
  explicit RowDecoder(std::span<const std::uint32_t> code) : code_(code) {}

  Result<DecodedRow> decode_all() {
    TW_TRY(const Instruction first, next());
    if (first.opcode != Opcode::sync) return corrupt(first, "a row starts with sync");
    while (true) {
      TW_TRY(const Instruction instruction, next());
      if (instruction.opcode == Opcode::br && instruction.s == 10) break;
      TW_TRY_STATUS(execute(instruction));
    }
    row_.schedule.events = now_;
    row_.words = at_;
    return std::move(row_);
  }

 private:
  Result<Instruction> next() {
    if (at_ >= code_.size())
      return fail(ErrorKind::corrupt, fmt::format("exchange row: no br m10 within {} code words", code_.size()));
    const Instruction instruction = decode(code_.subspan(at_));
    if (instruction.opcode == Opcode::unknown) return corrupt(instruction, "this word is no known instruction");
    start_ = at_;
    at_ += static_cast<std::uint32_t>(instruction.words());
    return instruction;
  }

  Status execute(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::delay: return idle(i);
      case Opcode::delaypic:
        if (i.select != 0) {
          TW_TRY_STATUS(set_format(i, now_ + i.count));
        } else {
          row_.schedule.pointers.push_back({now_ + i.count, i.value});
        }
        return idle(i);
      case Opcode::delayxpic: row_.schedule.sources.push_back({now_ + i.count, i.value, i.select != 0}); return idle(i);
      case Opcode::send: start_send(i.address, i.sctl); return send(i);
      case Opcode::sendoff: return continue_send(i);
      case Opcode::sendpic: return send_with_control(i);
      case Opcode::sendpicp: return send_with_both(i);
      case Opcode::put: return write_base(i);
      default: return corrupt(i, "an instruction without events inside a row");
    }
  }

  Status write_base(const Instruction& i) {
    if (i.immediate != csr::outgoing_base) return corrupt(i, "a row writes no other register than OUTGOING_BASE");
    if (row_.schedule.base_write.present()) return corrupt(i, "a row writes OUTGOING_BASE once");
    row_.schedule.base_write = {now_, i.s};
    streaming_ = false;
    now_ += base_write_events;
    return {};
  }

  Status idle(const Instruction& i) {
    streaming_ = false;
    now_ += i.count;
    return {};
  }

  Status set_format(const Instruction& i, std::int32_t event) {
    if (i.value > 2) return corrupt(i, "receive formats are 0, 1 and 2");
    row_.schedule.formats.push_back({event, i.value});
    return {};
  }

  Status send(const Instruction& i) {
    streaming_ = true;
    row_.schedule.sends.back().items += i.count;
    now_ += i.count;
    return {};
  }

  void start_send(std::uint32_t address, int sctl) {
    row_.schedule.sends.push_back({now_, 0, address, static_cast<std::uint8_t>(sctl)});
    row_.send_code_word.push_back(start_);
  }

  std::uint32_t stream_address() const {
    const Send& last = row_.schedule.sends.back();
    return last.address_words + last.words();
  }

  Status continue_send(const Instruction& i) {
    if (!streaming_) return corrupt(i, "there is no send to continue");
    if (i.delta != 0 || i.sctl != row_.schedule.sends.back().sctl)
      start_send(stream_address() + static_cast<std::uint32_t>(i.delta), i.sctl);
    return send(i);
  }

  Status send_with_control(const Instruction& i) {
    if (!streaming_) return corrupt(i, "there is no send to continue");
    if (i.select == 3) {
      TW_TRY_STATUS(set_format(i, now_ + 1));
    } else if (i.select == 2)
      row_.schedule.pointers.push_back({now_ + 1, i.value});
    else if (i.value < (1U << 13))
      row_.schedule.sources.push_back({now_ + 1, i.value, i.select == 1});
    else
      return corrupt(i, "a source number has at most 13 bits");
    return send(i);
  }

  Status send_with_both(const Instruction& i) {
    if (i.select != 0) return corrupt(i, "a receive format and a source do not change in one event");
    row_.schedule.sources.push_back({now_ + 1, i.xpic & 0x1fffU, i.xpic >> 13 != 0});
    row_.schedule.pointers.push_back({now_ + 1, i.value});
    if (i.sctl == 0) return idle(i);
    const bool continues = streaming_ && i.address == stream_address() && i.sctl == row_.schedule.sends.back().sctl;
    if (!continues) start_send(i.address, i.sctl);
    return send(i);
  }

  tl::unexpected<Error> corrupt(const Instruction& instruction, const std::string& why) const {
    return fail(
        ErrorKind::corrupt,
        fmt::format("exchange row, event {}, code word {}: {}: {}", now_, start_, disassemble(instruction), why),
        {{"event", std::to_string(now_)}, {"code_word", std::to_string(start_)}});
  }

  std::span<const std::uint32_t> code_;
  std::uint32_t at_ = 0;     // next code word
  std::uint32_t start_ = 0;  // first code word of the current instruction
  std::int32_t now_ = 0;
  bool streaming_ = false;  // the previous instruction sent words
  DecodedRow row_;
};

std::vector<Send> joined(const std::vector<Send>& sends) {
  std::vector<Send> streams;
  for (const Send& send : sends) {
    if (!streams.empty()) {
      Send& last = streams.back();
      if (send.event == last.event + last.items && send.sctl == last.sctl &&
          send.address_words == last.address_words + last.words()) {
        last.items += send.items;
        continue;
      }
    }
    streams.push_back(send);
  }
  return streams;
}

}  // namespace

Result<DecodedRow> decode_row(std::span<const std::uint32_t> code) { return RowDecoder(code).decode_all(); }

bool equivalent(const RowSchedule& a, const RowSchedule& b) {
  return a.events == b.events && a.sources == b.sources && a.pointers == b.pointers && a.formats == b.formats &&
         a.base_write == b.base_write && joined(a.sends) == joined(b.sends);
}

}  // namespace tw::hw
