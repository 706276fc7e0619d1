// tests/hw/isa/instruction_test.cpp: encodings against known words, and the round trip of every word.
#include "hw/isa/instruction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "hw/isa/table.h"

namespace tw::hw {
namespace {

Instruction decode_word(std::uint32_t word, std::uint32_t second = 0) {
  const std::uint32_t code[] = {word, second};
  return decode(code);
}

// Decoding and encoding again gives the same words, or the word is unknown.
bool round_trips(std::uint32_t word, std::uint32_t second) {
  const Instruction instruction = decode_word(word, second);
  if (instruction.word != word) return false;
  if (instruction.opcode == Opcode::unknown) return true;
  const auto again = encode(instruction);
  return again[0] == word && (instruction.words() == 1 || again[1] == second);
}

TEST(Instruction, KnownWordsOfSupervisorCode) {
  struct Case {
    std::uint32_t word;
    const char* text;
  };
  for (const Case& known : {
           Case{0x19250000, "setzi m2, 0x50000"},
           Case{0x18a13004, "call m10, 0x4c010"},
           Case{0x43a00000, "br m10"},
           Case{0x41800003, "sync 3"},
           Case{0x19e00000, "nop"},
           Case{0x430080a7, "put OUTGOING_BASE, m0"},
           Case{0x410300a4, "get m3, INCOMING_BASE"},
           Case{0x22b4ffff, "add m4, m11, -1"},
           Case{0x4200a002, "shl m0, m0, 2"},
           Case{0x42000fff, "and m0, m0, 4095"},
           Case{0x01b3f001, "ld32 m3, m11, m15, 1"},
           Case{0x4fb3f001, "st32 m3, m11, m15, 1"},
           Case{0x13a13004, "brz m10, 0x4c010"},
           Case{0x40c00000, "sans 0"},
           Case{0x4180100f, "trap 15"},
       }) {
    EXPECT_EQ(disassemble(decode_word(known.word)), known.text);
    EXPECT_TRUE(round_trips(known.word, 0));
  }
}

TEST(Instruction, KnownWordsOfExchangeRows) {
  struct Case {
    std::uint32_t word, second;
    const char* text;
  };
  for (const Case& known : {
           Case{0x40a00086, 0, "delay 135"},
           Case{0x78400001, 0, "send 3 words at 0x0, direction 1"},
           Case{0x7fe00002, 0, "send 64 words at 0x0, direction 2"},
           Case{0x70000002, 0, "sendoff 1 words, direction 2"},
           Case{0x766fc001, 0, "sendoff 4084 words, direction 1"},
           Case{0x641c0000, 0, "delayxpic 113, source 0x0"},
           Case{0x67ffc640, 0, "delayxpic 4096, source 0x640"},
           Case{0x61814000, 0, "delaypic 49, pointer 0x50000"},
           Case{0xf6600000, 0x03014048, "sendpicp 52, source 0xc0, pointer 0x50120"},
           Case{0xf7200000, 0x19017000, "sendpicp 58, source 0x640, pointer 0x5c000"},
       }) {
    EXPECT_EQ(disassemble(decode_word(known.word, known.second)), known.text);
    EXPECT_TRUE(round_trips(known.word, known.second));
  }
}

TEST(Instruction, FieldsKeepTheirValues) {
  const auto through = [](const Instruction& instruction) {
    const auto words = encode(instruction);
    return decode(words);
  };
  const Instruction skip = through({.opcode = Opcode::sendoff, .count = 4096, .delta = 2047, .sctl = 7});
  EXPECT_EQ(skip.count, 4096);
  EXPECT_EQ(skip.delta, 2047);
  const Instruction pointer = through({.opcode = Opcode::sendpic, .count = 64, .select = 2, .value = 0x3ffff});
  EXPECT_EQ(pointer.count, 64);
  EXPECT_EQ(pointer.select, 2);
  EXPECT_EQ(pointer.value, 0x3ffffU);
  const Instruction negative = through({.opcode = Opcode::add, .d = 1, .s = 2, .immediate = -32768});
  EXPECT_EQ(negative.immediate, -32768);
}

TEST(Instruction, TableRowsAreDistinct) {
  for (const Encoding& a : encodings())
    for (const Encoding& b : encodings()) {
      if (a.opcode == b.opcode || a.opcode == Opcode::nop || b.opcode == Opcode::nop) continue;
      EXPECT_NE(a.match & a.mask() & b.mask(), b.match & a.mask() & b.mask()) << a.name << " and " << b.name;
    }
}

TEST(Instruction, AliasComesFirst) {
  EXPECT_EQ(decode_word(0x19e00000).opcode, Opcode::nop);
  EXPECT_EQ(encode({.opcode = Opcode::setzi, .d = 14})[0], 0x19e00000U);
  EXPECT_EQ(decode_word(0x19e00001).opcode, Opcode::setzi);
}

TEST(Instruction, UnknownWordsStayUnknown) {
  for (const std::uint32_t word : {0x00000000U, 0xffffffffU, 0x40000000U, 0x41800010U, 0x43a00001U, 0x70180000U << 1}) {
    const Instruction instruction = decode_word(word);
    EXPECT_TRUE(round_trips(word, 0));
    if (instruction.opcode != Opcode::unknown) continue;
    EXPECT_EQ(disassemble(instruction), fmt::format(".word 0x{:08x} (unknown)", word));
  }
  EXPECT_EQ(decode_word(0x00000000).opcode, Opcode::unknown);
  const std::uint32_t lonely[] = {0xf6600000};
  EXPECT_EQ(decode(lonely).opcode, Opcode::unknown);
  EXPECT_EQ(decode({}).opcode, Opcode::unknown);
}

TEST(Instruction, EveryPatternOfUpperBitsRoundTrips) {
  for (std::uint32_t high = 0; high < 0x10000; ++high)
    for (const std::uint32_t low : {0x0000U, 0x0003U, 0x8085U, 0xa00cU, 0xffffU}) {
      ASSERT_TRUE(round_trips(high << 16 | low, 0x12345678U)) << std::hex << (high << 16 | low);
    }
}

RC_GTEST_PROP(Instruction, AnyWordRoundTrips, (std::uint32_t word, std::uint32_t second)) {
  RC_ASSERT(round_trips(word * 0x9e3779b9U, second));
}

TEST(InstructionDeathTest, RefusesFieldsOutOfRange) {
  EXPECT_DEATH(encode({.opcode = Opcode::send, .count = 65, .sctl = 1}), "does not fit");
  EXPECT_DEATH(encode({.opcode = Opcode::sendoff, .count = 4097, .sctl = 1}), "does not fit");
  EXPECT_DEATH(encode({.opcode = Opcode::delay, .count = 0}), "does not fit");
  EXPECT_DEATH(encode({.opcode = Opcode::call, .d = 1, .immediate = 2}), "does not fit");
}

}  // namespace
}  // namespace tw::hw
