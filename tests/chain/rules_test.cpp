// tests/chain/rules_test.cpp: the planner's and the package's rules on whole models, each test named after its rule
// (docs/testing.md lists all of them, also those that are tested beside their code).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/exchange/phase.h"
#include "compiler/import/import.h"
#include "compiler/lower/lower.h"
#include "compiler/pipeline/compile.h"
#include "compiler/place/interval_packing.h"
#include "compiler/search/search.h"
#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/parallel.h"
#include "hw/program/package.h"
#include "runtime/session/session.h"
#include "tests/support/support.h"

namespace tw::runtime {
namespace {

using compiler::CompileOutcome;
using compiler::Graph;

Graph model(const std::string& spec) {
  auto graph = compiler::import_model(spec, {});
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  return std::move(*graph);
}

const hw::Machine& small() {
  static const hw::Machine machine = *hw::load_machine("ipu21-64");
  return machine;
}
const hw::Machine& full() {
  static const hw::Machine machine = *hw::load_machine("ipu21");
  return machine;
}

CompileOutcome compiled(const Graph& graph, const hw::Machine& machine, bool weights = false) {
  compiler::CompileOptions options;
  options.weights = weights;
  auto outcome = compiler::compile(graph, machine, options);
  EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
  return std::move(*outcome);
}
CompileOutcome compiled(const std::string& spec, const hw::Machine& machine, bool weights = false) {
  return compiled(model(spec), machine, weights);
}

constexpr const char* encoder = "encoder:tokens=64,width=128,heads=2,mlp=256,layers=";

// Weights of 4.2 MB on 64 tiles: one tile cannot hold them, a 64th of them and a quarter more is what the fullest
// takes.
TEST(Rules, S1_HomesAreSpreadWhereOneTileCannotHoldThem) {
  const CompileOutcome outcome = compiled("mlp:rows=64,inputs=1024,hidden=2048,outputs=1024", small());
  ASSERT_TRUE(outcome.fits);
  constexpr std::int64_t weights = 2 * 1024 * 2048;
  EXPECT_GE(outcome.program.resident_bytes_max, weights / 64);
  EXPECT_LE(outcome.program.resident_bytes_max, weights / 64 * 5 / 4);
}

TEST(Rules, S2_ResidentBytesAreTheSumOverTheLayers) {
  const auto resident = [](int layers) {
    return compiled(encoder + std::to_string(layers), small()).program.resident_bytes_max;
  };
  const std::int64_t two = resident(2), layer = resident(3) - two;
  EXPECT_GT(layer, 0);
  EXPECT_EQ(resident(5), two + 3 * layer);
}

TEST(Rules, S6_TemporariesDoNotGrowWithTheLayers) {
  const CompileOutcome two = compiled(encoder + std::string("2"), small());
  const CompileOutcome six = compiled(encoder + std::string("6"), small());
  ASSERT_EQ(two.program.plan.size(), six.program.plan.size());
  for (std::size_t at = 0; at < two.program.plan.size(); ++at)
    EXPECT_EQ(two.program.plan[at].temporary_bytes, six.program.plan[at].temporary_bytes)
        << two.program.plan[at].operation;
  EXPECT_EQ(two.program.code_bytes_max, six.program.code_bytes_max);
}

TEST(Rules, S9_ThreeCallsWithoutReloadAreEqual) {
  const Graph graph = model(encoder + std::string("3"));
  const CompileOutcome outcome = compiled(graph, small(), true);
  ASSERT_TRUE(outcome.fits);
  const auto inputs = random_inputs(graph, 3);
  std::map<std::string, std::vector<std::byte>> staged;
  for (const hw::Binding& binding : outcome.program.bindings)
    if (binding.input) staged[binding.name] = pack(binding, inputs.at(binding.name));
  auto simulation = sim::Simulation::create(outcome.program, {});
  ASSERT_TRUE(simulation);
  const auto first = (*simulation)->run(staged), second = (*simulation)->run(staged),
             third = (*simulation)->run(staged);
  ASSERT_TRUE(first && second && third);
  EXPECT_FALSE(first->outputs.empty());
  EXPECT_EQ(first->outputs, second->outputs);
  EXPECT_EQ(first->outputs, third->outputs);
  EXPECT_EQ(first->cycles, third->cycles);
}

// What the records of a Repeat take is count times one record, whatever the record's size: no padding to elements.
TEST(Rules, S10_RecordsOfARepeatAreDense) {
  const Graph graph = model(encoder + std::string("3"));
  const auto plan = compiler::search(graph, small(), {});
  ASSERT_TRUE(plan);
  const auto lowered = compiler::lower(graph, *plan, small());
  ASSERT_TRUE(lowered);
  ASSERT_EQ(lowered->repeats.size(), 1U);
  const compiler::LoweredRepeat& repeat = lowered->repeats[0];
  EXPECT_EQ(repeat.record_bytes % 32, 0U);
  EXPECT_NE(repeat.record_bytes % small().sram.element_bytes, 0U);
  EXPECT_EQ(lowered->buffers[repeat.records].max_bytes(), repeat.record_bytes * 3);
}

std::string package_hash(const CompileOutcome& outcome) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(hw::write_package(outcome.program, folder.file("p.twp")));
  return sha256_hex(*read_file(folder.file("p.twp")));
}

TEST(Rules, S11_OneAndTwoThreadsMakeTheSameBytes) {
  const Graph graph = model(encoder + std::string("3"));
  std::set<std::string> hashes;
  for (const int threads : {1, 2, 1}) {
    set_thread_limit(threads);
    hashes.insert(package_hash(compiled(graph, small(), true)));
  }
  set_thread_limit(0);
  EXPECT_EQ(hashes.size(), 1U);
}

// A late send that comes first in the list and an early one that comes second, both in the moving section.
TEST(Rules, S12_OrderOfTransfersDoesNotMatterForRelocation) {
  const std::uint32_t from = 0x50000, to = 0x80000;
  std::vector<compiler::Transfer> transfers;
  for (std::uint32_t tile = 0; tile < 8; ++tile) {
    transfers.push_back({TileId{tile}, 0x40, 200, {{TileId{(tile + 3) % 8}, to + 0x1000}}, true});
    transfers.push_back({TileId{tile}, from, 20, {{TileId{(tile + 5) % 8}, to}}, false});
    transfers.push_back({TileId{tile}, 0x10, 8, {{TileId{(tile + 1) % 8}, to + 0x2000}}, true});
  }
  const auto reversed = std::vector<compiler::Transfer>(transfers.rbegin(), transfers.rend());
  for (const auto& list : {transfers, reversed}) {
    const auto schedule = compiler::schedule_phase(list, small());
    ASSERT_TRUE(schedule);
    EXPECT_TRUE(compiler::verify_phase(list, *schedule, small()).empty());
    EXPECT_TRUE(schedule->rows[0].base_write.present());
  }
}

// Rows that send activations and weights of the current layer write their base once, in between.
TEST(Rules, S13_FixedAndMovingSendsShareARowOfTwoSections) {
  const Graph graph = model(encoder + std::string("3"));
  const auto plan = compiler::search(graph, small(), {});
  const auto lowered = compiler::lower(graph, *plan, small());
  ASSERT_TRUE(lowered);
  int mixed = 0;
  for (const compiler::Stage& stage : lowered->stages) {
    const auto moves = [](const compiler::StageTransfer& transfer) { return transfer.moving; };
    const auto moving = std::count_if(stage.transfers.begin(), stage.transfers.end(), moves);
    if (moving > 0 && moving < static_cast<std::ptrdiff_t>(stage.transfers.size())) ++mixed;
  }
  EXPECT_GT(mixed, 0);
}

TEST(Rules, S14_NoPhaseOfTheTowerCopiesBytes) {
  const Graph graph = model("siglip-so400m:layers=2");
  const auto plan = compiler::search(graph, full(), {});
  const auto lowered = compiler::lower(graph, *plan, full());
  ASSERT_TRUE(lowered);
  for (const compiler::Stage& stage : lowered->stages) {
    EXPECT_NE(stage.info.what, "widen to words") << stage.info.operation;
    for (const compiler::StageTransfer& transfer : stage.transfers)
      ASSERT_TRUE(transfer.bytes % 4 == 0 && transfer.source_offset_bytes % 4 == 0) << stage.info.operation;
  }
}

// 197 tokens, 5 heads of 16, width 80: no extent is a multiple of anything, and everything that is planned is encoded.
TEST(Rules, S15_OddShapesArePlannedOnlyAsTheyCanBeEncoded) {
  EXPECT_TRUE(compiled("encoder:layers=2,tokens=197,width=80,heads=5,mlp=200", small()).fits);
  EXPECT_TRUE(compiled("encoder:layers=2,tokens=13,width=60,heads=3,mlp=100", small()).fits);
}

TEST(Rules, S16_WeightsTravelInWholePanelsOf512Bytes) {
  const Graph graph = model("siglip-so400m:layers=2");
  const auto plan = compiler::search(graph, full(), {});
  const auto lowered = compiler::lower(graph, *plan, full());
  ASSERT_TRUE(lowered);
  int weights = 0;
  for (const compiler::Stage& stage : lowered->stages)
    for (const compiler::StageTransfer& transfer : stage.transfers) {
      if (stage.info.what != "gather operands" || stage.info.operation == "head.attention.scores" ||
          stage.info.operation == "head.attention.joined" ||  // constants as left operands are no weights
          lowered->buffers[transfer.source].use != hw::BufferInfo::Use::parameter)
        continue;
      ASSERT_EQ(transfer.bytes % 512, 0U) << stage.info.operation;
      ++weights;
    }
  EXPECT_GT(weights, 1000);
}

TEST(Rules, S18_RowsBeyondTheMachinesLimitAreRefusedWithTheirSize) {
  hw::Machine machine = small();
  machine.fabric.table_limit_bytes = 64;
  const CompileOutcome outcome = compiled(encoder + std::string("1"), machine);
  ASSERT_FALSE(outcome.fits);
  EXPECT_GT(outcome.obstruction->needed_bytes, 64);
  EXPECT_EQ(outcome.obstruction->available_bytes, 64);
}

// Rows, code and tensors: hw::verify proves that what is fetched shares no element with what a phase moves.
TEST(Rules, S19_CodeAndRowsKeepClearOfTensors) {
  const CompileOutcome outcome = compiled(encoder + std::string("3"), small(), true);
  ASSERT_TRUE(outcome.fits);
  const std::vector<Violation> broken = hw::verify(outcome.program);
  EXPECT_TRUE(broken.empty()) << broken.front().rule << ": " << broken.front().message;
}

TEST(Rules, S21_AnObstructionIsProvenAndNamesWhatIsAlive) {
  compiler::CompileOptions options;
  options.precision = compiler::Precision::f16;
  const auto bound = compiler::compile(model("mlp:rows=64,inputs=8192,hidden=8192,outputs=64"), small(), options);
  ASSERT_TRUE(bound && !bound->fits);
  EXPECT_EQ(bound->obstruction->proof, "bound");
  EXPECT_GE(bound->obstruction->alternatives.size(), 3U);

  // The first depth that does not fit: by the sums alone it might.
  hw::Machine machine = small();
  machine.sram.region1_bytes = machine.sram.region1_element_bytes * 2;
  for (int layers = 30; layers < 120; layers += 2) {
    const CompileOutcome outcome = compiled(fmt::format("{}{}", encoder, layers), machine);
    if (outcome.fits) continue;
    const compiler::Obstruction& obstruction = *outcome.obstruction;
    EXPECT_GT(obstruction.needed_bytes, obstruction.available_bytes);
    EXPECT_FALSE(obstruction.event.empty());
    std::int64_t alive = 0;
    for (const auto& buffer : obstruction.buffers) alive += buffer.bytes;
    EXPECT_GT(alive, 0);
    EXPECT_GE(obstruction.alternatives.size(), 3U);
    return;
  }
  FAIL() << "everything fits";
}

TEST(Rules, S22_ExactSearchFollowsFirstFit) {
  // First-fit by size takes 11, by size x life 12, by start 12; 10 are alive at once, and 10 are enough.
  const compiler::PackingProblem problem{{{0, 4, 2}, {0, 4, 2}, {3, 5, 4}, {0, 3, 3}, {1, 5, 1}, {2, 3, 2}}, 10};
  EXPECT_EQ(compiler::pack(problem)->answer, compiler::PackingAnswer::fits);
  // The live bound is 5, no placement is below 6.
  const std::vector<compiler::PackingBuffer> tight{{0, 1, 2}, {0, 2, 3}, {1, 3, 1}, {1, 4, 1},
                                                   {2, 4, 1}, {3, 6, 3}, {4, 5, 2}};
  EXPECT_EQ(compiler::live_bytes(tight), 5);
  EXPECT_EQ(compiler::pack({tight, 5})->proof, compiler::PackingProof::search);
  EXPECT_EQ(compiler::pack({tight, 6})->answer, compiler::PackingAnswer::fits);
}

TEST(Rules, S23_ACompileRecordsTimeAndMemoryByStage) {
  const CompileOutcome outcome = compiled(encoder + std::string("1"), small());
  std::set<std::string> names;
  for (const compiler::StageRecord& stage : outcome.stages) {
    names.insert(stage.name);
    EXPECT_GE(stage.seconds, 0);
    EXPECT_GT(stage.rss_bytes, 1 << 20) << stage.name;
  }
  for (const char* name : {"bound", "search", "lower", "place", "schedule and encode", "weights"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Rules, S26_NamesDoNotChangeAPlan) {
  Graph graph = model(encoder + std::string("2"));
  const auto plan = compiler::search(graph, small(), {});
  graph.name = "other";
  int index = 0;
  for (compiler::Operation& operation : graph.operations) operation.name = fmt::format("x{}", index++);
  for (compiler::Value& value : graph.values) value.name = fmt::format("v{}", index++);
  const auto renamed = compiler::search(graph, small(), {});
  ASSERT_TRUE(plan && renamed);
  ASSERT_EQ(plan->steps.size(), renamed->steps.size());
  for (std::size_t at = 0; at < plan->steps.size(); ++at) {
    EXPECT_EQ(plan->steps[at].grid, renamed->steps[at].grid) << plan->steps[at].operation;
    EXPECT_EQ(plan->steps[at].cost.cycles(), renamed->steps[at].cost.cycles()) << plan->steps[at].operation;
  }
  EXPECT_EQ(plan->estimated_cycles, renamed->estimated_cycles);
}

}  // namespace
}  // namespace tw::runtime
