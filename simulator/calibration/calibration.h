// simulator/calibration/calibration.h: measured rows against the simulator: each row becomes a small program, whose
// simulated cycles are compared with the measured ones. Kinds are data, rows are not code.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hw/base/result.h"
#include "hw/machine/machine.h"

namespace tw::sim {

// One measurement. Extents that a kind does not have are 0.
struct CalibrationRow {
  std::string name, kind;
  std::int64_t rows = 0, inner = 0, columns = 0, partials = 0;
  std::string precision;  // "f8", "f16", "f32"
  std::int64_t measured_cycles = 0;
  int line = 0;  // in its file
};

// Reads rows with the columns name, kind, rows, inner, columns, precision, partials, measured_cycles in any order;
// empty cells are allowed where a kind does not need the value, other columns are ignored. `file` is for messages.
// Errors (bad_input): with the line: a missing column, a cell that is no number, an unknown kind (the nearest is
// named).
Result<std::vector<CalibrationRow>> read_calibration_csv(const std::string& text, const std::string& file);

// Names of kinds with what their extents mean.
struct CalibrationKind {
  const char* name;
  const char* meaning;
};
const std::vector<CalibrationKind>& calibration_kinds();

// Simulates the row's program and returns the cycles of its stage: a kernel call with its supervisor instruction, or a
// phase from the first tile's base set-up to the return. Errors (bad_input): extents that the kernel cannot have.
Result<std::int64_t> simulate_row(const CalibrationRow& row, const hw::Machine& machine);

// Relative errors, simulated / measured - 1, in absolute value.
struct CalibrationSummary {
  struct Kind {
    int rows = 0;
    double mean_abs_error = 0, worst_abs_error = 0;
  };
  std::map<std::string, Kind> kinds;
};
CalibrationSummary summarise(const std::vector<CalibrationRow>& rows, const std::vector<std::int64_t>& simulated);

}  // namespace tw::sim
