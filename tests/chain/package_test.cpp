// tests/chain/package_test.cpp: compiled programs in packages: the same runs come out, damage never passes.
#include "hw/program/package.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "compiler/import/import.h"
#include "compiler/pipeline/compile.h"
#include "hw/base/file.h"
#include "hw/base/random.h"
#include "runtime/session/session.h"
#include "tests/support/support.h"

namespace tw::runtime {
namespace {

constexpr const char* model = "mlp:rows=48,inputs=64,hidden=128,outputs=32";

Result<hw::Program> compiled(const compiler::Graph& graph, compiler::Precision precision) {
  TW_TRY(const hw::Machine machine, hw::load_machine("ipu21-64"));
  compiler::CompileOptions options;
  options.precision = precision;
  TW_TRY(compiler::CompileOutcome outcome, compiler::compile(graph, machine, options));
  if (!outcome.fits) return fail(ErrorKind::does_not_fit, outcome.obstruction->event);
  return std::move(outcome.program);
}

Result<sim::RunResult> run_of(const hw::Program& program, const std::map<std::string, Tensor>& inputs, bool timing) {
  sim::Options options;
  options.timing_only = timing;
  TW_TRY(const auto simulation, sim::Simulation::create(program, options));
  std::map<std::string, std::vector<std::byte>> staged;
  for (const hw::Binding& binding : program.bindings)
    if (binding.input && !timing) staged[binding.name] = pack(binding, inputs.at(binding.name));
  TW_TRY(sim::RunResult run, simulation->run(staged));
  if (run.fault) return fail(ErrorKind::device, run.fault->kind + ": " + run.fault->message);
  return run;
}

TEST(CompiledPackage, RunsAsTheProgramThatWasWritten) {
  const auto graph = compiler::import_model(model, {});
  ASSERT_TRUE(graph) << graph.error().message;
  const std::map<std::string, Tensor> inputs = random_inputs(*graph, 7);
  const test::TemporaryFolder folder;
  for (const compiler::Precision precision : {compiler::Precision::f32, compiler::Precision::f16}) {
    const auto program = compiled(*graph, precision);
    ASSERT_TRUE(program) << program.error().message;
    ASSERT_TRUE(hw::write_package(*program, folder.file("p.twp")));
    const auto back = hw::read_package(folder.file("p.twp"));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(hw::verify(*back).empty());
    const auto expected = run_of(*program, inputs, false), run = run_of(*back, inputs, false);
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(expected->outputs, run->outputs);
    EXPECT_EQ(expected->cycles, run->cycles);

    const auto unweighted = hw::read_package(folder.file("p.twp"), false);
    ASSERT_TRUE(unweighted) << unweighted.error().message;
    EXPECT_TRUE(hw::verify(*unweighted).empty());
    const auto timing = run_of(*unweighted, inputs, true);
    ASSERT_TRUE(timing) << timing.error().message;
    EXPECT_EQ(expected->cycles, timing->cycles);
  }
}

TEST(CompiledPackage, TwoCompilationsGiveTheSameBytes) {
  const auto graph = compiler::import_model(model, {});
  ASSERT_TRUE(graph);
  const test::TemporaryFolder folder;
  for (const char* name : {"a.twp", "b.twp"}) {
    const auto program = compiled(*graph, compiler::Precision::f16);
    ASSERT_TRUE(program) << program.error().message;
    ASSERT_TRUE(hw::write_package(*program, folder.file(name)));
  }
  const auto a = read_file(folder.file("a.twp")), b = read_file(folder.file("b.twp"));
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(*a == *b);
}

TEST(CompiledPackage, DamageIsRefused) {
  const auto graph = compiler::import_model(model, {});
  ASSERT_TRUE(graph);
  const auto program = compiled(*graph, compiler::Precision::f16);
  ASSERT_TRUE(program) << program.error().message;
  const test::TemporaryFolder folder;
  ASSERT_TRUE(hw::write_package(*program, folder.file("p.twp")));
  const auto sound = read_file(folder.file("p.twp"));
  ASSERT_TRUE(sound);
  const auto refused = [&](std::span<const std::byte> bytes) {
    std::ofstream(folder.file("bad.twp"), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const auto read = hw::read_package(folder.file("bad.twp"));
    return !read && read.error().kind == ErrorKind::corrupt && read.error().where.contains("offset");
  };
  constexpr std::uint64_t flips = 500, cuts = 50;
  for (std::uint64_t number = 0; number < flips; ++number) {
    std::vector<std::byte> bytes = *sound;
    const std::uint64_t at = random_bits(3, number) % bytes.size();
    bytes[at] ^= static_cast<std::byte>(1 + random_bits(4, number) % 255);
    EXPECT_TRUE(refused(bytes)) << "byte " << at << " of " << bytes.size();
  }
  for (std::uint64_t number = 0; number < cuts; ++number) {
    const std::size_t length = random_bits(5, number) % sound->size();
    EXPECT_TRUE(refused(std::span(*sound).first(length))) << length << " of " << sound->size();
  }
}

}  // namespace
}  // namespace tw::runtime
