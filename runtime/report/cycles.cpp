// runtime/report/cycles.cpp: where the cycles go: by phase kind, and by operation as a table with bars.
#include <algorithm>

#include "hw/base/text.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string kinds_bar(const PhaseCycles& cycles) {
  const std::int64_t total = cycles.total();
  std::string bar = "<svg class=bar viewBox=\"0 0 1000 40\" preserveAspectRatio=none aria-hidden=true>",
              legend = "<ul class=legend>";
  double x = 0;
  for (int index = 0; index < phase_kinds; ++index) {
    const auto kind = static_cast<PhaseKind>(index);
    const double width = 1000 * share(cycles[kind], total);
    append(bar, "<rect class=k{} x={:.1f} y=0 width={:.1f} height=40></rect>", index, x, width);
    append(legend, "<li><i class=\"swatch k{}\"></i>{} <strong>{}</strong> <span class=note>{}</span></li>", index,
           name_of(kind), with_separators(cycles[kind]), percent(share(cycles[kind], total)));
    x += width;
  }
  return bar + "</svg>\n" + legend + "</ul>\n";
}

// One operation's bar: its kinds side by side, scaled to the operation with most cycles.
std::string row_bar(const PhaseCycles& cycles, std::int64_t largest) {
  std::string bar = "<svg class=rowbar viewBox=\"0 0 100 10\" preserveAspectRatio=none aria-hidden=true>";
  double x = 0;
  for (int index = 0; index < phase_kinds; ++index) {
    const double width = 100 * share(cycles.of[index], largest);
    if (width > 0) append(bar, "<rect class=k{} x={:.2f} y=0 width={:.2f} height=10></rect>", index, x, width);
    x += width;
  }
  return bar + "</svg>";
}

std::string difference(std::int64_t estimated, std::int64_t simulated) {
  if (estimated == 0 || simulated == 0) return "";
  return fmt::format("{:+.1f} %", 100 * (static_cast<double>(estimated) / static_cast<double>(simulated) - 1));
}

void operation_row(std::string& html, const OperationFigures& operation, std::int64_t total, std::int64_t largest,
                   double tiles) {
  const std::int64_t cycles = operation.cycles.total();
  const double amp = cycles > 0 && tiles > 0 ? operation.amp_cycles / (static_cast<double>(cycles) * tiles) : 0;
  append(html, "<tr><th scope=row>{}<span class=note>{}</span></th>",
         escape(operation.name.empty() ? "(program)" : operation.name),
         escape(fmt::format("{} {} {}", operation.kind, operation.grid, operation.precision)));
  append(html, "<td>{}<span class=n>{}</span></td><td class=n>{}</td>", row_bar(operation.cycles, largest),
         with_separators(cycles), percent(share(cycles, total)));
  for (const std::int64_t part : operation.cycles.of)
    append(html, "<td class=\"n wide\">{}</td>", part > 0 ? with_separators(part) : "");
  append(html, "<td class=\"n wide\">{}</td><td class=\"n wide\">{}</td></tr>\n", amp > 0 ? percent(amp) : "",
         difference(operation.estimated_cycles, cycles));
}

}  // namespace

std::string cycles_view(const ReportInput& input) {
  const Figures& figures = input.figures;
  const std::int64_t total = input.run.cycles;
  std::string html = "<section aria-labelledby=h-cycles><h2 id=h-cycles>Cycles</h2>\n";
  if (!figures.operations.empty() && total > 0) {
    const OperationFigures& top = figures.operations.front();
    append(html, "<p>Most cycles: <strong>{}</strong> with {} of {}.</p>\n", escape(top.name),
           percent(share(top.cycles.total(), total)), plural(total, "cycle"));
  }
  html += kinds_bar(figures.cycles);
  html +=
      "<p class=note>Along the critical path: the cycles of the tile that each barrier waits for, then the "
      "barrier.</p>\n";
  html +=
      "<div class=scroll tabindex=0 role=region aria-label=\"Cycles by operation\"><table><thead><tr><th "
      "scope=col>operation"
      "<th scope=col>cycles<th scope=col class=n>share";
  for (int kind = 0; kind < phase_kinds; ++kind)
    append(html, "<th scope=col class=\"n wide\">{}", name_of(static_cast<PhaseKind>(kind)));
  html += "<th scope=col class=\"n wide\">AMP peak<th scope=col class=\"n wide\">estimate</tr></thead><tbody>\n";
  const std::int64_t largest = figures.operations.empty() ? 1 : figures.operations.front().cycles.total();
  for (const OperationFigures& operation : figures.operations)
    operation_row(html, operation, total, largest, static_cast<double>(input.program.tiles.size()));
  return html +
         "</tbody></table></div>\n<p class=note>Estimate: the plan's closed form against the simulated "
         "cycles.</p></section>\n";
}

}  // namespace tw::runtime
