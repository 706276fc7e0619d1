// tests/chain/canonical_numbers_test.cpp: canonical forms, rolled layers and emitted models compute what the flat
// graphs do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/canonical/canonical.h"
#include "compiler/import/import.h"
#include "runtime/reference/reference.h"
#include "tests/support/support.h"

namespace tw::runtime {
namespace {

class SameNumbers : public testing::TestWithParam<const char*> {};

std::map<std::string, Tensor> outputs_of(const compiler::Graph& graph) {
  const auto outputs = evaluate(graph, random_inputs(graph, 3));
  EXPECT_TRUE(outputs) << (outputs ? "" : outputs.error().message);
  return outputs ? *outputs : std::map<std::string, Tensor>{};
}

TEST_P(SameNumbers, InEveryForm) {
  compiler::ImportOptions flat;
  flat.canonicalise = false;
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.onnx"), again = folder.file("again.onnx");
  ASSERT_TRUE(compiler::emit_onnx(GetParam(), {}, path));
  const auto raw = compiler::import_model(GetParam(), flat), rolled = compiler::import_model(GetParam(), {});
  const auto imported = compiler::import_model(path, {}), imported_flat = compiler::import_model(path, flat);
  ASSERT_TRUE(raw && rolled && imported && imported_flat);
  ASSERT_TRUE(compiler::write_onnx(*rolled, again));  // with Repeats written out
  const auto rewritten = compiler::import_model(again, {});
  ASSERT_TRUE(rewritten) << rewritten.error().message;
  const auto expected = outputs_of(*raw);
  const compiler::Graph unrolled = compiler::unroll_repeats(*rolled);
  for (const compiler::Graph* graph :
       std::initializer_list<const compiler::Graph*>{&*rolled, &unrolled, &*imported, &*imported_flat, &*rewritten}) {
    const auto actual = outputs_of(*graph);
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(actual.contains(name)) << name;
      EXPECT_LT(compare(actual.at(name), tensor).rel_l2, 1e-5) << name;
    }
  }
}

// Each rewrite alone, and all but it.
TEST_P(SameNumbers, WithAndWithoutEachRewrite) {
  compiler::ImportOptions options;
  options.canonicalise = false;
  const auto raw = compiler::import_model(GetParam(), options);
  ASSERT_TRUE(raw);
  const auto expected = outputs_of(*raw);
  const std::vector<std::string> names = compiler::rewrite_names();
  for (const std::string& name : names)
    for (const bool alone : {false, true}) {
      std::vector<std::string> without = alone ? names : std::vector<std::string>{name};
      if (alone) std::erase(without, name);
      const auto graph = compiler::canonicalise(*raw, without);
      ASSERT_TRUE(graph);
      for (const auto& [output, tensor] : outputs_of(*graph))
        EXPECT_LT(compare(tensor, expected.at(output)).rel_l2, 1e-5) << name << (alone ? " alone" : " off");
    }
}

INSTANTIATE_TEST_SUITE_P(Generators, SameNumbers,
                         testing::Values("gemm", "mlp", "attention:batch=2", "pooling",
                                         "pooling:queries=3,tokens=90,batch=2,heads=3", "encoder:layers=3,tokens=20",
                                         "encoder:layers=2,tokens=9,batch=2,heads=4"));

}  // namespace
}  // namespace tw::runtime
