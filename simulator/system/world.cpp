// simulator/system/world.cpp: loading, barriers and the end of a run.
#include "simulator/system/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
    : program_(program),
      options_(options),
      sram_(program.machine.sram, program.machine.tiles, !options.timing_only, options.checked && !options.timing_only),
      stored_(static_cast<std::size_t>(program.machine.tiles)),
      tiles_(stored_.size()),
      entries_(tiles_.size()),
      code_stage_(tiles_.size()),
      rows_(tiles_.size()),
      accounting_(program) {
  if (!has_memory()) return;
  for (const hw::KernelParams& params : program.kernels) {
    kernel_operands_.push_back(hw::operands(params));
    kernel_cycles_.push_back(hw::cycles(params, program.machine));
  }
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    const hw::TileProgram& code = program.tiles[tile];
    for (const hw::KernelEntry& entry : code.entries)
      entries_[tile][entry.address_bytes] = static_cast<std::int32_t>(entry.kernel);
    code_stage_[tile].assign(code.code.size(), 0);
    for (const hw::CodeOrigin& origin : code.origins)
      for (std::size_t word = origin.first_word;
           word < std::min<std::size_t>(origin.first_word + origin.words, code.code.size()); ++word)
        code_stage_[tile][word] = static_cast<std::int32_t>(origin.stage.value);
  }
  load_memory();
  sram_.remember();
}

void World::load_memory() {
  const auto load = [&](std::uint32_t tile, std::uint32_t address, std::span<const std::byte> bytes) {
    sram_.mark_written(tile, address, static_cast<std::int64_t>(bytes.size()));
    if (std::byte* to = sram_.at(tile, address)) std::memcpy(to, bytes.data(), bytes.size());
  };
  parallel_for(tiles_.size(), [&](std::size_t tile) {
    const hw::TileProgram& code = program_.tiles[tile];
    load(static_cast<std::uint32_t>(tile), code.code_address_bytes, std::as_bytes(std::span(code.code)));
    for (const hw::Segment& segment : code.segments)
      load(static_cast<std::uint32_t>(tile), segment.address_bytes, segment.bytes);
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
  sram_.forget();
  for (auto& words : stored_) words.clear();
  accounting_.reset();
  earliest_fault_.reset();
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

bool World::overlaps_code(std::uint32_t tile, std::uint32_t address, std::int64_t bytes) const {
  const hw::TileProgram& code = program_.tiles[tile];
  return address < code.code_address_bytes + code.code.size() * 4 && address + bytes > code.code_address_bytes;
}

// A word as the supervisor reads it. Timing only: of what was loaded and stored; computed data reads as zero.
std::uint32_t World::word_at(std::uint32_t tile, std::uint32_t address) {
  std::uint32_t value = 0;
  if (const std::byte* at = sram_.at(tile, address)) {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (const auto found = stored_[tile].find(address); found != stored_[tile].end()) return found->second;
  for (const hw::Segment& segment : program_.tiles[tile].segments)
    if (address >= segment.address_bytes && address + sizeof value <= segment.address_bytes + segment.bytes.size())
      std::memcpy(&value, segment.bytes.data() + (address - segment.address_bytes), sizeof value);
  if (const std::span<const std::uint32_t> code = code_from(tile, address); !code.empty()) value = code[0];
  return value;
}

void World::store_word(std::uint32_t tile, std::uint32_t address, std::uint32_t value) {
  sram_.mark_written(tile, address, sizeof value);
  if (std::byte* at = sram_.at(tile, address)) {
    std::memcpy(at, &value, sizeof value);
  } else {
    stored_[tile][address] = value;
  }
}

std::int32_t World::stage_at(std::uint32_t tile, std::uint32_t pc) const {
  const std::size_t word = (pc - program_.tiles[tile].code_address_bytes) / 4;
  return word < code_stage_[tile].size() ? code_stage_[tile][word] : 0;
}

const hw::DecodedRow* World::row_at(std::uint32_t tile, std::uint32_t pc) {
  std::unique_ptr<hw::DecodedRow>& row = rows_[tile][pc];
  if (row == nullptr) {
    Result<hw::DecodedRow> decoded = hw::decode_row(code_from(tile, pc));
    if (!decoded)
      throw FaultError{FaultKind::unknown_instruction, "exchange row: " + decoded.error().message, tile, pc};
    row = std::make_unique<hw::DecodedRow>(*std::move(decoded));
  }
  return row.get();
}

void World::run_queued() {
  if (options_.timing_only) return;
  if (!options_.checkpoints.empty()) return run_queued_in_stage_order();
  parallel_for(tiles_.size(), [&](std::size_t tile) { run_queued(static_cast<std::uint32_t>(tile)); });
}

void World::run_queued(std::uint32_t tile) {
  for (const QueuedCall& call : tiles_[tile].calls) execute(program_.kernels[call.kernel], call.operands);
  tiles_[tile].calls.clear();
}

// Tiles marked inactive by `sans 0` do not hold the barrier up, unless all are.
std::int64_t World::resolve_barrier() {
  if (earliest_fault_) {
    record_fault(*earliest_fault_);
    return -1;
  }
  const auto holds = [&](const TileState& tile) { return !tile.inactive || tile.row != nullptr; };
  const bool all_inactive = std::none_of(tiles_.begin(), tiles_.end(), holds);
  std::int64_t critical = -1;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    if (tiles_[tile].waiting != tiles_[0].waiting) {
      record_deadlock();
      return -1;
    }
    if (!all_inactive && !holds(tiles_[tile])) continue;
    if (critical < 0 || tiles_[tile].cycle > tiles_[critical].cycle) critical = static_cast<std::int64_t>(tile);
  }
  const Waiting waiting = tiles_[0].waiting;
  Barrier barrier{.latest = tiles_[critical].cycle,
                  .critical = static_cast<std::uint32_t>(critical),
                  .stage = tiles_[critical].stage,
                  .host = waiting == Waiting::host_begin || waiting == Waiting::host_end};
  run_queued();
  try {
    barrier.release = release_of(waiting, barrier.latest, barrier.stage);
  } catch (const FaultError& error) {
    record_fault(error);
    return -1;
  }
  const bool received = waiting == Waiting::internal || waiting == Waiting::host_end;
  if (received && !options_.checkpoints.empty() && !options_.timing_only) read_checkpoints(barrier.stage);
  std::vector<std::vector<Spent>*> spent;
  for (TileState& tile : tiles_) spent.push_back(&tile.spent);
  accounting_.close(spent, barrier, result_);
  result_.cycles = barrier.release;
  if (waiting == Waiting::done) return -1;
  for (TileState& tile : tiles_) {
    tile.cycle = std::max(tile.cycle, barrier.release);
    tile.inactive = false;
  }
  if (options_.progress) options_.progress("simulate", barrier.release, program_.estimated_cycles);
  return barrier.release;
}

std::int64_t World::release_of(Waiting waiting, std::int64_t latest, std::int32_t stage) {
  switch (waiting) {
    case Waiting::internal: return exchange_phase(latest, stage);
    case Waiting::host_begin: return latest + program_.machine.host.sync_cycles;
    case Waiting::host_end: return host_phase(latest);
    case Waiting::done:
    case Waiting::nothing: break;
  }
  return latest;
}

// Tiles run one after the other between barriers: the fault that comes first in simulated time is the one to report.
void World::keep_fault(const FaultError& error) {
  const auto time = [&](const FaultError& fault) { return std::pair(tiles_[fault.tile].cycle, fault.tile); };
  if (!earliest_fault_ || time(error) < time(*earliest_fault_)) earliest_fault_ = error;
}

void World::record_fault(const FaultError& error) {
  const FaultInfo& info = info_of(error.kind);
  Fault fault{.kind = info.name, .message = error.message, .tile = error.tile, .pc = error.pc, .hint = info.hint};
  fault.cycle = tiles_[error.tile].cycle;
  if (error.event >= 0) {
    for (const TileState& tile : tiles_) fault.cycle = std::max(fault.cycle, tile.cycle);
    fault.cycle += program_.machine.fabric.barrier_cycles + error.event;
  }
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
    message += fmt::format("{}{} tiles (first: {}) wait for {}", message.empty() ? "" : "; ", group.first, group.second,
                           name_of(waiting));
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
  result_.cycles_per_iteration = accounting_.cycles_per_iteration();
  const double all = static_cast<double>(result_.cycles) * static_cast<double>(tiles_.size());
  result_.idle_fraction = all > 0 ? 1.0 - static_cast<double>(busy) / all : 0.0;
  for (const hw::Binding& binding : program_.bindings)
    if (!binding.input && !options_.timing_only && !result_.fault) result_.outputs[binding.name] = host_[binding.name];
  return std::move(result_);
}

}  // namespace tw::sim
