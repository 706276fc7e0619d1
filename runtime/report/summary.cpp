// runtime/report/summary.cpp: the figures that a reader wants first, and what stopped the run.
#include <algorithm>

#include "hw/base/text.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

void card(std::string& html, std::string_view label, const std::string& value, const std::string& note,
          std::string_view tone = "") {
  append(html,
         "<li class=\"card {}\"><span class=label>{}</span> <strong>{}</strong> <span class=note>{}</span></li>\n",
         tone, escape(label), escape(value), escape(note));
}

const Comparison* worst(const std::map<std::string, Comparison>& outputs) {
  const Comparison* found = nullptr;
  for (const auto& [name, comparison] : outputs)
    if (found == nullptr || comparison.max_abs_error > found->max_abs_error) found = &comparison;
  return found;
}

void error_card(std::string& html, std::string_view label, const std::map<std::string, Comparison>& outputs) {
  if (const Comparison* comparison = worst(outputs))
    card(html, label, fmt::format("{:.4g}", comparison->max_abs_error),
         fmt::format("largest absolute error of any output element; cosine {:.6f}", comparison->cosine));
}

std::string fault_view(const sim::Fault& fault) {
  std::string html;
  append(html, "<section class=fault aria-label=\"Fault\"><h2>The run stopped: {}</h2><p>{}</p><dl>",
         escape(fault.kind), escape(fault.message));
  const auto row = [&](std::string_view term, const std::string& value) {
    if (!value.empty()) append(html, "<dt>{}</dt><dd>{}</dd>", term, escape(value));
  };
  row("tile", fault.tile < 0 ? "" : with_separators(fault.tile));
  row("cycle", with_separators(fault.cycle));
  row("program counter", fmt::format("{:#x}", fault.pc));
  row("instruction", fault.instruction);
  row("operation", fault.operation);
  row("stage", fault.stage);
  row("hint", fault.hint);
  return html + "</dl></section>\n";
}

}  // namespace

std::string summary_view(const ReportInput& input) {
  const hw::Program& program = input.program;
  const sim::RunResult& run = input.run;
  const Figures& figures = input.figures;
  const std::int64_t capacity = program.machine.sram.capacity_bytes();
  const std::int64_t peak = figures.memory.empty() ? 0 : figures.memory[figures.peak_tile].peak_bytes;
  std::string html;
  if (run.fault) html += fault_view(*run.fault);
  html += "<ul class=cards>\n";
  const bool fits = peak <= capacity;
  card(html, "Fits", fits ? "yes" : "no",
       fmt::format("fullest tile holds {} of {} bytes", with_separators(peak), with_separators(capacity)),
       fits ? "good" : "bad");
  card(html, "Cycles", with_separators(run.cycles), fmt::format("{} exchange phases", with_separators(run.phases)));
  card(html, "Time", fmt::format("{:.3f} ms", figures.seconds * 1e3),
       fmt::format("at {:.2f} GHz, on the device", program.machine.clock_hz / 1e9));
  if (run.cycles_per_iteration > 0)
    card(html, "Cycles per iteration", with_separators(run.cycles_per_iteration),
         "of the largest loop, in its steady state");
  card(html, "Fullest tile", percent(capacity > 0 ? static_cast<double>(peak) / static_cast<double>(capacity) : 0),
       fmt::format("tile {}, {} bytes free", with_separators(figures.peak_tile),
                   with_separators(std::max<std::int64_t>(capacity - peak, 0))));
  card(html, "Tiles with tensors", with_separators(program.tiles_used),
       fmt::format("of {}", with_separators(program.machine.tiles)));
  card(html, "Share of AMP peak", percent(figures.amp_share), "products with their padding, over all tile-cycles");
  card(html, "Waiting", percent(run.idle_fraction), "of all tile-cycles");
  if (input.reference) {
    error_card(html, "Error against quantised", input.reference->quantised);
    error_card(html, "Error against f32", input.reference->f32);
  }
  return html + "</ul>\n";
}

}  // namespace tw::runtime
