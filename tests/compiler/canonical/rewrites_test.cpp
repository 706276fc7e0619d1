// tests/compiler/canonical/rewrites_test.cpp: each rewrite fires where it may, stays away where it may not, and can be
// switched off. That numbers stay is in tests/chain/canonical_numbers_test.cpp.
#include "compiler/canonical/rewrites.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/canonical/canonical.h"
#include "compiler/graph/builder.h"

namespace tw::compiler {
namespace {

constexpr std::int64_t width = 8, heads = 2;

struct Maker {
  GraphBuilder g{"test"};
  ValueId weight(const std::string& name, const Shape& shape) {
    return g.parameter(name, shape, normal_source(7, 0, 1, elements_of(shape)));
  }
  ValueId linear(const std::string& name, ValueId x, std::int64_t columns = width) {
    return g.matmul(name, x, weight(name + ".w", {width, columns}), weight(name + ".b", {columns}));
  }
  ValueId norm(ValueId x) { return g.layer_norm("norm", x, weight("gamma", {width}), weight("beta", {width}), 1e-6); }
  Graph done(ValueId result, const std::vector<std::string>& without = {}) {
    g.output("y", result);
    auto graph = canonicalise(std::move(g).finish(), without);
    EXPECT_TRUE(graph);
    EXPECT_TRUE(verify(*graph).empty());
    return *std::move(graph);
  }
};

const Operation& only(const Graph& graph, OpKind kind) {
  const Operation* found = nullptr;
  for (const Operation& operation : graph.operations)
    if (operation.kind == kind) {
      EXPECT_EQ(found, nullptr) << "two of " << name_of(kind);
      found = &operation;
    }
  EXPECT_NE(found, nullptr) << "no " << name_of(kind);
  return *found;
}

const Operation& named(const Graph& graph, const std::string& name) {
  for (const Operation& operation : graph.operations)
    if (operation.name.starts_with(name)) return operation;
  ADD_FAILURE() << "no operation " << name;
  return graph.operations.front();
}

std::vector<float> numbers(const Graph& graph, ValueId id) {
  std::vector<float> values(static_cast<std::size_t>(elements_of(graph.value(id).shape)));
  EXPECT_TRUE(graph.value(id).source->read(values));
  return values;
}

int zeros(const std::vector<float>& values) { return static_cast<int>(std::count(values.begin(), values.end(), 0.0F)); }

TEST(NormScale, GoesIntoWeightsAndBias) {
  Maker m;
  const ValueId normed =
      m.g.layer_norm("norm", m.g.input("x", {3, 2}), m.g.parameter("gamma", {2}, dense_source({2, 3})),
                     m.g.parameter("beta", {2}, dense_source({10, 100})), 1e-6);
  const ValueId y = m.g.matmul("m", normed, m.g.parameter("w", {2, 2}, dense_source({1, 2, 3, 4})),
                               m.g.parameter("b", {2}, dense_source({5, 6})));
  const Graph graph = m.done(y);
  EXPECT_EQ(only(graph, OpKind::layer_norm).operands.size(), 1U);
  const Operation& product = only(graph, OpKind::matmul);
  EXPECT_EQ(numbers(graph, product.operands[1]), (std::vector<float>{2, 4, 9, 12}));
  EXPECT_EQ(numbers(graph, product.operands[2]), (std::vector<float>{5 + 10 + 300, 6 + 20 + 400}));
}

TEST(NormScale, StaysWhereTheNormIsReadOtherwise) {
  Maker m;
  const ValueId normed = m.norm(m.g.input("x", {3, width}));
  const Graph graph = m.done(m.g.binary("sum", Binary::add, m.linear("m", normed), normed));
  EXPECT_EQ(only(graph, OpKind::layer_norm).operands.size(), 3U);

  Maker output;
  const ValueId shown = output.norm(output.g.input("x", {3, width}));
  output.g.output("normed", shown);
  EXPECT_EQ(only(output.done(output.linear("m", shown)), OpKind::layer_norm).operands.size(), 3U);
}

TEST(NormScale, CanBeSwitchedOff) {
  Maker m;
  const Graph graph = m.done(m.linear("m", m.norm(m.g.input("x", {3, width}))), {"norm-scale"});
  EXPECT_EQ(only(graph, OpKind::layer_norm).operands.size(), 3U);
}

ValueId attend(Maker& m, ValueId x, bool merged) {
  if (!merged) {
    const ValueId q = m.linear("q", x), k = m.linear("k", x), v = m.linear("v", x);
    return m.g.attention("a", q, k, v, heads, 0.5);
  }
  const ValueId qkv = m.linear("qkv", x, 3 * width);
  const Shape part{1, 5, width};
  const ValueId q = m.g.slice("q", qkv, {0, 0, 0}, {1, 1, 1}, part),
                k = m.g.slice("k", qkv, {0, 0, width}, {1, 1, 1}, part),
                v = m.g.slice("v", qkv, {0, 0, 2 * width}, {1, 1, 1}, part);
  return m.g.attention("a", q, k, v, heads, 0.5);
}

// Whether the exporter merged the projections or canonicalisation does.
TEST(Biases, OfKeysAndValuesGo) {
  for (const bool merged : {false, true}) {
    Maker m;
    const Graph graph = m.done(m.linear("out", attend(m, m.g.input("x", {1, 5, width}), merged)));
    const std::vector<float> bias = numbers(graph, named(graph, merged ? "qkv" : "q.merged").operands[2]);
    ASSERT_EQ(bias.size(), 3U * width);
    EXPECT_EQ(zeros({bias.begin(), bias.begin() + width}), 0);
    EXPECT_EQ(zeros({bias.begin() + width, bias.end()}), 2 * width) << merged;
    Maker same;
    const Graph plain = same.done(same.linear("out", attend(same, same.g.input("x", {1, 5, width}), merged)),
                                  {"key-bias", "value-bias"});
    EXPECT_EQ(zeros(numbers(plain, named(plain, merged ? "qkv" : "q.merged").operands[2])), 0);
    EXPECT_NE(numbers(plain, named(plain, "out").operands[2]), numbers(graph, named(graph, "out").operands[2]));
  }
}

TEST(Biases, OfValuesStayWithoutAProductBehind) {
  Maker m;
  const Graph graph = m.done(m.g.unary("tanh", Unary::tanh, attend(m, m.g.input("x", {1, 5, width}), false)));
  const std::vector<float> bias = numbers(graph, named(graph, "q.merged").operands[2]);
  EXPECT_EQ(zeros({bias.begin() + width, bias.begin() + 2 * width}), width);
  EXPECT_EQ(zeros({bias.begin() + 2 * width, bias.end()}), 0);
}

// Columns that somebody else reads keep their bias.
TEST(Biases, OfSharedColumnsStay) {
  Maker m;
  const ValueId qkv = m.linear("qkv", m.g.input("x", {1, 5, width}), 2 * width);
  const Shape part{1, 5, width};
  const ValueId q = m.g.slice("q", qkv, {0, 0, 0}, {1, 1, 1}, part),
                k = m.g.slice("k", qkv, {0, 0, 4}, {1, 1, 1}, part);
  const Graph graph = m.done(m.linear("out", m.g.attention("a", q, k, q, heads, 0.5)));
  EXPECT_EQ(zeros(numbers(graph, named(graph, "qkv").operands[2])), 0);
}

Graph pooled(std::int64_t tokens, std::int64_t queries, const std::vector<std::string>& without = {},
             const Shape& probe_batch = {1}, TensorSourcePtr probe = nullptr) {
  Maker m;
  const ValueId x = m.g.input("x", {probe_batch[0], tokens, width});
  const Shape shape{probe_batch[0], queries, width};
  const ValueId q = m.g.parameter("probe", shape, probe ? probe : normal_source(3, 0, 1, elements_of(shape)));
  const ValueId k = m.linear("k", x), v = m.linear("v", x);
  return m.done(m.linear("out", m.g.attention("a", q, k, v, heads, 0.5)), without);
}

int attentions(const Graph& graph) {
  int count = 0;
  for (const Operation& operation : graph.operations) count += operation.kind == OpKind::attention ? 1 : 0;
  return count;
}

TEST(ConstantQueries, NeedNoKeysAndNoValues) {
  const Graph graph = pooled(40, 1);
  EXPECT_EQ(attentions(graph), 0);
  EXPECT_LT(multiply_adds(graph), multiply_adds(pooled(40, 1, {"constant-queries"})));
  EXPECT_EQ(attentions(pooled(40, 1, {"constant-queries"})), 1);
}

TEST(ConstantQueries, StayWhereNothingIsSaved) { EXPECT_EQ(attentions(pooled(40, 16)), 1); }

TEST(ConstantQueries, OfABatchMustBeEqual) {
  EXPECT_EQ(attentions(pooled(40, 1, {}, {2})), 1);
  EXPECT_EQ(attentions(pooled(40, 1, {}, {2}, uniform_source(0.5F, 2 * width))), 0);
}

TEST(Rewrites, AnUnknownNameIsRefused) {
  const Status status = check_rewrite_names({"norm-scales"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
  EXPECT_NE(status.error().message.find("norm-scale"), std::string::npos);
  EXPECT_FALSE(canonicalise(Graph{}, {"nothing"}));
}

}  // namespace
}  // namespace tw::compiler
