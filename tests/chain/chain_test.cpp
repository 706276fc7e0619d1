// tests/chain/chain_test.cpp: whole models through import, plan, package and simulation, against both references.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "compiler/canonical/canonical.h"
#include "compiler/graph/builder.h"
#include "compiler/import/import.h"
#include "compiler/pipeline/compile.h"
#include "hw/base/file.h"
#include "hw/program/package.h"
#include "runtime/session/calibrate.h"
#include "runtime/session/session.h"
#include "tests/support/support.h"

namespace tw::runtime {
namespace {

struct Measured {
  std::map<std::string, Comparison> f32, quantised;
  std::int64_t cycles = 0, timing_cycles = 0;
};

// Compiles, verifies, simulates with numerics and for timing only, and compares.
Result<Measured> measure(const compiler::Graph& graph, const std::string& machine_name, compiler::Precision precision,
                         compiler::CompileOptions options = {}) {
  TW_TRY(const hw::Machine machine, hw::load_machine(machine_name));
  const std::map<std::string, Tensor> inputs = random_inputs(graph, 7);
  options.precision = precision;
  TW_TRY(options.ranges, calibrate(graph, inputs));
  TW_TRY(compiler::CompileOutcome outcome, compiler::compile(graph, machine, options));
  if (!outcome.fits) return fail(ErrorKind::does_not_fit, outcome.obstruction->event);
  const std::vector<Violation> broken = hw::verify(outcome.program);
  if (!broken.empty()) return fail(ErrorKind::corrupt, broken[0].rule + ": " + broken[0].message);

  Measured measured;
  for (const bool timing : {true, false}) {
    sim::Options simulation_options;
    simulation_options.timing_only = timing;
    TW_TRY(const auto simulation, sim::Simulation::create(outcome.program, simulation_options));
    std::map<std::string, std::vector<std::byte>> staged;
    for (const hw::Binding& binding : outcome.program.bindings)
      if (binding.input && !timing) staged[binding.name] = pack(binding, inputs.at(binding.name));
    TW_TRY(const sim::RunResult run, simulation->run(staged));
    if (run.fault) return fail(ErrorKind::device, run.fault->kind + ": " + run.fault->message);
    (timing ? measured.timing_cycles : measured.cycles) = run.cycles;
    if (timing) continue;
    for (const bool quantised : {false, true}) {
      EvaluateOptions evaluation;
      evaluation.quantised = quantised ? &outcome.program : nullptr;
      TW_TRY(const auto expected, evaluate(graph, inputs, evaluation));
      for (const hw::Binding& binding : outcome.program.bindings)
        if (!binding.input)
          (quantised ? measured.quantised : measured.f32)[binding.name] =
              compare(unpack(binding, run.outputs.at(binding.name)), expected.at(binding.name));
    }
  }
  return measured;
}

struct Case {
  const char* model;
  const char* machine;
  compiler::Precision precision;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " on " << c.machine; }
};

using compiler::Precision;

class Chain : public ::testing::TestWithParam<Case> {};

TEST_P(Chain, AgreesWithBothReferences) {
  const Case& c = GetParam();
  const auto graph = compiler::import_model(c.model, {});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;

  const Result<Measured> measured = measure(*graph, c.machine, c.precision);

  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  EXPECT_EQ(measured->cycles, measured->timing_cycles);
  for (const auto& [name, comparison] : measured->f32) EXPECT_GE(comparison.cosine, 0.995) << name;
  // The quantised reference follows the same roundings: it differs by single units of F16, if at all.
  for (const auto& [name, comparison] : measured->quantised) EXPECT_LE(comparison.max_abs_error, 0.05) << name;
  for (const auto& [name, comparison] : measured->quantised) EXPECT_GE(comparison.cosine, 0.99999) << name;
}

INSTANTIATE_TEST_SUITE_P(
    Models, Chain,
    ::testing::Values(Case{"gemm", "ipu21-64", Precision::f32}, Case{"gemm", "ipu21-64", Precision::f8},
                      Case{"mlp", "ipu21-64", Precision::f16}, Case{"mlp", "ipu21", Precision::f8},
                      Case{"attention", "ipu21-64", Precision::f32},
                      Case{"attention:tokens=50,width=72,heads=2,batch=2", "ipu21-64", Precision::f16},
                      Case{"pooling", "ipu21-64", Precision::f32}, Case{"pooling", "ipu21", Precision::f8},
                      Case{"pooling:batch=3,queries=2,tokens=37", "ipu21-64", Precision::f16},
                      Case{"encoder", "ipu21-64", Precision::f32}, Case{"encoder", "ipu21-64", Precision::f8},
                      Case{"encoder:layers=3,tokens=17,width=96,heads=4,mlp=200", "ipu21", Precision::f8}));

struct ProductCase {
  compiler::Grid grid;
  compiler::ReduceSplit split = compiler::ReduceSplit::rows;
  friend void PrintTo(const ProductCase& c, std::ostream* out) { *out << to_string(c.grid); }
};

// A product of two computed values in every orientation and with every part split, the inner extent too.
class Product : public ::testing::TestWithParam<std::tuple<ProductCase, bool>> {};

TEST_P(Product, OfTwoComputedValues) {
  const auto& [choice, transposed] = GetParam();
  compiler::GraphBuilder g("product");
  const ValueId a = g.unary("a", compiler::Unary::tanh, g.input("x", {2, 12, 80}));
  const ValueId b = g.input("z", transposed ? compiler::Shape{2, 70, 80} : compiler::Shape{2, 80, 70});
  g.output("y", g.add(compiler::OpKind::matmul, "product", {a, b}, {.transpose_b = transposed}));
  const compiler::Graph graph = std::move(g).finish();
  compiler::CompileOptions options;
  options.pins["product"] = {choice.grid, choice.split};
  for (const Precision precision : {Precision::f16, Precision::f32}) {
    options.precision = precision;
    const Result<Measured> measured = measure(graph, "ipu21-64", precision, options);
    ASSERT_TRUE(measured.has_value()) << measured.error().message;
    EXPECT_EQ(measured->cycles, measured->timing_cycles);
    EXPECT_LE(measured->f32.at("y").rel_l2, precision == Precision::f32 ? 1e-6 : 2e-3);
    EXPECT_LE(measured->quantised.at("y").max_abs_error, precision == Precision::f32 ? 1e-5 : 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, Product,
                         ::testing::Combine(::testing::Values(ProductCase{{1, 1, 1}}, ProductCase{{3, 5, 1}},
                                                              ProductCase{{2, 3, 5}}, ProductCase{{12, 2, 1}},
                                                              ProductCase{{1, 1, 4}}, ProductCase{{1, 2, 2}},
                                                              ProductCase{{1, 1, 4}, compiler::ReduceSplit::columns},
                                                              ProductCase{{1, 2, 2}, compiler::ReduceSplit::columns},
                                                              ProductCase{{3, 1, 5}, compiler::ReduceSplit::columns}),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           const ProductCase& choice = std::get<0>(info.param);
                           return to_string(choice.grid) +
                                  (choice.split == compiler::ReduceSplit::columns ? "_columns" : "") +
                                  (std::get<1>(info.param) ? "_transposed" : "");
                         });

// A random graph of a few operations on a small tensor: elementwise, views that move elements, products, reductions.
compiler::Graph random_graph(const std::vector<int>& choices, std::int64_t rows, std::int64_t columns) {
  compiler::GraphBuilder g("random");
  ValueId x = g.input("x", {rows, columns});
  for (std::size_t step = 0; step < choices.size(); ++step) {
    const std::string name = fmt::format("op{}", step);
    const compiler::Shape shape = g.shape(x);
    const std::int64_t width = shape[1];
    switch (choices[step]) {
      case 0: x = g.unary(name, compiler::Unary::tanh, x); break;
      case 1: x = g.transpose(name, x, {1, 0}); break;
      case 2: x = g.binary(name, compiler::Binary::add, x, x); break;
      case 3: x = g.softmax(name, x); break;
      case 4: x = g.concat(name, {x, x}, static_cast<std::int64_t>(step % 2)); break;
      case 5: x = g.reshape(name, x, {width, shape[0]}); break;
      case 6: x = g.gelu(name, x, true); break;
      case 7:
        x = g.matmul(name, x,
                     g.parameter(name + ".w", {width, 24}, compiler::normal_source(step + 1, 0.0F, 0.2F, width * 24)));
        break;
      case 8:
        if (shape[0] > 2) x = g.slice(name, x, {1, 0}, {1, 1}, {shape[0] - 1, width});
        break;
      default: x = g.reduce(name, compiler::Reduction::mean, x, {1}, true); break;
    }
  }
  g.output("y", x);
  return std::move(g).finish();
}

RC_GTEST_PROP(Chain, RandomSmallGraphsAgreeInF32, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 14), columns = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  const auto choices = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 10));
  const Result<compiler::Graph> graph = compiler::canonicalise(random_graph(choices, rows, columns));
  RC_ASSERT(graph.has_value());
  const Result<Measured> measured = measure(*graph, "ipu21-64", Precision::f32);
  if (!measured) RC_FAIL(measured.error().message);
  for (const auto& [name, comparison] : measured->f32) RC_ASSERT(comparison.max_abs_error <= 1e-4);
  RC_ASSERT(measured->cycles == measured->timing_cycles);
}

RC_GTEST_PROP(Chain, RandomSmallGraphsAgreeInF16, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 14), columns = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  const auto choices = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 10));
  const Result<compiler::Graph> graph = compiler::canonicalise(random_graph(choices, rows, columns));
  RC_ASSERT(graph.has_value());
  const Result<Measured> measured = measure(*graph, "ipu21-64", Precision::f16);
  if (!measured) RC_FAIL(measured.error().message);
  for (const auto& [name, comparison] : measured->quantised) RC_ASSERT(comparison.max_abs_error <= 0.02);
}

TEST(Chain, ThePackageHoldsTheSameProgram) {
  const auto graph = compiler::import_model("mlp", {});
  ASSERT_TRUE(graph.has_value());
  const auto machine = hw::load_machine("ipu21-64");
  ASSERT_TRUE(machine.has_value());
  compiler::CompileOptions options;
  const auto outcome = compiler::compile(*graph, *machine, options);
  ASSERT_TRUE(outcome.has_value() && outcome->fits);
  const test::TemporaryFolder folder;

  ASSERT_TRUE(hw::write_package(outcome->program, folder.file("a.twp")).has_value());
  const auto read = hw::read_package(folder.file("a.twp"));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_TRUE(hw::write_package(*read, folder.file("b.twp")).has_value());

  const auto a = read_file(folder.file("a.twp")), b = read_file(folder.file("b.twp"));
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(*a == *b);
}

}  // namespace
}  // namespace tw::runtime
