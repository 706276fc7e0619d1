// tests/compiler/graph/text_test.cpp: the text form round-trips; broken text is an Error, never a crash.
#include <gtest/gtest.h>

#include "compiler/graph/graph.h"
#include "compiler/import/import.h"
#include "hw/base/random.h"

namespace tw::compiler {
namespace {

class TextRoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(TextRoundTrip, PrintsTheSameAfterParsing) {
  for (const bool canonical : {true, false}) {
    ImportOptions options;
    options.canonicalise = canonical;
    const auto graph = import_model(GetParam(), options);
    ASSERT_TRUE(graph) << graph.error().message;
    const std::string text = print(*graph);
    const auto parsed = parse_graph(text, "text");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(print(*parsed), text);
    EXPECT_EQ(parameter_count(*parsed), parameter_count(*graph));
    EXPECT_EQ(multiply_adds(*parsed), multiply_adds(*graph));
  }
}

INSTANTIATE_TEST_SUITE_P(Generators, TextRoundTrip,
                         testing::Values("gemm", "mlp", "attention", "encoder:layers=3", "siglip-so400m:layers=2"));

TEST(GraphText, NamesMayHoldAnything) {
  const auto graph = parse_graph(
      "graph \"a \\\"b\\\" \\\\c\"\ninput \"/x:0 [1]\" [2,3]\n"
      "\"y\" = unary \"n()\" (\"/x:0 [1]\") function=tanh -> [2,3]\noutput \"out = 1\" \"y\"\n",
      "f");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->name, "a \"b\" \\c");
  EXPECT_EQ(print(*parse_graph(print(*graph), "f")), print(*graph));
}

TEST(GraphText, ErrorsNameTheLine) {
  const auto graph = parse_graph("graph \"g\"\ninput \"x\" [2]\n\"y\" = sing \"y\" (\"x\") -> [2]\n", "file.txt");
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("file.txt:3"), std::string::npos) << graph.error().message;
  EXPECT_NE(graph.error().message.find("sing"), std::string::npos);
}

TEST(GraphText, RefusesWhatBreaksTheRules) {
  const char* const broken[] = {
      "input \"x\" [2]\ninput \"x\" [2]\n",                                   // a name twice
      "input \"x\" [0]\n",                                                    // no elements
      "input \"x\" [4611686018427387904,4611686018427387904]\n",              // too many
      "\"y\" = unary \"y\" (\"x\") function=tanh -> [2]\n",                   // undefined
      "input \"x\" [2]\n\"y\" = unary \"y\" (\"x\") function=tanh -> [3]\n",  // wrong shape
      "input \"x\" [2,3]\n\"y\" = matmul \"y\" (\"x\", \"x\") -> [2,3]\n",    // inner extents
      "input \"x\" [2]\nregion 1 (\"a\" [2]) {\n\"b\" = repeat \"r\" (\"a\") count=2 region=1 carried=1 -> [2]\nreturn "
      "\"b\"\n}\n"
      "\"y\" = repeat \"s\" (\"x\") count=2 region=1 carried=1 -> [2]\n",  // a region inside itself
      "region 1 (\"a\" [2]) {\n",                                          // no end
  };
  for (const char* text : broken) EXPECT_FALSE(parse_graph(text, "f")) << text;
}

TEST(GraphText, SurvivesTruncationAndFlips) {
  const std::string text = print(*import_model("encoder:layers=2", {}));
  for (std::size_t length = 0; length < text.size(); length += 3)
    static_cast<void>(parse_graph(text.substr(0, length), "f"));
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string damaged = text;
    damaged[random_bits(1, round) % text.size()] = static_cast<char>(random_bits(2, round));
    const auto graph = parse_graph(damaged, "f");
    if (graph) {
      EXPECT_TRUE(verify(*graph).empty());
    }
  }
}

}  // namespace
}  // namespace tw::compiler
