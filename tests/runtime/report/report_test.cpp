// tests/runtime/report/report_test.cpp: a small made-up run becomes a page with its figures in it.
#include "runtime/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/report/figures.h"
#include "runtime/report/html.h"

namespace tw::runtime {
namespace {

using Use = hw::BufferInfo::Use;

hw::Machine small_machine() {
  Result<hw::Machine> machine = hw::load_machine(TW_SOURCE_DIR "/hw/machines/ipu21-64.toml");
  EXPECT_TRUE(machine.has_value()) << machine.error().message;
  return *std::move(machine);
}

// Four stages: input, then twice (gather, gemm), then output; tile 5 is the fullest.
hw::Program small_program() {
  hw::Program program;
  program.machine = small_machine();
  program.model = "gemm:rows=64,inner=128,columns=96";
  program.precision = "f16";
  program.tilewright_version = "9.8.7";
  program.stages = {{.kind = hw::StageKind::host_input, .operation = "x", .what = "input"},
                    {.kind = hw::StageKind::loop_begin, .operation = "up", .what = "loop"},
                    {.kind = hw::StageKind::exchange, .operation = "up", .what = "gather <a> & b", .iterations = 2},
                    {.kind = hw::StageKind::compute, .operation = "up", .what = "gemm", .iterations = 2},
                    {.kind = hw::StageKind::loop_end, .operation = "up", .what = "loop"},
                    {.kind = hw::StageKind::host_output, .operation = "y", .what = "output"}};
  program.plan = {
      {.operation = "up", .kind = "matmul", .grid = "4x4x4", .precision = "f16", .cycles = 1100, .repetitions = 2},
      {.operation = "up (cast)", .kind = "cast", .grid = "8x8x1", .precision = "f16", .cycles = 50, .repetitions = 2}};
  program.tiles.resize(static_cast<std::size_t>(program.machine.tiles));
  const std::uint32_t base = program.machine.sram.base_bytes;
  for (std::size_t tile = 0; tile < program.tiles.size(); ++tile)
    program.tiles[tile].buffers = {{"weights", "up", base + 0x40000, 1000, 0, 6, Use::parameter},
                                   {"x", "x", base + 0x50000, 400, 0, 3, Use::value},
                                   {"partials", "up", base + 0x51000, tile == 5 ? 3000U : 2000U, 3, 4, Use::operand}};
  program.tiles_used = program.machine.tiles;
  return program;
}

sim::RunResult small_run(const hw::Program& program) {
  sim::RunResult run;
  const std::int64_t barrier = program.machine.fabric.barrier_cycles;
  run.cycles = 3000 + 2 * barrier;
  run.phases = 2;
  run.host_cycles = 700;
  run.exchange_cycles = 300;
  run.sync_cycles = 2 * barrier;
  run.compute_cycles = 2000;
  run.cycles_per_iteration = 1150 + barrier;
  run.idle_fraction = 0.25;
  run.stages.resize(program.stages.size());
  run.stages[0] = {.executions = 1, .cycles = 400};
  run.stages[2] = {.executions = 2, .cycles = 300 + 2 * barrier, .words = 12345};
  run.stages[3] = {.executions = 2, .cycles = 2000};
  run.stages[5] = {.executions = 1, .cycles = 300};
  const auto tiles = static_cast<std::size_t>(program.machine.tiles);
  run.tile_busy_cycles.assign(tiles, 2000);
  run.tile_words_in.assign(tiles, 200);
  run.tile_words_out.assign(tiles, 190);
  run.tile_words_in[7] = 999;
  return run;
}

std::string page_of(const hw::Program& program, const sim::RunResult& run,
                    const std::optional<ReferenceReport>& reference = {}) {
  Result<std::string> page = render_report(program, run, reference, "tilewright simulate p.twp --seed 3 > <out>");
  EXPECT_TRUE(page.has_value());
  return page.value_or("");
}

nlohmann::json data_of(const std::string& page) {
  const std::string open = "id=data>";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Figures, OperationsSumTheirStagesByPhaseKind) {
  const hw::Program program = small_program();
  const sim::RunResult run = small_run(program);

  const Figures figures = figures_of(program, run);

  ASSERT_EQ(figures.operations.size(), 3U);
  const OperationFigures& up = figures.operations[0];
  EXPECT_EQ(up.name, "up");
  EXPECT_EQ(up.cycles[PhaseKind::compute], 2000);
  EXPECT_EQ(up.cycles[PhaseKind::exchange], 300);
  EXPECT_EQ(up.cycles[PhaseKind::sync], 2 * program.machine.fabric.barrier_cycles);
  EXPECT_EQ(up.estimated_cycles, 2 * 1100 + 2 * 50);  // the operation and its cast, two iterations each
  EXPECT_EQ(up.grid, "4x4x4");
  EXPECT_EQ(up.words, 12345);
  EXPECT_EQ(figures.operations[1].name, "x");
  EXPECT_EQ(figures.operations[1].cycles[PhaseKind::host], 400);
}

TEST(Figures, OperationsAndPhaseKindsBothSumToTheRun) {
  const hw::Program program = small_program();
  const sim::RunResult run = small_run(program);

  const Figures figures = figures_of(program, run);

  std::int64_t sum = 0;
  for (const OperationFigures& operation : figures.operations) sum += operation.cycles.total();
  EXPECT_EQ(sum, run.cycles);
  EXPECT_EQ(figures.cycles.total(), run.cycles);
}

TEST(Figures, TimelineHoldsLoopsOnceAndNoLoopMarks) {
  const hw::Program program = small_program();

  const Figures figures = figures_of(program, small_run(program));

  ASSERT_EQ(figures.stages.size(), 4U);
  EXPECT_EQ(figures.stages[2].what, "gemm");
  EXPECT_EQ(figures.stages[2].cycles, 1000);      // one iteration
  EXPECT_EQ(figures.stages[2].all_cycles, 2000);  // both
  EXPECT_EQ(figures.stages[2].begin, 400 + 150 + program.machine.fabric.barrier_cycles);
}

TEST(Figures, MemoryPeaksWhereMostIsAlive) {
  const hw::Program program = small_program();

  const Figures figures = figures_of(program, small_run(program));

  EXPECT_EQ(figures.peak_tile, 5U);
  EXPECT_EQ(figures.memory[5].peak_bytes, 1000 + 3000);  // x has died before the partials live
  EXPECT_EQ(figures.memory[5].peak_stage, 3);
  EXPECT_EQ(figures.memory[5].parameter_bytes, 1000);
  EXPECT_EQ(figures.memory[0].peak_bytes, 1000 + 2000);
}

TEST(Report, ShowsTheFiguresOfTheRun) {
  const hw::Program program = small_program();
  sim::RunResult run = small_run(program);
  run.cycles = 1234567;

  const std::string page = page_of(program, run);

  EXPECT_NE(page.find("<strong>1,234,567</strong>"), std::string::npos);
  EXPECT_NE(page.find("0.823 ms"), std::string::npos);  // 1,234,567 cycles at 1.5 GHz
  EXPECT_NE(page.find("tile 5"), std::string::npos);
  EXPECT_NE(page.find("fullest tile holds 4,000 of 638,976 bytes"), std::string::npos);
  EXPECT_NE(page.find("matmul 4x4x4 f16"), std::string::npos);
  EXPECT_NE(page.find(">2 times<"), std::string::npos);
  EXPECT_NE(page.find("Tilewright 9.8.7"), std::string::npos);
}

TEST(Report, EscapesNamesAndCommands) {
  const hw::Program program = small_program();

  const std::string page = page_of(program, small_run(program));

  EXPECT_NE(page.find("gather &lt;a&gt; &amp; b"), std::string::npos);
  EXPECT_NE(page.find("--seed 3 &gt; &lt;out&gt;"), std::string::npos);
  EXPECT_EQ(page.find("gather <a>"), std::string::npos);
  EXPECT_EQ(data_of(page)["stages"][1][2], "gather <a> & b");
}

TEST(Report, RefersToNothingOutsideItself) {
  const hw::Program program = small_program();

  const std::string page = page_of(program, small_run(program));

  for (const char* reference : {" src=", " href=", "url(", "@import", "fetch(", "https:", "import("})
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  EXPECT_EQ(page.find("http:"), page.find("http://www.w3.org/2000/svg"));  // the name of a namespace, not an address
}

TEST(Report, DataHoldsEveryTilesBuffersOnceAKind) {
  const hw::Program program = small_program();

  const nlohmann::json data = data_of(page_of(program, small_run(program)));

  EXPECT_EQ(data["lists"].size(), 2U);  // tile 5 and all the others
  EXPECT_EQ(data["buffers"].size(), 3U);
  EXPECT_EQ(data["listOf"].size(), 64U);
  EXPECT_EQ(data["listOf"][5], 1);
  EXPECT_EQ(data["maps"]["in"]["values"][7], 999);
  EXPECT_EQ(data["peaks"][5], 3);
  std::set<int> physical;
  for (const auto& number : data["physical"]) physical.insert(number.get<int>());
  EXPECT_EQ(physical.size(), 64U);
}

TEST(Report, ShowsErrorsAgainstBothReferences) {
  const hw::Program program = small_program();
  ReferenceReport reference;
  reference.f32["y"] = {.max_abs_error = 0.125, .mean_abs_error = 0.01, .rel_l2 = 0.02, .cosine = 0.9975};
  reference.quantised["y"] = {.max_abs_error = 0.0625, .mean_abs_error = 0.005, .rel_l2 = 0.01, .cosine = 0.9999};
  reference.operations.push_back({"up", 1, {.max_abs_error = 0.5}, {.max_abs_error = 0.25}});

  const std::string page = page_of(program, small_run(program), reference);

  EXPECT_NE(page.find("0.9975000"), std::string::npos);
  EXPECT_NE(page.find("0.0625"), std::string::npos);
  EXPECT_NE(page.find("By operation"), std::string::npos);
  EXPECT_EQ(page.find("not compared with a reference"), std::string::npos);
  EXPECT_NE(page_of(program, small_run(program)).find("not compared with a reference"), std::string::npos);
}

TEST(Report, ShowsWhatStoppedTheRun) {
  const hw::Program program = small_program();
  sim::RunResult run = small_run(program);
  run.fault = sim::Fault{.kind = "bus_conflict",
                         .message = "two sends at once",
                         .tile = 17,
                         .cycle = 88,
                         .pc = 0x54000,
                         .instruction = "send 4 words",
                         .operation = "up"};

  const std::string page = page_of(program, run);

  EXPECT_NE(page.find("The run stopped: bus_conflict"), std::string::npos);
  EXPECT_NE(page.find("<dd>0x54000</dd>"), std::string::npos);
}

TEST(Report, RefusesTheRunOfAnotherProgram) {
  const hw::Program program = small_program();
  sim::RunResult run = small_run(program);
  run.stages.pop_back();
  sim::RunResult fewer = small_run(program);
  fewer.tile_words_in.pop_back();

  const Result<std::string> stages = render_report(program, run, {}, ""), tiles = render_report(program, fewer, {}, "");

  ASSERT_FALSE(stages.has_value());
  EXPECT_EQ(stages.error().message, "the run has 5 stages, the program 6; run this package again");
  ASSERT_FALSE(tiles.has_value());
  EXPECT_EQ(tiles.error().kind, ErrorKind::bad_input);
}

TEST(Html, JsonStringsCannotEndTheirScript) {
  EXPECT_EQ(json_string("</script>\"\\\n"), "\"\\u003c/script\\u003e\\\"\\\\\\u000a\"");
}

TEST(Html, PluralsFollowTheCount) {
  EXPECT_EQ(plural(1, "cycle"), "1 cycle");
  EXPECT_EQ(plural(1200, "cycle"), "1,200 cycles");
}

}  // namespace
}  // namespace tw::runtime
