// simulator/system/world.h: what all tiles of one simulated machine share: program, memory, barriers, results.
#pragma once
#include <systemc>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "simulator/kernels/execute.h"
#include "simulator/system/accounting.h"
#include "simulator/system/fabric.h"
#include "simulator/system/fault.h"
#include "simulator/system/simulation.h"
#include "simulator/system/sram.h"

namespace tw::sim {

// What a tile waits for. All tiles must wait for the same kind before anything goes on.
enum class Waiting : std::uint8_t { nothing, internal, host_begin, host_end, done };
const char* name_of(Waiting waiting);

struct QueuedCall {
  std::int32_t kernel = 0;
  std::int32_t stage = 0;
  std::int32_t turn = 0;
  OperandPointers operands{};
};

// Words that a tile sent in a host stage, and when each send began.
struct HostStream {
  struct Piece {
    std::size_t first_word = 0;
    std::int64_t cycle = 0;
    std::uint32_t pc = 0;
  };
  std::vector<std::uint32_t> words;
  std::vector<Piece> pieces;
};

struct TileState {
  std::array<std::uint32_t, 16> m{};
  std::uint32_t pc = 0;
  std::uint32_t outgoing_base = 0, incoming_base = 0, incoming_mux = 0;
  std::int64_t cycle = 0;  // local time: ahead of SystemC's between barriers
  Waiting waiting = Waiting::nothing;
  bool in_host_phase = false;
  bool inactive = false;                // sans 0: not waited for in the coming barrier
  const hw::DecodedRow* row = nullptr;  // the row that runs after the coming barrier
  std::uint32_t row_pc = 0;
  std::int32_t stage = 0;  // of the instruction being executed
  std::int32_t turn = 0;   // times that a loop went back to an earlier stage
  std::vector<QueuedCall> calls;
  HostStream stream;
  std::vector<Spent> spent;         // since the last barrier, in order of execution
  std::int32_t resumed_stage = -1;  // the stage in which the tile waited: it goes on after the barrier
};

class World {
 public:
  World(const hw::Program& program, const Options& options);

  // False when the host has no address space for the tiles' memory.
  bool has_memory() const { return options_.timing_only || sram_.mapped(); }
  // Ready for one call of the program.
  void reset(const std::map<std::string, std::vector<std::byte>>& inputs);
  // Executes one tile until it waits for a barrier, is done or has a fault.
  void run_tile(std::uint32_t tile);
  // All tiles wait: resolves the barrier. Returns the cycle at which tiles go on, or -1 when the run has ended.
  std::int64_t resolve_barrier();
  RunResult finish();

  std::size_t tiles() const { return tiles_.size(); }
  bool stopped() const { return result_.fault.has_value(); }

 private:
  friend class Interpreter;

  // world.cpp
  void load_memory();
  void run_queued();
  void run_queued(std::uint32_t tile);
  std::int64_t release_of(Waiting waiting, std::int64_t latest, std::int32_t stage);
  const hw::DecodedRow* row_at(std::uint32_t tile, std::uint32_t pc);
  std::int32_t stage_at(std::uint32_t tile, std::uint32_t pc) const;
  std::span<const std::uint32_t> code_from(std::uint32_t tile, std::uint32_t pc) const;
  bool overlaps_code(std::uint32_t tile, std::uint32_t address, std::int64_t bytes) const;
  std::uint32_t word_at(std::uint32_t tile, std::uint32_t address);
  void store_word(std::uint32_t tile, std::uint32_t address, std::uint32_t value);
  void keep_fault(const FaultError& error);
  void record_fault(const FaultError& error);
  void record_deadlock();

  // checkpoints.cpp
  void run_queued_in_stage_order();
  void read_checkpoints(std::int32_t stage);
  CheckpointData read_checkpoint(const hw::Checkpoint& point, std::int64_t iteration);

  // exchange.cpp
  std::int64_t exchange_phase(std::int64_t latest, std::int32_t stage);
  const ResolvedPhase& phase_of(const std::vector<Participant>& participants);
  void check_phase(const ResolvedPhase& phase, const std::vector<Participant>& participants) const;
  void move(const ResolvedPhase& phase);
  void move_in_order(const ResolvedPhase& phase);

  // host_port.cpp
  std::int64_t host_phase(std::int64_t latest);
  std::int64_t deliver(std::uint32_t tile);

  const hw::Program& program_;
  Options options_;
  Sram sram_;
  std::vector<std::unordered_map<std::uint32_t, std::uint32_t>> stored_;  // by tile, timing only: words stored
  std::vector<TileState> tiles_;
  std::vector<std::unordered_map<std::uint32_t, std::int32_t>> entries_;  // by tile: address -> kernel
  std::vector<std::vector<std::int32_t>> code_stage_;                     // by tile and code word
  std::vector<std::vector<hw::Operand>> kernel_operands_;                 // by kernel
  std::vector<std::int64_t> kernel_cycles_;
  std::vector<std::unordered_map<std::uint32_t, std::unique_ptr<hw::DecodedRow>>> rows_;  // by tile: pc -> row
  // By the rows' addresses: the phase with the bases that it was last resolved for. Loops move only the bases.
  std::map<std::vector<std::uint32_t>, std::pair<std::vector<std::uint32_t>, ResolvedPhase>> phases_;
  std::map<std::string, std::vector<std::byte>> host_;  // staging buffers by binding
  Accounting accounting_;
  std::vector<std::int64_t> iteration_;       // by stage: executions so far
  std::optional<FaultError> earliest_fault_;  // of the tiles that ran since the barrier
  RunResult result_;
};

}  // namespace tw::sim
