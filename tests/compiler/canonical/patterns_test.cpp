// tests/compiler/canonical/patterns_test.cpp: what exporters write is raised to semantic operations; look-alikes are
// not.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compiler/canonical/canonical.h"
#include "compiler/graph/builder.h"

namespace tw::compiler {
namespace {

std::map<std::string, int> kinds(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Region& region : graph.regions)
    for (const OperationId id : region.operations) ++counts[name_of(graph.operation(id).kind)];
  return counts;
}

struct Maker {
  GraphBuilder g{"test"};
  int numbers = 0;
  ValueId number(double value) {
    return g.parameter("c" + std::to_string(numbers++), {}, uniform_source(static_cast<float>(value), 1));
  }
  ValueId weight(const std::string& name, const Shape& shape) {
    return g.parameter(name, shape, normal_source(7, 0, 1, elements_of(shape)));
  }
  ValueId op(Binary function, ValueId a, ValueId b) {
    return g.binary("b" + std::to_string(numbers++), function, a, b);
  }
  ValueId op(Unary function, ValueId x) { return g.unary("u" + std::to_string(numbers++), function, x); }
  Graph done(ValueId result) {
    g.output("y", result);
    auto graph = canonicalise(std::move(g).finish());
    EXPECT_TRUE(graph);
    EXPECT_TRUE(verify(*graph).empty());
    return *std::move(graph);
  }
};

ValueId decomposed_norm(Maker& m, ValueId x, bool power, bool epsilon_first, std::int64_t axis = 2) {
  const ValueId centred =
      m.op(Binary::subtract, x, m.g.reduce("mean" + std::to_string(m.numbers++), Reduction::mean, x, {axis}, true));
  const ValueId squared = power ? m.op(Binary::power, centred, m.number(2)) : m.op(Binary::multiply, centred, centred);
  const ValueId variance = m.g.reduce("variance" + std::to_string(m.numbers++), Reduction::mean, squared, {axis}, true);
  const ValueId epsilon = m.number(1e-6);
  const ValueId sum = epsilon_first ? m.op(Binary::add, epsilon, variance) : m.op(Binary::add, variance, epsilon);
  return m.op(Binary::divide, centred, m.op(Unary::sqrt, sum));
}

TEST(LayerNorm, EveryOrder) {
  for (const bool power : {false, true})
    for (const bool epsilon_first : {false, true})
      for (const bool gamma_first : {false, true}) {
        Maker m;
        ValueId y = decomposed_norm(m, m.g.input("x", {1, 5, 8}), power, epsilon_first);
        const ValueId gamma = m.weight("gamma", {8}), beta = m.weight("beta", {8});
        y = gamma_first ? m.op(Binary::multiply, gamma, y) : m.op(Binary::multiply, y, gamma);
        y = gamma_first ? m.op(Binary::add, beta, y) : m.op(Binary::add, y, beta);
        const Graph graph = m.done(y);
        EXPECT_EQ(kinds(graph), (std::map<std::string, int>{{"layer_norm", 1}}));
        EXPECT_EQ(graph.operations[0].operands.size(), 3U);
        EXPECT_FLOAT_EQ(static_cast<float>(graph.operations[0].attributes.epsilon), 1e-6F);
      }
}

TEST(LayerNorm, OtherAxesStay) {
  Maker m;
  const Graph graph = m.done(decomposed_norm(m, m.g.input("x", {1, 5, 8}), true, false, 1));
  EXPECT_EQ(kinds(graph).count("layer_norm"), 0U);
}

TEST(LayerNorm, MultiplicationByAnotherValueIsNoGamma) {
  Maker m;
  const ValueId x = m.g.input("x", {1, 5, 8}), z = m.g.input("z", {1, 5, 8});
  auto counts = kinds(m.done(m.op(Binary::multiply, decomposed_norm(m, x, true, false), z)));
  EXPECT_EQ(counts["layer_norm"], 1);
  EXPECT_EQ(counts["binary"], 1);
}

TEST(Gelu, ErfInEveryOrderOfFactors) {
  for (int order = 0; order < 4; ++order) {
    Maker m;
    const ValueId x = m.g.input("x", {4, 8});
    const ValueId argument = order % 2 ? m.op(Binary::divide, x, m.number(std::sqrt(2.0)))
                                       : m.op(Binary::multiply, m.number(std::sqrt(0.5)), x);
    const ValueId plus = m.op(Binary::add, m.op(Unary::erf, argument), m.number(1));
    const ValueId y = order == 0   ? m.op(Binary::multiply, m.op(Binary::multiply, x, m.number(0.5)), plus)
                      : order == 1 ? m.op(Binary::multiply, m.op(Binary::multiply, x, plus), m.number(0.5))
                      : order == 2 ? m.op(Binary::multiply, x, m.op(Binary::multiply, m.number(0.5), plus))
                                   : m.op(Binary::divide, m.op(Binary::multiply, plus, x), m.number(2));
    const Graph graph = m.done(y);
    if (order == 3) continue;  // the outer operation is a division: allowed to stay
    EXPECT_EQ(kinds(graph), (std::map<std::string, int>{{"gelu", 1}})) << order;
    EXPECT_FALSE(graph.operations[0].attributes.gelu_tanh);
  }
}

TEST(Gelu, TanhWithPowerOrProducts) {
  for (int form = 0; form < 3; ++form) {
    Maker m;
    const ValueId x = m.g.input("x", {4, 8});
    const ValueId cube = form == 0   ? m.op(Binary::power, x, m.number(3))
                         : form == 1 ? m.op(Binary::multiply, m.op(Binary::multiply, x, x), x)
                                     : m.op(Binary::multiply, x, m.op(Binary::multiply, x, x));
    const ValueId sum = m.op(Binary::add, x, m.op(Binary::multiply, m.number(0.044715), cube));
    const ValueId tanh = m.op(Unary::tanh, m.op(Binary::multiply, sum, m.number(std::sqrt(2 / 3.14159265358979))));
    const Graph graph =
        m.done(m.op(Binary::multiply, m.op(Binary::multiply, m.number(0.5), x), m.op(Binary::add, m.number(1), tanh)));
    EXPECT_EQ(kinds(graph), (std::map<std::string, int>{{"gelu", 1}})) << form;
    EXPECT_TRUE(graph.operations[0].attributes.gelu_tanh);
  }
}

TEST(Gelu, AnotherConstantStays) {
  Maker m;
  const ValueId x = m.g.input("x", {4, 8});
  const ValueId plus = m.op(Binary::add, m.op(Unary::erf, m.op(Binary::multiply, x, m.number(0.9))), m.number(1));
  EXPECT_EQ(kinds(m.done(m.op(Binary::multiply, m.op(Binary::multiply, x, m.number(0.5)), plus))).count("gelu"), 0U);
}

// Where the scale is: on the scores (multiplied, divided), on q, on k, or its root on both.
class AttentionScale : public testing::TestWithParam<int> {};

TEST_P(AttentionScale, IsCollected) {
  Maker m;
  const ValueId x = m.g.input("x", {2, 5, 8});
  const auto heads = [&](const std::string& name, std::vector<std::int64_t> order, bool scaled, double scale) {
    ValueId y = m.g.matmul(name, x, m.weight(name + ".w", {8, 8}), m.weight(name + ".b", {8}));
    y = m.g.transpose(name + ".t", m.g.reshape(name + ".r", y, {2, 5, 2, 4}), std::move(order));
    return scaled ? m.op(Binary::multiply, y, m.number(scale)) : y;
  };
  const int place = GetParam();
  const bool both = place == 4;
  const double each = both ? std::sqrt(0.5) : 0.5;
  const ValueId q = heads("q", {0, 2, 1, 3}, place == 2 || both, each),
                k = heads("k", {0, 2, 3, 1}, place == 3 || both, each);
  ValueId scores = m.g.matmul("scores", q, k);
  if (place == 0) scores = m.op(Binary::multiply, m.number(0.5), scores);
  if (place == 1) scores = m.op(Binary::divide, scores, m.number(2));
  const ValueId mixed = m.g.matmul("mixed", m.g.softmax("p", scores), heads("v", {0, 2, 1, 3}, false, 1));
  const ValueId out = m.g.reshape("joined", m.g.transpose("back", mixed, {0, 2, 1, 3}), {2, 5, 8});
  const Graph graph = m.done(m.g.matmul("out", out, m.weight("o.w", {8, 8})));
  EXPECT_EQ(kinds(graph), (std::map<std::string, int>{{"matmul", 2}, {"slice", 3}, {"attention", 1}}));
  for (const Operation& operation : graph.operations)
    if (operation.kind == OpKind::attention) {
      EXPECT_NEAR(operation.attributes.scale, 0.5, 1e-6);
      EXPECT_EQ(operation.attributes.heads, 2);
    }
}

INSTANTIATE_TEST_SUITE_P(Places, AttentionScale, testing::Range(0, 5));

// Attention with the sequence first, batch and heads in one axis; the query computed or learned (already folded).
TEST(Attention, SequenceFirst) {
  for (const std::int64_t batch : {1, 3})
    for (const bool learned : {false, true}) {
      if (learned && batch > 1) continue;
      Maker m;
      const ValueId x = m.g.input("x", {5, batch, 8});
      const auto heads = [&](const std::string& name, std::vector<std::int64_t> order) {
        const ValueId y = m.g.matmul(name, x, m.weight(name + ".w", {8, 8}), m.weight(name + ".b", {8}));
        return m.g.transpose(name + ".t", m.g.reshape(name + ".r", y, {5, batch * 2, 4}), std::move(order));
      };
      const ValueId q = learned ? m.weight("probe", {2, 1, 4}) : heads("q", {1, 0, 2});
      const ValueId scores = m.g.matmul("scores", m.op(Binary::divide, q, m.number(2)), heads("k", {1, 2, 0}));
      const ValueId mixed = m.g.matmul("mixed", m.g.softmax("p", scores), heads("v", {1, 0, 2}));
      const std::int64_t rows = learned ? 1 : 5;
      const Graph graph = m.done(m.g.reshape("joined", m.g.transpose("back", mixed, {1, 0, 2}), {rows * batch, 8}));
      auto counts = kinds(graph);
      EXPECT_EQ(counts["attention"], 1);
      EXPECT_EQ(counts["softmax"], 0);
      EXPECT_EQ(counts["matmul"], 1);
      for (const Operation& operation : graph.operations)
        if (operation.kind == OpKind::attention) {
          EXPECT_EQ(operation.attributes.heads, 2);
          EXPECT_EQ(graph.value(operation.results[0]).shape, (Shape{batch, rows, 8}));
        }
    }
}

// One query for several batches broadcasts in the product: it stays as it is.
TEST(Attention, BroadcastQueriesStay) {
  Maker m;
  const ValueId x = m.g.input("x", {2, 5, 8});
  const auto heads = [&](const std::string& name, ValueId from, std::vector<std::int64_t> order) {
    const Shape shape = m.g.shape(from);
    return m.g.transpose(name + ".t", m.g.reshape(name + ".r", from, {shape[0], shape[1], 2, 4}), std::move(order));
  };
  const ValueId q = m.op(Unary::exp, m.g.input("query", {1, 1, 8}));
  const ValueId scores = m.g.matmul("scores", heads("q", q, {0, 2, 1, 3}), heads("k", x, {0, 2, 3, 1}));
  const ValueId mixed = m.g.matmul("mixed", m.g.softmax("p", scores), heads("v", x, {0, 2, 1, 3}));
  EXPECT_EQ(kinds(m.done(m.g.transpose("back", mixed, {0, 2, 1, 3})))["attention"], 0);
}

TEST(Bias, OnEitherSideOfTheAddition) {
  for (const bool left : {false, true}) {
    Maker m;
    const ValueId product = m.g.matmul("m", m.g.input("x", {3, 4}), m.weight("w", {4, 6})), bias = m.weight("b", {6});
    const Graph graph = m.done(left ? m.op(Binary::add, bias, product) : m.op(Binary::add, product, bias));
    EXPECT_EQ(kinds(graph), (std::map<std::string, int>{{"matmul", 1}}));
    EXPECT_EQ(graph.operations[0].operands.size(), 3U);
  }
}

TEST(Bias, ResidualsAndScalarsStay) {
  Maker m;
  const ValueId x = m.g.input("x", {3, 4});
  EXPECT_EQ(kinds(m.done(m.op(Binary::add, m.g.matmul("m", x, m.weight("w", {4, 4})), x))),
            (std::map<std::string, int>{{"matmul", 1}, {"binary", 1}}));
  Maker one;  // a product of one column plus a scalar without axes
  const ValueId product = one.g.matmul("m", one.g.input("x", {3, 4}), one.weight("w", {4, 1}));
  EXPECT_TRUE(verify(one.done(one.op(Binary::add, product, one.number(2)))).empty());
}

TEST(Constants, FoldThroughProductsAndViews) {
  Maker m;
  const ValueId x = m.g.input("x", {2, 3});
  const ValueId a = m.g.parameter("a", {3, 2}, dense_source({1, 2, 3, 4, 5, 6})),
                b = m.g.parameter("b", {2, 3}, dense_source({1, 0, 2, 0, 1, 1}));
  const ValueId folded = m.g.transpose("t", m.g.matmul("ab", a, b), {1, 0});
  const Graph graph = m.done(m.g.matmul("y", x, folded));
  ASSERT_EQ(kinds(graph), (std::map<std::string, int>{{"matmul", 1}}));
  std::vector<float> numbers(9);
  ASSERT_TRUE(graph.value(graph.operations[0].operands[1]).source->read(numbers));
  EXPECT_EQ(numbers, (std::vector<float>{1, 3, 5, 2, 4, 6, 4, 10, 16}));
}

TEST(Identities, DoNothingAndGo) {
  Maker m;
  ValueId x = m.g.input("x", {2, 3});
  x = m.g.reshape("r2", m.g.reshape("r1", x, {6}), {2, 3});
  x = m.g.transpose("t2", m.g.transpose("t1", x, {1, 0}), {1, 0});
  x = m.op(Binary::multiply, m.op(Binary::add, x, m.number(0)), m.number(1));
  EXPECT_EQ(kinds(m.done(m.op(Unary::relu, x))), (std::map<std::string, int>{{"unary", 1}}));
}

}  // namespace
}  // namespace tw::compiler
