// hw/program/package_read.cpp: packages back into Programs; no length, index or enumerator is trusted.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>

#include "hw/base/units.h"
#include "hw/program/container.h"
#include "hw/program/package.h"
#include "program_generated.h"

namespace tw::hw {
namespace {

constexpr int number_formats = 4, stage_kinds = 6, buffer_uses = 7;
constexpr std::int64_t largest_extent = std::int64_t{1} << 31;

// Collects the first thing that makes no sense; later ones follow from it.
class Reader {
 public:
  Reader(std::string path, const char* section) : path_(std::move(path)), section_(section) {}
  void require(bool holds, const std::string& what) {
    if (!holds && !failure_) failure_ = what;
  }
  Status status() const {
    if (!failure_) return {};
    return fail(ErrorKind::corrupt, fmt::format("{}: section \"{}\": {}", path_, section_, *failure_),
                {{"file", path_}, {"section", section_}},
                "the file was not written by this version; compile the model again");
  }
  bool ok() const { return !failure_; }

  template <class Enum>
  Enum enumerator(std::uint8_t value, int count, const char* what) {
    require(value < count, fmt::format("{} {} is not known", what, value));
    return static_cast<Enum>(value);
  }

  std::vector<ViewDim> dims(const std::vector<std::unique_ptr<fb::ViewDimT>>& from) {
    std::vector<ViewDim> out;
    for (const auto& dim : from) {
      require(
          dim->size >= 1 && dim->size < largest_extent && dim->stride > -largest_extent && dim->stride < largest_extent,
          "a view's dimension is out of range");
      out.push_back({dim->size, dim->stride});
    }
    return out;
  }

  // A view whose every element lies in a tensor of this shape.
  MatrixView view(const fb::ViewT* from, const std::vector<std::int64_t>& shape) {
    require(from != nullptr, "a view is missing");
    if (!ok()) return {};
    MatrixView out{dims(from->row_dims), dims(from->column_dims), from->offset};
    std::int64_t elements = 1;
    for (const std::int64_t dim : shape) {
      require(dim >= 1 && dim < largest_extent && elements < largest_extent * 16 / dim, "a shape is out of range");
      if (!ok()) return {};
      elements *= dim;
    }
    std::int64_t low = out.offset, high = out.offset;
    for (const auto* side : {&out.row_dims, &out.column_dims})
      for (const ViewDim& dim : *side) (dim.stride < 0 ? low : high) += (dim.size - 1) * dim.stride;
    require(low >= 0 && high < elements, "a view leaves its tensor");
    return out;
  }

  std::vector<std::int32_t> cuts(const std::vector<std::int32_t>& from, std::int64_t last) {
    require(from.size() >= 2 && from.front() == 0 && from.back() == last, "cuts do not cover their axis");
    for (std::size_t i = 1; i < from.size(); ++i) require(from[i] >= from[i - 1], "cuts do not ascend");
    return from;
  }

  TensorLayout layout(const fb::LayoutT* from, const MatrixView& view, const Machine& machine) {
    require(from != nullptr, "a layout is missing");
    if (!ok()) return {};
    TensorLayout out;
    out.format = enumerator<NumberFormat>(from->format, number_formats, "number format");
    out.scale_exponent = from->scale_exponent;
    out.groups = {from->groups, from->width, from->padded};
    require(from->groups >= 1 && from->width >= 1 && from->padded >= from->width &&
                std::int64_t{from->groups} * from->padded < largest_extent && out.scale_exponent >= -64 &&
                out.scale_exponent <= 64,
            "a layout's column groups are out of range");
    if (!ok()) return {};
    require(out.groups.columns() == view.columns(), "a layout has other columns than its view");
    out.row_cuts = cuts(from->row_cuts, view.rows());
    out.column_cuts = cuts(from->column_cuts, out.groups.stored());
    for (const std::int32_t cut : out.column_cuts)
      require(cut % out.panel() == 0, "a column cut is no multiple of a panel");
    out.first_tile = from->first_tile;
    if (ok())
      require(
          out.first_tile >= 0 && out.first_tile + std::int64_t{out.row_blocks()} * out.column_blocks() <= machine.tiles,
          "a layout needs more tiles than there are");
    return out;
  }

  void addresses(const std::vector<std::uint32_t>& blocks, const TensorLayout& layout, const Machine& machine) {
    require(ok() && blocks.size() == static_cast<std::size_t>(layout.blocks()),
            "a layout's block addresses are not one for each block");
    for (std::size_t block = 0; ok() && block < blocks.size(); ++block) {
      const auto bytes = layout.block_bytes(static_cast<int>(block) / layout.column_blocks(),
                                            static_cast<int>(block) % layout.column_blocks());
      require(bytes == 0 || (bytes <= machine.sram.capacity_bytes() &&
                             machine.sram.contains(blocks[block], static_cast<std::uint32_t>(bytes))),
              "a block lies outside the SRAM");
    }
  }

 private:
  std::string path_;
  std::string section_;
  std::optional<std::string> failure_;
};

KernelParams kernel_of(Reader& reader, const fb::KernelT& k) {
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

TileProgram tile_of(Reader& reader, const fb::TileT& from, const Program& program) {
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
  reader.require(from.entry_addresses.size() == from.entry_kernels.size(),
                 "kernel entries and addresses differ in number");
  for (std::size_t i = 0; reader.ok() && i < from.entry_addresses.size(); ++i) {
    reader.require(from.entry_kernels[i] < program.kernels.size(), "a kernel entry names no kernel");
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

Binding binding_of(Reader& reader, const fb::BindingT& from, const Machine& machine) {
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
  out.fused_add = from.fused_add;
  return out;
}

Result<Program> program_of(const fb::ProgramT& from, const std::string& path) {
  Reader reader(path, "program");
  Program out;
  TW_TRY(out.machine, parse_machine(from.machine_toml, path + " (machine)"));
  out.model = from.model;
  out.model_hash = from.model_hash;
  out.precision = from.precision;
  out.tilewright_version = from.version;
  for (const auto& dim : from.dims) out.dims.emplace_back(dim->name, dim->value);
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
    reader.require(
        static_cast<int>(item.tile) < out.machine.tiles && out.machine.sram.contains(item.address_bytes, item.bytes),
        "a parameter image lies outside the SRAM");
    out.parameters.push_back(std::move(item));
  }
  for (const auto& binding : from.bindings) out.bindings.push_back(binding_of(reader, *binding, out.machine));
  for (const auto& planned : from.plan) out.plan.push_back(planned_of(*planned));
  for (const PlannedOperation& planned : out.plan)
    reader.require(planned.inner_groups >= 1 && planned.inner_width >= 0 && planned.inner_padded >= 0,
                   "a planned operation's groups are out of range");
  out.has_weights = from.has_weights;
  out.estimated_cycles = from.estimated_cycles;
  out.tile_peak_bytes = from.tile_peak_bytes;
  out.resident_bytes_max = from.resident_bytes_max;
  out.exchange_table_bytes_max = from.exchange_table_bytes_max;
  out.code_bytes_max = from.code_bytes_max;
  out.tiles_used = from.tiles_used;
  out.peak_tile = from.peak_tile;
  reader.require(static_cast<int>(out.peak_tile) < out.machine.tiles, "its peak tile is no tile");
  TW_TRY_STATUS(reader.status());
  return out;
}

Status add_debug(const fb::DebugT& from, const std::string& path, Program& program) {
  Reader reader(path, "debug");
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
      if (!reader.ok()) break;
      program.tiles[tile].buffers.push_back(
          {from.strings[debug.buffer_names[i]], from.strings[debug.buffer_operations[i]], debug.buffer_addresses[i],
           debug.buffer_bytes[i], debug.buffer_first[i], debug.buffer_last[i],
           reader.enumerator<BufferInfo::Use>(debug.buffer_uses[i], buffer_uses, "buffer use")});
    }
    for (std::size_t i = 0; reader.ok() && i < origins; ++i) {
      reader.require(
          debug.origin_stages[i] < program.stages.size() && debug.origin_first[i] <= program.tiles[tile].code.size(),
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
auto unpacked(const Section& section) -> std::unique_ptr<typename Table::NativeTableType> {
  const auto* data = reinterpret_cast<const std::uint8_t*>(section.raw.data());
  constexpr flatbuffers::uoffset_t deepest = 32, most_tables = 100'000'000;
  flatbuffers::Verifier verifier(data, section.raw.size(), deepest, most_tables);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return std::unique_ptr<typename Table::NativeTableType>(flatbuffers::GetRoot<Table>(data)->UnPack());
}

}  // namespace

Result<Program> read_package(const std::string& path, bool load_weights) {
  TW_TRY(std::vector<Section> sections, read_container(path, load_weights));
  if (sections.size() < 2 || sections[0].kind != SectionKind::program || sections[1].kind != SectionKind::debug)
    return fail(ErrorKind::corrupt, path + ": its sections are not program, debug, weights", {{"file", path}});
  const auto main = unpacked<fb::Program>(sections[0]);
  const auto debug = unpacked<fb::Debug>(sections[1]);
  if (main == nullptr || debug == nullptr)
    return fail(ErrorKind::corrupt,
                fmt::format("{}: section \"{}\" is no sound table", path, main == nullptr ? "program" : "debug"),
                {{"file", path}});
  TW_TRY(Program program, program_of(*main, path));
  TW_TRY_STATUS(add_debug(*debug, path, program));
  if (!load_weights) {
    program.has_weights = false;
    return program;
  }
  std::size_t next = 2;
  for (ParameterImage& image : program.parameters) {
    if (!program.has_weights) break;
    for (; image.data.size() < image.bytes && next < sections.size(); ++next) {
      std::vector<std::byte> block = std::move(sections[next].raw);  // weights are held once
      if (image.data.empty()) {
        image.data = std::move(block);
      } else {
        image.data.insert(image.data.end(), block.begin(), block.end());
      }
    }
    if (image.data.size() != image.bytes)
      return fail(ErrorKind::corrupt,
                  fmt::format("{}: section \"weights\": tile {} has {} of {} bytes", path, image.tile,
                              image.data.size(), image.bytes),
                  {{"file", path}});
  }
  if (next != sections.size())
    return fail(ErrorKind::corrupt, fmt::format("{}: {} sections belong to nothing", path, sections.size() - next),
                {{"file", path}});
  return program;
}

}  // namespace tw::hw
