#include "compiler/pipeline/obstruction.h"

#include <fmt/format.h>

#include <algorithm>

#include "hw/base/text.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

std::int64_t support_bytes(const hw::Machine& machine) {
  return machine.sram.loader_bytes + machine.sram.worker_state_bytes + machine.code.support_bytes +
         machine.sram.unloadable_top_bytes;
}

std::int64_t needed_bytes(const LowerBound& bound, const hw::Machine& machine) {
  return bound.resident_bytes + bound.temporary_bytes + support_bytes(machine);
}

// Fewer iterations of a Repeat: what one takes a tile, and how many would do.
void add_fewer_layers(const Graph& graph, const hw::Machine& machine, Precision precision, std::int64_t short_bytes,
                      std::vector<std::string>& alternatives) {
  for (const Operation& operation : graph.operations) {
    if (operation.kind != OpKind::repeat || operation.attributes.count < 2) continue;
    std::int64_t bytes = 0;  // of one iteration's parameters
    for (const std::vector<ValueId>& sequence : operation.sequences)
      bytes += elements_of(graph.value(sequence.front()).shape) *
               (graph.value(sequence.front()).shape.size() > 1 && precision == Precision::f8 ? 1
                : precision == Precision::f32                                                ? 4
                                                                                             : 2);
    const std::int64_t layer = std::max<std::int64_t>(1, ceil_div(bytes, machine.tiles));
    const std::int64_t count = operation.attributes.count - ceil_div(short_bytes, layer);
    if (count >= 1)
      alternatives.push_back(fmt::format("{} iterations of \"{}\" instead of {} ({} bytes a tile each)", count,
                                         operation.name, operation.attributes.count, with_separators(layer)));
  }
}

// Changes that would make the arithmetic close, cheapest first, each with its figures.
std::vector<std::string> alternatives_of(const Graph& graph, const hw::Machine& machine, Precision precision,
                                         std::int64_t short_bytes) {
  std::vector<std::string> alternatives;
  const std::int64_t capacity = machine.sram.capacity_bytes();
  for (const Precision narrower : {Precision::f16, Precision::f8}) {
    if (static_cast<int>(narrower) >= static_cast<int>(precision)) continue;
    const std::int64_t needed = needed_bytes(lower_bound(graph, machine, narrower), machine);
    alternatives.push_back(fmt::format("--precision {}: the bound becomes {} of {} bytes{}", name_of(narrower),
                                       with_separators(needed), with_separators(capacity),
                                       needed <= capacity ? "" : ", still too many"));
  }
  add_fewer_layers(graph, machine, precision, short_bytes, alternatives);
  hw::Machine larger = machine;
  constexpr int row_of_tiles = 64;
  for (larger.tiles = machine.tiles + row_of_tiles; larger.tiles <= 64 * machine.tiles; larger.tiles += row_of_tiles) {
    if (needed_bytes(lower_bound(graph, larger, precision), larger) > capacity) continue;
    alternatives.push_back(fmt::format("{} tiles instead of {} (the bound then closes)", with_separators(larger.tiles),
                                       with_separators(machine.tiles)));
    break;
  }
  alternatives.push_back(fmt::format("{} bytes more SRAM a tile", with_separators(short_bytes)));
  return alternatives;
}

// Another choice of the operation at the event that needs so much less, with its price.
void add_smaller_choice(const Graph& graph, const hw::Machine& machine, SearchOptions options, const Plan& plan,
                        const std::string& operation, std::int64_t short_bytes,
                        std::vector<std::string>& alternatives) {
  const auto of = [&](const Plan& some) {
    return std::find_if(some.choices.begin(), some.choices.end(),
                        [&](const OperationChoice& choice) { return choice.operation == operation; });
  };
  if (of(plan) == plan.choices.end()) return;
  constexpr std::size_t many = 2000;
  options.alternatives = many;
  const Result<Plan> all = search(graph, machine, options);
  if (!all || of(*all) == all->choices.end()) return;
  const Alternative& chosen = of(plan)->alternatives.front();
  for (const Alternative& other : of(*all)->alternatives) {
    if (other.cost.temporary_bytes > chosen.cost.temporary_bytes - short_bytes) continue;
    alternatives.push_back(
        fmt::format("grid {} for \"{}\" instead of {}: {} bytes less, {} cycles more each time (pin it with --plan)",
                    to_string(other.choice.grid), operation, to_string(chosen.choice.grid),
                    with_separators(chosen.cost.temporary_bytes - other.cost.temporary_bytes),
                    with_separators(std::max<std::int64_t>(0, other.total_cycles - chosen.total_cycles))));
    return;
  }
}

}  // namespace

std::optional<Obstruction> bound_obstruction(const Graph& graph, const hw::Machine& machine, Precision precision,
                                             const LowerBound& bound) {
  const std::int64_t needed = needed_bytes(bound, machine);
  const std::int64_t available = machine.sram.capacity_bytes();
  if (needed <= available) return std::nullopt;
  Obstruction obstruction;
  obstruction.event = fmt::format("operation \"{}\", every tile alike", bound.operation);
  obstruction.needed_bytes = needed;
  obstruction.available_bytes = available;
  obstruction.buffers = {
      {"parameters, spread evenly over all tiles", bound.resident_bytes},
      {fmt::format("operands of \"{}\", smallest over all grids", bound.operation), bound.temporary_bytes},
      {"support, stack, not loadable", support_bytes(machine)}};
  obstruction.proof = "bound";
  obstruction.alternatives = alternatives_of(graph, machine, precision, needed - available);
  return obstruction;
}

Obstruction placement_obstruction(const Graph& graph, const hw::Machine& machine, const SearchOptions& options,
                                  const Plan& plan, const Lowered& lowered, const PlacementProblem& problem,
                                  const PlacementResult& placed) {
  Obstruction obstruction;
  const std::size_t stage = std::min<std::size_t>(placed.event_stage, lowered.stages.size() - 1);
  obstruction.event = fmt::format("operation \"{}\", stage {} ({})", lowered.stages[stage].info.operation, stage,
                                  lowered.stages[stage].info.what);
  obstruction.needed_bytes = placed.needed_bytes;
  obstruction.available_bytes = placed.available_bytes;
  for (const std::int32_t request : placed.live_requests)
    obstruction.buffers.push_back({problem.requests[request].name, problem.requests[request].bytes});
  // The tile that holds most at this stage.
  std::int64_t most = -1;
  for (int tile = 0; tile < machine.tiles; ++tile) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : lowered.buffers)
      if (buffer.first_stage <= placed.event_stage && placed.event_stage < buffer.last_stage)
        bytes += buffer.bytes[tile];
    if (bytes > most) {
      most = bytes;
      obstruction.tile = static_cast<std::uint32_t>(tile);
    }
  }
  obstruction.proof = placed.proven ? "bound" : "search";
  const std::int64_t short_bytes =
      std::max<std::int64_t>(1, std::int64_t{placed.needed_bytes} - placed.available_bytes);
  add_smaller_choice(graph, machine, options, plan, lowered.stages[stage].info.operation, short_bytes,
                     obstruction.alternatives);
  for (std::string& other : alternatives_of(graph, machine, options.precision, short_bytes))
    obstruction.alternatives.push_back(std::move(other));
  return obstruction;
}

Obstruction table_obstruction(const hw::Machine& machine, std::uint32_t tile, std::uint32_t table_bytes) {
  Obstruction obstruction;
  obstruction.tile = tile;
  obstruction.event = "exchange rows of all phases";
  obstruction.needed_bytes = table_bytes;
  obstruction.available_bytes = machine.fabric.table_limit_bytes;
  obstruction.buffers = {{"exchange rows", table_bytes}};
  obstruction.proof = "search";
  obstruction.alternatives = {fmt::format("fabric.table_limit_bytes = {} in the machine file", table_bytes),
                              "fewer, larger transfers: a smaller model or one with fewer re-layouts"};
  return obstruction;
}

}  // namespace tw::compiler
