// runtime/report/figures.cpp: sums of a run by operation, stage and tile.
#include "runtime/report/figures.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "hw/base/parallel.h"
#include "hw/isa/instruction.h"

namespace tw::runtime {

const char* name_of(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::compute: return "compute";
    case PhaseKind::exchange: return "exchange";
    case PhaseKind::sync: return "sync";
    case PhaseKind::host: return "host";
  }
  return "unknown";
}

namespace {

PhaseKind kind_of(hw::StageKind kind) {
  switch (kind) {
    case hw::StageKind::exchange: return PhaseKind::exchange;
    case hw::StageKind::host_input:
    case hw::StageKind::host_output: return PhaseKind::host;
    default: return PhaseKind::compute;
  }
}

// A stage's cycles by kind. Every execution of an exchange stage contains one barrier.
PhaseCycles split(const hw::StageInfo& stage, const sim::StageResult& result, const hw::Machine& machine) {
  PhaseCycles cycles;
  const PhaseKind kind = kind_of(stage.kind);
  cycles[kind] = result.cycles;
  if (kind == PhaseKind::exchange) {
    cycles[PhaseKind::sync] = std::min<std::int64_t>(result.cycles, result.executions * machine.fabric.barrier_cycles);
    cycles[kind] -= cycles[PhaseKind::sync];
  }
  return cycles;
}

// Cycles for which a call's products fill the AMP: multiply-adds (with padding) over the rate of the format.
double amp_cycles(const hw::KernelParams& params, const hw::Machine& machine) {
  if (params.kind != hw::KernelKind::gemm) return 0;
  const double rate = hw::is_f8(params.format) ? machine.f8_macs_per_cycle
                      : params.format == hw::NumberFormat::f16
                          ? machine.f16_macs_per_cycle
                          : machine.f16_macs_per_cycle / machine.prices.gemm_f32_row_factor;
  return rate > 0 ? static_cast<double>(hw::flops(params)) / 2 / rate : 0;
}

// AMP cycles by stage, found by reading the calls in the tiles' code.
std::vector<double> amp_by_stage(const hw::Program& program) {
  std::vector<double> price;
  for (const hw::KernelParams& params : program.kernels) price.push_back(amp_cycles(params, program.machine));
  std::vector<std::vector<double>> by_tile(program.tiles.size());
  parallel_for(program.tiles.size(), [&](std::size_t index) {
    const hw::TileProgram& tile = program.tiles[index];
    std::vector<double>& sums = by_tile[index];
    sums.assign(program.stages.size(), 0.0);
    std::unordered_map<std::uint32_t, std::uint32_t> entries;
    for (const hw::KernelEntry& entry : tile.entries) entries[entry.address_bytes] = entry.kernel;
    for (const hw::CodeOrigin& origin : tile.origins) {
      if (origin.stage.value >= program.stages.size()) continue;
      const hw::StageInfo& stage = program.stages[origin.stage.value];
      if (stage.kind != hw::StageKind::compute) continue;
      const std::size_t end = std::min<std::size_t>(std::size_t{origin.first_word} + origin.words, tile.code.size());
      for (std::size_t word = origin.first_word; word < end; ++word) {
        const hw::Instruction instruction = hw::decode(std::span(tile.code).subspan(word));
        if (instruction.opcode != hw::Opcode::call) continue;
        const auto found = entries.find(static_cast<std::uint32_t>(instruction.immediate));
        if (found != entries.end() && found->second < price.size())
          sums[origin.stage.value] += price[found->second] * std::max(stage.iterations, 1);
      }
    }
  });
  std::vector<double> total(program.stages.size(), 0.0);
  for (const std::vector<double>& sums : by_tile)
    for (std::size_t stage = 0; stage < sums.size(); ++stage) total[stage] += sums[stage];
  return total;
}

MemoryFigures memory_of(const hw::TileProgram& tile, std::size_t stages) {
  MemoryFigures memory;
  std::vector<std::int64_t> change(stages + 2, 0);
  const auto at = [&](std::int32_t stage) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(stage, 0, static_cast<std::int64_t>(stages)));
  };
  for (const hw::BufferInfo& buffer : tile.buffers) {
    // What is loaded or reserved before the start stays for the whole program.
    const bool passing = buffer.use == hw::BufferInfo::Use::value || buffer.use == hw::BufferInfo::Use::operand ||
                         buffer.use == hw::BufferInfo::Use::host;
    if (buffer.use == hw::BufferInfo::Use::parameter) memory.parameter_bytes += buffer.bytes;
    change[passing ? at(buffer.first_stage) : 0] += buffer.bytes;
    if (passing) change[std::max(at(buffer.last_stage), at(buffer.first_stage) + 1)] -= buffer.bytes;
  }
  std::int64_t alive = 0;
  for (std::size_t stage = 0; stage < std::max<std::size_t>(stages, 1); ++stage) {
    alive += change[stage];
    if (alive > memory.peak_bytes) {
      memory.peak_bytes = alive;
      memory.peak_stage = static_cast<std::int32_t>(stage);
    }
  }
  return memory;
}

std::vector<OperationFigures> operations_of(const hw::Program& program, const sim::RunResult& run) {
  const std::vector<double> amp = amp_by_stage(program);
  std::map<std::string, std::size_t> known;
  std::vector<OperationFigures> operations;
  for (std::size_t index = 0; index < program.stages.size(); ++index) {
    const hw::StageInfo& stage = program.stages[index];
    if (stage.kind == hw::StageKind::loop_begin || stage.kind == hw::StageKind::loop_end) {
      if (run.stages[index].cycles == 0) continue;
    }
    const auto [found, added] = known.try_emplace(stage.operation, operations.size());
    if (added) operations.push_back({.name = stage.operation});
    OperationFigures& operation = operations[found->second];
    const PhaseCycles cycles = split(stage, run.stages[index], program.machine);
    for (int kind = 0; kind < phase_kinds; ++kind) operation.cycles.of[kind] += cycles.of[kind];
    operation.amp_cycles += amp[index];
    operation.words += run.stages[index].words;
  }
  for (const hw::PlannedOperation& planned : program.plan) {
    // Moves of an operation's operands are planned as "name (cast)", "name (relayout)", ...
    const std::string name = planned.operation.substr(0, planned.operation.rfind(" ("));
    const auto found = known.find(name);
    if (found == known.end()) continue;
    OperationFigures& operation = operations[found->second];
    operation.estimated_cycles += planned.cycles * std::max(planned.repetitions, 1);
    if (planned.operation != name) continue;
    operation.kind = planned.kind;
    operation.grid = planned.grid;
    operation.precision = planned.precision;
  }
  std::stable_sort(operations.begin(), operations.end(), [](const OperationFigures& a, const OperationFigures& b) {
    return a.cycles.total() > b.cycles.total();
  });
  return operations;
}

std::vector<StageFigures> stages_of(const hw::Program& program, const sim::RunResult& run) {
  std::vector<StageFigures> stages;
  std::int64_t begin = 0;
  for (std::size_t index = 0; index < program.stages.size(); ++index) {
    const hw::StageInfo& stage = program.stages[index];
    const std::int32_t iterations = std::max(stage.iterations, 1);
    const std::int64_t cycles = run.stages[index].cycles / iterations;
    if ((stage.kind == hw::StageKind::loop_begin || stage.kind == hw::StageKind::loop_end) && cycles == 0) continue;
    stages.push_back({static_cast<std::int32_t>(index), kind_of(stage.kind), stage.operation, stage.what, begin, cycles,
                      run.stages[index].cycles, iterations});
    begin += cycles;
  }
  return stages;
}

}  // namespace

Figures figures_of(const hw::Program& program, const sim::RunResult& run) {
  Figures figures;
  figures.cycles.of = {run.compute_cycles, run.exchange_cycles, run.sync_cycles, run.host_cycles};
  figures.operations = operations_of(program, run);
  figures.stages = stages_of(program, run);
  figures.memory.resize(program.tiles.size());
  parallel_for(program.tiles.size(),
               [&](std::size_t tile) { figures.memory[tile] = memory_of(program.tiles[tile], program.stages.size()); });
  for (std::size_t tile = 0; tile < figures.memory.size(); ++tile)
    if (figures.memory[tile].peak_bytes > figures.memory[figures.peak_tile].peak_bytes)
      figures.peak_tile = static_cast<std::uint32_t>(tile);
  figures.seconds = program.machine.clock_hz > 0 ? static_cast<double>(run.cycles) / program.machine.clock_hz : 0;
  double amp = 0;
  for (const OperationFigures& operation : figures.operations) amp += operation.amp_cycles;
  const double all = static_cast<double>(run.cycles) * static_cast<double>(program.tiles.size());
  figures.amp_share = all > 0 ? amp / all : 0;
  for (const std::int64_t words : run.tile_words_in) figures.words += words;
  return figures;
}

}  // namespace tw::runtime
