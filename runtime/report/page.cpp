// runtime/report/page.cpp: puts the sections into one file.
#include <fmt/format.h>

#include "hw/base/text.h"
#include "runtime/report/assets.h"
#include "runtime/report/html.h"
#include "runtime/report/report.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

std::string header(const hw::Program& program) {
  std::string html = "<header><h1>";
  html += escape(program.model) + "</h1>\n<p>";
  append(html, "{} on <strong>{}</strong> ({})", escape(program.precision), escape(program.machine.name),
         escape(program.machine.description));
  if (program.batch > 0) append(html, ", batch {}", program.batch);  // as given; else the model's own
  for (const auto& [name, size] : program.dims) append(html, ", {} = {}", escape(name), size);
  html += "; simulated cycles</p></header>\n";
  return html;
}

std::string footer(const hw::Program& program, const std::string& command) {
  std::string html = "<section aria-labelledby=h-again><h2 id=h-again>The same run again</h2>\n";
  append(html, "<pre id=command tabindex=0><code>{}</code></pre><button type=button id=copy hidden>Copy</button>\n",
         escape(command));
  append(html, "<p class=note>Seed {}. {}Tilewright {}.</p></section>\n", program.seed,
         program.model_hash.empty() ? std::string() : fmt::format("Model file {}. ", escape(program.model_hash)),
         escape(program.tilewright_version));
  return html;
}

}  // namespace

Result<std::string> render_report(const hw::Program& program, const sim::RunResult& run,
                                  const std::optional<ReferenceReport>& reference, const std::string& command) {
  if (run.stages.size() != program.stages.size())
    return fail(ErrorKind::bad_input, fmt::format("the run has {} stages, the program {}; run this package again",
                                                  run.stages.size(), program.stages.size()));
  for (const auto* tiles : {&run.tile_busy_cycles, &run.tile_words_in, &run.tile_words_out})
    if (tiles->size() != program.tiles.size() ||
        program.tiles.size() != static_cast<std::size_t>(program.machine.tiles))
      return fail(ErrorKind::bad_input, fmt::format("the run is of {} tiles, the program of {}, its machine of {}",
                                                    tiles->size(), program.tiles.size(), program.machine.tiles));
  const Figures figures = figures_of(program, run);
  const ReportInput input{program, run, reference, figures};
  std::string html =
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n<meta name=color-scheme content=\"light "
      "dark\">\n";
  append(html, "<title>{}: {} cycles</title>\n<style>{}</style></head>\n<body><main>\n", escape(program.model),
         with_separators(run.cycles), page_style());
  html += header(program) + summary_view(input) + cycles_view(input) + timeline_view(input) + chip_view(input) +
          memory_view(input) + errors_view(input) + footer(program, command);
  append(html, "</main>\n<script type=\"application/json\" id=data>{}</script>\n<script>{}</script></body></html>\n",
         page_data(input), page_script());
  return html;
}

}  // namespace tw::runtime
