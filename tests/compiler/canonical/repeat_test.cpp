// tests/compiler/canonical/repeat_test.cpp: layers roll into Repeats and unroll to what they were.
#include <gtest/gtest.h>

#include "compiler/canonical/canonical.h"
#include "compiler/graph/builder.h"

namespace tw::compiler {
namespace {

std::vector<std::string> flat_structure(const Graph& graph) {
  std::vector<std::string> list;
  for (const OperationId id : graph.main().operations) {
    const Operation& operation = graph.operation(id);
    list.push_back(name_of(operation.kind) + to_string(graph.value(operation.results[0]).shape));
  }
  return list;
}

// `layers` residual layers; `odd` layer (if any) differs by another function; `invariant`: a value that all layers
// read.
Graph stack(int layers, int odd = -1, bool invariant = false) {
  GraphBuilder g("stack");
  ValueId x = g.input("x", {4, 6});
  const ValueId shared = invariant ? g.unary("shared", Unary::exp, g.input("z", {4, 6})) : x;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".";
    const ValueId w = g.parameter(name + "w", {6, 6}, normal_source(static_cast<std::uint64_t>(layer), 0, 1, 36));
    ValueId y = g.unary(name + "f", layer == odd ? Unary::tanh : Unary::relu, g.matmul(name + "m", x, w));
    if (invariant) y = g.binary(name + "s", Binary::multiply, y, shared);
    x = g.binary(name + "r", Binary::add, x, y);
  }
  g.output("y", x);
  return std::move(g).finish();
}

TEST(Rolling, LayersBecomeOneBody) {
  for (const int layers : {2, 3, 27}) {
    const Graph flat = stack(layers), rolled = roll_repeats(flat);
    ASSERT_TRUE(verify(rolled).empty());
    ASSERT_EQ(rolled.main().operations.size(), 1U) << layers;
    const Operation& repeat = rolled.operation(rolled.main().operations[0]);
    EXPECT_EQ(repeat.kind, OpKind::repeat);
    EXPECT_EQ(repeat.attributes.count, layers);
    EXPECT_EQ(repeat.carried, 1);
    EXPECT_EQ(rolled.regions[1].operations.size(), 3U);
    EXPECT_EQ(parameter_count(rolled), parameter_count(flat));
    EXPECT_EQ(multiply_adds(rolled), multiply_adds(flat));
    EXPECT_EQ(flat_structure(unroll_repeats(rolled)), flat_structure(flat));
  }
}

TEST(Rolling, InvariantsStayOutside) {
  const Graph rolled = roll_repeats(stack(5, -1, true));
  ASSERT_TRUE(verify(rolled).empty());
  ASSERT_EQ(rolled.regions.size(), 2U);
  const Operation& repeat = rolled.operation(rolled.main().operations.back());
  EXPECT_EQ(repeat.kind, OpKind::repeat);
  EXPECT_EQ(repeat.operands.size(), 2U);
  EXPECT_EQ(repeat.carried, 1);
}

TEST(Rolling, AnOddLayerSplitsTheRun) {
  const Graph flat = stack(9, 4), rolled = roll_repeats(flat);
  ASSERT_TRUE(verify(rolled).empty());
  EXPECT_EQ(rolled.regions.size(), 3U);  // four layers on both sides
  EXPECT_EQ(flat_structure(unroll_repeats(rolled)), flat_structure(flat));
}

TEST(Rolling, AnOutputInsideKeepsItsLayerApart) {
  Graph flat = stack(4);
  flat.regions[0].results.push_back(flat.operation(flat.main().operations[2]).results[0]);  // after the first layer
  flat.output_names.push_back("inner");
  const Graph rolled = roll_repeats(flat);
  EXPECT_TRUE(verify(rolled).empty());
  EXPECT_EQ(flat_structure(unroll_repeats(rolled)), flat_structure(flat));
}

TEST(Rolling, OneLayerStays) { EXPECT_EQ(roll_repeats(stack(1)).regions.size(), 1U); }

}  // namespace
}  // namespace tw::compiler
