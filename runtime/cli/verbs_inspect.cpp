// runtime/cli/verbs_inspect.cpp: inspect.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hw/base/text.h"
#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/program/package.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {

using nlohmann::ordered_json;

namespace {

std::string stage_name(const hw::Program& program, StageId id) {
  const hw::StageInfo& stage = program.stages[id.value];
  return fmt::format("{} {} ({})", id.value, stage.operation, stage.what);
}

void put_summary(const hw::Program& program, ordered_json& object, std::string& text) {
  object["model"] = program.model;
  object["machine"] = program.machine.name;
  object["precision"] = program.precision;
  object["has_weights"] = program.has_weights;
  object["stages"] = program.stages.size();
  object["kernels"] = program.kernels.size();
  object["tiles_used"] = program.tiles_used;
  object["tile_peak_bytes"] = program.tile_peak_bytes;
  object["peak_tile"] = program.peak_tile;
  text += fmt::format(
      "{} in {} for {} (tilewright {})\n  {} stages, {} specialised kernels, {} of {} tiles used\n  peak {} bytes on "
      "tile {}; exchange rows up to {}, code up to {} bytes a tile\n",
      program.model, program.precision, program.machine.name, program.tilewright_version, program.stages.size(),
      program.kernels.size(), program.tiles_used, program.machine.tiles, with_separators(program.tile_peak_bytes),
      program.peak_tile, with_separators(program.exchange_table_bytes_max), with_separators(program.code_bytes_max));
  object["bindings"] = ordered_json::array();
  for (const hw::Binding& binding : program.bindings) {
    object["bindings"].push_back(
        {{"name", binding.name}, {"input", binding.input}, {"shape", binding.shape}, {"bytes", binding.bytes}});
    text += fmt::format("  {} \"{}\": {} bytes in {} x {} blocks\n", binding.input ? "input" : "output", binding.name,
                        with_separators(static_cast<std::int64_t>(binding.bytes)), binding.layout.row_blocks(),
                        binding.layout.column_blocks());
  }
}

void put_memory(const hw::Program& program, std::uint32_t tile, ordered_json& object, std::string& text) {
  std::vector<hw::BufferInfo> buffers = program.tiles[tile].buffers;
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const auto& a, const auto& b) { return a.address_bytes < b.address_bytes; });
  std::vector<std::vector<std::string>> rows{{"address", "bytes", "element", "stages", "buffer"}};
  object["buffers"] = ordered_json::array();
  for (const hw::BufferInfo& buffer : buffers) {
    rows.push_back({fmt::format("{:#x}", buffer.address_bytes), with_separators(buffer.bytes),
                    std::to_string(program.machine.sram.element_of(buffer.address_bytes)),
                    fmt::format("{}..{}", buffer.first_stage, buffer.last_stage), buffer.name});
    object["buffers"].push_back({{"name", buffer.name},
                                 {"operation", buffer.operation},
                                 {"address_bytes", buffer.address_bytes},
                                 {"bytes", buffer.bytes},
                                 {"first_stage", buffer.first_stage},
                                 {"last_stage", buffer.last_stage}});
  }
  text += aligned_table(rows);
}

void put_code(const hw::Program& program, std::uint32_t tile, std::string& text) {
  const hw::TileProgram& code = program.tiles[tile];
  std::size_t origin = 0;
  for (std::size_t word = 0; word < code.code.size();) {
    while (origin < code.origins.size() && code.origins[origin].first_word == word)
      text += fmt::format("; stage {}\n", stage_name(program, code.origins[origin++].stage));
    const hw::Instruction instruction = hw::decode(std::span(code.code).subspan(word));
    text += fmt::format("{:#08x}  {:08x}  {}\n", code.code_address_bytes + word * 4, code.code[word],
                        hw::disassemble(instruction));
    word += static_cast<std::size_t>(instruction.words());
  }
}

void put_exchange(const hw::Program& program, std::uint32_t tile, ordered_json& object, std::string& text) {
  const hw::TileProgram& code = program.tiles[tile];
  object["rows"] = ordered_json::array();
  for (const hw::CodeOrigin& origin : code.origins) {
    if (program.stages[origin.stage.value].kind != hw::StageKind::exchange || origin.first_word >= code.code.size())
      continue;
    const auto row = hw::decode_row(std::span(code.code).subspan(origin.first_word));
    if (!row) continue;
    text += fmt::format("stage {}: {} events, {} sends, {} receptions, {} bytes\n", stage_name(program, origin.stage),
                        row->schedule.events, row->schedule.sends.size(), row->schedule.sources.size(), row->words * 4);
    for (const hw::Send& send : row->schedule.sends)
      text += fmt::format("  {:>6}  send {} {}words from {:#x}, direction {}\n", send.event, send.items,
                          send.wide() ? "double " : "", send.address_words * 4, send.sctl & 3);
    for (const hw::SourceControl& source : row->schedule.sources)
      text += fmt::format("  {:>6}  {} to {:#x}\n", source.event, source.pair ? "the pair listens" : "listen",
                          source.source);
    for (const hw::PointerControl& pointer : row->schedule.pointers)
      text += fmt::format("  {:>6}  write from {:#x}\n", pointer.event, pointer.pointer_words * 4);
    for (const hw::FormatControl& format : row->schedule.formats)
      text += fmt::format("  {:>6}  write {} words\n", format.event, format.format == 0 ? "single" : "double");
    object["rows"].push_back({{"stage", origin.stage.value},
                              {"events", row->schedule.events},
                              {"sends", row->schedule.sends.size()},
                              {"sources", row->schedule.sources.size()},
                              {"bytes", row->words * 4}});
  }
}

}  // namespace

Result<int> run_inspect(const Context& context, ordered_json& object, std::string& text) {
  TW_TRY(const hw::Program program, hw::read_package(context.arguments.positional()[0], false));
  TW_TRY(const std::int64_t tile, context.arguments.integer("tile", program.peak_tile, 0, program.machine.tiles - 1));
  put_summary(program, object, text);
  object["tile"] = tile;
  const auto index = static_cast<std::uint32_t>(tile);
  if (context.arguments.has("memory")) put_memory(program, index, object, text);
  if (context.arguments.has("disassemble")) put_code(program, index, text);
  if (context.arguments.has("exchange")) put_exchange(program, index, object, text);
  if (context.arguments.has("disassemble") && context.json) object["text"] = text;
  return 0;
}

}  // namespace tw::runtime
