// runtime/report/chip.cpp: maps over the chip: a cell a tile, placed by its physical row and column.
#include <algorithm>
#include <array>

#include "hw/base/text.h"
#include "hw/fabric/fabric.h"
#include "runtime/report/chip_map.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

constexpr int shades = 10, tiles_per_row = 64, tiles_per_column = 4;
constexpr double column_gap = 0.5;

struct Cell {
  double x = 0, y = 0;
};

double cell_height(const hw::Machine& machine) { return machine.rows() <= 4 ? 4.0 : 1.6; }

// Bits of a physical number: row, column of the fabric, lane of the pair, half of the block pair.
Cell cell_of(std::uint32_t tile, const hw::Machine& machine) {
  const PhysicalTile physical = hw::physical_of({tile}, machine);
  const std::uint32_t place = physical.value % tiles_per_row, column = place / tiles_per_column;
  return {place + column_gap * column, hw::physical_row(physical) * cell_height(machine)};
}

// Largest and smallest value that shades tell apart: all but the outermost twentieth on either side, so that a few odd
// tiles do not hide the differences among the others.
std::pair<std::int64_t, std::int64_t> shade_range(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  const std::size_t margin = values.size() / 20;
  const std::int64_t lightest = values[margin], darkest = values[values.size() - 1 - margin];
  return darkest > lightest ? std::pair{darkest, lightest} : std::pair{values.back(), values.front()};
}

// All tiles of one shade as one path: a map is ten elements however many tiles there are.
std::string map_drawing(const ChipMap& map, const hw::Machine& machine) {
  std::array<std::string, shades> paths;
  const auto [darkest, lightest] = shade_range(map.values);
  const double span = static_cast<double>(std::max<std::int64_t>(darkest - lightest, 1));
  const double height = cell_height(machine);
  for (std::uint32_t tile = 0; tile < map.values.size(); ++tile) {
    const double level = std::clamp(static_cast<double>(map.values[tile] - lightest) / span, 0.0, 1.0);
    const Cell cell = cell_of(tile, machine);
    append(paths[std::min(static_cast<std::size_t>(level * shades), std::size_t{shades - 1})],
           "M{:g} {:.3g}h.92v{:.3g}h-.92z", cell.x, cell.y, height - 0.1);
  }
  std::string svg;
  append(svg,
         "<svg class=chip data-map={} viewBox=\"0 0 {:g} {:g}\" tabindex=0 role=img aria-label=\"Map of {}: arrow keys "
         "walk over tiles, Enter chooses one\">",
         map.id, tiles_per_row + column_gap * 15, machine.rows() * height, escape(map.title));
  for (int shade = 0; shade < shades; ++shade)
    if (!paths[shade].empty()) append(svg, "<path class=h{} d=\"{}\"></path>", shade, paths[shade]);
  return svg + "</svg>\n";
}

void append_map(std::string& html, const ChipMap& map, const hw::Machine& machine) {
  const auto [smallest, largest] = std::minmax_element(map.values.begin(), map.values.end());
  std::int64_t sum = 0;
  for (const std::int64_t value : map.values) sum += value;
  append(html, "<figure><figcaption><strong>{}</strong> <span class=note>{} to {} {}, mean {}</span></figcaption>\n",
         escape(map.title), with_separators(*smallest), with_separators(*largest), map.unit,
         with_separators(sum / static_cast<std::int64_t>(map.values.size())));
  html += map_drawing(map, machine);
  html += "<div class=scale aria-hidden=true>";
  for (int shade = 0; shade < shades; ++shade) append(html, "<i class=h{}></i>", shade);
  const auto [darkest, lightest] = shade_range(map.values);
  append(html, "</div><p class=ends><span>up to {}</span><span>from {}</span></p></figure>\n",
         with_separators(lightest), with_separators(darkest));
}

}  // namespace

std::vector<ChipMap> chip_maps(const ReportInput& input) {
  std::vector<ChipMap> maps = {{"memory", "Memory, peak", "bytes", {}},
                               {"busy", "Work", "cycles", {}},
                               {"in", "Exchange, received", "words", {}},
                               {"out", "Exchange, sent", "words", {}}};
  for (const MemoryFigures& memory : input.figures.memory) maps[0].values.push_back(memory.peak_bytes);
  maps[1].values = input.run.tile_busy_cycles;
  maps[2].values = input.run.tile_words_in;
  maps[3].values = input.run.tile_words_out;
  return maps;
}

std::string chip_view(const ReportInput& input) {
  std::string html = "<section aria-labelledby=h-chip><h2 id=h-chip>Over the chip</h2>\n";
  append(
      html,
      "<p>Each cell is a tile where it sits: {} physical rows of 16 columns with 4 tiles each. {} moved between tiles. "
      "Shades run over the middle nine tenths of each map's values.</p>\n",
      input.program.machine.rows(), plural(input.figures.words, "word"));
  html +=
      "<p class=readout id=chip-text aria-live=polite>Point at a tile; choose it to see its memory below.</p>\n<div "
      "class=maps>\n";
  for (const ChipMap& map : chip_maps(input))
    if (!map.values.empty()) append_map(html, map, input.program.machine);
  return html + "</div></section>\n";
}

}  // namespace tw::runtime
