// compiler/place/problem.h: SRAM placement of one tile's buffers by lifetimes, regions and element separation.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hw/base/result.h"
#include "hw/base/violation.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

enum class RegionSet : std::uint8_t { any, region0, region1 };

// One buffer: half-open lifetime [first, last) in stage numbers of the program.
struct PlacementRequest {
  std::string name;
  std::uint32_t bytes = 0;
  std::uint32_t alignment_bytes = 8;
  std::int32_t first = 0, last = 0;
  RegionSet regions = RegionSet::any;
  std::int32_t fixed_address = -1;  // >= 0: already placed (code, host window buffers), only to be avoided
  bool executable = false;          // fetched while it lives: shares no element with buffers that a row touches
};

struct PlacementProblem {
  std::vector<PlacementRequest> requests;
  // Pairs of requests (indices) that must not share an SRAM element while both live
  // (sent while the other is received; GEMM left stream and output; fetched code and row data).
  std::vector<std::pair<std::int32_t, std::int32_t>> separate;
};

struct PlacementResult {
  bool fits = false;
  std::vector<std::uint32_t> address_bytes;  // by request, when it fits
  std::uint32_t peak_bytes = 0;              // largest sum of live bytes over stages
  std::int32_t peak_stage = 0;
  // When it does not fit:
  std::int32_t failed_request = -1;
  std::int32_t event_stage = 0;  // stage at which it was short
  // A sum that proves it; else what is alive there, and how much of it found room: the failed request needs the rest in
  // one piece.
  std::uint32_t needed_bytes = 0, available_bytes = 0;
  std::vector<std::int32_t> live_requests;  // buffers alive at that stage, largest first
  bool proven = false;                      // a sum proves it ("bound"); otherwise orders were tried ("search")
};

// Places every request or says why not: arithmetic bound first (bytes, per region), then first-fit in several orders
// (size x lifetime, size, lifetime, conflicts, start), each with up to 64 repairs. Deterministic.
PlacementResult place(const PlacementProblem& problem, const hw::SramMap& sram);

// Quadratic on purpose; shares no code with place(): bounds, alignment, regions, overlap in space and time, separation.
std::vector<Violation> verify_placement(const PlacementProblem& problem, const PlacementResult& result,
                                        const hw::SramMap& sram);

}  // namespace tw::compiler
