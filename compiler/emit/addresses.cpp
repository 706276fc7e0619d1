#include <algorithm>

#include "compiler/emit/emit.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// Code starts behind the host window: the elements before it hold the loader's slot, support, and the window.
std::uint32_t code_start(const hw::Machine& machine) {
  return machine.sram.host_window_base_bytes + machine.sram.host_window_bytes;
}

}  // namespace

PlacementProblem placement_problem(const Lowered& lowered, const hw::Machine& machine, std::uint32_t code_bytes,
                                   std::uint32_t packet_bytes) {
  const hw::SramMap& sram = machine.sram;
  const auto stages = static_cast<std::int32_t>(lowered.stages.size());
  PlacementProblem problem;
  for (const Buffer& buffer : lowered.buffers) {
    PlacementRequest request{.name = buffer.name, .bytes = buffer.max_bytes(), .alignment_bytes = 32};
    request.first = std::max(buffer.first_stage, 0);
    request.last = std::max(buffer.last_stage, request.first + 1);
    request.regions = buffer.regions;
    request.fixed_address = buffer.fixed_address;
    problem.requests.push_back(std::move(request));
  }
  const auto add_fixed = [&](const char* name, std::uint32_t address, std::uint32_t bytes, bool executable) {
    PlacementRequest request{.name = name, .bytes = bytes, .first = 0, .last = stages};
    request.fixed_address = static_cast<std::int32_t>(address);
    request.executable = executable;
    problem.requests.push_back(std::move(request));
    return static_cast<std::int32_t>(problem.requests.size()) - 1;
  };
  const std::int32_t code = add_fixed("code and exchange rows", code_start(machine), code_bytes, true);
  PlacementRequest packets{
      .name = "host packets", .bytes = packet_bytes, .alignment_bytes = 8, .first = 0, .last = stages};
  problem.requests.push_back(std::move(packets));
  add_fixed("support, stack and worker state", sram.base_bytes,
            sram.loader_bytes + sram.worker_state_bytes + machine.code.support_bytes, false);
  add_fixed("not loadable", sram.end() - sram.unloadable_top_bytes, sram.unloadable_top_bytes, false);

  // Nothing that a row moves may share an element with the code that is fetched meanwhile.
  std::vector<bool> exchanged(lowered.buffers.size(), false);
  for (const auto& [a, b] : lowered.separate) problem.separate.emplace_back(a, b);
  for (const Stage& stage : lowered.stages)
    for (const StageTransfer& transfer : stage.transfers)
      exchanged[transfer.source] = exchanged[transfer.target] = true;
  for (const auto& bound : lowered.bindings) exchanged[bound.buffer] = true;
  for (std::size_t index = 0; index < exchanged.size(); ++index)
    if (exchanged[index]) problem.separate.emplace_back(static_cast<std::int32_t>(index), code);
  problem.separate.emplace_back(code + 1, code);
  return problem;
}

Addresses addresses_of(const Lowered& lowered, const PlacementResult& placed, const hw::Machine& machine,
                       std::uint32_t code_bytes) {
  Addresses addresses;
  addresses.buffer.assign(placed.address_bytes.begin(),
                          placed.address_bytes.begin() + static_cast<std::ptrdiff_t>(lowered.buffers.size()));
  addresses.code = code_start(machine);
  addresses.code_limit_bytes = code_bytes;
  addresses.packets = placed.address_bytes[lowered.buffers.size() + 1];
  addresses.support = machine.sram.base_bytes;
  return addresses;
}

}  // namespace tw::compiler
