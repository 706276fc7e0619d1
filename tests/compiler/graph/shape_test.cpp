// tests/compiler/graph/shape_test.cpp: shape inference against literal cases, and the verifier's complaints.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/builder.h"
#include "compiler/graph/graph.h"

namespace tw::compiler {
namespace {

Operation of(OpKind kind, Attributes attributes = {}) {
  return {.kind = kind, .name = "op", .attributes = std::move(attributes)};
}

Shape shape_of(const Operation& operation, std::vector<Shape> operands, const Shape& wanted = {}) {
  const auto shape = infer_shape(operation, operands, wanted);
  return shape ? *shape : Shape{-1};
}
bool refused(const Operation& operation, std::vector<Shape> operands, const Shape& wanted = {}) {
  return !infer_shape(operation, operands, wanted);
}

TEST(Shapes, Matmul) {
  EXPECT_EQ(shape_of(of(OpKind::matmul), {{2, 3}, {3, 4}}), (Shape{2, 4}));
  EXPECT_EQ(shape_of(of(OpKind::matmul), {{7, 2, 3}, {3, 4}, {4}}), (Shape{7, 2, 4}));
  EXPECT_EQ(shape_of(of(OpKind::matmul), {{5, 1, 2, 3}, {6, 3, 4}}), (Shape{5, 6, 2, 4}));
  EXPECT_EQ(shape_of(of(OpKind::matmul, {.transpose_a = true, .transpose_b = true}), {{3, 2}, {4, 3}}), (Shape{2, 4}));
  EXPECT_TRUE(refused(of(OpKind::matmul), {{2, 3}, {4, 3}}));
  EXPECT_TRUE(refused(of(OpKind::matmul), {{3}, {3, 4}}));
  EXPECT_TRUE(refused(of(OpKind::matmul), {{2, 3}, {3, 4}, {3}}));
  EXPECT_TRUE(refused(of(OpKind::matmul), {{2, 3}}));
}

TEST(Shapes, Attention) {
  EXPECT_EQ(shape_of(of(OpKind::attention, {.heads = 2}), {{1, 5, 8}, {1, 7, 8}, {1, 7, 6}}), (Shape{1, 5, 6}));
  EXPECT_TRUE(refused(of(OpKind::attention, {.heads = 3}), {{1, 5, 8}, {1, 7, 8}, {1, 7, 8}}));
  EXPECT_TRUE(refused(of(OpKind::attention, {.heads = 2}), {{1, 5, 8}, {2, 7, 8}, {2, 7, 8}}));
  EXPECT_TRUE(refused(of(OpKind::attention, {.heads = 0}), {{1, 5, 8}, {1, 7, 8}, {1, 7, 8}}));
}

TEST(Shapes, Views) {
  EXPECT_EQ(shape_of(of(OpKind::transpose, {.permutation = {2, 0, 1}}), {{2, 3, 4}}), (Shape{4, 2, 3}));
  EXPECT_TRUE(refused(of(OpKind::transpose, {.permutation = {0, 3}}), {{2, 3}}));
  EXPECT_EQ(shape_of(of(OpKind::slice, {.starts = {4}, .steps = {-2}}), {{5}}, {3}), (Shape{3}));
  EXPECT_TRUE(refused(of(OpKind::slice, {.starts = {4}, .steps = {-2}}), {{5}}, {4}));
  EXPECT_TRUE(refused(of(OpKind::slice, {.starts = {0}, .steps = {2}}), {{5}}, {4}));
  EXPECT_EQ(shape_of(of(OpKind::concat, {.axis = 1}), {{2, 3}, {2, 5}}), (Shape{2, 8}));
  EXPECT_TRUE(refused(of(OpKind::concat, {.axis = 1}), {{2, 3}, {3, 5}}));
  EXPECT_EQ(shape_of(of(OpKind::expand), {{1, 3}}, {2, 4, 3}), (Shape{2, 4, 3}));
  EXPECT_TRUE(refused(of(OpKind::expand), {{2, 3}}, {1, 3}));
  EXPECT_TRUE(refused(of(OpKind::reshape), {{2, 3}}, {7}));
  EXPECT_EQ(shape_of(of(OpKind::binary), {{4, 1, 3}, {2, 1}}), (Shape{4, 2, 3}));
  EXPECT_TRUE(refused(of(OpKind::binary), {{4, 3}, {2}}));
  EXPECT_EQ(shape_of(of(OpKind::reduce, {.axes = {0, 2}, .keep_dims = false}), {{2, 3, 4}}), (Shape{3}));
  EXPECT_EQ(shape_of(of(OpKind::reduce, {.axes = {0, 2}, .keep_dims = true}), {{2, 3, 4}}), (Shape{1, 3, 1}));
}

bool complains(const Graph& graph, const std::string& rule) {
  const auto found = verify(graph);
  return std::any_of(found.begin(), found.end(), [&](const Violation& violation) { return violation.rule == rule; });
}

Graph small() {
  GraphBuilder g("g");
  const ValueId x = g.input("x", {2, 3});
  g.output("y", g.binary("sum", Binary::add, g.unary("relu", Unary::relu, x), x));
  return std::move(g).finish();
}

TEST(Verify, AcceptsASoundGraph) { EXPECT_TRUE(verify(small()).empty()); }

TEST(Verify, NamesWhatIsBroken) {
  Graph graph = small();
  graph.values[1].name = "x";
  EXPECT_TRUE(complains(graph, "graph.unique_names"));
  graph = small();
  std::swap(graph.regions[0].operations[0], graph.regions[0].operations[1]);
  EXPECT_TRUE(complains(graph, "graph.defined_before_use"));
  graph = small();
  graph.output_names.clear();
  EXPECT_TRUE(complains(graph, "graph.outputs"));
  graph = small();
  graph.operations[1].results = graph.operations[0].results;
  EXPECT_TRUE(complains(graph, "graph.single_assignment"));
  graph = small();
  graph.values[2].shape = {2, 4};
  EXPECT_FALSE(verify(graph).empty());
}

TEST(Counts, ParametersAndProducts) {
  GraphBuilder g("g");
  const ValueId x = g.input("x", {5, 2, 3});
  g.output("y", g.matmul("m", x, g.parameter("w", {3, 4}, uniform_source(1, 12)),
                         g.parameter("b", {4}, uniform_source(0, 4))));
  const Graph graph = std::move(g).finish();
  EXPECT_EQ(parameter_count(graph), 16);
  EXPECT_EQ(multiply_adds(graph), 5 * 2 * 3 * 4);
}

}  // namespace
}  // namespace tw::compiler
