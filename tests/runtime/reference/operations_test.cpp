// tests/runtime/reference/operations_test.cpp: each graph operation on small literal cases, in f32.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/graph/builder.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {
namespace {

using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::Shape;

// A graph whose parameters hold the given operands; its only output is what `build` returns.
template <class Build>
Tensor result_of(Build build) {
  GraphBuilder graph("test");
  graph.output("y", build(graph));
  const auto outputs = evaluate(std::move(graph).finish(), {});
  EXPECT_TRUE(outputs.has_value()) << outputs.error().message;
  return outputs ? outputs->at("y") : Tensor{};
}

ValueId tensor(GraphBuilder& graph, const std::string& name, Shape shape, std::vector<float> values) {
  return graph.parameter(name, std::move(shape), compiler::dense_source(std::move(values)));
}

void expect_near(const Tensor& actual, const Shape& shape, const std::vector<float>& expected,
                 float tolerance = 1e-6F) {
  ASSERT_EQ(actual.shape, shape);
  ASSERT_EQ(actual.data.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual.data[i], expected[i], tolerance) << "element " << i;
}

TEST(Reference, MatmulAddsProductsAndBias) {
  const Tensor y = result_of([](GraphBuilder& g) {
    return g.matmul("y", tensor(g, "a", {2, 3}, {1, 2, 3, 4, 5, 6}), tensor(g, "b", {3, 2}, {1, 0, 0, 1, 2, 2}),
                    tensor(g, "c", {2}, {10, 20}));
  });

  expect_near(y, {2, 2}, {1 + 6 + 10, 2 + 6 + 20, 4 + 12 + 10, 5 + 12 + 20});
}

TEST(Reference, MatmulTransposesEitherOperand) {
  const auto product = [](bool a, bool b) {
    return result_of([&](GraphBuilder& g) {
      compiler::Attributes attributes;
      attributes.transpose_a = a;
      attributes.transpose_b = b;
      return g.add(OpKind::matmul, "y", {tensor(g, "a", {2, 2}, {1, 2, 3, 4}), tensor(g, "b", {2, 2}, {5, 6, 7, 8})},
                   attributes);
    });
  };

  expect_near(product(false, false), {2, 2}, {19, 22, 43, 50});
  expect_near(product(true, false), {2, 2}, {26, 30, 38, 44});
  expect_near(product(false, true), {2, 2}, {17, 23, 39, 53});
}

TEST(Reference, MatmulBroadcastsLeadingAxes) {
  const Tensor y = result_of([](GraphBuilder& g) {
    return g.matmul("y", tensor(g, "a", {2, 1, 1, 2}, {1, 2, 3, 4}), tensor(g, "b", {3, 2, 1}, {1, 1, 10, 0, 0, 100}));
  });

  expect_near(y, {2, 3, 1, 1}, {3, 10, 200, 7, 30, 400});
}

TEST(Reference, AttentionWithEqualScoresAverages) {
  const Tensor y = result_of([](GraphBuilder& g) {
    const ValueId q = tensor(g, "q", {1, 2, 2}, {0, 0, 0, 0}), k = tensor(g, "k", {1, 2, 2}, {1, 2, 3, 4});
    return g.attention("y", q, k, tensor(g, "v", {1, 2, 2}, {1, 10, 3, 30}), 2, 1.0);
  });

  expect_near(y, {1, 2, 2}, {2, 20, 2, 20});
}

TEST(Reference, AttentionWeighsEachHeadByItsOwnScores) {
  const Tensor y = result_of([](GraphBuilder& g) {
    const ValueId q = tensor(g, "q", {1, 1, 2}, {1, 2}), k = tensor(g, "k", {1, 2, 2}, {0, 0, 2, 1});
    return g.attention("y", q, k, tensor(g, "v", {1, 2, 2}, {0, 0, 1, 1}), 2, 0.5);
  });

  // Head 0: scores 0 and 0.5 * 1 * 2; head 1: 0 and 0.5 * 2 * 1.
  const float weight = 1.0F / (1.0F + std::exp(-1.0F));
  expect_near(y, {1, 1, 2}, {weight, weight});
}

TEST(Reference, CausalAttentionSeesNoLaterKey) {
  const Tensor y = result_of([](GraphBuilder& g) {
    const ValueId q = tensor(g, "q", {1, 2, 1}, {0, 0}), k = tensor(g, "k", {1, 2, 1}, {0, 0});
    return g.attention("y", q, k, tensor(g, "v", {1, 2, 1}, {4, 8}), 1, 1.0, true);
  });

  expect_near(y, {1, 2, 1}, {4, 6});
}

TEST(Reference, LayerNormUsesTheVarianceOfTheWholeRow) {
  const Tensor y = result_of([](GraphBuilder& g) {
    return g.layer_norm("y", tensor(g, "x", {1, 4}, {1, 3, 5, 7}), tensor(g, "gamma", {4}, {1, 2, 1, 1}),
                        tensor(g, "beta", {4}, {0, 0, 0, 5}), 0.0);
  });

  const float step = 1.0F / std::sqrt(5.0F);  // mean 4, variance (9 + 1 + 1 + 9) / 4
  expect_near(y, {1, 4}, {-3 * step, -1 * step * 2, step, 3 * step + 5});
}

TEST(Reference, SoftmaxSumsToOneAndSurvivesLargeValues) {
  const Tensor y = result_of([](GraphBuilder& g) {
    return g.softmax("y", tensor(g, "x", {2, 2}, {0, std::log(3.0F), 1000, 1000}));
  });

  expect_near(y, {2, 2}, {0.25F, 0.75F, 0.5F, 0.5F});
}

TEST(Reference, GeluKindsDifferInTheFourthDigit) {
  const auto gelu = [](bool tanh) {
    return result_of([&](GraphBuilder& g) { return g.gelu("y", tensor(g, "x", {3}, {-1, 0, 2}), tanh); });
  };

  // x * Phi(x) with the normal distribution's Phi(-1) = 0.1586553, Phi(2) = 0.9772499.
  expect_near(gelu(false), {3}, {-0.1586553F, 0, 1.9544997F});
  // 0.5 x (1 + tanh(0.7978846 (x + 0.044715 x^3))).
  expect_near(gelu(true), {3}, {-0.1588080F, 0, 1.9545977F});
}

TEST(Reference, UnaryFunctionsFollowTheirNames) {
  const auto apply = [](compiler::Unary function, float x) {
    return result_of([&](GraphBuilder& g) { return g.unary("y", function, tensor(g, "x", {1}, {x})); }).data.at(0);
  };

  EXPECT_FLOAT_EQ(apply(compiler::Unary::relu, -2), 0);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::tanh, 0.5F), 0.46211716F);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::sigmoid, 0), 0.5F);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::exp, 1), 2.7182818F);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::sqrt, 9), 3);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::erf, 1), 0.84270079F);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::negate, 3), -3);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::absolute, -3), 3);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::reciprocal, 4), 0.25F);
  EXPECT_FLOAT_EQ(apply(compiler::Unary::log, 1), 0);
}

TEST(Reference, BinaryFunctionsBroadcast) {
  const auto apply = [](compiler::Binary function) {
    return result_of([&](GraphBuilder& g) {
      return g.binary("y", function, tensor(g, "a", {2, 1}, {2, 3}), tensor(g, "b", {2}, {1, 4}));
    });
  };

  expect_near(apply(compiler::Binary::add), {2, 2}, {3, 6, 4, 7});
  expect_near(apply(compiler::Binary::subtract), {2, 2}, {1, -2, 2, -1});
  expect_near(apply(compiler::Binary::multiply), {2, 2}, {2, 8, 3, 12});
  expect_near(apply(compiler::Binary::divide), {2, 2}, {2, 0.5F, 3, 0.75F});
  expect_near(apply(compiler::Binary::power), {2, 2}, {2, 16, 3, 81}, 1e-4F);
  expect_near(apply(compiler::Binary::maximum), {2, 2}, {2, 4, 3, 4});
  expect_near(apply(compiler::Binary::minimum), {2, 2}, {1, 2, 1, 3});
}

TEST(Reference, ReduceFollowsItsAxes) {
  const auto apply = [](compiler::Reduction function, std::vector<std::int64_t> axes, bool keep) {
    return result_of([&](GraphBuilder& g) {
      return g.reduce("y", function, tensor(g, "x", {2, 3}, {1, 2, 3, -4, -5, -6}), axes, keep);
    });
  };

  expect_near(apply(compiler::Reduction::sum, {1}, true), {2, 1}, {6, -15});
  expect_near(apply(compiler::Reduction::mean, {0}, false), {3}, {-1.5F, -1.5F, -1.5F});
  expect_near(apply(compiler::Reduction::maximum, {1}, false), {2}, {3, -4});
  expect_near(apply(compiler::Reduction::sum, {0, 1}, true), {1, 1}, {-9});
}

TEST(Reference, ViewsMoveElements) {
  const auto x = [](GraphBuilder& g) { return tensor(g, "x", {2, 3}, {1, 2, 3, 4, 5, 6}); };

  expect_near(result_of([&](GraphBuilder& g) { return g.reshape("y", x(g), {3, 2}); }), {3, 2}, {1, 2, 3, 4, 5, 6});
  expect_near(result_of([&](GraphBuilder& g) { return g.transpose("y", x(g), {1, 0}); }), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_near(result_of([&](GraphBuilder& g) {
                return g.slice("y", x(g), {0, 0}, {1, 2}, {2, 2});
              }),
              {2, 2}, {1, 3, 4, 6});
  expect_near(result_of([&](GraphBuilder& g) { return g.slice("y", x(g), {1, 1}, {1, 1}, {1, 2}); }), {1, 2}, {5, 6});
  expect_near(result_of([&](GraphBuilder& g) {
                return g.concat("y", {x(g), tensor(g, "z", {2, 1}, {8, 9})}, 1);
              }),
              {2, 4}, {1, 2, 3, 8, 4, 5, 6, 9});
  expect_near(result_of([&](GraphBuilder& g) {
                return g.expand("y", tensor(g, "z", {2, 1}, {8, 9}), {2, 2, 2});
              }),
              {2, 2, 2}, {8, 8, 9, 9, 8, 8, 9, 9});
}

}  // namespace
}  // namespace tw::runtime
