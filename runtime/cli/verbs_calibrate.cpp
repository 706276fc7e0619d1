// runtime/cli/verbs_calibrate.cpp: calibrate.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hw/base/file.h"
#include "hw/base/text.h"
#include "runtime/cli/calibration_data.h"
#include "runtime/cli/verb.h"
#include "simulator/calibration/calibration.h"

namespace tw::runtime {

using nlohmann::ordered_json;

Result<int> run_calibrate(const Context& context, ordered_json& object, std::string& text) {
  const Arguments& arguments = context.arguments;
  TW_TRY(const hw::Machine machine, hw::load_machine(arguments.text("machine", "ipu21")));
  const std::string file = arguments.text("rows", "bench/calibration/ipu21.csv");
  std::string csv{calibration_csv()};
  if (arguments.has("rows")) {
    TW_TRY(csv, read_text_file(file, 1 << 26));
  }
  TW_TRY(const std::vector<sim::CalibrationRow> rows, sim::read_calibration_csv(csv, file));

  std::vector<std::int64_t> simulated;
  std::vector<std::vector<std::string>> table{{"row", "kind", "measured", "simulated", "error"}};
  object["machine"] = machine.name;
  object["rows"] = ordered_json::array();
  const Progress progress = context.progress();
  for (const sim::CalibrationRow& row : rows) {
    if (progress)
      progress("calibrate", static_cast<std::int64_t>(simulated.size()), static_cast<std::int64_t>(rows.size()));
    auto cycles = sim::simulate_row(row, machine);
    if (!cycles) {
      cycles.error().message = file + ": " + cycles.error().message;
      return tl::unexpected(std::move(cycles).error());
    }
    simulated.push_back(*cycles);
    const double error = static_cast<double>(*cycles) / static_cast<double>(row.measured_cycles) - 1;
    object["rows"].push_back({{"name", row.name},
                              {"kind", row.kind},
                              {"measured_cycles", row.measured_cycles},
                              {"simulated_cycles", *cycles},
                              {"error", error}});
    table.push_back({row.name, row.kind, with_separators(row.measured_cycles), with_separators(*cycles),
                     fmt::format("{:+.2f} %", 100 * error)});
  }
  const sim::CalibrationSummary summary = sim::summarise(rows, simulated);
  std::vector<std::vector<std::string>> kinds{{"kind", "rows", "mean abs error", "worst"}};
  object["mean_abs_error"] = ordered_json::object();
  object["worst_abs_error"] = ordered_json::object();
  for (const auto& [name, kind] : summary.kinds) {
    object["mean_abs_error"][name] = kind.mean_abs_error;
    object["worst_abs_error"][name] = kind.worst_abs_error;
    kinds.push_back({name, std::to_string(kind.rows), fmt::format("{:.2f} %", 100 * kind.mean_abs_error),
                     fmt::format("{:.2f} %", 100 * kind.worst_abs_error)});
  }
  text = aligned_table(table) + "\n" + aligned_table(kinds);
  return 0;
}

}  // namespace tw::runtime
