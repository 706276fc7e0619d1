// hw/program/package_write.cpp: a Program into the FlatBuffers of its sections.
#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "hw/program/container.h"
#include "hw/program/package.h"
#include "program_generated.h"

namespace tw::hw {
namespace {

std::unique_ptr<fb::ViewT> view_of(const MatrixView& view) {
  auto out = std::make_unique<fb::ViewT>();
  const auto dims = [](const std::vector<ViewDim>& from, auto& to) {
    for (const ViewDim& dim : from) {
      auto item = std::make_unique<fb::ViewDimT>();
      item->size = dim.size;
      item->stride = dim.stride;
      to.push_back(std::move(item));
    }
  };
  dims(view.row_dims, out->row_dims);
  dims(view.column_dims, out->column_dims);
  out->offset = view.offset;
  return out;
}

std::unique_ptr<fb::LayoutT> layout_of(const TensorLayout& layout) {
  auto out = std::make_unique<fb::LayoutT>();
  out->format = static_cast<std::uint8_t>(layout.format);
  out->scale_exponent = layout.scale_exponent;
  out->groups = layout.groups.groups;
  out->width = layout.groups.width;
  out->padded = layout.groups.padded;
  out->row_cuts = layout.row_cuts;
  out->column_cuts = layout.column_cuts;
  out->first_tile = layout.first_tile;
  return out;
}

std::unique_ptr<fb::KernelT> kernel_of(const KernelParams& p) {
  auto k = std::make_unique<fb::KernelT>();
  k->kind = static_cast<std::uint8_t>(p.kind);
  k->format = static_cast<std::uint8_t>(p.format);
  k->out_format = static_cast<std::uint8_t>(p.out_format);
  k->coefficient_form = static_cast<std::uint8_t>(p.coefficient_form);
  k->unary = static_cast<std::uint8_t>(p.unary);
  k->binary = static_cast<std::uint8_t>(p.binary);
  k->reduction = static_cast<std::uint8_t>(p.reduction);
  k->gelu_tanh = p.gelu_tanh;
  k->has_bias = p.has_bias;
  k->has_residual = p.has_residual;
  k->has_scale = p.has_scale;
  k->has_scalar = p.has_scalar;
  k->scalar_first = p.scalar_first;
  k->causal = p.causal;
  k->rows = p.rows;
  k->inner = p.inner;
  k->columns = p.columns;
  k->elements = p.elements;
  k->partials = p.partials;
  k->row_stride = p.row_stride;
  k->out_row_stride = p.out_row_stride;
  k->coefficient_stride = p.coefficient_stride;
  k->groups = p.groups;
  k->group = p.group;
  k->total_columns = p.total_columns;
  k->column_unit = p.column_unit;
  k->row_offset = p.row_offset;
  k->column_offset = p.column_offset;
  k->out_group = p.out_group;
  k->out_panel = p.out_panel;
  k->scale_exponent = p.scale_exponent;
  k->weights_region = p.weights_region;
  k->scale = p.scale;
  k->scalar = p.scalar;
  k->epsilon = p.epsilon;
  return k;
}

std::unique_ptr<fb::TileT> tile_of(const TileProgram& tile) {
  auto out = std::make_unique<fb::TileT>();
  out->code_address_bytes = tile.code_address_bytes;
  out->entry_bytes = tile.entry_bytes;
  out->code = tile.code;
  for (const KernelEntry& entry : tile.entries) {
    out->entry_addresses.push_back(entry.address_bytes);
    out->entry_kernels.push_back(entry.kernel);
  }
  for (const Segment& segment : tile.segments) {
    auto item = std::make_unique<fb::SegmentT>();
    item->address_bytes = segment.address_bytes;
    for (const std::byte byte : segment.bytes) item->bytes.push_back(std::to_integer<std::uint8_t>(byte));
    out->segments.push_back(std::move(item));
  }
  return out;
}

std::unique_ptr<fb::BindingT> binding_of(const Binding& binding) {
  auto out = std::make_unique<fb::BindingT>();
  out->name = binding.name;
  out->input = binding.input;
  out->shape = binding.shape;
  out->view = view_of(binding.view);
  out->layout = layout_of(binding.layout);
  out->block_address_bytes = binding.block_address_bytes;
  out->block_offsets = binding.block_offsets;
  out->bytes = binding.bytes;
  out->host_base = binding.host_base;
  return out;
}

std::unique_ptr<fb::PlannedT> planned_of(const PlannedOperation& planned) {
  auto out = std::make_unique<fb::PlannedT>();
  out->operation = planned.operation;
  out->kind = planned.kind;
  out->grid = planned.grid;
  out->precision = planned.precision;
  out->layout = planned.layout;
  out->cycles = planned.cycles;
  out->compute_cycles = planned.compute_cycles;
  out->exchange_cycles = planned.exchange_cycles;
  out->temporary_bytes = planned.temporary_bytes;
  out->resident_bytes = planned.resident_bytes;
  out->repetitions = planned.repetitions;
  out->left_scale_exponent = planned.left_scale_exponent;
  out->right_scale_exponent = planned.right_scale_exponent;
  out->left_f8 = planned.left_f8;
  out->right_f8 = planned.right_f8;
  out->inner_groups = planned.inner_groups;
  out->inner_width = planned.inner_width;
  out->inner_padded = planned.inner_padded;
  out->inner_tail_share = planned.inner_tail_share;
  out->value_scale_exponent = planned.value_scale_exponent;
  out->fused_add = planned.fused_add;
  return out;
}

fb::ProgramT program_of(const Program& program) {
  fb::ProgramT out;
  out.model = program.model;
  out.model_hash = program.model_hash;
  out.precision = program.precision;
  out.version = program.tilewright_version;
  for (const auto& [name, value] : program.dims) {
    auto dim = std::make_unique<fb::DimT>();
    dim->name = name;
    dim->value = value;
    out.dims.push_back(std::move(dim));
  }
  out.without_rewrites = program.without_rewrites;
  out.batch = program.batch;
  out.seed = program.seed;
  out.machine_toml = to_toml(program.machine);
  for (const StageInfo& stage : program.stages) {
    auto item = std::make_unique<fb::StageT>();
    item->kind = static_cast<std::uint8_t>(stage.kind);
    item->operation = stage.operation;
    item->what = stage.what;
    item->iterations = stage.iterations;
    item->estimated_cycles = stage.estimated_cycles;
    item->words = stage.words;
    out.stages.push_back(std::move(item));
  }
  for (const KernelParams& kernel : program.kernels) out.kernels.push_back(kernel_of(kernel));
  for (const TileProgram& tile : program.tiles) out.tiles.push_back(tile_of(tile));
  for (const ParameterImage& image : program.parameters) {
    auto item = std::make_unique<fb::ImageT>();
    item->tile = image.tile;
    item->address_bytes = image.address_bytes;
    item->bytes = image.bytes;
    out.images.push_back(std::move(item));
  }
  for (const Binding& binding : program.bindings) out.bindings.push_back(binding_of(binding));
  for (const PlannedOperation& planned : program.plan) out.plan.push_back(planned_of(planned));
  out.has_weights = program.has_weights;
  out.estimated_cycles = program.estimated_cycles;
  out.tile_peak_bytes = program.tile_peak_bytes;
  out.resident_bytes_max = program.resident_bytes_max;
  out.exchange_table_bytes_max = program.exchange_table_bytes_max;
  out.code_bytes_max = program.code_bytes_max;
  out.tiles_used = program.tiles_used;
  out.peak_tile = program.peak_tile;
  return out;
}

fb::DebugT debug_of(const Program& program) {
  fb::DebugT out;
  std::map<std::string, std::uint32_t> strings;
  const auto index_of = [&](const std::string& text) {
    const auto [found, added] = strings.try_emplace(text, static_cast<std::uint32_t>(out.strings.size()));
    if (added) out.strings.push_back(text);
    return found->second;
  };
  for (const TileProgram& tile : program.tiles) {
    auto item = std::make_unique<fb::TileDebugT>();
    for (const BufferInfo& buffer : tile.buffers) {
      item->buffer_names.push_back(index_of(buffer.name));
      item->buffer_operations.push_back(index_of(buffer.operation));
      item->buffer_addresses.push_back(buffer.address_bytes);
      item->buffer_bytes.push_back(buffer.bytes);
      item->buffer_first.push_back(buffer.first_stage);
      item->buffer_last.push_back(buffer.last_stage);
      item->buffer_uses.push_back(static_cast<std::uint8_t>(buffer.use));
    }
    for (const CodeOrigin& origin : tile.origins) {
      item->origin_first.push_back(origin.first_word);
      item->origin_words.push_back(origin.words);
      item->origin_stages.push_back(origin.stage.value);
    }
    out.tiles.push_back(std::move(item));
  }
  for (const Checkpoint& point : program.checkpoints) {
    auto item = std::make_unique<fb::CheckpointT>();
    item->operation = point.operation;
    item->value = point.value;
    item->stage = point.stage.value;
    item->shape = point.shape;
    item->view = view_of(point.view);
    item->layout = layout_of(point.layout);
    item->block_address_bytes = point.block_address_bytes;
    out.checkpoints.push_back(std::move(item));
  }
  return out;
}

template <class Table, class Object>
flatbuffers::DetachedBuffer packed(const Object& object) {
  flatbuffers::FlatBufferBuilder builder(1 << 20);
  builder.Finish(Table::Pack(builder, &object));
  return builder.Release();
}

}  // namespace

Result<std::uint64_t> write_package(const Program& program, const std::string& path) {
  const flatbuffers::DetachedBuffer main = packed<fb::Program>(program_of(program));
  const flatbuffers::DetachedBuffer debug = packed<fb::Debug>(debug_of(program));
  std::vector<std::span<const std::byte>> raw{std::as_bytes(std::span(main.data(), main.size())),
                                              std::as_bytes(std::span(debug.data(), debug.size()))};
  std::vector<SectionKind> kinds{SectionKind::program, SectionKind::debug};
  if (program.has_weights)
    for (const ParameterImage& image : program.parameters)
      for (std::size_t at = 0; at < image.data.size(); at += weight_block_bytes) {
        raw.push_back(
            std::span(image.data).subspan(at, std::min<std::size_t>(weight_block_bytes, image.data.size() - at)));
        kinds.push_back(SectionKind::weights);
      }
  return write_container(path, raw, kinds);
}

}  // namespace tw::hw
