// runtime/report/figures.h: what a page shows, as numbers: one pure function of a program and its run.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hw/program/program.h"
#include "simulator/system/simulation.h"

namespace tw::runtime {

enum class PhaseKind : std::uint8_t { compute, exchange, sync, host };
inline constexpr int phase_kinds = 4;
const char* name_of(PhaseKind kind);

struct PhaseCycles {
  std::array<std::int64_t, phase_kinds> of{};
  std::int64_t& operator[](PhaseKind kind) { return of[static_cast<std::size_t>(kind)]; }
  std::int64_t operator[](PhaseKind kind) const { return of[static_cast<std::size_t>(kind)]; }
  std::int64_t total() const { return of[0] + of[1] + of[2] + of[3]; }
};

struct OperationFigures {
  std::string name, kind, grid, precision;  // the last three as planned; empty for what only moves
  PhaseCycles cycles;                       // simulated, all iterations
  std::int64_t estimated_cycles = 0;        // of the plan, all iterations
  double amp_cycles = 0;   // cycles that its products keep the AMP of all tiles busy, summed over tiles
  std::int64_t words = 0;  // received by all tiles
};

struct StageFigures {
  std::int32_t index = 0;  // StageId
  PhaseKind kind = PhaseKind::compute;
  std::string operation, what;
  std::int64_t begin = 0, cycles = 0;  // of one pass through the program, loops once
  std::int64_t all_cycles = 0;         // all iterations
  std::int32_t iterations = 1;
};

// Bytes alive on one tile.
struct MemoryFigures {
  std::int64_t peak_bytes = 0;
  std::int32_t peak_stage = 0;
  std::int64_t parameter_bytes = 0;
};

struct Figures {
  PhaseCycles cycles;
  std::vector<OperationFigures> operations;  // most cycles first
  std::vector<StageFigures> stages;          // in program order, without loop marks
  std::vector<MemoryFigures> memory;         // by logical tile
  std::uint32_t peak_tile = 0;
  double seconds = 0;      // at the machine's clock
  double amp_share = 0;    // of all tile-cycles
  std::int64_t words = 0;  // moved between tiles
};

Figures figures_of(const hw::Program& program, const sim::RunResult& run);

}  // namespace tw::runtime
