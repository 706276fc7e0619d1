// compiler/lower/lower_local.cpp: steps that work block by block where the value lies, and re-layouts.
#include <algorithm>

#include "compiler/lower/builder.h"
#include "compiler/plan/kernel_function.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// Real columns of a block: the pads at the end of one group's last block are not counted.
std::int64_t valid_columns(const hw::TensorLayout& layout, int c) {
  if (layout.groups.groups > 1) {
    const bool one_group = layout.block_columns(c) == layout.groups.padded;
    return one_group ? layout.groups.width : layout.block_columns(c);
  }
  return std::min<std::int64_t>(layout.column_cuts[c + 1], layout.groups.width) - layout.column_cuts[c];
}

template <class Visit>
void for_each_block(const hw::TensorLayout& layout, Visit visit) {
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c)
      if (layout.block_bytes(r, c) > 0 && valid_columns(layout, c) > 0) visit(r, c, layout.tile_of(r, c).value);
}

hw::KernelParams block_params(hw::KernelKind kind, const hw::TensorLayout& layout, int r, int c) {
  hw::KernelParams params{.kind = kind, .format = layout.format, .out_format = layout.format};
  params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(layout.block_rows(r));
  params.columns = static_cast<std::int32_t>(valid_columns(layout, c));
  params.elements = static_cast<std::int32_t>(layout.block_rows(r) * layout.block_columns(c));
  return params;
}

// A scalar operand's value, when the operand is a parameter of one value everywhere.
float scalar_of(const Builder& b, const Operand& operand) {
  const ParameterUse& use = b.plan.parameters[operand.parameter];
  return *b.graph.value(use.values.front()).source->uniform();
}

Place pack_columns(Builder& b, const Operand& operand, const hw::TensorLayout& layout) {
  std::int64_t columns = 0;
  for (int c = 0; c < layout.column_blocks(); ++c) columns = std::max(columns, layout.block_columns(c));
  const Place place =
      b.reserve_parameter(b.plan.parameters[operand.parameter].iterated, columns * hw::bytes_of(layout.format));
  PackJob job = b.pack_job(PackKind::vector, operand, layout.format);
  job.groups = layout.groups;
  for_each_block(layout, [&](int, int c, std::uint32_t tile) {
    job.targets.push_back({.tile = tile,
                           .offset_bytes = place.offset_bytes,
                           .row_begin = 0,
                           .row_end = 1,
                           .column_begin = layout.column_cuts[c],
                           .column_end = layout.column_cuts[c + 1]});
  });
  b.out.packs.push_back(std::move(job));
  return place;
}

// The unit whose balanced cuts the layout's columns are (search chose it so).
int column_unit(const hw::TensorLayout& layout) {
  for (const int unit : {32, 16}) {
    const auto cuts = hw::balanced_cuts(round_up(layout.groups.width, unit), layout.column_blocks(), unit, false);
    if (std::equal(cuts.begin(), cuts.end() - 1, layout.column_cuts.begin())) return unit;
  }
  return 16;
}

}  // namespace

void lower_layer_norm(Builder& b, const Step& step) {
  const std::int32_t x = step.operands[0].stored;
  const hw::TensorLayout& layout = b.plan.stored[x].layout;
  const int groups = layout.column_blocks();
  constexpr std::int64_t statistics_bytes = 8;  // (sum, M2) in F32

  b.add_stage(hw::StageKind::compute, step.operation, "statistics");
  const BufferId statistics =
      b.add_buffer(step.operation + " statistics", step.operation, hw::BufferInfo::Use::operand);
  for_each_block(layout, [&](int r, int c, std::uint32_t tile) {
    b.reserve(statistics, tile, layout.block_rows(r) * statistics_bytes);
    b.call(tile, block_params(hw::KernelKind::layer_norm_statistics, layout, r, c),
           {{2, Place{statistics, 0, false}}, {3, b.place_of(x)}});
  });

  BufferId all = statistics;
  if (groups > 1) {
    all = b.add_buffer(step.operation + " all statistics", step.operation, hw::BufferInfo::Use::operand);
    std::vector<StageTransfer> transfers;
    for_each_block(layout, [&](int r, int c, std::uint32_t tile) {
      const std::int64_t bytes = layout.block_rows(r) * statistics_bytes;
      b.reserve(all, tile, groups * bytes);
      StageTransfer transfer{.source_tile = tile, .bytes = static_cast<std::uint32_t>(bytes)};
      transfer.source = statistics;
      transfer.target = all;
      for (int to = 0; to < groups; ++to)
        transfer.targets.emplace_back(layout.tile_of(r, to).value, static_cast<std::uint32_t>(c * bytes));
      transfers.push_back(std::move(transfer));
    });
    b.exchange(std::move(transfers), step.operation, "all-gather statistics");
  }

  const Place gamma = step.operands.size() > 1 ? pack_columns(b, step.operands[1], layout) : Place{};
  const Place beta = step.operands.size() > 2 ? pack_columns(b, step.operands[2], layout) : Place{};
  b.add_stage(hw::StageKind::compute, step.operation, "normalise");
  const BufferId result = b.add_result(step.result, step.operation);
  for_each_block(layout, [&](int r, int c, std::uint32_t tile) {
    hw::KernelParams params = block_params(hw::KernelKind::layer_norm_apply, layout, r, c);
    params.groups = groups;
    params.group = c;
    params.total_columns = layout.groups.width;
    params.column_unit = column_unit(layout);
    params.epsilon = static_cast<float>(step.attributes.epsilon);
    params.has_scale = gamma.buffer >= 0;
    params.has_bias = beta.buffer >= 0;
    b.call(tile, params,
           {{2, Place{result, 0, false}}, {3, b.place_of(x)}, {4, Place{all, 0, false}}, {5, gamma}, {6, beta}});
  });
}

void lower_local(Builder& b, const Step& step) {
  // A scalar first operand of binary is an immediate: the block comes from the other one.
  const bool scalar_first = step.kind == StepKind::binary && step.operands[0].stored < 0;
  const std::int32_t in = step.operands[scalar_first ? 1 : 0].stored;
  const hw::TensorLayout& layout = b.plan.stored[in].layout;
  b.add_stage(hw::StageKind::compute, step.operation, name_of(step.kind));
  const BufferId result = b.add_result(step.result, step.operation);
  for_each_block(layout, [&](int r, int c, std::uint32_t tile) {
    hw::KernelParams params = block_params(hw::KernelKind::unary, layout, r, c);
    Place second;
    switch (step.kind) {
      case StepKind::gelu:
        params.kind = hw::KernelKind::gelu;
        params.gelu_tanh = step.attributes.gelu_tanh;
        break;
      case StepKind::unary: params.unary = kernel_function(step.attributes.unary); break;
      case StepKind::softmax: params.kind = hw::KernelKind::softmax; break;
      case StepKind::reduce:
        params.kind = hw::KernelKind::row_reduce;
        params.reduction = kernel_function(step.attributes.reduction);
        break;
      case StepKind::carry:
        params = {.kind = hw::KernelKind::copy};
        params.rows = 1;
        params.elements = params.row_stride = params.out_row_stride =
            static_cast<std::int32_t>(layout.block_bytes(r, c));
        break;
      case StepKind::binary: {
        params.kind = hw::KernelKind::binary;
        params.binary = kernel_function(step.attributes.binary);
        const Operand& other = step.operands[scalar_first ? 0 : 1];
        if (other.stored < 0) {
          params.has_scalar = true;
          params.scalar_first = scalar_first;
          params.scalar = scalar_of(b, other);
        } else {
          second = b.place_of(other.stored);
        }
        break;
      }
      default: TW_CHECK(false, "step {} is not local", name_of(step.kind));
    }
    b.call(tile, params, {{2, Place{result, 0, false}}, {3, b.place_of(in)}, {4, second}});
  });
}

// To F8 where the value lies; of a part of it when the result has fewer columns.
void lower_cast(Builder& b, const Step& step) {
  const std::int32_t in = step.operands[0].stored;
  const hw::TensorLayout& source = b.plan.stored[in].layout;
  const hw::TensorLayout& target = b.plan.stored[step.result].layout;
  b.add_stage(hw::StageKind::compute, step.operation, name_of(step.kind));
  const BufferId result = b.add_result(step.result, step.operation);
  const bool regrouped = target.groups.groups > source.groups.groups;
  for (int r = 0; r < target.row_blocks(); ++r)
    for (int c = 0; c < target.column_blocks(); ++c) {
      const int from = step.first_block + c;
      if (source.block_bytes(r, from) == 0 || valid_columns(source, from) == 0) continue;
      hw::KernelParams params = block_params(hw::KernelKind::cast, source, r, from);
      params.out_format = target.format;
      params.scale_exponent = target.scale_exponent;
      params.out_panel = target.panel_columns;
      if (regrouped) params.out_group = target.groups.width;
      b.call(source.tile_of(r, from).value, params, {{2, Place{result, 0, false}}, {3, b.place_of(in)}});
    }
}

void lower_relayout(Builder& b, const Step& step) {
  const Stored& target = b.plan.stored[step.result];
  const hw::TensorLayout& layout = target.layout;
  const bool concatenates = step.operands.size() > 1;
  // The output of a concatenation as rows and columns; each piece is a look with the whole axis, shifted.
  const Shape& shape = target.shape;
  std::int64_t inner = 1;
  const bool on_rows = concatenates && step.axis + 1 != static_cast<int>(shape.size());
  if (concatenates)
    for (std::size_t axis = step.axis + 1; axis + 1 < shape.size(); ++axis) inner *= shape[axis];

  std::vector<GatherItem> items;
  std::int64_t begin = 0;
  for (const Operand& operand : step.operands) {
    StridedView view = operand.view;
    std::optional<Piece> piece;
    if (concatenates) {
      const std::int64_t size = view.shape[step.axis];
      piece = Piece{on_rows, on_rows ? inner : 1, shape[step.axis], begin, begin + size};
      view.shape[step.axis] = shape[step.axis];
      view.offset -= begin * view.strides[step.axis];
      begin += size;
    }
    for (int r = 0; r < layout.row_blocks(); ++r)
      for (int c = 0; c < layout.column_blocks(); ++c) {
        if (layout.block_bytes(r, c) == 0) continue;
        GatherItem item{.stored = operand.stored, .view = matrix(view), .groups = layout.groups, .piece = piece};
        item.block = {layout.row_cuts[r], layout.row_cuts[r + 1], layout.column_cuts[c], layout.column_cuts[c + 1],
                      layout.block_rows(r)};
        item.tiles = {layout.tile_of(r, c).value};
        items.push_back(std::move(item));
      }
  }
  const BufferId result = b.add_result(step.result, step.operation);
  b.gather(items, result, step.operation, concatenates ? "concatenate" : "re-layout", concatenates);
}

Status lower_input(Builder& b, const Step& step, std::uint32_t& window_bytes) {
  const Stored& stored = b.plan.stored[step.result];
  const PlannedInput& input = b.plan.inputs[step.input];
  const hw::SramMap& sram = b.machine.sram;
  b.add_stage(hw::StageKind::host_input, step.operation, "read input");
  const BufferId buffer = b.add_result(step.result, step.operation);
  Buffer& window = b.out.buffers[buffer];
  constexpr std::uint32_t packet_alignment = 32;  // incoming packets address 32-byte units of the window
  window.use = hw::BufferInfo::Use::host;
  window.fixed_address = static_cast<std::int32_t>(sram.host_window_base_bytes + window_bytes);
  const auto bytes = static_cast<std::uint32_t>(round_up(window.max_bytes(), packet_alignment));
  if (window_bytes + bytes > sram.host_window_incoming_bytes)
    return fail(ErrorKind::unsupported,
                "input \"" + input.name + "\" needs " + std::to_string(window_bytes + bytes) +
                    " bytes of each tile's host window, which has " + std::to_string(sram.host_window_incoming_bytes),
                {{"input", input.name}}, "use a machine with more tiles or a smaller batch");
  window_bytes += bytes;
  b.touch(buffer);
  LoweredBinding bound;
  bound.buffer = buffer;
  bound.binding.name = input.name;
  bound.binding.input = true;
  bound.binding.shape = input.shape;
  bound.binding.view = input.view;
  bound.binding.layout = stored.layout;
  b.out.stages.back().binding = static_cast<std::int32_t>(b.out.bindings.size());
  b.out.bindings.push_back(std::move(bound));
  return {};
}

void lower_output(Builder& b, const Step& step) {
  const Stored& stored = b.plan.stored[step.operands[0].stored];
  const Place place = b.place_of(step.operands[0].stored);
  b.add_stage(hw::StageKind::host_output, step.operation, "write output");
  b.touch(place.buffer);
  LoweredBinding bound;
  bound.buffer = place.buffer;
  bound.binding.name = b.plan.outputs[step.input];
  bound.binding.input = false;
  bound.binding.shape = b.graph.value(b.graph.main().results[step.input]).shape;
  bound.binding.view = hw::plain_view(stored.rows, stored.columns);
  bound.binding.layout = stored.layout;
  bound.binding.block_address_bytes.assign(1, place.offset_bytes);  // offset in the buffer; emission adds the address
  b.out.stages.back().binding = static_cast<std::int32_t>(b.out.bindings.size());
  b.out.bindings.push_back(std::move(bound));
}

}  // namespace tw::compiler
