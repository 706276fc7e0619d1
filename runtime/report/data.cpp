// runtime/report/data.cpp: what the page's script needs, as JSON: stages, maps, and the buffers of every tile.
#include <map>
#include <tuple>

#include "hw/fabric/fabric.h"
#include "runtime/report/chip_map.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

template <class Range, class Item>
void append_list(std::string& json, const Range& range, Item item) {
  json += '[';
  bool first = true;
  for (const auto& value : range) {
    if (!first) json += ',';
    first = false;
    item(value);
  }
  json += ']';
}

std::string stages_data(const Figures& figures) {
  std::string json;
  append_list(json, figures.stages, [&](const StageFigures& stage) {
    append(json, "[{},{},{},\"{}\",{},{},{}]", stage.index, json_string(stage.operation), json_string(stage.what),
           name_of(stage.kind), stage.begin, stage.cycles, stage.iterations);
  });
  return json;
}

// Buffers differ between tiles in bytes only, mostly: descriptions once, then (description, bytes) a tile; equal tiles
// share one list.
std::string buffers_data(const hw::Program& program) {
  using Key = std::tuple<std::string, std::string, int, std::uint32_t, std::int32_t, std::int32_t>;
  std::map<Key, std::size_t> known;
  std::map<std::string, std::size_t> classes;
  std::string descriptions = "[", lists = "[", of_tile = "[";
  for (const hw::TileProgram& tile : program.tiles) {
    std::string list;
    append_list(list, tile.buffers, [&](const hw::BufferInfo& buffer) {
      const Key key{buffer.name,          buffer.operation,   static_cast<int>(buffer.use),
                    buffer.address_bytes, buffer.first_stage, buffer.last_stage};
      const auto [found, added] = known.try_emplace(key, known.size());
      if (added)
        append(descriptions, "{}[{},{},{},{},{},{}]", known.size() > 1 ? "," : "", json_string(buffer.name),
               json_string(buffer.operation), static_cast<int>(buffer.use), buffer.address_bytes, buffer.first_stage,
               buffer.last_stage);
      append(list, "{},{}", found->second, buffer.bytes);
    });
    const auto [found, added] = classes.try_emplace(list, classes.size());
    if (added) lists += (classes.size() > 1 ? "," : "") + list;
    append(of_tile, "{}{}", of_tile.size() > 1 ? "," : "", found->second);
  }
  return fmt::format("\"buffers\":{}],\"lists\":{}],\"listOf\":{}]", descriptions, lists, of_tile);
}

}  // namespace

std::string page_data(const ReportInput& input) {
  const hw::Machine& machine = input.program.machine;
  std::string json = "{";
  append(json, "\"tiles\":{},\"rows\":{},\"stageCount\":{},\"base\":{},\"capacity\":{},\"region0\":{},\"peakTile\":{},",
         input.program.tiles.size(), machine.rows(), input.program.stages.size(), machine.sram.base_bytes,
         machine.sram.capacity_bytes(), machine.sram.region0_bytes, input.figures.peak_tile);
  append(json, "\"stages\":{},\"maps\":{{", stages_data(input.figures));
  bool first = true;
  for (const ChipMap& map : chip_maps(input)) {
    append(json, "{}\"{}\":{{\"unit\":\"{}\",\"values\":", first ? "" : ",", map.id, map.unit);
    append_list(json, map.values, [&](std::int64_t value) { append(json, "{}", value); });
    json += '}';
    first = false;
  }
  json += "},\"physical\":[";
  for (std::uint32_t tile = 0; tile < input.program.tiles.size(); ++tile)
    append(json, "{}{}", tile > 0 ? "," : "", hw::physical_of({tile}, machine).value);
  json += "],\"peaks\":";
  append_list(json, input.figures.memory, [&](const MemoryFigures& memory) { append(json, "{}", memory.peak_stage); });
  return json + "," + buffers_data(input.program) + "}";
}

}  // namespace tw::runtime
