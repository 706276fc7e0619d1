// compiler/place/interval_packing.h: exact placement of buffers by lifetime alone: does everything fit below a
// capacity?
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hw/base/result.h"
#include "hw/base/violation.h"

namespace tw::compiler {

// A buffer: alive in the half-open time [lower, upper), `size` bytes long.
struct PackingBuffer {
  std::int64_t lower = 0, upper = 0, size = 0;
};

struct PackingProblem {
  std::vector<PackingBuffer> buffers;
  std::int64_t capacity = 0;
};

// Sums of sizes stay below this, so that no offset can overflow.
inline constexpr std::int64_t largest_packing_bytes = std::int64_t{1} << 60;

struct PackingLimits {
  std::int64_t nodes = 20'000'000;  // of the exact search; the same for any machine and load
  double seconds = 0;               // 0: none. A search that this stops may end differently on another machine
};

enum class PackingAnswer : std::uint8_t { fits, does_not_fit, unknown };

// How the answer is known: offsets were found; a sum of live bytes exceeds the capacity; the search was exhaustive.
enum class PackingProof : std::uint8_t { placement, bound, search, none };

const char* name_of(PackingProof proof);

struct PackingResult {
  PackingAnswer answer = PackingAnswer::unknown;
  PackingProof proof = PackingProof::none;
  std::vector<std::int64_t> offsets;  // by buffer, when it fits
  std::int64_t peak = 0;              // end of the highest buffer, when it fits
  std::int64_t lower_bound = 0;       // no placement has a lower peak: live bytes, or more where the search proved more
  std::int64_t nodes = 0;             // of the exact search; 0 when a first-fit order was enough
  bool out_of_time = false;           // the time limit stopped the search, not the node limit
};

// Live bytes first, then first-fit in several orders with repair, then branch and bound. The same answer and offsets
// every time, unless the time limit strikes. Errors (bad_input): a buffer without lifetime, a negative size or
// capacity, sizes that sum to more than `largest_packing_bytes`.
Result<PackingResult> pack(const PackingProblem& problem, const PackingLimits& limits = {});

// Largest sum of sizes that are alive at one time.
std::int64_t live_bytes(std::span<const PackingBuffer> buffers);

// Quadratic on purpose; shares no code with pack(): an offset each, within the capacity, no overlap in space and time.
std::vector<Violation> verify_packing(const PackingProblem& problem, std::span<const std::int64_t> offsets);

}  // namespace tw::compiler
