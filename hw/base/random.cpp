#include "hw/base/random.h"

#include <cmath>
#include <numbers>
#include <span>

#include "hw/base/hash.h"

namespace tw {

std::uint64_t stream_seed(std::uint64_t seed, std::string_view name) {
  return hash_bytes(std::as_bytes(std::span(name)), seed);
}

void fill_normal(std::uint64_t stream, std::uint64_t first, float mean, float deviation, std::span<float> out) {
  // Counters 2p and 2p + 1 share one draw: cosine and sine of the same radius and angle.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t counter = first + i;
    const std::uint64_t bits = random_bits(stream, counter / 2);
    const float u1 = static_cast<float>((bits >> 40) + 1) * 0x1.0p-24F;         // (0, 1]
    const float u2 = static_cast<float>((bits >> 16) & 0xffffff) * 0x1.0p-24F;  // [0, 1)
    const float radius = std::sqrt(-2.0F * std::log(u1));
    const float angle = 2.0F * std::numbers::pi_v<float> * u2;
    out[i] = mean + deviation * radius * (counter % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

}  // namespace tw
