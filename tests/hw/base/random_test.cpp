// tests/hw/base/random_test.cpp: counter-based numbers, hashes, parallel loops.
#include "hw/base/random.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "hw/base/hash.h"
#include "hw/base/parallel.h"

namespace tw {
namespace {

TEST(Random, AnyOrderGivesTheSameTensor) {
  const std::uint64_t stream = stream_seed(1, "weight");
  std::vector<float> whole(101), parts(101);
  fill_normal(stream, 7, 0.0F, 1.0F, whole);
  fill_normal(stream, 7 + 33, 0.0F, 1.0F, std::span(parts).subspan(33));
  fill_normal(stream, 7, 0.0F, 1.0F, std::span(parts).first(33));
  EXPECT_EQ(whole, parts);
}

TEST(Random, HasTheAskedMoments) {
  std::vector<float> values(200000);
  fill_normal(stream_seed(2, "x"), 0, 3.0F, 0.5F, values);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double square = 0;
  for (const float value : values) square += (value - mean) * (value - mean);
  EXPECT_NEAR(mean, 3.0, 0.01);
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(values.size())), 0.5, 0.005);
}

TEST(Random, StreamsDiffer) {
  EXPECT_NE(stream_seed(1, "a"), stream_seed(1, "b"));
  EXPECT_NE(stream_seed(1, "a"), stream_seed(2, "a"));
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10000; ++i) seen.insert(random_bits(5, i));
  EXPECT_EQ(seen.size(), 10000U);
}

TEST(Hash, DependsOnBytesAndSeed) {
  const std::vector<std::byte> bytes(100, std::byte{3});
  EXPECT_EQ(hash_bytes(bytes), hash_bytes(bytes));
  EXPECT_NE(hash_bytes(bytes), hash_bytes(bytes, 1));
  EXPECT_NE(hash_bytes(bytes), hash_bytes(std::span(bytes).first(99)));
}

TEST(Parallel, CallsEverySlotOnce) {
  for (const int threads : {1, 2, 0}) {
    set_thread_limit(threads);
    std::vector<int> calls(1000);
    parallel_for(calls.size(), [&](std::size_t i) { ++calls[i]; });
    EXPECT_EQ(std::set<int>(calls.begin(), calls.end()), std::set<int>{1});
  }
  parallel_for(0, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace tw
