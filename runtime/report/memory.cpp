// runtime/report/memory.cpp: the fullest tile: what lies where in its SRAM, from stage to stage, and what is alive at
// its peak. The page's script draws other tiles from the same data.
#include <algorithm>

#include "hw/base/text.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

constexpr const char* use_names[] = {"value", "operand", "parameter", "code", "table", "host", "support"};

bool alive_at(const hw::BufferInfo& buffer, std::int32_t stage) {
  const bool passing = buffer.use == hw::BufferInfo::Use::value || buffer.use == hw::BufferInfo::Use::operand ||
                       buffer.use == hw::BufferInfo::Use::host;
  const std::int32_t first = std::max(buffer.first_stage, 0);
  return !passing || (first <= stage && stage < std::max(buffer.last_stage, first + 1));
}

std::string drawing(const std::vector<hw::BufferInfo>& buffers, std::int32_t stages, std::int32_t peak_stage,
                    const hw::SramMap& sram) {
  const double scale = 1000.0 / sram.capacity_bytes();
  std::string svg;
  append(svg,
         "<svg id=memory class=memory viewBox=\"0 0 {} 1000\" preserveAspectRatio=none tabindex=0 role=img "
         "aria-label=\"Addresses over stages; arrow keys walk through the buffers\">\n",
         stages);
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    const hw::BufferInfo& buffer = buffers[index];
    const bool passing = buffer.use == hw::BufferInfo::Use::value || buffer.use == hw::BufferInfo::Use::operand ||
                         buffer.use == hw::BufferInfo::Use::host;
    const std::int32_t first = passing ? std::clamp(buffer.first_stage, 0, stages) : 0;
    const std::int32_t last = passing ? std::clamp(buffer.last_stage, first + 1, std::max(stages, first + 1)) : stages;
    append(svg, "<rect class=u{} data-b={} x={} y={:.2f} width={} height={:.2f}></rect>\n",
           static_cast<int>(buffer.use), index, first,
           (static_cast<double>(buffer.address_bytes) - sram.base_bytes) * scale, last - first,
           std::max(buffer.bytes * scale, 0.8));
  }
  append(svg, "<path class=mark d=\"M{0} 0V1000\"></path><path class=region d=\"M0 {1:.2f}H{2}\"></path></svg>\n",
         peak_stage + 0.5, sram.region0_bytes * scale, stages);
  return svg;
}

std::string alive_table(std::vector<hw::BufferInfo> buffers, std::int32_t stage, std::int64_t total) {
  buffers.erase(std::remove_if(buffers.begin(), buffers.end(),
                               [&](const hw::BufferInfo& buffer) { return !alive_at(buffer, stage); }),
                buffers.end());
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const hw::BufferInfo& a, const hw::BufferInfo& b) { return a.bytes > b.bytes; });
  std::string html =
      "<div class=scroll tabindex=0 role=region aria-label=\"Buffers at the peak\"><table><thead><tr><th "
      "scope=col>buffer<th scope=col>use"
      "<th scope=col class=n>bytes<th scope=col class=n>share<th scope=col class=\"n "
      "wide\">address</tr></thead><tbody>\n";
  for (const hw::BufferInfo& buffer : buffers)
    append(html,
           "<tr><th scope=row>{}<span class=note>{}</span></th><td><i class=\"swatch u{}\"></i>{}</td><td "
           "class=n>{}</td><td class=n>{}</td><td class=\"n wide\">{:#x}</td></tr>\n",
           escape(buffer.name), escape(buffer.operation), static_cast<int>(buffer.use),
           use_names[static_cast<int>(buffer.use)], with_separators(buffer.bytes),
           percent(total > 0 ? static_cast<double>(buffer.bytes) / static_cast<double>(total) : 0),
           buffer.address_bytes);
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string memory_view(const ReportInput& input) {
  const hw::Program& program = input.program;
  if (program.tiles.empty()) return "";
  const std::uint32_t tile = input.figures.peak_tile;
  const MemoryFigures& memory = input.figures.memory[tile];
  const auto stages = static_cast<std::int32_t>(std::max<std::size_t>(program.stages.size(), 1));
  const std::string at =
      memory.peak_stage < static_cast<std::int32_t>(program.stages.size())
          ? program.stages[memory.peak_stage].operation + ": " + program.stages[memory.peak_stage].what
          : "";
  std::string html = "<section aria-labelledby=h-memory><h2 id=h-memory>Memory of a tile</h2>\n";
  append(html, "<p id=memory-title>Tile {}, the fullest: {} at stage {} ({}), of {}.</p>\n", tile,
         bytes_text(memory.peak_bytes), memory.peak_stage, escape(at),
         bytes_text(program.machine.sram.capacity_bytes()));
  html += "<ul class=legend>";
  for (int use = 0; use < 7; ++use) append(html, "<li><i class=\"swatch u{}\"></i>{}</li>", use, use_names[use]);
  html += "</ul>\n";
  html += drawing(program.tiles[tile].buffers, stages, memory.peak_stage, program.machine.sram);
  html +=
      "<p class=readout id=memory-text aria-live=polite>Addresses downwards, stages to the right; the upright line is "
      "the peak, the "
      "level one the border of the regions.</p>\n";
  append(html, "<h3>Alive at the peak of tile {}</h3>\n", tile);
  return html + alive_table(program.tiles[tile].buffers, memory.peak_stage, memory.peak_bytes) + "</section>\n";
}

}  // namespace tw::runtime
