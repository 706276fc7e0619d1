#include "simulator/system/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "hw/base/check.h"
#include "hw/base/parallel.h"

namespace tw::sim {

const char* name_of(Waiting waiting) {
  switch (waiting) {
    case Waiting::nothing: return "nothing";
    case Waiting::internal: return "an internal exchange barrier (sync 3)";
    case Waiting::host_begin: return "the start of a host exchange (sync 15)";
    case Waiting::host_end: return "the end of a host exchange (sync 15)";
    case Waiting::done: return "nothing, its program has ended";
  }
  return "unknown";
}

World::World(const hw::Program& program, const Options& options)
    : program_(program), options_(options),
      sram_(program.machine.sram, program.machine.tiles, !options.timing_only, options.checked && !options.timing_only),
      tiles_(static_cast<std::size_t>(program.machine.tiles)), entries_(tiles_.size()), code_stage_(tiles_.size()), rows_(tiles_.size()) {
  for (const hw::KernelParams& params : program.kernels) {
    kernel_operands_.push_back(hw::operands(params));
    kernel_cycles_.push_back(hw::cycles(params, program.machine));
  }
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    const hw::TileProgram& code = program.tiles[tile];
    for (const hw::KernelEntry& entry : code.entries) entries_[tile][entry.address_bytes] = static_cast<std::int32_t>(entry.kernel);
    code_stage_[tile].assign(code.code.size(), 0);
    for (const hw::CodeOrigin& origin : code.origins)
      for (std::size_t word = origin.first_word; word < std::min<std::size_t>(origin.first_word + origin.words, code.code.size()); ++word)
        code_stage_[tile][word] = static_cast<std::int32_t>(origin.stage.value);
  }
  load_memory();
}

void World::load_memory() {
  const auto load = [&](std::uint32_t tile, std::uint32_t address, std::span<const std::byte> bytes) {
    sram_.mark_written(tile, address, static_cast<std::int64_t>(bytes.size()));
    if (std::byte* to = sram_.at(tile, address)) std::memcpy(to, bytes.data(), bytes.size());
  };
  parallel_for(tiles_.size(), [&](std::size_t tile) {
    const hw::TileProgram& code = program_.tiles[tile];
    load(static_cast<std::uint32_t>(tile), code.code_address_bytes, std::as_bytes(std::span(code.code)));
    for (const hw::Segment& segment : code.segments) load(static_cast<std::uint32_t>(tile), segment.address_bytes, segment.bytes);
  });
  if (options_.timing_only) return;
  for (const hw::ParameterImage& image : program_.parameters) load(image.tile, image.address_bytes, image.data);
}

void World::reset(const std::map<std::string, std::vector<std::byte>>& inputs) {
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    tiles_[tile] = TileState{};
    tiles_[tile].pc = program_.tiles[tile].entry_bytes;
  }
  host_.clear();
  for (const hw::Binding& binding : program_.bindings) {
    std::vector<std::byte>& buffer = host_[binding.name];
    if (const auto found = inputs.find(binding.name); found != inputs.end()) buffer = found->second;
    buffer.resize(binding.bytes);
  }
  released_ = 0;
  loop_started_ = -1;
  last_iteration_ = 0;
  iteration_.assign(program_.stages.size(), 0);
  result_ = RunResult{};
  result_.stages.resize(program_.stages.size());
  result_.tile_busy_cycles.assign(tiles_.size(), 0);
  result_.tile_words_in.assign(tiles_.size(), 0);
  result_.tile_words_out.assign(tiles_.size(), 0);
}

std::span<const std::uint32_t> World::code_from(std::uint32_t tile, std::uint32_t pc) const {
  const hw::TileProgram& code = program_.tiles[tile];
  if (pc % 4 != 0 || pc < code.code_address_bytes) return {};
  const std::size_t word = (pc - code.code_address_bytes) / 4;
  return word < code.code.size() ? std::span(code.code).subspan(word) : std::span<const std::uint32_t>{};
}

std::int32_t World::stage_at(std::uint32_t tile, std::uint32_t pc) const {
  const std::size_t word = (pc - program_.tiles[tile].code_address_bytes) / 4;
  return word < code_stage_[tile].size() ? code_stage_[tile][word] : 0;
}

const hw::DecodedRow* World::row_at(std::uint32_t tile, std::uint32_t pc) {
  std::unique_ptr<hw::DecodedRow>& row = rows_[tile][pc];
  if (row == nullptr) {
    Result<hw::DecodedRow> decoded = hw::decode_row(code_from(tile, pc));
    if (!decoded) throw FaultError{FaultKind::unknown_instruction, "exchange row: " + decoded.error().message, tile, pc};
    row = std::make_unique<hw::DecodedRow>(*std::move(decoded));
  }
  return row.get();
}

void World::run_queued() {
  if (options_.timing_only) return;
  if (!options_.checkpoints.empty()) return run_queued_in_stage_order();
  parallel_for(tiles_.size(), [&](std::size_t tile) {
    for (const QueuedCall& call : tiles_[tile].calls) execute(program_.kernels[call.kernel], call.operands);
    tiles_[tile].calls.clear();
  });
}

// With checkpoints a stage is finished on all tiles before the next one may reuse its memory. Between two barriers a
// loop can wrap once, from its last stages to its first: those come after.
void World::run_queued_in_stage_order() {
  std::set<std::pair<int, std::int32_t>> order;  // (wrapped, stage)
  std::vector<std::vector<int>> wrapped(tiles_.size());
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    std::int32_t previous = -1;
    int wraps = 0;
    for (const QueuedCall& call : tiles_[tile].calls) {
      if (call.stage < previous) ++wraps;
      previous = call.stage;
      wrapped[tile].push_back(wraps);
      order.emplace(wraps, call.stage);
    }
  }
  for (const auto& [wraps, stage] : order) {
    parallel_for(tiles_.size(), [&, wraps = wraps, stage = stage](std::size_t tile) {
      for (std::size_t index = 0; index < tiles_[tile].calls.size(); ++index) {
        const QueuedCall& call = tiles_[tile].calls[index];
        if (call.stage == stage && wrapped[tile][index] == wraps) execute(program_.kernels[call.kernel], call.operands);
      }
    });
    read_checkpoints(stage);
  }
  for (TileState& tile : tiles_) tile.calls.clear();
}

void World::read_checkpoints(std::int32_t stage) {
  const std::int64_t iteration = iteration_[stage]++;
  for (const hw::Checkpoint& point : program_.checkpoints) {
    if (static_cast<std::int32_t>(point.stage.value) != stage) continue;
    const auto wanted = [&](const std::string& name) { return name == "*" || name == point.operation; };
    if (std::none_of(options_.checkpoints.begin(), options_.checkpoints.end(), wanted)) continue;
    CheckpointData data{point.operation, point.value, iteration, point.shape, {}};
    std::int64_t elements = 1;
    for (const std::int64_t dim : point.shape) elements *= dim;
    data.data.assign(static_cast<std::size_t>(elements), 0.0F);
    const hw::TensorLayout& layout = point.layout;
    const std::int64_t b = layout.panel();
    for (int r = 0; r < layout.row_blocks(); ++r)
      for (int c = 0; c < layout.column_blocks(); ++c) {
        const std::int64_t bytes = layout.block_bytes(r, c), rows = layout.block_rows(r);
        if (bytes == 0) continue;
        std::vector<float> block(static_cast<std::size_t>(rows * layout.block_columns(c)));
        const std::byte* from = sram_.at(layout.tile_of(r, c).value, point.block_address_bytes[static_cast<std::size_t>(r * layout.column_blocks() + c)]);
        hw::decode(layout.format, {from, static_cast<std::size_t>(bytes)}, layout.scale_exponent, block);
        for (std::int64_t j = 0; j < layout.block_columns(c); ++j) {
          const std::int64_t column = layout.groups.column_of(layout.column_cuts[c] + j);
          if (column < 0) continue;
          for (std::int64_t i = 0; i < rows; ++i)
            data.data[point.view.at(layout.row_cuts[r] + i, column)] = block[(j / b * rows + i) * b + j % b];
        }
      }
    result_.checkpoints.push_back(std::move(data));
  }
}

// Time from the last barrier to this one: the critical tile's own work, stage by stage, then the barrier.
void World::account(std::int64_t release, std::int64_t latest, std::uint32_t critical, std::int32_t barrier_stage,
                    std::int64_t barrier_cycles, bool host) {
  std::map<std::int32_t, std::int64_t> busiest;
  for (std::size_t index = 0; index < tiles_.size(); ++index) {
    for (const TileState::Spent& spent : tiles_[index].spent) {
      const std::int64_t cycles = spent.compute + spent.exchange + spent.host;
      StageResult& stage = result_.stages[spent.stage];
      stage.busy_tile_cycles += cycles;
      result_.tile_busy_cycles[index] += cycles;
      std::int64_t& most = busiest[spent.stage];
      most = std::max(most, cycles);
    }
  }
  for (const auto& [stage, cycles] : busiest) {
    result_.stages[stage].busiest_tile_cycles += cycles;
    result_.stages[stage].executions += 1;
  }
  std::int64_t at = released_;
  for (const TileState::Spent& spent : tiles_[critical].spent) {
    const std::int64_t cycles = spent.compute + spent.exchange + spent.host;
    StageResult& stage = result_.stages[spent.stage];
    if (stage.end_cycle == 0) stage.start_cycle = at;
    at += cycles;
    if (stage.executions <= 1) stage.end_cycle = at;
    stage.cycles += cycles;
    result_.compute_cycles += spent.compute;
    result_.exchange_cycles += spent.exchange;
    result_.host_cycles += spent.host;
  }
  TW_CHECK(at == latest, "critical path ends at {}, barrier at {}", at, latest);
  StageResult& stage = result_.stages[barrier_stage];
  if (stage.end_cycle == 0) stage.start_cycle = latest;
  if (stage.executions <= 1) stage.end_cycle = release;
  stage.cycles += barrier_cycles;
  (host ? result_.host_cycles : result_.sync_cycles) += barrier_cycles;
  released_ = release;
  for (TileState& tile : tiles_) tile.spent.clear();
}

std::int64_t World::resolve_barrier() {
  std::uint32_t critical = 0;
  for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
    if (tiles_[tile].waiting != tiles_[0].waiting) {
      record_deadlock();
      return -1;
    }
    if (tiles_[tile].cycle > tiles_[critical].cycle) critical = tile;
  }
  const std::int64_t latest = tiles_[critical].cycle;
  const std::int32_t stage = tiles_[critical].stage;
  run_queued();
  std::int64_t release = latest;
  bool host = false;
  switch (tiles_[0].waiting) {
    case Waiting::internal: release = exchange_phase(latest); break;
    case Waiting::host_begin: release = latest + program_.machine.host.sync_cycles; host = true; break;
    case Waiting::host_end: release = host_phase(latest); host = true; break;
    case Waiting::done:
      account(latest, latest, critical, stage, 0, false);
      result_.cycles = latest;
      return -1;
    case Waiting::nothing: TW_CHECK(false, "tile {} does not wait", critical);
  }
  account(release, latest, critical, stage, release - latest, host);
  const hw::StageInfo& info = program_.stages[stage];
  if (info.iterations > 1) {
    // Steady state: time from one execution of a stage of the loop to the next.
    if (loop_started_ < 0) loop_started_ = stage;
    if (stage == loop_started_) {
      if (last_iteration_ > 0) result_.cycles_per_iteration = release - last_iteration_;
      last_iteration_ = release;
    }
  }
  for (TileState& tile : tiles_) tile.cycle = release;
  if (options_.progress) options_.progress("simulate", release, program_.estimated_cycles);
  return release;
}

std::int64_t World::exchange_phase(std::int64_t latest) {
  std::vector<std::uint32_t> key;
  std::vector<Participant> participants(tiles_.size());
  key.reserve(tiles_.size() * 2);
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    const TileState& state = tiles_[tile];
    if (state.row != nullptr) participants[tile] = {state.row, state.outgoing_base, state.incoming_base, state.row_pc};
    key.push_back(participants[tile].pc);
    key.push_back(participants[tile].outgoing_base);
  }
  auto found = phases_.find(key);
  if (found == phases_.end()) found = phases_.emplace(std::move(key), resolve_phase(participants, program_.machine)).first;
  const ResolvedPhase& phase = found->second;
  result_.phases += 1;
  const std::int32_t stage = tiles_[0].stage;
  StageResult& record = result_.stages[stage];
  std::int64_t busiest = 0;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    result_.tile_words_in[tile] += phase.words_in[tile];
    result_.tile_words_out[tile] += phase.words_out[tile];
    record.words += phase.words_in[tile];
    busiest = std::max<std::int64_t>({busiest, phase.words_in[tile], phase.words_out[tile]});
  }
  record.busiest_words += busiest;
  if (options_.checked && !options_.timing_only)
    for (const Move& move : phase.moves)
      if (const std::uint32_t hole = sram_.first_unwritten(move.source_tile, move.source_address, move.bytes); hole != 0)
        throw FaultError{FaultKind::unwritten_read, fmt::format("a send of {} bytes at {:#x}: {:#x} was never written", move.bytes, move.source_address, hole),
                         move.source_tile, participants[move.source_tile].pc};
  if (!options_.timing_only) {
    // No byte is read and written in one phase at the same element and cycle (checked), but a buffer may be read in one
    // part and written in another: bytes are taken in order of targets from memory that sends do not change.
    parallel_for(tiles_.size(), [&](std::size_t tile) {
      for (std::uint32_t index = phase.first_move[tile]; index < phase.first_move[tile + 1]; ++index) {
        const Move& move = phase.moves[index];
        std::memmove(sram_.at(move.target_tile, move.target_address), sram_.at(move.source_tile, move.source_address), move.bytes);
        sram_.mark_written(move.target_tile, move.target_address, move.bytes);
      }
    });
  }
  return latest + program_.machine.fabric.barrier_cycles;
}

void World::record_fault(const FaultError& error) {
  const FaultInfo& info = info_of(error.kind);
  Fault fault{.kind = info.name, .message = error.message, .tile = error.tile, .pc = error.pc, .hint = info.hint};
  fault.cycle = tiles_[error.tile].cycle;
  const std::span<const std::uint32_t> code = code_from(error.tile, error.pc);
  fault.instruction = code.empty() ? "(no code)" : hw::disassemble(hw::decode(code));
  const std::int32_t stage = code.empty() ? tiles_[error.tile].stage : stage_at(error.tile, error.pc);
  if (stage < static_cast<std::int32_t>(program_.stages.size())) {
    fault.operation = program_.stages[stage].operation;
    fault.stage = program_.stages[stage].what;
  }
  result_.fault = std::move(fault);
}

void World::record_deadlock() {
  std::map<Waiting, std::pair<std::size_t, std::uint32_t>> groups;  // how many tiles wait for what, and the first
  for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
    auto [found, added] = groups.try_emplace(tiles_[tile].waiting, 0, tile);
    ++found->second.first;
  }
  std::string message;
  std::uint32_t suspect = 0;
  std::size_t fewest = tiles_.size() + 1;
  for (const auto& [waiting, group] : groups) {
    message += fmt::format("{}{} tiles (first: {}) wait for {}", message.empty() ? "" : "; ", group.first, group.second, name_of(waiting));
    if (group.first < fewest) {
      fewest = group.first;
      suspect = group.second;
    }
  }
  record_fault({FaultKind::deadlock, message, suspect, tiles_[suspect].pc});
}

RunResult World::finish() {
  std::int64_t busy = 0;
  for (const std::int64_t cycles : result_.tile_busy_cycles) busy += cycles;
  const double all = static_cast<double>(result_.cycles) * static_cast<double>(tiles_.size());
  result_.idle_fraction = all > 0 ? 1.0 - static_cast<double>(busy) / all : 0.0;
  for (const hw::Binding& binding : program_.bindings)
    if (!binding.input && !options_.timing_only && !result_.fault) result_.outputs[binding.name] = host_[binding.name];
  return std::move(result_);
}

}  // namespace tw::sim
