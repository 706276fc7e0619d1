// hw/base/random.h: counter-based random numbers: value i of stream s is a pure function of (seed, s, i),
// so that drawing in any order, on any number of threads, gives the same tensor.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace tw {

// 64 well-mixed bits of (seed, index) (the SplitMix64 finaliser applied to a Weyl sequence).
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Stream seed from a base seed and a name (a tensor's name, say).
std::uint64_t stream_seed(std::uint64_t seed, std::string_view name);

// Fills out[i] with mean + deviation * N(0, 1) of counter first + i (Box-Muller on pairs of counters).
void fill_normal(std::uint64_t stream, std::uint64_t first, float mean, float deviation, std::span<float> out);

}  // namespace tw
