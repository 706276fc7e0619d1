// tests/hw/isa/row_test.cpp: rows against vendor rows, hazards, and random schedules through encode and decode.
#include "hw/isa/row.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <algorithm>

#include "hw/base/random.h"
#include "hw/isa/instruction.h"

namespace tw::hw {
namespace {

using Code = std::vector<std::uint32_t>;

// Encoding gives exactly these words, and decoding them the schedule.
void expect_row(const RowSchedule& schedule, const Code& code, std::uint32_t address_bytes = 0) {
  const auto encoded = encode_row(schedule, address_bytes);
  ASSERT_TRUE(encoded) << encoded.error().message;
  EXPECT_EQ(*encoded, code);
  const auto decoded = decode_row(code);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(equivalent(decoded->schedule, schedule));
  EXPECT_EQ(decoded->words, code.size());
}

TEST(Row, VendorSenders) {
  expect_row({.sends = {{135, 3, 0, 1}}, .events = 138}, {0x41800003, 0x40a00086, 0x78400001, 0x43a00000});
  expect_row({.sends = {{63, 52, 0, 2}}, .events = 115}, {0x41800003, 0x40a0003e, 0x7e600002, 0x43a00000});
  expect_row({.sends = {{126, 65, 0, 2}}, .events = 191}, {0x41800003, 0x40a0007d, 0x7fe00002, 0x70000002, 0x43a00000});
  expect_row({.sends = {{109, 4148, 0, 1}}, .events = 4257},
             {0x41800003, 0x40a0006c, 0x7fe00001, 0x766fc001, 0x43a00000});
  expect_row({.sends = {{23, 3, 0, 3}}, .events = 26}, {0x41800003, 0x40a00016, 0x78400003, 0x43a00000});
}

TEST(Row, VendorReceivers) {
  // 3 words: source 113, neutral 116, written from 165 (row 0), five events of tail.
  expect_row({.sources = {{113, 0}, {116, 0x640}}, .pointers = {{165, 0}}, .events = 173},
             {0x41800003, 0x641c0000, 0x64008640, 0x61800000, 0x40a00007, 0x43a00000});
  expect_row({.sources = {{113, 0}, {173, 0x640}}, .pointers = {{172, 0}}, .events = 230},
             {0x41800003, 0x641c0000, 0x61d00000, 0x64000640, 0x40a00038, 0x43a00000});
  expect_row({.sources = {{113, 0}, {4261, 0x640}}, .pointers = {{165, 0}}, .events = 4318},
             {0x41800003, 0x641c0000, 0x61980000, 0x67ffc640, 0x40a00038, 0x43a00000});
  expect_row({.sources = {{1, 0}, {4, 0x640}}, .pointers = {{53, 0x14000}}, .events = 61},
             {0x41800003, 0x64000000, 0x64008640, 0x61814000, 0x40a00007, 0x43a00000});
}

TEST(Row, VendorReceiverWithCombinedControls) {
  // Four messages of 52 words; the row lies at 4 mod 8, so that the combined controls are aligned as they are.
  expect_row({.sources = {{1, 0x82}, {53, 0xc0}, {105, 0xc2}, {157, 0x100}, {209, 0x640}},
              .pointers = {{53, 0x14048}, {105, 0x15000}, {157, 0x16000}, {209, 0x17000}},
              .events = 266},
             {0x41800003, 0x64000082, 0x40a00032, 0xf6600000, 0x03014048, 0xf6600000, 0x03095000, 0xf6600000,
              0x04016000, 0xf7200000, 0x19017000, 0x43a00000},
             4);
}

TEST(Row, CombinedControlsAreAlignedBySplittingADelay) {
  const RowSchedule schedule = {.sources = {{53, 0xc0}, {105, 0x640}}, .pointers = {{53, 0x14048}}, .events = 200};
  for (const std::uint32_t address : {0U, 4U}) {
    const auto code = encode_row(schedule, address);
    ASSERT_TRUE(code);
    const auto at = std::find(code->begin(), code->end(), 0x03014048U) - code->begin() - 1;
    EXPECT_EQ((address + 4 * static_cast<std::uint32_t>(at)) % 8, 0U);
    EXPECT_TRUE(equivalent(decode_row(*code)->schedule, schedule));
  }
}

TEST(Row, ControlInsideASendSplitsIt) {
  const RowSchedule schedule = {
      .sends = {{10, 100, 0x40, 1}}, .sources = {{50, 7}}, .pointers = {{80, 0x100}}, .events = 110};
  expect_row(schedule, {0x41800003, 0x40a00009, 0x7cc00201, 0x73b00007, 0x73d80100, 0x43a00000});
}

TEST(Row, CombinedControlInsideASendRestartsTheStream) {
  const RowSchedule schedule = {
      .sends = {{10, 100, 0x40, 3}}, .sources = {{50, 7}}, .pointers = {{50, 0x100}}, .events = 110};
  for (const std::uint32_t address : {0U, 4U}) {
    const auto code = encode_row(schedule, address);
    ASSERT_TRUE(code) << code.error().message;
    const auto decoded = decode_row(*code);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->schedule.sends.size(), 1U);
    EXPECT_TRUE(equivalent(decoded->schedule, schedule));
  }
}

TEST(Row, ContinuedSendsBecomeOneStream) {
  const RowSchedule schedule = {.sends = {{10, 30, 0, 1}, {40, 34, 30, 1}}, .events = 74};
  expect_row(schedule, {0x41800003, 0x40a00009, 0x7fe00001, 0x43a00000});
}

void expect_refused(const RowSchedule& schedule, std::int32_t event) {
  const auto code = encode_row(schedule, 0);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(code.error().where.at("event"), std::to_string(event)) << code.error().message;
}

TEST(Row, RefusesWhatHasNoEncoding) {
  expect_refused({.sends = {{10, 5, 0, 1}}, .sources = {{10, 7}}, .events = 20}, 10);
  expect_refused({.sends = {{10, 5, 0, 1}}, .pointers = {{11, 7}}, .events = 20}, 11);
  expect_refused({.sends = {{10, 5, 0, 1}, {15, 5, 99, 1}}, .pointers = {{15, 7}}, .events = 20}, 15);
  expect_refused({.sends = {{10, 5, 0, 1}, {14, 5, 0, 1}}, .events = 20}, 14);
  expect_refused({.sends = {{10, 5, 0, 0}}, .events = 20}, 10);
  expect_refused({.sends = {{10, 5, 0x3fffc, 1}}, .events = 20}, 10);
  expect_refused({.sends = {{10, 0, 0, 1}}, .events = 20}, 10);
  expect_refused({.sends = {{10, 5, 0, 1}}, .events = 14}, 14);
  expect_refused({.sources = {{5, 1}, {5, 2}}, .events = 20}, 5);
  expect_refused({.pointers = {{0, 1}}, .events = 20}, 0);
  expect_refused({.sources = {{3, 1U << 13}}, .events = 20}, 3);
  expect_refused({.pointers = {{3, 1U << 18}}, .events = 20}, 3);
  // Both controls at the very first event at an odd word: nothing before can be split.
  expect_refused({.sources = {{1, 1}}, .pointers = {{1, 1}}, .events = 20}, 1);
  EXPECT_TRUE(encode_row({.sources = {{1, 1}}, .pointers = {{1, 1}}, .events = 20}, 4));
}

TEST(Row, AllowedControlsAreTheOnesThatEncode) {
  const Send send{10, 6, 0, 1};
  for (std::int32_t event = 1; event < 20; ++event) {
    EXPECT_EQ(control_allowed(event, send),
              encode_row({.sends = {send}, .sources = {{event, 3}}, .events = 30}, 0).has_value())
        << event;
  }
}

TEST(Row, DecodeRefusesBrokenRows) {
  const auto refused = [](const Code& code) {
    const auto row = decode_row(code);
    return !row && row.error().kind == ErrorKind::corrupt;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({0x41800003}));
  EXPECT_TRUE(refused({0x43a00000}));
  EXPECT_TRUE(refused({0x41800003, 0x00000000, 0x43a00000}));
  EXPECT_TRUE(refused({0x41800003, 0x19250000, 0x43a00000}));  // setzi has no events
  EXPECT_TRUE(refused({0x41800003, 0x70000002, 0x43a00000}));  // continues nothing
  EXPECT_TRUE(refused({0x41800003, 0x78400001, 0x40a00001, 0x70000001, 0x43a00000}));
  EXPECT_TRUE(refused({0x41800003, 0x60040003, 0x43a00000}));  // receive format 3
  EXPECT_TRUE(refused({0x41800003, 0xf6600000}));              // half of sendpicp
  EXPECT_TRUE(refused({0x41800003, 0x43900000, 0x43a00000}));  // br of another register
}

TEST(Row, DecodesSkips) {
  const auto row = decode_row(Code{0x41800003, 0x78400001, 0x70000029, 0x43a00000});
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->schedule.sends, (std::vector<Send>{{0, 3, 0, 1}, {3, 1, 8, 1}}));
  EXPECT_EQ(row->send_code_word, (std::vector<std::uint32_t>{1, 2}));
}

// A random schedule whose controls avoid the starts of sends.
RowSchedule random_schedule(std::uint64_t seed) {
  std::uint64_t index = 0;
  const auto draw = [&](std::uint32_t limit) { return static_cast<std::int32_t>(random_bits(seed, index++) % limit); };
  RowSchedule row;
  std::int32_t at = draw(200);
  for (int sends = draw(6); sends > 0; --sends) {
    const std::int32_t words = 1 + (draw(4) == 0 ? draw(5000) : draw(150));
    row.sends.push_back({at, words, static_cast<std::uint32_t>(draw(0x3e000)),
                         static_cast<std::uint8_t>(1 + draw(3) + (words < 4096 ? 4 * draw(2) : 0))});
    at += words + (draw(2) ? draw(200) : 0);
  }
  const std::int32_t span = at + 300;
  const auto events_of = [&](int count) {
    std::vector<std::int32_t> events;
    for (int i = 0; i < count; ++i) {
      const std::int32_t event = 60 + draw(static_cast<std::uint32_t>(span));
      if (std::all_of(row.sends.begin(), row.sends.end(), [&](const Send& s) { return control_allowed(event, s); }))
        events.push_back(event);
    }
    std::sort(events.begin(), events.end());
    events.erase(std::unique(events.begin(), events.end()), events.end());
    return events;
  };
  for (const std::int32_t event : events_of(draw(12)))
    row.sources.push_back({event, static_cast<std::uint32_t>(draw(1 << 13)), draw(2) != 0});
  for (const std::int32_t event : events_of(draw(12)))
    row.pointers.push_back({event, static_cast<std::uint32_t>(draw(1 << 18))});
  // Some of both in one event.
  for (const SourceControl& source : row.sources)
    if (draw(3) == 0) row.pointers.push_back({source.event, 5});
  std::sort(row.pointers.begin(), row.pointers.end());
  row.pointers.erase(std::unique(row.pointers.begin(), row.pointers.end(),
                                 [](const auto& a, const auto& b) { return a.event == b.event; }),
                     row.pointers.end());
  // Receive formats stand alone.
  for (const std::int32_t event : events_of(draw(6))) {
    const auto same = [&](const auto& control) { return control.event == event; };
    if (std::none_of(row.sources.begin(), row.sources.end(), same) &&
        std::none_of(row.pointers.begin(), row.pointers.end(), same))
      row.formats.push_back({event, static_cast<std::uint32_t>(draw(3))});
  }
  row.events = span + 70;
  return row;
}

RC_GTEST_PROP(Row, DecodesToWhatWasEncoded, (std::uint64_t seed, bool odd)) {
  const RowSchedule schedule = random_schedule(seed);
  const std::uint32_t address = odd ? 0x4d004 : 0x4d000;
  const auto code = encode_row(schedule, address);
  RC_ASSERT(code.has_value());
  const auto decoded = decode_row(*code);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(equivalent(decoded->schedule, schedule));
  RC_ASSERT(decoded->words == code->size());
  for (std::uint32_t at = 0; at < code->size();) {  // alignment
    const Instruction instruction = decode(std::span(*code).subspan(at));
    RC_ASSERT(instruction.opcode != Opcode::sendpicp || (address / 4 + at) % 2 == 0);
    at += static_cast<std::uint32_t>(instruction.words());
  }
}

// Any words decode to a row or to an error.
RC_GTEST_PROP(Row, SurvivesAnyWords, (std::vector<std::uint32_t> words)) {
  words.insert(words.begin(), 0x41800003);
  for (std::uint32_t& word : words) word = word % 3 == 0 ? 0x60000000U + word * 0x9e3779b9U % 0x20000000U : word;
  words.front() = 0x41800003;
  const auto row = decode_row(words);
  RC_ASSERT(row.has_value() || row.error().kind == ErrorKind::corrupt);
}

}  // namespace
}  // namespace tw::hw
