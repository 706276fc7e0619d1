// simulator/system/loadable.cpp: checks of tables, indexes and addresses before a program is loaded.
#include "simulator/system/loadable.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw::sim {
namespace {

const char* const recompile = "the package is damaged; compile it again";

Status check_range(const hw::Machine& machine, std::size_t tile, const char* what, std::uint64_t address,
                   std::uint64_t bytes) {
  if (address <= machine.sram.end() && bytes <= machine.sram.capacity_bytes() &&
      machine.sram.contains(static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(bytes)))
    return {};
  return fail(ErrorKind::corrupt,
              fmt::format("tile {}: {} of {} bytes at {:#x} leaves the SRAM ({:#x} to {:#x})", tile, what, bytes,
                          address, machine.sram.base_bytes, machine.sram.end()),
              {{"tile", std::to_string(tile)}}, recompile);
}

Status check_index(std::size_t tile, const char* what, std::uint64_t index, std::size_t count) {
  if (index < count) return {};
  return fail(ErrorKind::corrupt, fmt::format("tile {}: {} {} does not exist, there are {}", tile, what, index, count),
              {{"tile", std::to_string(tile)}}, recompile);
}

// Reading a checkpoint back goes through its view and its column groups.
Status check_view(const hw::Checkpoint& point) {
  std::int64_t elements = 1, last = point.view.offset;
  for (const std::int64_t dim : point.shape) elements *= dim;
  for (const auto* dims : {&point.view.row_dims, &point.view.column_dims})
    for (const hw::ViewDim& dim : *dims) last += (dim.size - 1) * std::max<std::int64_t>(dim.stride, 0);
  const hw::ColumnGroups& groups = point.layout.groups;
  const bool sound = groups.groups > 0 && groups.width > 0 && groups.padded >= groups.width && point.view.offset >= 0 &&
                     last < elements && point.view.rows() == point.layout.rows() &&
                     point.view.columns() == groups.columns() && point.layout.column_cuts.back() <= groups.stored();
  if (sound) return {};
  return fail(ErrorKind::corrupt,
              fmt::format("checkpoint \"{}\": its view, layout and shape do not agree", point.value), {}, recompile);
}

Status check_tile(const hw::Program& program, std::size_t tile) {
  const hw::TileProgram& code = program.tiles[tile];
  TW_TRY_STATUS(check_range(program.machine, tile, "code", code.code_address_bytes, code.code.size() * 4));
  for (const hw::Segment& segment : code.segments)
    TW_TRY_STATUS(check_range(program.machine, tile, "a segment", segment.address_bytes, segment.bytes.size()));
  for (const hw::KernelEntry& entry : code.entries)
    TW_TRY_STATUS(check_index(tile, "kernel", entry.kernel, program.kernels.size()));
  for (const hw::CodeOrigin& origin : code.origins)
    TW_TRY_STATUS(check_index(tile, "stage", origin.stage.value, program.stages.size()));
  return {};
}

// The blocks of a layout lie on tiles of the machine, inside their SRAM.
Status check_blocks(const hw::Program& program, const std::string& name, const hw::TensorLayout& layout,
                    const std::vector<std::uint32_t>& addresses) {
  if (layout.row_cuts.empty() || layout.column_cuts.empty() ||
      addresses.size() != static_cast<std::size_t>(layout.blocks()))
    return fail(ErrorKind::corrupt,
                fmt::format("\"{}\" has {} block addresses for {} blocks", name, addresses.size(), layout.blocks()), {},
                recompile);
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c) {
      const std::int64_t bytes = layout.block_bytes(r, c);
      if (bytes == 0) continue;
      const std::uint32_t tile = layout.tile_of(r, c).value;
      TW_TRY_STATUS(check_index(tile, "tile", tile, program.tiles.size()));
      TW_TRY_STATUS(check_range(program.machine, tile, "a block",
                                addresses[static_cast<std::size_t>(r * layout.column_blocks() + c)],
                                static_cast<std::uint64_t>(bytes)));
    }
  return {};
}

}  // namespace

Status check_loadable(const hw::Program& program) {
  if (program.tiles.size() != static_cast<std::size_t>(program.machine.tiles))
    return fail(
        ErrorKind::corrupt,
        fmt::format("the program is for {} tiles, its machine has {}", program.tiles.size(), program.machine.tiles), {},
        recompile);
  if (program.stages.empty()) return fail(ErrorKind::corrupt, "the program has no stages", {}, recompile);
  for (const hw::KernelParams& params : program.kernels) TW_TRY_STATUS(hw::check(params));
  for (std::size_t tile = 0; tile < program.tiles.size(); ++tile) TW_TRY_STATUS(check_tile(program, tile));
  for (const hw::ParameterImage& image : program.parameters) {
    TW_TRY_STATUS(check_index(image.tile, "tile", image.tile, program.tiles.size()));
    TW_TRY_STATUS(check_range(program.machine, image.tile, "the parameters", image.address_bytes,
                              std::max<std::size_t>(image.bytes, image.data.size())));
  }
  for (const hw::Checkpoint& point : program.checkpoints) {
    TW_TRY_STATUS(check_index(0, "stage", point.stage.value, program.stages.size()));
    TW_TRY_STATUS(check_blocks(program, point.value, point.layout, point.block_address_bytes));
    TW_TRY_STATUS(check_view(point));
  }
  return {};
}

}  // namespace tw::sim
