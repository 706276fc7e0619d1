// tests/simulator/system/simulation_test.cpp: hand-made programs through the whole simulated machine.
#include "simulator/system/simulation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "hand_made.h"
#include "hw/base/parallel.h"

namespace tw::test {
namespace {

// Adds an output of `words` words of one tile, as the program's last stage.
void output(HandMade& made, std::uint32_t tile, std::uint32_t address, std::uint32_t words,
            std::uint64_t host_base = 0) {
  const std::string name = "y" + std::to_string(made.program.bindings.size());
  made.binding(name, false, words * 4, host_base);
  made.stage(hw::StageKind::host_output, name);
  made.host(tile, made.packets(tile, false, address, words * 4, host_base));
}

std::vector<std::uint32_t> words_of(const sim::RunResult& result, const std::string& name = "y0") {
  EXPECT_FALSE(result.fault) << text_of(result);
  const auto found = result.outputs.find(name);
  if (found == result.outputs.end()) return {};
  std::vector<std::uint32_t> words(found->second.size() / 4);
  std::memcpy(words.data(), found->second.data(), words.size() * 4);
  return words;
}

void expect_consistent(const sim::RunResult& result) {
  EXPECT_EQ(result.compute_cycles + result.exchange_cycles + result.sync_cycles + result.host_cycles, result.cycles);
  std::int64_t stages = 0;
  for (const sim::StageResult& stage : result.stages) stages += stage.cycles;
  EXPECT_EQ(stages, result.cycles);
  EXPECT_GE(result.idle_fraction, 0.0);
  EXPECT_LE(result.idle_fraction, 1.0);
}

hw::KernelParams runs(hw::KernelKind kind, std::int32_t bytes) {
  hw::KernelParams p;
  p.kind = kind;
  p.rows = 1;
  p.elements = p.row_stride = p.out_row_stride = bytes;
  return p;
}

// Rows of three F16 at `address`, one row block a tile.
hw::Checkpoint checkpoint(const std::string& operation, std::int32_t stage, std::vector<std::int32_t> row_cuts,
                          std::uint32_t address) {
  hw::Checkpoint point;
  point.operation = operation;
  point.value = operation + ".value";
  point.shape = {row_cuts.back(), 3};
  point.view = hw::plain_view(row_cuts.back(), 3);
  point.layout.groups = {1, 3, 16};
  point.layout.row_cuts = std::move(row_cuts);
  point.layout.column_cuts = {0, 16};
  point.layout.first_tile = 6;
  point.block_address_bytes.assign(static_cast<std::size_t>(point.layout.blocks()), address);
  point.stage = {static_cast<std::uint32_t>(stage)};
  return point;
}

sim::RunResult run_with_checkpoints(HandMade& made) {
  sim::Options options;
  options.checkpoints = {"*"};
  sim::RunResult result = run(made.finish(), {}, options);
  EXPECT_FALSE(result.fault) << text_of(result);
  return result;
}

TEST(Supervisor, arithmetic_and_control) {
  HandMade made;
  Code& code = made.tiles[7];
  code.setzi(8, data);
  code.setzi(2, 0xfffff).emit({.opcode = Opcode::add, .d = 3, .s = 2, .immediate = -1}).store(3, 8, 0);
  code.emit({.opcode = Opcode::and_, .d = 3, .s = 2, .immediate = 0x5a5}).store(3, 8, 1);
  code.emit({.opcode = Opcode::shl, .d = 3, .s = 2, .immediate = 12}).store(3, 8, 2);
  code.setzi(15, 77).emit({.opcode = Opcode::add, .d = 3, .s = 15, .immediate = 5}).store(3, 8, 3);
  code.setzi(4, 0x123)
      .put(hw::csr::outgoing_base, 4)
      .emit({.opcode = Opcode::get, .d = 3, .immediate = hw::csr::outgoing_base})
      .store(3, 8, 4);
  code.load(3, 8, 1).store(3, 8, 5);
  // brz: not taken on 1, taken on 0; what it jumps over would store 9.
  const auto skip = [&](std::uint32_t tested, int offset) {
    code.setzi(3, tested).setzi(4, 9).setzi(5, 8);
    code.emit({.opcode = Opcode::brz, .d = 3, .immediate = static_cast<std::int32_t>(code.here() + 8)});
    code.emit({.opcode = Opcode::add, .d = 5, .s = 4, .immediate = 0}).store(5, 8, offset);
  };
  skip(1, 6);
  skip(0, 7);
  // A subroutine behind an unconditional branch.
  code.setzi(4, code.here() + 4 * 4).emit({.opcode = Opcode::br, .s = 4});
  const std::uint32_t routine = code.here();
  code.setzi(3, 0xabc).emit({.opcode = Opcode::br, .s = 10});
  code.call(routine).store(3, 8, 8);
  output(made, 7, data, 9);
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(words_of(result), (std::vector<std::uint32_t>{0xffffe, 0x5a5, 0xfffff000, 5, 0x123, 0x5a5, 9, 8, 0xabc}));
  expect_consistent(result);
}

TEST(Supervisor, every_instruction_takes_one_issue_slot) {
  HandMade made;
  for (int count = 0; count < 9; ++count) made.tiles[3].emit({.opcode = Opcode::nop});
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(result.cycles, 10 * small_machine().supervisor_cycles);  // and the trap
  EXPECT_EQ(result.compute_cycles, result.cycles);
  EXPECT_EQ(result.tile_busy_cycles[3], result.cycles);
  EXPECT_EQ(result.tile_busy_cycles[4], small_machine().supervisor_cycles);
}

TEST(Host, bytes_make_the_round_trip) {
  for (const std::uint32_t bytes : {4U, 60U, 64U, 100U, 300U, 1000U}) {
    HandMade made;
    made.binding("x", true, bytes, 8192);
    made.stage(hw::StageKind::host_input, "x");
    made.host(11, made.packets(11, true, window + 64, bytes, 8192));
    output(made, 11, window + 64, bytes / 4);
    std::vector<std::uint32_t> words(bytes / 4);
    std::iota(words.begin(), words.end(), 1000U);
    const sim::RunResult result = run(made.finish(), {{"x", bytes_of_words(words)}});
    EXPECT_EQ(words_of(result, "y1"), words);
    EXPECT_EQ(result.phases, 0);
    EXPECT_EQ(result.stages[1].executions, 1);
    EXPECT_GT(result.host_cycles, 4 * small_machine().host.sync_cycles);
    expect_consistent(result);
  }
}

TEST(Exchange, one_message_and_its_cycles) {
  const hw::Machine& machine = small_machine();
  HandMade made;
  made.segment(4, data, {1, 2, 3, 4, 5});
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {4, 50, 5, data, region1});
  made.stage(hw::StageKind::exchange, "gather");
  made.exchange(rows);
  output(made, 50, region1, 5);
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(words_of(result), (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(result.phases, 1);
  EXPECT_EQ(result.sync_cycles, machine.fabric.barrier_cycles);
  EXPECT_EQ(result.exchange_cycles, rows[50].events);
  EXPECT_EQ(result.tile_words_in[50], 5);
  EXPECT_EQ(result.tile_words_out[4], 5);
  const sim::StageResult& stage = result.stages[1];
  EXPECT_EQ(stage.executions, 1);
  EXPECT_EQ(stage.words, 5);
  EXPECT_EQ(stage.busiest_words, 5);
  EXPECT_EQ(stage.start_cycle, 0);
  EXPECT_EQ(stage.end_cycle, 2 * machine.supervisor_cycles + machine.fabric.barrier_cycles + rows[50].events);
  expect_consistent(result);
}

TEST(Exchange, bases_move_the_addresses) {
  HandMade made;
  made.segment(4, data + 0x200, {1, 2, 3});
  made.tiles[4].setzi(2, 0x200).put(hw::csr::outgoing_base, 2);
  made.tiles[50].setzi(2, 0x400).put(hw::csr::incoming_base, 2);
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {4, 50, 3, data, region1});
  made.exchange(rows);
  output(made, 50, region1 + 0x400, 3);
  EXPECT_EQ(words_of(run(made.finish())), (std::vector<std::uint32_t>{1, 2, 3}));
}

// A tile passes on what it has just received, and another receives over what it has just sent.
TEST(Exchange, words_of_one_phase_move_in_order) {
  HandMade made;
  made.segment(4, data, {1, 2, 3});
  made.segment(20, region1, {7, 8, 9});
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {20, 30, 3, region1, 0xa0000, 130});
  add(rows, {4, 20, 3, data, region1, 500});
  add(rows, {20, 40, 3, region1, 0xa0000, 900});
  made.exchange(rows);
  output(made, 30, 0xa0000, 3, 0);
  output(made, 40, 0xa0000, 3, 4096);
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(words_of(result, "y0"), (std::vector<std::uint32_t>{7, 8, 9}));
  EXPECT_EQ(words_of(result, "y1"), (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST(Barrier, waits_for_the_last_tile) {
  const hw::Machine& machine = small_machine();
  HandMade made;
  for (int count = 0; count < 20; ++count) made.tiles[9].emit({.opcode = Opcode::nop});
  for (Code& code : made.tiles) code.sync(3);
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(result.cycles, 22 * machine.supervisor_cycles + machine.fabric.barrier_cycles);
  EXPECT_GT(result.idle_fraction, 0.8);
  expect_consistent(result);
}

// A tile that said `sans 0` does not hold the others up; they wait for it at the next barrier.
TEST(Barrier, does_not_wait_for_inactive_tiles) {
  const hw::Machine& machine = small_machine();
  HandMade made;
  made.tiles[9].emit({.opcode = Opcode::sans, .immediate = 0});
  for (int count = 0; count < 1000; ++count) made.tiles[9].emit({.opcode = Opcode::nop});
  for (Code& code : made.tiles) code.sync(3);
  made.stage(hw::StageKind::compute, "after");
  for (Code& code : made.tiles) code.emit({.opcode = Opcode::nop});
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(result.cycles, 1004 * machine.supervisor_cycles);
  EXPECT_EQ(result.sync_cycles, machine.fabric.barrier_cycles);
  EXPECT_EQ(result.tile_busy_cycles[9], result.cycles);
  EXPECT_EQ(result.stages[1].cycles, 2 * machine.supervisor_cycles);
  expect_consistent(result);
}

TEST(Kernel, is_charged_and_computed_in_order) {
  HandMade made;
  hw::KernelParams add_one;
  add_one.kind = hw::KernelKind::binary;
  add_one.rows = add_one.row_stride = add_one.out_row_stride = 1;
  add_one.columns = 16;
  add_one.has_scalar = true;
  add_one.scalar = 1.0F;
  const std::uint32_t entry = made.kernel(add_one);
  made.segment(2, data, std::vector<std::uint32_t>(8, 0x3c003c00));  // 1.0 twice
  for (int count = 0; count < 3; ++count) made.tiles[2].setzi(2, data).setzi(3, data).call(entry);
  output(made, 2, data, 8);
  const sim::RunResult result = run(made.finish());
  EXPECT_EQ(words_of(result), std::vector<std::uint32_t>(8, 0x44004400));  // 4.0
  EXPECT_EQ(result.stages[0].busiest_tile_cycles,
            3 * (3 * small_machine().supervisor_cycles + hw::cycles(add_one, small_machine())));
}

// A loop of five iterations: each passes a word on to the next tile.
HandMade loop_program() {
  HandMade made;
  made.segment(0, region1, {42});
  made.stage(hw::StageKind::loop_begin, "loop", 5);
  for (Code& code : made.tiles) code.setzi(12, 5);
  const std::uint32_t top = made.tiles[10].here();
  made.stage(hw::StageKind::exchange, "pass", 5);
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {0, 10, 1, region1, region1});
  made.exchange(rows);
  made.stage(hw::StageKind::loop_end, "loop", 5);
  for (Code& code : made.tiles) {
    code.emit({.opcode = Opcode::add, .d = 12, .s = 12, .immediate = -1});
    code.emit({.opcode = Opcode::brz, .d = 12, .immediate = static_cast<std::int32_t>(code.here() + 12)});
    code.setzi(9, top).emit({.opcode = Opcode::br, .s = 9});
  }
  return made;
}

TEST(Loop, steady_state_and_executions) {
  const hw::Machine& machine = small_machine();
  HandMade made = loop_program();
  output(made, 10, region1, 1);
  const hw::Program& program = made.finish();
  const sim::RunResult result = run(program);
  EXPECT_EQ(words_of(result), std::vector<std::uint32_t>{42});
  EXPECT_EQ(result.phases, 5);
  EXPECT_EQ(result.stages[2].executions, 5);
  EXPECT_EQ(result.stages[3].executions, 5);
  // call, sync, add, brz, setzi, br, the barrier and the longest row.
  EXPECT_EQ(result.cycles_per_iteration,
            6 * machine.supervisor_cycles + machine.fabric.barrier_cycles + made.tiles[10].rows[0].second.events);
  EXPECT_EQ(result.stages[2].words, 5);
  EXPECT_LT(result.stages[2].end_cycle, result.cycles_per_iteration * 2);
  expect_consistent(result);
}

bool equal(const sim::RunResult& a, const sim::RunResult& b) {
  return a.cycles == b.cycles && a.compute_cycles == b.compute_cycles && a.exchange_cycles == b.exchange_cycles &&
         a.sync_cycles == b.sync_cycles && a.host_cycles == b.host_cycles && a.tile_busy_cycles == b.tile_busy_cycles &&
         a.tile_words_in == b.tile_words_in && a.tile_words_out == b.tile_words_out &&
         a.cycles_per_iteration == b.cycles_per_iteration && a.phases == b.phases;
}

TEST(Simulation, another_run_equals_a_fresh_one) {
  HandMade made = loop_program();
  output(made, 10, region1, 1);
  const hw::Program& program = made.finish();
  const sim::RunResult fresh = run(program);
  auto simulation = *sim::Simulation::create(program, {});
  const sim::RunResult first = *simulation->run({}), second = *simulation->run({});
  EXPECT_TRUE(equal(fresh, first));
  EXPECT_TRUE(equal(first, second));
  EXPECT_EQ(first.outputs, second.outputs);
}

// What one run wrote counts as unwritten in the next.
TEST(Simulation, another_run_starts_from_the_loaded_program) {
  HandMade made;
  const std::uint32_t flag = data;
  made.segment(3, flag, {0});
  Code& code = made.tiles[3];
  code.setzi(8, flag).load(2, 8).setzi(3, data + 64);
  code.store(2, 3).load(4, 3);
  output(made, 3, data + 64, 1);
  const hw::Program& program = made.finish();
  auto simulation = *sim::Simulation::create(program, {});
  EXPECT_FALSE((*simulation->run({})).fault);
  EXPECT_FALSE((*simulation->run({})).fault);
}

TEST(Simulation, timing_only_takes_the_same_cycles) {
  HandMade made = loop_program();
  output(made, 10, region1, 100);
  made.segment(10, region1 + 4, std::vector<std::uint32_t>(99, 1));
  hw::Program program = made.finish();
  const sim::RunResult full = run(program);
  program.has_weights = false;
  sim::Options options;
  options.timing_only = true;
  const sim::RunResult timing = run(program, {}, options);
  EXPECT_FALSE(timing.fault) << text_of(timing);
  EXPECT_TRUE(equal(full, timing));
  EXPECT_TRUE(timing.outputs.empty());
}

TEST(Simulation, a_fault_ends_a_run_and_not_the_process) {
  HandMade bad;
  bad.tiles[3].word(0xffffffff);
  EXPECT_TRUE(run(bad.finish()).fault);
  HandMade good = loop_program();
  output(good, 10, region1, 1);
  EXPECT_EQ(words_of(run(good.finish())), std::vector<std::uint32_t>{42});
}

TEST(Simulation, equal_for_every_number_of_threads) {
  std::vector<sim::RunResult> results;
  for (const int threads : {1, 2, 0}) {
    set_thread_limit(threads);
    HandMade made = loop_program();
    output(made, 10, region1, 1);
    results.push_back(run(made.finish()));
  }
  EXPECT_TRUE(equal(results[0], results[1]));
  EXPECT_TRUE(equal(results[0], results[2]));
  EXPECT_EQ(results[0].outputs, results[1].outputs);
}

TEST(Simulation, refuses_what_it_cannot_run) {
  HandMade made = loop_program();
  hw::Program program = made.finish();
  auto alive = sim::Simulation::create(program, {});
  ASSERT_TRUE(alive);
  EXPECT_FALSE(sim::Simulation::create(program, {}));
  alive->reset();
  const auto corrupt = [](const hw::Program& damaged) {
    const auto result = sim::Simulation::create(damaged, {});
    return !result && result.error().kind == ErrorKind::corrupt;
  };
  hw::Program damaged = program;
  damaged.tiles.pop_back();
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.tiles[5].entries.push_back({0x4c100, 3});
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.tiles[5].origins.push_back({0, 1, {99}});
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.tiles[5].segments.push_back({0xe7ffc, std::vector<std::byte>(8)});
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.parameters.push_back({64, data, 4, std::vector<std::byte>(4)});
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.checkpoints.push_back(checkpoint("x", 0, {0, 2}, region1));
  damaged.checkpoints[0].shape = {1, 3};
  EXPECT_TRUE(corrupt(damaged));
  damaged = program;
  damaged.has_weights = false;
  EXPECT_FALSE(sim::Simulation::create(damaged, {}));
}

constexpr std::uint32_t two_one = 0x3c004000;  // F16: 2.0, 1.0

TEST(Checkpoint, is_read_when_its_stage_has_ended) {
  HandMade made;
  const std::uint32_t copy = made.kernel(runs(hw::KernelKind::copy, 64)),
                      fill = made.kernel(runs(hw::KernelKind::fill, 64));
  made.segment(6, data, std::vector<std::uint32_t>(16, two_one));
  const std::int32_t first = made.stage(hw::StageKind::compute, "first");
  made.tiles[6].setzi(2, region1).setzi(3, data).call(copy);
  made.stage(hw::StageKind::compute, "second");
  made.tiles[6].setzi(2, region1).call(fill);  // the same memory again
  made.program.checkpoints.push_back(checkpoint("first", first, {0, 2}, region1));
  const sim::RunResult result = run_with_checkpoints(made);
  ASSERT_EQ(result.checkpoints.size(), 1U);
  EXPECT_EQ(result.checkpoints[0].operation, "first");
  EXPECT_EQ(result.checkpoints[0].data, (std::vector<float>{2, 1, 2, 2, 1, 2}));
}

TEST(Checkpoint, of_what_an_exchange_brought) {
  HandMade made;
  made.segment(3, data, std::vector<std::uint32_t>(8, two_one));
  std::map<std::uint32_t, hw::RowSchedule> rows;
  add(rows, {3, 6, 8, data, region1});
  made.program.checkpoints.push_back(
      checkpoint("relayout", made.stage(hw::StageKind::exchange, "relayout"), {0, 1}, region1));
  made.exchange(rows);
  const sim::RunResult result = run_with_checkpoints(made);
  ASSERT_EQ(result.checkpoints.size(), 1U);
  EXPECT_EQ(result.checkpoints[0].data, (std::vector<float>{2, 1, 2}));
}

// No barrier lies between the end of one iteration, which only tile 6 works in, and the begin of the next.
TEST(Checkpoint, of_every_iteration) {
  HandMade made;
  const std::uint32_t copy = made.kernel(runs(hw::KernelKind::copy, 32)),
                      fill = made.kernel(runs(hw::KernelKind::fill, 32));
  for (const std::uint32_t tile : {6U, 7U}) made.segment(tile, data, std::vector<std::uint32_t>(8, two_one));
  made.stage(hw::StageKind::loop_begin, "loop", 3);
  for (Code& code : made.tiles) code.setzi(12, 3);
  const std::int32_t first = made.stage(hw::StageKind::compute, "first", 3);
  std::vector<std::uint32_t> top;
  for (Code& code : made.tiles) top.push_back(code.here());
  for (const std::uint32_t tile : {6U, 7U}) made.tiles[tile].setzi(2, region1).setzi(3, data).call(copy);
  made.stage(hw::StageKind::exchange, "barrier", 3);
  made.exchange({});
  made.stage(hw::StageKind::compute, "last", 3);
  made.tiles[6].setzi(2, region1).call(fill);
  made.stage(hw::StageKind::loop_end, "loop", 3);
  for (std::size_t tile = 0; tile < made.tiles.size(); ++tile) {
    Code& code = made.tiles[tile];
    code.emit({.opcode = Opcode::add, .d = 12, .s = 12, .immediate = -1});
    code.emit({.opcode = Opcode::brz, .d = 12, .immediate = static_cast<std::int32_t>(code.here() + 12)});
    code.setzi(9, top[tile]).emit({.opcode = Opcode::br, .s = 9});
  }
  made.program.checkpoints.push_back(checkpoint("first", first, {0, 1, 2}, region1));
  const sim::RunResult result = run_with_checkpoints(made);
  ASSERT_EQ(result.checkpoints.size(), 3U);
  for (std::size_t iteration = 0; iteration < 3; ++iteration) {
    EXPECT_EQ(result.checkpoints[iteration].iteration, static_cast<std::int64_t>(iteration));
    EXPECT_EQ(result.checkpoints[iteration].data, (std::vector<float>{2, 1, 2, 2, 1, 2}));
  }
}

}  // namespace
}  // namespace tw::test
