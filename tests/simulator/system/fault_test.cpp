// tests/simulator/system/fault_test.cpp: every kind of fault, provoked by a hand-made program.
#include "simulator/system/fault.h"

#include <gtest/gtest.h>

#include <functional>

#include "hand_made.h"

namespace tw::test {
namespace {

constexpr std::uint32_t suspect = 5;  // the tile that does it

sim::Fault fault_of(HandMade& made) {
  const sim::RunResult result = run(made.finish());
  EXPECT_TRUE(result.fault);
  const sim::Fault fault = result.fault.value_or(sim::Fault{});
  EXPECT_FALSE(fault.hint.empty());
  EXPECT_FALSE(fault.message.empty());
  return fault;
}

hw::KernelParams copy_of(int bytes) {
  hw::KernelParams p;
  p.kind = hw::KernelKind::copy;
  p.rows = 1;
  p.elements = p.row_stride = p.out_row_stride = bytes;
  return p;
}

hw::KernelParams small_gemm() {
  hw::KernelParams p;
  p.kind = hw::KernelKind::gemm;
  p.rows = p.row_stride = p.out_row_stride = 4;
  p.inner = p.columns = p.coefficient_stride = 16;
  return p;
}

TEST(Fault, table_names_every_kind_once) {
  for (std::size_t index = 0; index < sim::fault_table().size(); ++index)
    EXPECT_EQ(static_cast<std::size_t>(sim::fault_table()[index].kind), index);
}

TEST(Fault, carries_its_place) {
  HandMade made;
  made.stage(hw::StageKind::compute, "block/mlp");
  made.tiles[suspect].setzi(3, data).load(2, 3);
  const sim::Fault fault = fault_of(made);
  EXPECT_EQ(fault.kind, "unwritten_read");
  EXPECT_EQ(fault.tile, suspect);
  EXPECT_EQ(fault.cycle, 6);
  EXPECT_EQ(fault.pc, code_address + 4);
  EXPECT_NE(fault.instruction.find("ld32"), std::string::npos) << fault.instruction;
  EXPECT_EQ(fault.operation, "block/mlp");
  EXPECT_EQ(fault.stage, "block/mlp stage");
  EXPECT_NE(fault.message.find("0x5c000"), std::string::npos) << fault.message;
}

// Tiles run one after the other in the simulator: the earliest in simulated time is reported all the same.
TEST(Fault, earliest_in_time_wins) {
  HandMade made;
  made.tiles[1].emit({.opcode = Opcode::nop}).emit({.opcode = Opcode::nop}).word(0xffffffff);
  made.tiles[40].emit({.opcode = Opcode::nop}).word(0xffffffff);
  made.tiles[50].emit({.opcode = Opcode::nop}).word(0xffffffff);
  const sim::Fault fault = fault_of(made);
  EXPECT_EQ(fault.tile, 40);
  EXPECT_EQ(fault.cycle, 6);
}

TEST(Fault, unwritten_read_by_a_kernel_and_by_a_send) {
  HandMade kernel;
  const std::uint32_t entry = kernel.kernel(copy_of(16));
  kernel.tiles[suspect].poke(data, 1).setzi(2, region1).setzi(3, data).call(entry);
  EXPECT_EQ(fault_of(kernel).kind, "unwritten_read");
  HandMade send;
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {suspect, 9, 4, data, region1});
  send.exchange(rows);
  const sim::Fault fault = fault_of(send);
  EXPECT_EQ(fault.kind, "unwritten_read");
  EXPECT_EQ(fault.tile, suspect);
}

TEST(Fault, out_of_range) {
  for (const std::uint32_t address : {0x4bffcU, 0xe8000U, 0xffffcU}) {
    HandMade made;
    made.tiles[suspect].setzi(3, address).load(2, 3);
    EXPECT_EQ(fault_of(made).kind, "out_of_range") << address;
  }
  HandMade operand;
  const std::uint32_t entry = operand.kernel(copy_of(64));
  operand.tiles[suspect].setzi(2, 0xe7fe0).setzi(3, data).call(entry);
  EXPECT_EQ(fault_of(operand).kind, "out_of_range");
  HandMade send;
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {suspect, 9, 4, 0xe7ff8, region1});
  send.exchange(rows);
  EXPECT_EQ(fault_of(send).kind, "out_of_range");
}

TEST(Fault, out_of_range_over_the_program) {
  HandMade store;
  store.tiles[suspect].setzi(3, code_address).store(3, 3);
  EXPECT_EQ(fault_of(store).kind, "out_of_range");
  HandMade kernel;
  const std::uint32_t entry = kernel.kernel(copy_of(16));
  kernel.segment(suspect, data, {1, 2, 3, 4});
  kernel.tiles[suspect].setzi(2, code_address).setzi(3, data).call(entry);
  EXPECT_EQ(fault_of(kernel).kind, "out_of_range");
}

TEST(Fault, unaligned) {
  HandMade made;
  made.tiles[suspect].setzi(3, data + 2).load(2, 3);
  EXPECT_EQ(fault_of(made).kind, "unaligned");
  HandMade kernel;
  const std::uint32_t entry = kernel.kernel(copy_of(16));
  kernel.tiles[suspect].setzi(2, region1 + 2).setzi(3, data).call(entry);
  EXPECT_EQ(fault_of(kernel).kind, "unaligned");
}

TEST(Fault, undriven_bus) {
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {suspect, 9, 4, data, region1});
  HandMade silent;
  silent.exchange({{9, rows[9]}});  // the sender stays away
  EXPECT_EQ(fault_of(silent).kind, "undriven_bus");

  HandMade late;
  late.segment(suspect, data, {1, 2, 3, 4});
  auto shifted = rows;
  for (hw::SourceControl& control : shifted[9].sources) control.event += 1;
  late.exchange(shifted);
  const sim::Fault fault = fault_of(late);
  EXPECT_EQ(fault.kind, "undriven_bus");
  EXPECT_EQ(fault.tile, 9);

  std::map<std::uint32_t, hw::RowSchedule> other;
  const int direction =
      hw::direction(hw::physical_of({suspect}, small_machine()), hw::physical_of({9}, small_machine()));
  add(other, {suspect, 9, 4, data, region1}, static_cast<std::uint8_t>(3 - direction));
  HandMade away;
  away.segment(suspect, data, {1, 2, 3, 4});
  away.exchange(other);
  EXPECT_EQ(fault_of(away).kind, "undriven_bus");
}

TEST(Fault, mistimed_write) {
  for (const bool late : {false, true}) {
    std::map<std::uint32_t, hw::RowSchedule> rows;
    add(rows, {suspect, 9, 4, data, region1});
    if (late) {
      rows[9].pointers[0].event += 1;
    } else {
      rows[9].pointers.clear();
    }
    HandMade made;
    made.segment(suspect, data, {1, 2, 3, 4});
    made.exchange(rows);
    const sim::Fault fault = fault_of(made);
    EXPECT_EQ(fault.kind, "mistimed_write");
    EXPECT_EQ(fault.tile, 9);
    EXPECT_GT(fault.cycle, small_machine().fabric.barrier_cycles);
  }
}

TEST(Fault, element_conflict_of_kernel_operands) {
  HandMade region;
  std::uint32_t entry = region.kernel(small_gemm());
  region.tiles[suspect].setzi(2, data).setzi(3, headers).setzi(4, region1).call(entry);
  EXPECT_EQ(fault_of(region).kind, "element_conflict");

  HandMade shared;  // left operand and output in one element of region 1
  entry = shared.kernel(small_gemm());
  shared.segment(suspect, region1 + 0x1000, std::vector<std::uint32_t>(32, 0));
  shared.segment(suspect, 0xa0000, std::vector<std::uint32_t>(128, 0));
  shared.tiles[suspect].setzi(2, region1).setzi(3, region1 + 0x1000).setzi(4, 0xa0000).call(entry);
  EXPECT_EQ(fault_of(shared).kind, "element_conflict");
}

TEST(Fault, element_conflict_in_a_row) {
  // Both tiles send while they receive in one element.
  const auto conflict = [](std::uint32_t target) {
    HandMade made;
    made.segment(suspect, region1, std::vector<std::uint32_t>(100, 1));
    made.segment(9, region1, std::vector<std::uint32_t>(100, 1));
    std::map<std::uint32_t, hw::RowSchedule> rows;
    add(rows, {suspect, 9, 100, region1, target, 130});
    add(rows, {9, suspect, 100, region1, target, 130});
    // One pointer and one pair of source controls beside each send: shifted sends keep them apart.
    made.exchange(rows);
    return run(made.finish());
  };
  const sim::RunResult same = conflict(region1 + 0x1000);
  ASSERT_TRUE(same.fault);
  EXPECT_EQ(same.fault->kind, "element_conflict") << same.fault->message;
  EXPECT_FALSE(conflict(0xa0000).fault) << text_of(conflict(0xa0000));
  const sim::RunResult fetched = conflict(code_address + 0x2000);  // the element that rows are fetched from
  ASSERT_TRUE(fetched.fault);
  EXPECT_EQ(fetched.fault->kind, "element_conflict");
}

TEST(Fault, unknown_instruction) {
  const std::vector<hw::Instruction> instructions{{.opcode = Opcode::sync, .immediate = 7},
                                                  {.opcode = Opcode::trap, .immediate = 15},
                                                  {.opcode = Opcode::delay, .count = 4},
                                                  {.opcode = Opcode::send, .count = 1, .address = data / 4, .sctl = 3}};
  for (const hw::Instruction& instruction : instructions) {
    HandMade made;
    made.tiles[suspect].emit(instruction);
    EXPECT_EQ(fault_of(made).kind, "unknown_instruction") << hw::disassemble(instruction);
  }
  HandMade word;
  word.tiles[suspect].word(0xdeadbeef);
  EXPECT_EQ(fault_of(word).kind, "unknown_instruction");
  HandMade away;  // a branch to where no code lies
  away.tiles[suspect].setzi(3, data).emit({.opcode = Opcode::br, .s = 3});
  const sim::Fault fault = fault_of(away);
  EXPECT_EQ(fault.kind, "unknown_instruction");
  EXPECT_EQ(fault.instruction, "(no code)");
}

TEST(Fault, unknown_kernel) {
  HandMade made;
  made.tiles[suspect].call(kernel_address);
  const sim::Fault fault = fault_of(made);
  EXPECT_EQ(fault.kind, "unknown_kernel");
  EXPECT_EQ(fault.pc, code_address);
}

TEST(Fault, deadlock_names_who_is_missing) {
  HandMade made;
  for (std::uint32_t tile = 0; tile < made.tiles.size(); ++tile)
    if (tile != suspect) made.tiles[tile].sync(3);
  const sim::Fault fault = fault_of(made);
  EXPECT_EQ(fault.kind, "deadlock");
  EXPECT_EQ(fault.tile, suspect);
  EXPECT_NE(fault.message.find("63 tiles"), std::string::npos) << fault.message;
  HandMade zones;
  for (std::uint32_t tile = 0; tile < zones.tiles.size(); ++tile) zones.tiles[tile].sync(tile == suspect ? 15 : 3);
  EXPECT_EQ(fault_of(zones).kind, "deadlock");
}

TEST(Fault, runaway) {
  HandMade made;
  made.tiles[suspect].setzi(3, code_address).emit({.opcode = Opcode::br, .s = 3});
  EXPECT_EQ(fault_of(made).kind, "runaway");
}

// One field of a good exchange damaged at a time.
TEST(Fault, host_protocol) {
  using Packets = std::vector<HandMade::Packet>;
  const auto fault_kind = [](bool input, const std::function<void(Packets&)>& damage, int spacing = 18,
                             std::uint32_t bytes = 100) {
    HandMade made;
    made.binding("x", input, bytes, 4096);
    made.segment(suspect, data, std::vector<std::uint32_t>(bytes / 4, 3));
    made.stage(input ? hw::StageKind::host_input : hw::StageKind::host_output, "x");
    Packets packets = made.packets(suspect, input, input ? window : data, bytes, 4096);
    damage(packets);
    made.host(suspect, packets, spacing);
    const sim::RunResult result = run(made.finish());
    return result.fault ? result.fault->kind : std::string("none");
  };
  EXPECT_EQ(fault_kind(true, [](Packets&) {}), "none");
  EXPECT_EQ(fault_kind(false, [](Packets&) {}), "none");
  const std::string bad = "host_protocol";
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[0].word0 &= 0x7fffffff; }), bad);    // no kind
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[0].word0 ^= 1 << 17; }), bad);       // another tile's route
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[0].word1 ^= 0x80000000; }), bad);    // route bit
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[0].word0 |= 0x0c000000; }), bad);    // last, but more follow
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[1].word0 &= ~0x0c000000U; }), bad);  // never the last
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[1].word0 |= 0x1ff; }), bad);         // leaves the window
  EXPECT_EQ(fault_kind(true, [](Packets& p) { p[1].word1 += 16; }), bad);            // leaves the buffer
  EXPECT_EQ(fault_kind(false, [](Packets& p) { p.pop_back(); }), bad);               // not closed
  EXPECT_EQ(fault_kind(false, [](Packets& p) { p[1].payload_bytes -= 4; }), bad);    // payload too short
  EXPECT_EQ(fault_kind(
                false, [](Packets&) {}, 0, 20),
            bad);                                                          // too close in time
  EXPECT_EQ(fault_kind(false, [](Packets& p) { p[0].word1 += 4; }), bad);  // 320 bytes, 256 are allowed
}

TEST(Fault, host_protocol_of_the_selection) {
  HandMade made;
  made.binding("x", true, 4, 4096);
  made.stage(hw::StageKind::host_input, "x");
  made.host(suspect, made.packets(suspect, true, window, 4, 4096));
  made.tiles[suspect].words[0] = hw::encode({.opcode = Opcode::setzi, .d = 9, .immediate = 0x640})[0];
  EXPECT_EQ(fault_of(made).kind, "host_protocol");
}

}  // namespace
}  // namespace tw::test
