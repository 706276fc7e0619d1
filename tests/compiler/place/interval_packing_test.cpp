// tests/compiler/place/interval_packing_test.cpp: packings of rectangles that were cut from a full one, small problems
// against brute force, and bad input.
#include "compiler/place/interval_packing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "compiler/place/packing_csv.h"
#include "hw/base/random.h"

namespace tw::compiler {
namespace {

std::string first_of(const std::vector<Violation>& violations) {
  return violations.empty() ? "" : violations.front().rule + ": " + violations.front().message;
}

// A rectangle of time x bytes cut again and again: the pieces fill the capacity without a gap.
std::vector<PackingBuffer> cut_rectangle(std::uint64_t seed, std::int64_t capacity, int cuts) {
  std::uint64_t index = 0;
  const auto draw = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random_bits(seed, index++) % static_cast<std::uint64_t>(limit));
  };
  std::vector<PackingBuffer> buffers{{0, 10'000, capacity}};
  for (int cut = 0; cut < cuts; ++cut) {
    PackingBuffer& whole = buffers[static_cast<std::size_t>(draw(static_cast<std::int64_t>(buffers.size())))];
    PackingBuffer rest = whole;
    if (draw(2) == 0 && whole.size > 1) {
      whole.size = 1 + draw(whole.size - 1);
      rest.size -= whole.size;
    } else if (whole.upper - whole.lower > 1) {
      rest.lower = whole.lower + 1 + draw(whole.upper - whole.lower - 1);
      whole.upper = rest.lower;
    } else {
      continue;
    }
    buffers.push_back(rest);
  }
  return buffers;
}

TEST(IntervalPacking, FillsWhatWasCutFromOneRectangle) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const PackingProblem problem{cut_rectangle(seed, 1 << 20, 60), 1 << 20};
    const auto result = pack(problem);
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->answer, PackingAnswer::fits) << "seed " << seed;
    EXPECT_EQ(first_of(verify_packing(problem, result->offsets)), "");
    EXPECT_EQ(result->peak, problem.capacity);
    EXPECT_EQ(result->lower_bound, problem.capacity);
  }
}

TEST(IntervalPacking, OneByteLessIsRefusedByTheBound) {
  const PackingProblem problem{cut_rectangle(3, 1000, 40), 999};
  const auto result = pack(problem);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->answer, PackingAnswer::does_not_fit);
  EXPECT_EQ(result->proof, PackingProof::bound);
  EXPECT_EQ(result->lower_bound, 1000);
  EXPECT_TRUE(result->offsets.empty());
}

TEST(IntervalPacking, SameAnswerEveryTime) {
  const PackingProblem problem{cut_rectangle(7, 1 << 16, 80), 1 << 16};
  EXPECT_EQ(pack(problem)->offsets, pack(problem)->offsets);
}

TEST(IntervalPacking, NodeLimitEndsWithoutAnAnswer) {
  const PackingProblem problem{cut_rectangle(5, 1 << 20, 400), 1 << 20};
  const auto result = pack(problem, {.nodes = 10});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->answer, PackingAnswer::unknown);
  EXPECT_EQ(result->proof, PackingProof::none);
  EXPECT_FALSE(result->out_of_time);
}

// The smallest peak of all orders of stacking: every packing can be pushed down to one of those.
std::int64_t smallest_peak(const std::vector<PackingBuffer>& buffers) {
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::int64_t best = INT64_MAX;
  do {
    std::vector<std::int64_t> end(buffers.size(), 0);
    std::int64_t peak = 0;
    for (std::size_t at = 0; at < order.size(); ++at) {
      const PackingBuffer& buffer = buffers[order[at]];
      std::int64_t floor = 0;
      for (std::size_t below = 0; below < at; ++below) {
        const PackingBuffer& other = buffers[order[below]];
        if (buffer.lower < other.upper && other.lower < buffer.upper) floor = std::max(floor, end[order[below]]);
      }
      end[order[at]] = floor + buffer.size;
      peak = std::max(peak, end[order[at]]);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

RC_GTEST_PROP(IntervalPacking, AgreesWithBruteForce, ()) {
  std::vector<PackingBuffer> buffers;
  const int count = *rc::gen::inRange(1, 8);
  for (int index = 0; index < count; ++index) {
    const auto lower = *rc::gen::inRange<std::int64_t>(0, 6);
    buffers.push_back({lower, lower + *rc::gen::inRange<std::int64_t>(1, 4), *rc::gen::inRange<std::int64_t>(0, 9)});
  }
  const std::int64_t least = smallest_peak(buffers);
  const auto fits = pack({buffers, least});
  RC_ASSERT(fits->answer == PackingAnswer::fits);
  RC_ASSERT(first_of(verify_packing({buffers, least}, fits->offsets)) == "");
  if (least > 0) RC_ASSERT(pack({buffers, least - 1})->answer == PackingAnswer::does_not_fit);
}

// Memory is full at all times. Before them and behind them lie buffers that force pairs of six buffers to be
// neighbours: (0 1), (2 3), (4 5) before, (1 2), (3 4), (5 0) behind. That is a ring, and memory is a line: the live
// bytes do not show it, only a search can refuse it.
TEST(IntervalPacking, SearchProvesWhatTheBoundDoesNotSee) {
  PackingProblem problem{{{4, 10, 1}, {4, 8, 2}, {5, 8, 4}, {5, 9, 8}, {6, 9, 16}, {6, 10, 32}}, 63};
  const auto size = [&](int a, int b) { return problem.buffers[a].size + problem.buffers[b].size; };
  const std::vector<PackingBuffer> fillers{{0, 4, size(0, 1)},  {0, 5, size(2, 3)},  {0, 6, size(4, 5)},
                                           {8, 20, size(1, 2)}, {9, 20, size(3, 4)}, {10, 20, size(5, 0)}};
  problem.buffers.insert(problem.buffers.end(), fillers.begin(), fillers.end());
  EXPECT_EQ(live_bytes(problem.buffers), problem.capacity);
  const auto ring = pack(problem);
  EXPECT_EQ(ring->answer, PackingAnswer::does_not_fit);
  EXPECT_EQ(ring->proof, PackingProof::search);
  EXPECT_EQ(ring->lower_bound, problem.capacity + 1);

  problem.buffers.pop_back();  // a line
  const auto line = pack(problem);
  EXPECT_EQ(line->answer, PackingAnswer::fits);
  EXPECT_EQ(first_of(verify_packing(problem, line->offsets)), "");
}

TEST(IntervalPacking, VerifierSeesOverlapAndOverrun) {
  const PackingProblem problem{{{0, 5, 10}, {4, 8, 10}, {8, 9, 10}}, 20};
  EXPECT_EQ(first_of(verify_packing(problem, std::vector<std::int64_t>{0, 10, 0})), "");
  EXPECT_NE(first_of(verify_packing(problem, std::vector<std::int64_t>{0, 9, 0})), "");
  EXPECT_NE(first_of(verify_packing(problem, std::vector<std::int64_t>{0, 11, 0})), "");
  EXPECT_NE(first_of(verify_packing(problem, std::vector<std::int64_t>{0, -1, 0})), "");
  EXPECT_NE(first_of(verify_packing(problem, std::vector<std::int64_t>{0, 10})), "");
}

TEST(IntervalPacking, RefusesImpossibleInput) {
  EXPECT_FALSE(pack({{{3, 3, 1}}, 10}));
  EXPECT_FALSE(pack({{{0, 1, -1}}, 10}));
  EXPECT_FALSE(pack({{{0, 1, 1}}, -1}));
  EXPECT_FALSE(pack({{{0, 1, largest_packing_bytes}}, 10}));
  EXPECT_EQ(pack({{}, 0})->answer, PackingAnswer::fits);
}

TEST(PackingCsv, ReadsColumnsInAnyOrderAndWritesOffsets) {
  const auto table = read_packing_csv("size,id,upper,lower\n8, a ,4,1\n16,b,3,0\n\n", "x.csv");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->ids, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(packing_csv(*table, std::vector<std::int64_t>{16, 0}),
            "id,lower,upper,size,offset\na,1,4,8,16\nb,0,3,16,0\n");
  const auto inclusive = read_packing_csv("id,start,end,size\na,1,4,8\n", "x.csv");
  ASSERT_TRUE(inclusive);
  EXPECT_EQ(inclusive->buffers[0].upper, 5);
}

TEST(PackingCsv, NamesTheLineOfAFault) {
  const auto message = [](const char* text) {
    const auto table = read_packing_csv(text, "x.csv");
    return table ? std::string("no error") : table.error().message;
  };
  EXPECT_EQ(message(""), "x.csv line 1: no header line");
  EXPECT_EQ(message("id,lower,upper\n"), "x.csv line 1: there is no column \"size\"");
  EXPECT_EQ(message("id,lower,upper,size\na,0,1,x\n"), "x.csv line 2: \"x\" is no whole number of 64 bits");
  EXPECT_EQ(message("id,lower,upper,size\na,0,1,99999999999999999999\n"),
            "x.csv line 2: \"99999999999999999999\" is no whole number of 64 bits");
  EXPECT_EQ(message("id,lower,upper,size\na,1,1,5\n"), "x.csv line 2: lower 1 is not below upper 1");
  EXPECT_EQ(message("id,lower,upper,size\na,0,1\n"), "x.csv line 2: 3 cells, the header has 4");
  EXPECT_EQ(message("id,lower,upper,size\na,0,1,5\na,0,1,5\n"), "x.csv line 3: id \"a\" is there twice");
}

}  // namespace
}  // namespace tw::compiler
