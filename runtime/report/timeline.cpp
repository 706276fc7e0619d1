// runtime/report/timeline.cpp: one pass through the program, a lane a phase kind, loops marked with their count.
#include <algorithm>
#include <array>

#include "hw/base/text.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

constexpr double width = 1000, lane_height = 30;
constexpr std::array<PhaseKind, 3> lanes = {PhaseKind::compute, PhaseKind::exchange, PhaseKind::host};

int lane_of(PhaseKind kind) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    if (lanes[lane] == kind) return static_cast<int>(lane);
  return 0;
}

// Brackets over the stretches that are executed more than once; HTML, so that their text keeps its size.
std::string loops(const std::vector<StageFigures>& stages, std::int64_t span) {
  std::string html;
  for (std::size_t first = 0; first < stages.size();) {
    std::size_t last = first;
    while (last + 1 < stages.size() && stages[last + 1].iterations == stages[first].iterations) ++last;
    if (stages[first].iterations > 1) {
      const double begin = static_cast<double>(stages[first].begin) / static_cast<double>(span);
      const double end = static_cast<double>(stages[last].begin + stages[last].cycles) / static_cast<double>(span);
      append(html, "<span class=loop style=\"left:{:.2f}%;width:{:.2f}%\">{} times</span>", 100 * begin,
             100 * (end - begin), stages[first].iterations);
    }
    first = last + 1;
  }
  return html;
}

std::string drawing(const std::vector<StageFigures>& stages, std::int64_t span) {
  const double scale = width / static_cast<double>(std::max<std::int64_t>(span, 1));
  std::string svg;
  append(svg,
         "<svg id=timeline class=timeline viewBox=\"0 0 {} {}\" preserveAspectRatio=none tabindex=0 role=img "
         "aria-label=\"Timeline of one pass; arrow keys walk through the stages\">\n",
         width, lane_height * lanes.size());
  for (std::size_t index = 0; index < stages.size(); ++index) {
    const StageFigures& stage = stages[index];
    append(svg, "<rect class=k{} data-s={} x={:.2f} y={:.0f} width={:.2f} height={:.0f}></rect>\n",
           static_cast<int>(stage.kind), index, static_cast<double>(stage.begin) * scale,
           lane_height * lane_of(stage.kind), std::max(static_cast<double>(stage.cycles) * scale - 0.15, 0.3),
           lane_height - 4);
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string timeline_view(const ReportInput& input) {
  const std::vector<StageFigures>& stages = input.figures.stages;
  const std::int64_t span = stages.empty() ? 0 : stages.back().begin + stages.back().cycles;
  std::string html = "<section aria-labelledby=h-time><h2 id=h-time>Timeline</h2>\n";
  append(html,
         "<p>One pass through the program, loops once: {}, {}. Lanes: compute, exchange with its barrier, host.</p>\n",
         plural(static_cast<std::int64_t>(stages.size()), "stage"), plural(span, "cycle"));
  if (span > 0) html += "<div class=loops>" + loops(stages, span) + "</div>\n" + drawing(stages, span);
  html +=
      "<p class=readout id=timeline-text aria-live=polite>Point at a stage, or focus the timeline and use the arrow "
      "keys.</p>\n";
  html +=
      "<details><summary>All stages as a table</summary><div class=scroll tabindex=0 role=region "
      "aria-label=Stages><table><thead><tr><th scope=col class=n>stage"
      "<th scope=col>operation<th scope=col>what<th scope=col>kind<th scope=col class=n>cycles, one pass"
      "<th scope=col class=n>times<th scope=col class=n>cycles, all</tr></thead><tbody>\n";
  for (const StageFigures& stage : stages)
    append(html,
           "<tr><td class=n>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=n>{}</td><td class=n>{}</td><td "
           "class=n>{}</td></tr>\n",
           stage.index, escape(stage.operation), escape(stage.what), name_of(stage.kind), with_separators(stage.cycles),
           stage.iterations, with_separators(stage.all_cycles));
  return html + "</tbody></table></div></details></section>\n";
}

}  // namespace tw::runtime
