// tests/runtime/reference/reference_test.cpp: whole graphs: inputs, Repeat, rounding, threads, comparison.
#include "runtime/reference/reference.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <cmath>

#include "compiler/graph/builder.h"
#include "hw/base/parallel.h"

namespace tw::runtime {
namespace {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::OpKind;

Tensor vector_of(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {{size}, std::move(values)};
}

// y = x + w[0] + w[1] + w[2], rolled: one body with an iterated parameter, executed three times; then scaled by s.
Graph rolled_graph() {
  GraphBuilder builder("rolled");
  const ValueId x = builder.input("x", {2}), scale = builder.input("s", {1});
  Graph graph = std::move(builder).finish();
  const auto add_value = [&](std::string name, compiler::TensorSourcePtr source, compiler::Shape shape = {2}) {
    graph.values.push_back({std::move(name), std::move(shape), std::move(source)});
    return ValueId{static_cast<std::uint32_t>(graph.values.size() - 1)};
  };
  const auto add_operation = [&](compiler::Operation operation, std::size_t region) {
    graph.operations.push_back(std::move(operation));
    graph.regions[region].operations.push_back({static_cast<std::uint32_t>(graph.operations.size() - 1)});
  };
  std::vector<ValueId> weights;
  for (const float value : {1.0F, 10.0F, 100.0F})
    weights.push_back(add_value("w" + std::to_string(weights.size()), compiler::dense_source({value, 2 * value})));
  const ValueId carried = add_value("body/x", nullptr), invariant = add_value("body/s", nullptr, {1}),
                weight = add_value("body/w", nullptr);
  const ValueId scaled = add_value("body/scaled", nullptr), next = add_value("body/next", nullptr),
                result = add_value("y", nullptr);
  graph.regions.push_back({{carried, invariant, weight}, {}, {next}});
  compiler::Attributes multiply, add, repeat;
  multiply.binary = compiler::Binary::multiply;
  add.binary = compiler::Binary::add;
  repeat.count = 3;
  add_operation({OpKind::binary, "scaled", {weight, invariant}, {scaled}, multiply}, 1);
  add_operation({OpKind::binary, "next", {carried, scaled}, {next}, add}, 1);
  compiler::Operation loop{OpKind::repeat, "loop", {x, scale}, {result}, repeat};
  loop.body = 1;
  loop.carried = 1;
  loop.sequences = {weights};
  add_operation(std::move(loop), 0);
  graph.regions[0].results = {result};
  graph.output_names = {"y"};
  return graph;
}

TEST(Evaluate, RepeatTakesOneMemberOfASequencePerIteration) {
  const auto outputs = evaluate(rolled_graph(), {{"x", vector_of({5, 6})}, {"s", vector_of({2})}});

  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_EQ(outputs->at("y").data, (std::vector<float>{5 + 2 * 111, 6 + 2 * 222}));
}

TEST(Evaluate, ObserverSeesEachIteration) {
  std::vector<std::string> seen;
  EvaluateOptions options;
  options.observe = [&](const compiler::Operation& operation, std::int64_t iteration, const auto& operands,
                        const auto& results) {
    EXPECT_EQ(operands.size(), 2U);
    EXPECT_EQ(results.size(), 1U);
    seen.push_back(operation.name + std::to_string(iteration));
  };

  ASSERT_TRUE(evaluate(rolled_graph(), {{"x", vector_of({0, 0})}, {"s", vector_of({1})}}, options).has_value());

  EXPECT_EQ(seen, (std::vector<std::string>{"scaled0", "next0", "scaled1", "next1", "scaled2", "next2"}));
}

TEST(Evaluate, MissingInputIsNamed) {
  const auto outputs = evaluate(rolled_graph(), {{"x", vector_of({5, 6})}});

  ASSERT_FALSE(outputs.has_value());
  EXPECT_EQ(outputs.error().message, "input \"s\" [1] is missing");
}

TEST(Evaluate, WrongShapeNamesBoth) {
  const auto outputs = evaluate(rolled_graph(), {{"x", vector_of({5, 6, 7})}, {"s", vector_of({2})}});

  ASSERT_FALSE(outputs.has_value());
  EXPECT_EQ(outputs.error().message, "input \"x\" is [3], the model takes [2]");
}

Graph product_graph(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  GraphBuilder builder("product");
  const ValueId x = builder.input("x", {rows, inner});
  const ValueId w = builder.parameter("w", {inner, columns}, compiler::normal_source(7, 0, 1, inner * columns));
  builder.output("y", builder.matmul("product", x, w));
  return std::move(builder).finish();
}

RC_GTEST_PROP(Evaluate, SameBitsForAnyNumberOfThreads, ()) {
  const Graph graph = product_graph(*rc::gen::inRange<std::int64_t>(1, 300), *rc::gen::inRange<std::int64_t>(1, 70),
                                    *rc::gen::inRange<std::int64_t>(1, 40));
  const auto inputs = random_inputs(graph, 3);

  set_thread_limit(1);
  const auto one = evaluate(graph, inputs);
  set_thread_limit(0);
  const auto all = evaluate(graph, inputs);

  RC_ASSERT(one->at("y").data == all->at("y").data);
}

RC_GTEST_PROP(Evaluate, MatmulEqualsTheTripleLoop, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 20), inner = *rc::gen::inRange<std::int64_t>(1, 20),
             columns = *rc::gen::inRange<std::int64_t>(1, 20);
  const Graph graph = product_graph(rows, inner, columns);
  const auto inputs = random_inputs(graph, 5);
  std::vector<float> w(static_cast<std::size_t>(inner * columns));
  RC_ASSERT(compiler::normal_source(7, 0, 1, inner * columns)->read(w).has_value());

  const Tensor y = evaluate(graph, inputs)->at("y");

  const std::vector<float>& x = inputs.at("x").data;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += static_cast<double>(x[i * inner + k]) * w[k * columns + j];
      RC_ASSERT(std::fabs(sum - y.data[i * columns + j]) < 1e-4);  // 20 products of normal numbers in F32
    }
}

// x * w with x = [a, b], w = [1; 1]: the sum of two numbers, rounded as the plan says.
float quantised_sum(float a, float b, const hw::PlannedOperation& planned) {
  GraphBuilder builder("sum");
  const ValueId x = builder.input("x", {1, 2});
  builder.output("y", builder.matmul("sum", x, builder.parameter("w", {2, 1}, compiler::dense_source({1, 1}))));
  const Graph graph = std::move(builder).finish();
  hw::Program program;
  program.precision = planned.left_f8 ? "f8" : "f16";
  program.plan = {planned};
  EvaluateOptions options;
  options.quantised = &program;
  const auto outputs = evaluate(graph, {{"x", {{1, 2}, {a, b}}}}, options);
  EXPECT_TRUE(outputs.has_value());
  return outputs->at("y").data[0];
}

TEST(Quantised, StoresInF16) {
  const hw::PlannedOperation planned{.operation = "sum"};

  EXPECT_EQ(quantised_sum(1.0F, 0.00048828125F, planned), 1.0F);  // half a step of F16 at 1: ties to even
  EXPECT_EQ(quantised_sum(1.0F, 0.0009765625F, planned), 1.0009765625F);
}

TEST(Quantised, RoundsF8OperandsAtTheirPlannedScale) {
  hw::PlannedOperation planned{.operation = "sum", .left_f8 = true, .right_f8 = true};

  EXPECT_EQ(quantised_sum(17, 0, planned), 16);     // four significant bits: 16, 18; ties to even
  EXPECT_EQ(quantised_sum(1000, 0, planned), 240);  // largest F143
  planned.left_scale_exponent = 3;
  EXPECT_EQ(quantised_sum(1000, 0, planned), 128 * 8);  // 125 of 2^3: steps of 8 there, 128 is nearer than 120
}

TEST(Quantised, F32ProgramsRoundNothing) {
  GraphBuilder builder("copy");
  const ValueId x = builder.input("x", {1});
  builder.output("y", builder.unary("copy", compiler::Unary::negate, x));
  hw::Program program;
  program.precision = "f32";
  EvaluateOptions options;
  options.quantised = &program;

  const auto outputs = evaluate(std::move(builder).finish(), {{"x", vector_of({1.00001F})}}, options);

  EXPECT_EQ(outputs->at("y").data[0], -1.00001F);
}

TEST(Compare, MeasuresErrors) {
  const Comparison comparison = compare(vector_of({3, 4, 1}), vector_of({3, 4, 0}));

  EXPECT_DOUBLE_EQ(comparison.max_abs_error, 1);
  EXPECT_DOUBLE_EQ(comparison.mean_abs_error, 1.0 / 3);
  EXPECT_DOUBLE_EQ(comparison.rel_l2, 1.0 / 5);
  EXPECT_DOUBLE_EQ(comparison.cosine, 25 / (5 * std::sqrt(26.0)));
  EXPECT_EQ(comparison.worst_index, 2);
}

TEST(Compare, NotANumberIsAnInfiniteErrorUnlessExpected) {
  EXPECT_EQ(compare(vector_of({1, NAN}), vector_of({1, 2})).max_abs_error, HUGE_VAL);
  EXPECT_EQ(compare(vector_of({1, 2}), vector_of({1, NAN})).max_abs_error, HUGE_VAL);
  EXPECT_EQ(compare(vector_of({1, NAN}), vector_of({1, NAN})).max_abs_error, 0);
}

TEST(Compare, EqualInfinitiesAreNoError) {
  EXPECT_EQ(compare(vector_of({1, INFINITY}), vector_of({1, INFINITY})).max_abs_error, 0);
  EXPECT_EQ(compare(vector_of({1, INFINITY}), vector_of({1, -INFINITY})).max_abs_error, HUGE_VAL);
}

TEST(Compare, ZeroVectorsAreAlike) {
  EXPECT_EQ(compare(vector_of({0, 0}), vector_of({0, 0})).cosine, 1);
  EXPECT_EQ(compare(vector_of({0, 1}), vector_of({0, 0})).cosine, 0);
}

TEST(RandomInputs, DependOnSeedAndNameOnly) {
  const Graph graph = rolled_graph();

  const auto a = random_inputs(graph, 1), b = random_inputs(graph, 1), c = random_inputs(graph, 2);

  EXPECT_EQ(a.at("x").data, b.at("x").data);
  EXPECT_NE(a.at("x").data, c.at("x").data);
  EXPECT_NE(a.at("x").data[0], a.at("s").data[0]);
  EXPECT_EQ(a.at("x").shape, (std::vector<std::int64_t>{2}));
}

}  // namespace
}  // namespace tw::runtime
