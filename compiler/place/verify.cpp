// compiler/place/verify.cpp: checks a placement; quadratic on purpose, shares no code with place().
#include <fmt/format.h>

#include "compiler/place/problem.h"

namespace tw::compiler {

std::vector<Violation> verify_placement(const PlacementProblem& problem, const PlacementResult& result,
                                        const hw::SramMap& sram) {
  std::vector<Violation> found;
  const auto& requests = problem.requests;
  if (!result.fits) return found;
  if (result.address_bytes.size() != requests.size()) {
    found.push_back({"placement.complete",
                     fmt::format("{} addresses for {} requests", result.address_bytes.size(), requests.size())});
    return found;
  }
  const auto begin = [&](std::size_t i) { return result.address_bytes[i]; };
  const auto end = [&](std::size_t i) { return result.address_bytes[i] + requests[i].bytes; };
  const auto together = [&](std::size_t i, std::size_t j) {
    return requests[i].first < requests[j].last && requests[j].first < requests[i].last;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const PlacementRequest& request = requests[i];
    if (request.bytes == 0) continue;
    if (!sram.contains(begin(i), request.bytes))
      found.push_back({"placement.bounds", fmt::format("\"{}\" at {:#x} leaves the SRAM", request.name, begin(i))});
    if (request.fixed_address >= 0 && begin(i) != static_cast<std::uint32_t>(request.fixed_address))
      found.push_back({"placement.fixed",
                       fmt::format("\"{}\" at {:#x}, fixed is {:#x}", request.name, begin(i), request.fixed_address)});
    if (request.fixed_address < 0 && begin(i) % request.alignment_bytes != 0)
      found.push_back({"placement.alignment", fmt::format("\"{}\" at {:#x} is not a multiple of {}", request.name,
                                                          begin(i), request.alignment_bytes)});
    const bool in0 = end(i) <= sram.region1_base(), in1 = begin(i) >= sram.region1_base();
    if ((request.regions == RegionSet::region0 && !in0) || (request.regions == RegionSet::region1 && !in1) ||
        (request.executable && !in0))
      found.push_back(
          {"placement.region", fmt::format("\"{}\" at {:#x} is in the wrong region", request.name, begin(i))});
    for (std::size_t j = i + 1; j < requests.size(); ++j)
      if (requests[j].bytes > 0 && together(i, j) && begin(i) < end(j) && begin(j) < end(i))
        found.push_back({"placement.disjoint", fmt::format("\"{}\" and \"{}\" overlap at {:#x}", request.name,
                                                           requests[j].name, std::max(begin(i), begin(j)))});
  }
  for (const auto& [a, b] : problem.separate) {
    if (a == b || requests[a].bytes == 0 || requests[b].bytes == 0 || !together(a, b)) continue;
    const int a0 = sram.element_of(begin(a)), a1 = sram.element_of(end(a) - 1);
    const int b0 = sram.element_of(begin(b)), b1 = sram.element_of(end(b) - 1);
    if (a0 <= b1 && b0 <= a1)
      found.push_back({"placement.elements", fmt::format("\"{}\" and \"{}\" share SRAM element {}", requests[a].name,
                                                         requests[b].name, std::max(a0, b0))});
  }
  return found;
}

}  // namespace tw::compiler
