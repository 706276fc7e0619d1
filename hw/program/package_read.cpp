// hw/program/package_read.cpp: packages back into Programs; no length, index or enumerator is trusted.
#include <fmt/format.h>

#include <memory>
#include <span>

#include "hw/program/container.h"
#include "hw/program/package.h"
#include "hw/program/package_fields.h"
#include "program_generated.h"

namespace tw::hw {
namespace {

constexpr int stage_kinds = 6, buffer_uses = 7;

KernelParams kernel_of(FieldReader& reader, const fb::KernelT& k) {
  KernelParams p;
  p.kind = reader.enumerator<KernelKind>(k.kind, kernel_kinds, "kernel kind");
  p.format = reader.enumerator<NumberFormat>(k.format, number_formats, "number format");
  p.out_format = reader.enumerator<NumberFormat>(k.out_format, number_formats, "number format");
  p.coefficient_form = reader.enumerator<CoefficientForm>(k.coefficient_form, 3, "coefficient form");
  p.unary = reader.enumerator<UnaryFunction>(k.unary, 11, "unary function");
  p.binary = reader.enumerator<BinaryFunction>(k.binary, 7, "binary function");
  p.reduction = reader.enumerator<RowReduction>(k.reduction, 3, "reduction");
  p.gelu_tanh = k.gelu_tanh;
  p.has_bias = k.has_bias;
  p.has_residual = k.has_residual;
  p.has_scale = k.has_scale;
  p.has_scalar = k.has_scalar;
  p.scalar_first = k.scalar_first;
  p.causal = k.causal;
  p.rows = k.rows;
  p.inner = k.inner;
  p.columns = k.columns;
  p.elements = k.elements;
  p.partials = k.partials;
  p.row_stride = k.row_stride;
  p.out_row_stride = k.out_row_stride;
  p.coefficient_stride = k.coefficient_stride;
  p.groups = k.groups;
  p.group = k.group;
  p.total_columns = k.total_columns;
  p.column_unit = k.column_unit;
  p.row_offset = k.row_offset;
  p.column_offset = k.column_offset;
  p.out_group = k.out_group;
  p.out_panel = k.out_panel;
  p.scale_exponent = k.scale_exponent;
  p.weights_region = k.weights_region;
  p.scale = k.scale;
  p.scalar = k.scalar;
  p.epsilon = k.epsilon;
  if (reader.ok()) {
    const Status status = check(p);
    reader.require(status.has_value(), status ? "" : status.error().message);
  }
  return p;
}

TileProgram tile_of(FieldReader& reader, const fb::TileT& from, const Program& program) {
  const SramMap& sram = program.machine.sram;
  TileProgram out;
  out.code_address_bytes = from.code_address_bytes;
  out.entry_bytes = from.entry_bytes;
  out.code = from.code;
  const std::size_t code_bytes = out.code.size() * 4;
  reader.require(from.code_address_bytes % 4 == 0 && code_bytes <= sram.region0_bytes &&
                     sram.contains(from.code_address_bytes, static_cast<std::uint32_t>(code_bytes)) &&
                     from.code_address_bytes + code_bytes <= sram.region1_base(),
                 "code lies outside region 0");
  reader.require(from.entry_bytes % 4 == 0 && from.entry_bytes >= from.code_address_bytes &&
                     from.entry_bytes - from.code_address_bytes <= code_bytes,
                 "the entry lies outside its code");
  reader.require(from.entry_addresses.size() == from.entry_kernels.size(),
                 "kernel entries and addresses differ in number");
  for (std::size_t i = 0; reader.ok() && i < from.entry_addresses.size(); ++i) {
    reader.require(from.entry_kernels[i] < program.kernels.size() && sram.contains(from.entry_addresses[i], 4),
                   "a kernel entry names no kernel or lies outside the SRAM");
    out.entries.push_back({from.entry_addresses[i], from.entry_kernels[i]});
  }
  for (const auto& segment : from.segments) {
    Segment item{.address_bytes = segment->address_bytes, .bytes = {}};
    const auto bytes = std::as_bytes(std::span(segment->bytes));
    item.bytes.assign(bytes.begin(), bytes.end());
    reader.require(bytes.size() <= sram.capacity_bytes() &&
                       sram.contains(item.address_bytes, static_cast<std::uint32_t>(bytes.size())),
                   "a segment lies outside the SRAM");
    out.segments.push_back(std::move(item));
  }
  return out;
}

Binding binding_of(FieldReader& reader, const fb::BindingT& from, const Machine& machine) {
  Binding out;
  out.name = from.name;
  out.input = from.input;
  out.shape = from.shape;
  out.view = reader.view(from.view.get(), out.shape);
  out.layout = reader.layout(from.layout.get(), out.view, machine);
  out.block_address_bytes = from.block_address_bytes;
  out.block_offsets = from.block_offsets;
  out.bytes = from.bytes;
  out.host_base = from.host_base;
  reader.addresses(out.block_address_bytes, out.layout, machine);
  reader.require(reader.ok() && out.block_offsets.size() == static_cast<std::size_t>(out.layout.blocks()) &&
                     out.bytes < (std::uint64_t{1} << 34) && out.host_base < (std::uint64_t{1} << 40),
                 "a binding's host buffer is out of range");
  for (std::size_t block = 0; reader.ok() && block < out.block_offsets.size(); ++block) {
    const auto bytes = static_cast<std::uint64_t>(out.layout.block_bytes(
        static_cast<int>(block) / out.layout.column_blocks(), static_cast<int>(block) % out.layout.column_blocks()));
    reader.require(out.block_offsets[block] <= out.bytes && bytes <= out.bytes - out.block_offsets[block],
                   "a block leaves its host buffer");
  }
  return out;
}

PlannedOperation planned_of(const fb::PlannedT& from) {
  PlannedOperation out;
  out.operation = from.operation;
  out.kind = from.kind;
  out.grid = from.grid;
  out.precision = from.precision;
  out.layout = from.layout;
  out.cycles = from.cycles;
  out.compute_cycles = from.compute_cycles;
  out.exchange_cycles = from.exchange_cycles;
  out.temporary_bytes = from.temporary_bytes;
  out.resident_bytes = from.resident_bytes;
  out.repetitions = from.repetitions;
  out.left_scale_exponent = from.left_scale_exponent;
  out.right_scale_exponent = from.right_scale_exponent;
  out.left_f8 = from.left_f8;
  out.right_f8 = from.right_f8;
  out.inner_groups = from.inner_groups;
  out.inner_width = from.inner_width;
  out.inner_padded = from.inner_padded;
  out.inner_tail_share = from.inner_tail_share;
  out.value_scale_exponent = from.value_scale_exponent;
  out.fused_add = from.fused_add;
  return out;
}

Result<Program> program_of(const fb::ProgramT& from, const std::string& path, const Section& section) {
  FieldReader reader(path, section);
  Program out;
  const Result<Machine> machine = parse_machine(from.machine_toml, "machine");
  reader.require(machine.has_value(), machine ? "" : machine.error().message);
  TW_TRY_STATUS(reader.status());
  out.machine = *machine;
  out.model = from.model;
  out.model_hash = from.model_hash;
  out.precision = from.precision;
  out.tilewright_version = from.version;
  for (const auto& dim : from.dims) out.dims.emplace_back(dim->name, dim->value);
  out.without_rewrites = from.without_rewrites;
  out.batch = from.batch;
  out.seed = from.seed;
  for (const auto& stage : from.stages) {
    StageInfo info;
    info.kind = reader.enumerator<StageKind>(stage->kind, stage_kinds, "stage kind");
    info.operation = stage->operation;
    info.what = stage->what;
    info.iterations = stage->iterations;
    info.estimated_cycles = stage->estimated_cycles;
    info.words = stage->words;
    reader.require(info.iterations >= 1, "a stage is repeated less than once");
    out.stages.push_back(std::move(info));
  }
  reader.require(!out.stages.empty(), "there are no stages");
  for (const auto& kernel : from.kernels) out.kernels.push_back(kernel_of(reader, *kernel));
  reader.require(static_cast<int>(from.tiles.size()) == out.machine.tiles, "it has not one program for each tile");
  for (const auto& tile : from.tiles) out.tiles.push_back(tile_of(reader, *tile, out));
  for (const auto& image : from.images) {
    ParameterImage item{.tile = image->tile, .address_bytes = image->address_bytes, .bytes = image->bytes, .data = {}};
    reader.require(item.tile < out.tiles.size() && out.machine.sram.contains(item.address_bytes, item.bytes),
                   "a parameter image lies outside the SRAM");
    out.parameters.push_back(std::move(item));
  }
  for (const auto& binding : from.bindings) out.bindings.push_back(binding_of(reader, *binding, out.machine));
  for (const auto& planned : from.plan) out.plan.push_back(planned_of(*planned));
  for (const PlannedOperation& planned : out.plan)
    reader.require(planned.repetitions >= 1 && planned.inner_groups >= 1 && planned.inner_width >= 0 &&
                       planned.inner_padded >= 0 && planned.inner_tail_share >= 1 && planned.inner_tail_share <= 32,
                   "a planned operation's groups are out of range");
  out.has_weights = from.has_weights;
  out.estimated_cycles = from.estimated_cycles;
  out.tile_peak_bytes = from.tile_peak_bytes;
  out.resident_bytes_max = from.resident_bytes_max;
  out.exchange_table_bytes_max = from.exchange_table_bytes_max;
  out.code_bytes_max = from.code_bytes_max;
  out.tiles_used = from.tiles_used;
  out.peak_tile = from.peak_tile;
  reader.require(
      out.peak_tile < out.tiles.size() && out.tiles_used >= 0 && out.tiles_used <= out.machine.tiles && out.batch >= 0,
      "its totals are out of range");
  TW_TRY_STATUS(reader.status());
  return out;
}

Status add_debug(const fb::DebugT& from, const std::string& path, const Section& section, Program& program) {
  FieldReader reader(path, section);
  const auto stages = static_cast<std::int64_t>(program.stages.size());
  reader.require(from.tiles.size() == program.tiles.size(), "it has not one entry for each tile");
  for (std::size_t tile = 0; reader.ok() && tile < from.tiles.size(); ++tile) {
    const fb::TileDebugT& debug = *from.tiles[tile];
    const std::size_t count = debug.buffer_names.size(), origins = debug.origin_first.size();
    reader.require(debug.buffer_operations.size() == count && debug.buffer_addresses.size() == count &&
                       debug.buffer_bytes.size() == count && debug.buffer_first.size() == count &&
                       debug.buffer_last.size() == count && debug.buffer_uses.size() == count &&
                       debug.origin_words.size() == origins && debug.origin_stages.size() == origins,
                   "its columns differ in length");
    for (std::size_t i = 0; reader.ok() && i < count; ++i) {
      reader.require(debug.buffer_names[i] < from.strings.size() && debug.buffer_operations[i] < from.strings.size(),
                     "a name is missing");
      reader.require(debug.buffer_first[i] >= 0 && debug.buffer_first[i] <= debug.buffer_last[i] &&
                         debug.buffer_last[i] <= stages &&
                         program.machine.sram.contains(debug.buffer_addresses[i], debug.buffer_bytes[i]),
                     "a buffer lies outside the SRAM or the program's stages");
      if (!reader.ok()) break;
      program.tiles[tile].buffers.push_back(
          {from.strings[debug.buffer_names[i]], from.strings[debug.buffer_operations[i]], debug.buffer_addresses[i],
           debug.buffer_bytes[i], debug.buffer_first[i], debug.buffer_last[i],
           reader.enumerator<BufferInfo::Use>(debug.buffer_uses[i], buffer_uses, "buffer use")});
    }
    for (std::size_t i = 0; reader.ok() && i < origins; ++i) {
      reader.require(
          debug.origin_stages[i] < program.stages.size() &&
              std::uint64_t{debug.origin_first[i]} + debug.origin_words[i] <= program.tiles[tile].code.size(),
          "code of an unknown stage");
      program.tiles[tile].origins.push_back({debug.origin_first[i], debug.origin_words[i], {debug.origin_stages[i]}});
    }
  }
  for (const auto& point : from.checkpoints) {
    Checkpoint item;
    item.operation = point->operation;
    item.value = point->value;
    item.stage = {point->stage};
    item.shape = point->shape;
    item.view = reader.view(point->view.get(), item.shape);
    item.layout = reader.layout(point->layout.get(), item.view, program.machine);
    item.block_address_bytes = point->block_address_bytes;
    reader.addresses(item.block_address_bytes, item.layout, program.machine);
    reader.require(item.stage.value < program.stages.size(), "a checkpoint of an unknown stage");
    program.checkpoints.push_back(std::move(item));
  }
  return reader.status();
}

// The tables of a section as objects, after FlatBuffers' own verifier has walked them.
template <class Table>
auto unpacked(const std::string& path, const Section& section)
    -> Result<std::unique_ptr<typename Table::NativeTableType>> {
  const auto* data = reinterpret_cast<const std::uint8_t*>(section.raw.data());
  constexpr flatbuffers::uoffset_t deepest = 32, most_tables = 10'000'000;
  flatbuffers::Verifier verifier(data, section.raw.size(), deepest, most_tables);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    FieldReader reader(path, section);
    reader.require(false, "it is no sound FlatBuffers table");
    return tl::unexpected(reader.status().error());
  }
  return std::unique_ptr<typename Table::NativeTableType>(flatbuffers::GetRoot<Table>(data)->UnPack());
}

tl::unexpected<Error> misfit(const std::string& path, const std::string& what) {
  return fail(ErrorKind::corrupt, fmt::format("{}: section \"weights\": {}", path, what),
              {{"file", path}, {"section", "weights"}}, "compile the model again");
}

// Hands the blocks to the images in order; each image's bytes are whole blocks.
Status add_weights(const std::string& path, std::span<Section> blocks, Program& program) {
  std::size_t next = 0;
  for (ParameterImage& image : program.parameters) {
    for (; image.data.size() < image.bytes && next < blocks.size(); ++next) {
      std::vector<std::byte> block = std::move(blocks[next].raw);  // weights are held once
      if (block.empty()) break;
      if (image.data.empty()) {
        image.data = std::move(block);
      } else {
        image.data.insert(image.data.end(), block.begin(), block.end());
      }
    }
    if (image.data.size() != image.bytes)
      return misfit(path, fmt::format("tile {} has {} of {} bytes", image.tile, image.data.size(), image.bytes));
  }
  if (next != blocks.size()) return misfit(path, fmt::format("{} blocks belong to no tile", blocks.size() - next));
  return {};
}

}  // namespace

Result<Program> read_package(const std::string& path, bool load_weights) {
  TW_TRY(std::vector<Section> sections, read_container(path, load_weights));
  bool ordered = sections.size() >= 2;
  for (std::size_t index = 0; index < sections.size(); ++index)
    ordered = ordered && sections[index].kind == (index == 0   ? SectionKind::program
                                                  : index == 1 ? SectionKind::debug
                                                               : SectionKind::weights);
  if (!ordered)
    return fail(ErrorKind::corrupt, path + ": its sections are not program, debug, weights", {{"file", path}});
  TW_TRY(const auto main, unpacked<fb::Program>(path, sections[0]));
  TW_TRY(const auto debug, unpacked<fb::Debug>(path, sections[1]));
  TW_TRY(Program program, program_of(*main, path, sections[0]));
  TW_TRY_STATUS(add_debug(*debug, path, sections[1], program));
  if (!load_weights) {
    program.has_weights = false;
  } else if (program.has_weights) {
    TW_TRY_STATUS(add_weights(path, std::span(sections).subspan(2), program));
  } else if (sections.size() > 2) {
    return misfit(path, "it is there, but the program says that it has no weights");
  }
  return program;
}

}  // namespace tw::hw
