// tests/hw/base/text_test.cpp: text helpers, integer arithmetic, ids, results.
#include "hw/base/text.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "hw/base/check.h"
#include "hw/base/id.h"
#include "hw/base/result.h"
#include "hw/base/units.h"

namespace tw {
namespace {

TEST(Text, Separators) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(-1234567), "-1,234,567");
}

TEST(Text, NearestName) {
  const std::vector<std::string> names = {"encoder", "decoder", "head"};
  EXPECT_EQ(nearest_name("encodr", names), "encoder");
  EXPECT_EQ(nearest_name("zzzzzzzz", names), "");
  EXPECT_EQ(did_you_mean("haed", names), "; did you mean \"head\"?");
  EXPECT_EQ(did_you_mean("", {}), "");
}

TEST(Text, TableAlignsNumbersRight) {
  EXPECT_EQ(aligned_table({{"name", "bytes"}, {"a", "1,024"}, {"long name", "8"}}),
            "name       bytes\na          1,024\nlong name      8\n");
}

TEST(Text, SplitTrimJoin) {
  EXPECT_EQ(split("a..b", '.'), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
  EXPECT_EQ(trim(" \t a b\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, ", "), "a, b");
}

RC_GTEST_PROP(Text, JoinUndoesSplit, (const std::string& text)) { RC_ASSERT(join(split(text, ','), ",") == text); }

RC_GTEST_PROP(Units, BalancedCutsPartitionAndNest,
              (std::uint16_t extent, std::uint8_t parts_drawn, std::uint8_t factor_drawn)) {
  const std::int64_t parts = 1 + parts_drawn;
  const std::int64_t factor = 1 + factor_drawn % 7;
  RC_ASSERT(balanced_cut(0, extent, parts) == 0);
  RC_ASSERT(balanced_cut(parts, extent, parts) == extent);
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t size = balanced_cut(i + 1, extent, parts) - balanced_cut(i, extent, parts);
    RC_ASSERT(size == extent / parts || size == extent / parts + 1);
    RC_ASSERT(balanced_cut(i * factor, extent, parts * factor) == balanced_cut(i, extent, parts));
  }
}

TEST(Units, Rounding) {
  EXPECT_EQ(ceil_div(0, 5), 0);
  EXPECT_EQ(ceil_div(10, 5), 2);
  EXPECT_EQ(ceil_div(11, 5), 3);
  EXPECT_EQ(round_up(11, 8), 16);
}

TEST(Ids, CompareAndHash) {
  EXPECT_LT(TileId{3}, TileId{4});
  EXPECT_EQ(std::hash<TileId>{}(TileId{7}), std::hash<std::uint32_t>{}(7));
}

Result<int> half_of(int value) {
  if (value % 2 != 0) return fail(ErrorKind::bad_input, "odd", {{"value", std::to_string(value)}}, "give an even one");
  return value / 2;
}

Result<int> quarter_of(int value) {
  TW_TRY(const int half, half_of(value));
  TW_TRY(const int quarter, half_of(half));
  return quarter;
}

Status even(int value) {
  TW_TRY_STATUS(half_of(value).map([](int) {}));
  return {};
}

TEST(Results, TravelUp) {
  EXPECT_EQ(*quarter_of(12), 3);
  EXPECT_EQ(quarter_of(6).error().where.at("value"), "3");
  EXPECT_TRUE(even(2));
  EXPECT_EQ(even(1).error().hint, "give an even one");
  EXPECT_STREQ(name_of(ErrorKind::does_not_fit), "does_not_fit");
}

TEST(CheckDeathTest, NamesConditionAndMessage) {
  EXPECT_DEATH(TW_CHECK(1 == 2, "value {}", 7), "value 7 \\(1 == 2\\); this is a bug");
}

}  // namespace
}  // namespace tw
