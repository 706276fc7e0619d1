// runtime/cli/verbs_report.cpp: report.
#include <fmt/format.h>

#include <algorithm>

#include "hw/base/file.h"
#include "hw/base/text.h"
#include "hw/program/package.h"
#include "runtime/cli/simulating.h"
#include "runtime/cli/verb.h"
#include "runtime/report/figures.h"
#include "runtime/report/report.h"
#include "runtime/session/session.h"

namespace tw::runtime {

using nlohmann::ordered_json;

namespace {

constexpr std::size_t most_rows = 20;  // of each list: the largest

const char* name_of(hw::BufferInfo::Use use) {
  switch (use) {
    case hw::BufferInfo::Use::value: return "value";
    case hw::BufferInfo::Use::operand: return "operand";
    case hw::BufferInfo::Use::parameter: return "parameter";
    case hw::BufferInfo::Use::code: return "code";
    case hw::BufferInfo::Use::table: return "table";
    case hw::BufferInfo::Use::host: return "host";
    case hw::BufferInfo::Use::support: return "support";
  }
  return "unknown";
}

// What dominates: operations by simulated cycles.
ordered_json dominating(const Figures& figures) {
  ordered_json list = ordered_json::array();
  for (const OperationFigures& operation : figures.operations) {
    if (list.size() == most_rows) break;
    const std::int64_t cycles = operation.cycles.total();
    list.push_back({{"operation", operation.name},
                    {"cycles", cycles},
                    {"fraction", static_cast<double>(cycles) /
                                     static_cast<double>(std::max<std::int64_t>(1, figures.cycles.total()))},
                    {"compute_cycles", operation.cycles[PhaseKind::compute]},
                    {"exchange_cycles", operation.cycles[PhaseKind::exchange]}});
  }
  return list;
}

// What holds memory: buffers alive at the peak of the fullest tile.
ordered_json holding(const hw::Program& program, const Figures& figures) {
  const std::int32_t stage = figures.memory[figures.peak_tile].peak_stage;
  std::vector<const hw::BufferInfo*> alive;
  for (const hw::BufferInfo& buffer : program.tiles[figures.peak_tile].buffers)
    if (buffer.first_stage <= stage && stage < buffer.last_stage) alive.push_back(&buffer);
  std::stable_sort(alive.begin(), alive.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  ordered_json buffers = ordered_json::array();
  for (const hw::BufferInfo* buffer : alive)
    if (buffers.size() < most_rows)
      buffers.push_back({{"name", buffer->name}, {"use", name_of(buffer->use)}, {"bytes", buffer->bytes}});
  return {{"tile", figures.peak_tile}, {"buffers", std::move(buffers)}};
}

// What waits for what: stages by the tile-cycles in which the other tiles wait for the slowest one.
ordered_json waiting(const hw::Program& program, const sim::RunResult& run) {
  struct Row {
    std::size_t stage;
    double idle;
  };
  std::vector<Row> rows;
  const auto tiles = static_cast<double>(program.machine.tiles);
  for (std::size_t stage = 0; stage < run.stages.size(); ++stage) {
    const sim::StageResult& result = run.stages[stage];
    const double all = static_cast<double>(result.cycles) * tiles;
    if (result.cycles > 0) rows.push_back({stage, std::max(0.0, all - static_cast<double>(result.busy_tile_cycles))});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.idle > b.idle; });
  ordered_json list = ordered_json::array();
  for (const Row& row : rows) {
    if (list.size() == most_rows) break;
    const std::int64_t cycles = run.stages[row.stage].cycles;
    list.push_back({{"operation", program.stages[row.stage].operation},
                    {"what", program.stages[row.stage].what},
                    {"waiting_fraction", row.idle / (static_cast<double>(cycles) * tiles)},
                    {"cycles", cycles}});
  }
  return list;
}

}  // namespace

Result<int> run_report(const Context& context, ordered_json& object, std::string& text) {
  const Arguments& arguments = context.arguments;
  if (!arguments.has("output") && !context.json)
    return fail(ErrorKind::usage, "report: -o report.html is missing (or --json for the figures)");
  TW_TRY(const hw::Program program, hw::read_package(arguments.positional()[0]));
  SimulateRequest request;
  TW_TRY(const std::int64_t seed, arguments.integer("seed", 0, 0, std::int64_t{1} << 62));
  request.seed = static_cast<std::uint64_t>(seed);
  request.timing_only = !program.has_weights;
  request.reference = arguments.has("reference") && program.has_weights;
  if (request.reference) request.checkpoints = {"*"};
  request.progress = context.progress();
  TW_TRY(const SimulateReport report, simulate(program, request));
  put_run(object, program, report.run);
  if (report.run.fault) {
    put_fault(object, text, *report.run.fault);
    return 1;
  }
  const Figures figures = figures_of(program, report.run);
  object["dominates"] = dominating(figures);
  object["memory"] = holding(program, figures);
  object["waits"] = waiting(program, report.run);
  if (!arguments.has("output")) return 0;
  const std::string command = fmt::format(
      "tilewright compile {} --machine {} --precision {} -o P.twp && tilewright report P.twp -o report.html",
      program.model, program.machine.name, program.precision);
  TW_TRY(const std::string page, render_report(program, report.run, report.reference, command));
  TW_TRY_STATUS(write_file(arguments.text("output"), page));
  object["file"] = arguments.text("output");
  text = run_text(program, report.run) + fmt::format("  wrote {} ({} bytes)\n", arguments.text("output"),
                                                     with_separators(static_cast<std::int64_t>(page.size())));
  return 0;
}

}  // namespace tw::runtime
