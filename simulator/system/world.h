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
  OperandPointers operands{};
};

// Packets that a tile sent in a host stage, word by word.
struct HostStream {
  std::vector<std::uint32_t> words;
};

struct TileState {
  std::array<std::uint32_t, 16> m{};
  std::uint32_t pc = 0;
  std::uint32_t outgoing_base = 0, incoming_base = 0, incoming_mux = 0;
  std::int64_t cycle = 0;               // local time: ahead of SystemC's between barriers
  Waiting waiting = Waiting::nothing;
  bool in_host_phase = false;
  bool inactive = false;                // sans 0: not waited for in the coming barrier
  const hw::DecodedRow* row = nullptr;  // the row that runs after the coming barrier
  std::uint32_t row_pc = 0;
  std::int32_t stage = 0;               // of the instruction being executed
  std::vector<QueuedCall> calls;
  HostStream stream;
  // Cycles since the last barrier, by stage, in order of execution.
  struct Spent {
    std::int32_t stage = 0;
    std::int64_t compute = 0, exchange = 0, host = 0;
  };
  std::vector<Spent> spent;
};

class World {
 public:
  World(const hw::Program& program, const Options& options);

  // Ready for one call of the program.
  void reset(const std::map<std::string, std::vector<std::byte>>& inputs);
  // Executes one tile until it waits for a barrier or is done. Throws FaultError.
  void run_tile(std::uint32_t tile);
  // All tiles wait for the same thing: resolves it. Returns the cycle at which tiles go on, or -1 when all are done.
  // Throws FaultError.
  std::int64_t resolve_barrier();
  void record_fault(const FaultError& error);
  void record_deadlock();
  RunResult finish();

  std::size_t tiles() const { return tiles_.size(); }
  const TileState& tile(std::uint32_t index) const { return tiles_[index]; }
  bool stopped() const { return result_.fault.has_value(); }

 private:
  friend class Interpreter;

  void load_memory();
  void run_queued();
  void run_queued_in_stage_order();
  void read_checkpoints(std::int32_t stage);
  void account(std::int64_t release, std::int64_t latest, std::uint32_t critical, std::int32_t barrier_stage,
               std::int64_t barrier_cycles, bool host);
  std::int64_t exchange_phase(std::int64_t latest);
  std::int64_t host_phase(std::int64_t latest);
  void deliver(std::uint32_t tile, const HostStream& stream);
  const hw::DecodedRow* row_at(std::uint32_t tile, std::uint32_t pc);
  std::int32_t stage_at(std::uint32_t tile, std::uint32_t pc) const;
  std::span<const std::uint32_t> code_from(std::uint32_t tile, std::uint32_t pc) const;

  const hw::Program& program_;
  Options options_;
  Sram sram_;
  std::vector<TileState> tiles_;
  std::vector<std::unordered_map<std::uint32_t, std::int32_t>> entries_;      // by tile: address -> kernel
  std::vector<std::vector<std::int32_t>> code_stage_;                        // by tile and code word
  std::vector<std::vector<hw::Operand>> kernel_operands_;                    // by kernel
  std::vector<std::int64_t> kernel_cycles_;
  std::vector<std::unordered_map<std::uint32_t, std::unique_ptr<hw::DecodedRow>>> rows_;   // by tile: pc -> row
  std::map<std::vector<std::uint32_t>, ResolvedPhase> phases_;               // by pc and base of every participant
  std::map<std::string, std::vector<std::byte>> host_;                       // staging buffers by binding
  std::int64_t released_ = 0;
  std::int64_t loop_started_ = -1, last_iteration_ = 0;
  std::vector<std::int64_t> iteration_;                                      // by stage: executions so far
  RunResult result_;
};

}  // namespace tw::sim
