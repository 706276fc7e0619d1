// simulator/system/simulation.h: executes a package's program in SystemC: cycles, outputs, faults.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hw/base/progress.h"
#include "hw/base/result.h"
#include "hw/program/program.h"

namespace tw::sim {

// A diagnosed stop of the simulated program (not an Error of ours). Kinds: docs/faults.md.
struct Fault {
  std::string
      kind;  // "unwritten_read", "out_of_range", "bus_conflict", "undriven_bus", "mistimed_write", "pair_rule",
             // "unaligned", "element_conflict", "unknown_instruction", "unknown_kernel", "deadlock", "host_protocol"
  std::string message;     // what, with values
  std::int64_t tile = -1;  // logical
  std::int64_t cycle = 0;
  std::uint32_t pc = 0;
  std::string instruction;  // disassembled
  std::string operation, stage;
  std::string hint;
};

struct Options {
  bool timing_only = false;              // no payload is moved, no numerics; the same cycles
  bool checked = true;                   // track unwritten memory
  std::vector<std::string> checkpoints;  // operations to read back ("*": all)
  Progress progress;
};

// Cycles of one stage, summed over its iterations.
struct StageResult {
  std::int64_t executions = 0;
  std::int64_t start_cycle = 0, end_cycle = 0;  // of the first execution: start of the first tile, end of the last
  std::int64_t cycles = 0;                      // barrier to barrier on the critical path: parts sum to the whole
  std::int64_t busy_tile_cycles = 0;            // summed over tiles: working, not waiting
  std::int64_t busiest_tile_cycles = 0;
  std::int64_t words = 0;  // exchange: words received over all tiles
  std::int64_t busiest_words = 0;
};

struct CheckpointData {
  std::string operation, value;
  std::int64_t iteration = 0;
  std::vector<std::int64_t> shape;
  std::vector<float> data;  // graph layout, row-major
};

struct RunResult {
  std::int64_t cycles = 0;
  std::int64_t phases = 0;  // exchange barriers executed
  std::int64_t compute_cycles = 0, exchange_cycles = 0, sync_cycles = 0,
               host_cycles = 0;           // critical path; sum = cycles
  double idle_fraction = 0;               // tile-cycles spent waiting / all
  std::int64_t cycles_per_iteration = 0;  // steady state of the largest loop; 0 without one
  std::vector<StageResult> stages;        // by StageId
  std::vector<std::int64_t> tile_busy_cycles, tile_words_in, tile_words_out;  // by logical tile
  std::map<std::string, std::vector<std::byte>> outputs;                      // binding name -> staging buffer
  std::vector<CheckpointData> checkpoints;
  std::optional<Fault> fault;
  double simulate_seconds = 0;
};

// One elaborated machine. SystemC elaborates once per process: the first Simulation elaborates for its machine's tiles;
// later ones re-arm the same modules (more tiles than elaborated: an Error saying so). Use one at a time.
class Simulation {
 public:
  // Loads the program into tile SRAM. Errors: has no weights and not timing_only; a second live Simulation.
  static Result<std::unique_ptr<Simulation>> create(const hw::Program& program, const Options& options);
  ~Simulation();
  // One call of the program: inputs as staging buffers by binding name. A fault is in the result, not an Error.
  Result<RunResult> run(const std::map<std::string, std::vector<std::byte>>& inputs);

 private:
  struct State;
  explicit Simulation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::sim
