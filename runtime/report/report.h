// runtime/report/report.h: one run as one self-contained web page.
#pragma once
#include <optional>
#include <string>

#include "hw/base/result.h"
#include "hw/program/program.h"
#include "runtime/session/session.h"
#include "simulator/system/simulation.h"

namespace tw::runtime {

// The page: figures, cycles by operation, timeline, maps of the chip, memory of any tile, errors, `command` to repeat
// the run. One HTML file without references to others, for light and dark screens and for phones; works without
// scripts, which only add hovering and choosing tiles. All cycles are the run's, never the plan's, unless labelled as
// estimates. Errors (bad_input): the run is not of this program (another number of stages or tiles).
Result<std::string> render_report(const hw::Program& program, const sim::RunResult& run,
                                  const std::optional<ReferenceReport>& reference, const std::string& command);

}  // namespace tw::runtime
