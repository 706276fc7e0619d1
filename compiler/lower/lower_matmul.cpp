// compiler/lower/lower_matmul.cpp: matmul with a parameter: gather both operands, GEMM, reduce-scatter with epilogue.
#include <algorithm>
#include <numeric>

#include "compiler/lower/builder.h"
#include "compiler/lower/matmul_grid.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

BufferId gather_left(Builder& b, const Step& step, const MatmulGrid& grid, std::vector<StageTransfer>& transfers) {
  const Stored& source = b.plan.stored[step.operands[0].stored];
  const BufferId left = b.add_buffer(source.name + " gathered", step.operation, hw::BufferInfo::Use::operand);
  std::vector<GatherItem> items;
  for (int r = 0; r < step.grid.rows; ++r)
    for (int k = 0; k < step.grid.inner; ++k) {
      GatherItem item{.stored = step.operands[0].stored, .view = whole_matrix(source), .groups = step.inner_groups};
      item.block = {grid.row_cuts[r], grid.row_cuts[r + 1], grid.inner_cuts[k], grid.inner_cuts[k + 1], grid.rows(r)};
      for (int c = 0; c < step.grid.columns; ++c) item.tiles.push_back(grid.tile(r, c, k));
      items.push_back(std::move(item));
    }
  transfers = b.gather_transfers(items, left, step.operation, "gather activations");
  return left;
}

// Homes: the panels of a block are spread over the row groups that need it. Returns where the GEMM finds its weights:
// in a buffer that an all-gather fills, whose transfers are added; -1 when there is one row group: in the homes.
BufferId gather_weights(Builder& b, const Step& step, const MatmulGrid& grid, std::vector<StageTransfer>& transfers) {
  const Operand& weights = step.operands[1];
  const bool iterated = b.plan.parameters[weights.parameter].iterated;
  const WeightHomes::Home home = b.weight_home(step);
  const std::int64_t panel_bytes = home.panel_bytes();
  const auto panels_of = [&](int c, int k) {
    return grid.columns(c) / 16 * (grid.inner(k) / hw::panel_width(step.format));
  };

  PackJob job = b.pack_job(PackKind::weights, weights, step.format);
  job.groups = b.plan.stored[step.result].layout.groups;
  job.inner_groups = step.inner_groups;
  job.scale_exponent = step.right_scale_exponent;
  const BufferId gathered = step.grid.rows > 1 ? b.add_buffer(step.operation + " weights", step.operation,
                                                              hw::BufferInfo::Use::operand, RegionSet::region1)
                                               : -1;
  for (int c = 0; c < step.grid.columns; ++c)
    for (int k = 0; k < step.grid.inner; ++k)
      for (int r = 0; r < step.grid.rows; ++r) {
        const auto [begin, end] = home.panels(r, c, k);
        const Place place = home.place(grid.tile(r, c, k));
        if (gathered >= 0) b.reserve(gathered, grid.tile(r, c, k), panels_of(c, k) * panel_bytes);
        if (begin == end) continue;
        job.targets.push_back({.tile = grid.tile(r, c, k),
                               .offset_bytes = place.offset_bytes,
                               .row_begin = begin,
                               .row_end = end,
                               .column_begin = grid.column_cuts[c],
                               .column_end = grid.column_cuts[c + 1],
                               .inner_begin = grid.inner_cuts[k],
                               .inner_end = grid.inner_cuts[k + 1]});
        if (gathered < 0) continue;
        StageTransfer transfer{.source_tile = grid.tile(r, c, k),
                               .source_offset_bytes = place.offset_bytes,
                               .bytes = static_cast<std::uint32_t>((end - begin) * panel_bytes)};
        transfer.source = place.buffer;
        transfer.target = gathered;
        transfer.moving = iterated;
        for (int to = 0; to < step.grid.rows; ++to)
          transfer.targets.emplace_back(grid.tile(to, c, k), static_cast<std::uint32_t>(begin * panel_bytes));
        transfers.push_back(std::move(transfer));
      }
  b.out.packs.push_back(std::move(job));
  return gathered;
}

Place pack_bias(Builder& b, const Step& step, const MatmulGrid& grid) {
  const Operand& bias = step.operands[step.bias];
  const hw::TensorLayout& result = b.plan.stored[step.result].layout;
  std::int64_t columns = 0;
  for (int c = 0; c < result.column_blocks(); ++c) columns = std::max(columns, result.block_columns(c));
  const Place place =
      b.reserve_parameter(b.plan.parameters[bias.parameter].iterated, columns * hw::bytes_of(result.format));
  PackJob job = b.pack_job(PackKind::vector, bias, result.format);
  job.groups = result.groups;
  grid.for_each([&](int r, int c, int k) {
    const MatmulGrid::Owned owned = grid.owned(r, c, k);
    if (owned.rows() == 0 || owned.columns() == 0) return;
    job.targets.push_back({.tile = grid.tile(r, c, k),
                           .offset_bytes = place.offset_bytes,
                           .row_begin = 0,
                           .row_end = 1,
                           .column_begin = grid.column_cuts[c] + owned.column_begin,
                           .column_end = grid.column_cuts[c] + owned.column_end});
  });
  b.out.packs.push_back(std::move(job));
  return place;
}

Place pack_residual(Builder& b, const Step& step) {
  const Operand& operand = step.operands[step.residual_parameter];
  const Stored& result = b.plan.stored[step.result];
  const hw::TensorLayout& layout = result.layout;
  std::int64_t bytes = 0;
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c) bytes = std::max(bytes, layout.block_bytes(r, c));
  const Place place = b.reserve_parameter(b.plan.parameters[operand.parameter].iterated, bytes);
  PackJob job = b.pack_job(PackKind::tensor, operand, layout.format);
  job.groups = layout.groups;
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c)
      if (layout.block_bytes(r, c) > 0)
        job.targets.push_back({.tile = layout.tile_of(r, c).value,
                               .offset_bytes = place.offset_bytes,
                               .row_begin = layout.row_cuts[r],
                               .row_end = layout.row_cuts[r + 1],
                               .column_begin = layout.column_cuts[c],
                               .column_end = layout.column_cuts[c + 1]});
  b.out.packs.push_back(std::move(job));
  return place;
}

// Every owner receives its piece of the other inner groups' partials: [partials - 1][panels][rows][16].
BufferId scatter_partials(Builder& b, const Step& step, const MatmulGrid& grid, BufferId partial) {
  const hw::NumberFormat format = b.plan.stored[step.result].layout.format;
  const std::int64_t panel_bytes = 16 * hw::bytes_of(format);  // one row of a panel
  const BufferId received = b.add_buffer(step.operation + " partials", step.operation, hw::BufferInfo::Use::operand);
  std::vector<StageTransfer> transfers;
  // In step t every owner hears inner group (k + t): both lanes of all tiles are busy (a Latin square).
  for (int t = 1; t < step.grid.inner; ++t)
    grid.for_each([&](int r, int c, int k) {
      const MatmulGrid::Owned owned = grid.owned(r, c, k);
      if (owned.rows() == 0 || owned.columns() == 0) return;
      const int from = (k + t) % step.grid.inner;
      const std::int64_t slot = from < k ? from : from - 1;
      const std::int64_t block = owned.rows() * owned.columns() * hw::bytes_of(format);
      b.reserve(received, grid.tile(r, c, k), block * (step.grid.inner - 1));
      const bool whole_panels = owned.rows() == grid.rows(r);
      const std::int64_t runs = whole_panels ? 1 : owned.columns() / 16;
      for (std::int64_t run = 0; run < runs; ++run) {
        const std::int64_t panel = owned.column_begin / 16 + run;
        StageTransfer transfer{.source_tile = grid.tile(r, c, from)};
        transfer.source_offset_bytes =
            static_cast<std::uint32_t>((panel * grid.rows(r) + owned.row_begin) * panel_bytes);
        transfer.bytes = static_cast<std::uint32_t>(block / runs);
        transfer.source = partial;
        transfer.target = received;
        transfer.targets.emplace_back(grid.tile(r, c, k),
                                      static_cast<std::uint32_t>(slot * block + run * owned.rows() * panel_bytes));
        transfers.push_back(std::move(transfer));
      }
    });
  b.exchange(std::move(transfers), step.operation, "reduce-scatter");
  return received;
}

// Stages of the reduction: the owners' partial sums, bias and residual, into the result.
void reduce_partials(Builder& b, const Step& step, const MatmulGrid& grid, BufferId product) {
  const hw::NumberFormat format = b.plan.stored[step.result].layout.format;
  const BufferId received = step.grid.inner > 1 ? scatter_partials(b, step, grid, product) : -1;
  const Place bias = step.bias >= 0 ? pack_bias(b, step, grid) : Place{};
  const Place residual = step.residual >= 0             ? b.place_of(step.residual)
                         : step.residual_parameter >= 0 ? pack_residual(b, step)
                                                        : Place{};
  b.add_stage(hw::StageKind::compute, step.operation, "reduce");
  const BufferId result = b.add_result(step.result, step.operation);
  grid.for_each([&](int r, int c, int k) {
    const MatmulGrid::Owned owned = grid.owned(r, c, k);
    if (owned.rows() == 0 || owned.columns() == 0) return;
    hw::KernelParams params{.kind = hw::KernelKind::reduce, .format = format, .out_format = format};
    params.rows = params.out_row_stride = static_cast<std::int32_t>(owned.rows());
    params.columns = static_cast<std::int32_t>(owned.columns());
    params.row_stride = static_cast<std::int32_t>(grid.rows(r));
    params.partials = step.grid.inner;
    params.has_bias = step.bias >= 0;
    params.has_residual = residual.buffer >= 0;
    const std::int64_t own = (owned.column_begin / 16 * grid.rows(r) + owned.row_begin) * 16 * hw::bytes_of(format);
    b.call(grid.tile(r, c, k), params,
           {{2, Place{result, 0, false}},
            {3, Place{product, static_cast<std::uint32_t>(own), false}},
            {4, Place{received, 0, false}},
            {5, bias},
            {6, residual}});
  });
}

}  // namespace

void lower_matmul(Builder& b, const Step& step) {
  const MatmulGrid grid(step, b.plan);
  const hw::NumberFormat result_format = b.plan.stored[step.result].layout.format;
  std::vector<StageTransfer> transfers;
  const BufferId left = gather_left(b, step, grid, transfers);
  const BufferId gathered = gather_weights(b, step, grid, transfers);
  b.exchange(std::move(transfers), step.operation, "gather operands");
  const bool reduces = step.grid.inner > 1 || step.bias >= 0 || step.residual >= 0 || step.residual_parameter >= 0;

  // The GEMM writes its output to region 1, away from the left stream (docs/fidelity.md).
  b.add_stage(hw::StageKind::compute, step.operation, "gemm");
  const BufferId product = reduces ? b.add_buffer(step.operation + " product", step.operation,
                                                  hw::BufferInfo::Use::operand, RegionSet::region1)
                                   : b.add_result(step.result, step.operation, RegionSet::region1);
  b.separate(left, product);
  grid.for_each([&](int r, int c, int k) {
    hw::KernelParams params{.kind = hw::KernelKind::gemm, .format = step.format, .out_format = result_format};
    params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(grid.rows(r));
    params.inner = static_cast<std::int32_t>(grid.inner(k));
    params.columns = static_cast<std::int32_t>(grid.columns(c));
    params.scale_exponent = step.left_scale_exponent + step.right_scale_exponent;
    b.reserve(product, grid.tile(r, c, k), grid.rows(r) * grid.columns(c) * hw::bytes_of(result_format));
    const std::uint32_t tile = grid.tile(r, c, k);
    const Place weights = gathered >= 0 ? Place{gathered, 0, false} : b.weight_home(step).place(tile);
    b.call(tile, params, {{2, Place{product, 0, false}}, {3, Place{left, 0, false}}, {4, weights}});
  });
  if (reduces) reduce_partials(b, step, grid, product);
}

namespace {

// The right operand of a product of two computed values: for each batch element blocks of inner x columns, or, where it
// lies transposed, of columns x inner. Rows of the last panel are filled up with zeros.
std::vector<StageTransfer> gather_right(Builder& b, const Step& step, const MatmulGrid& grid, BufferId right) {
  const hw::ColumnGroups& column_groups = b.plan.stored[step.result].layout.groups;
  const bool by_columns = step.right_by_columns;
  const std::int64_t inner = step.inner_groups.columns(), columns = column_groups.columns();
  StridedView view = step.operands[1].view;
  if (by_columns) {
    std::vector<std::int64_t> permutation(view.shape.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
    view = transpose(view, permutation);
  }
  const auto &row_cuts = by_columns ? grid.column_cuts : grid.inner_cuts,
             &column_cuts = by_columns ? grid.inner_cuts : grid.column_cuts;
  const std::int64_t rows = by_columns ? columns : inner;
  std::vector<GatherItem> items;
  for (int k = 0; k < step.grid.inner; ++k)
    for (int first = 0; first < grid.row_groups(); first += step.grid.rows)
      for (int c = 0; c < step.grid.columns; ++c) {
        const int row = by_columns ? c : k, column = by_columns ? k : c;
        const std::int64_t before = first / step.grid.rows * rows;
        GatherItem gather{.stored = step.operands[1].stored,
                          .view = matrix(view),
                          .groups = by_columns ? step.inner_groups : column_groups};
        gather.block = {before + row_cuts[row], before + std::min<std::int64_t>(rows, row_cuts[row + 1]),
                        column_cuts[column], column_cuts[column + 1], row_cuts[row + 1] - row_cuts[row]};
        for (int r = first; r < first + step.grid.rows; ++r) gather.tiles.push_back(grid.tile(r, c, k));
        items.push_back(std::move(gather));
      }
  const bool ragged = row_cuts.back() != rows;
  return b.gather_transfers(items, right, step.operation, "gather right", ragged);
}

}  // namespace

// Product of two computed values: for each batch element a grid of row, column and inner groups.
void lower_batched_matmul(Builder& b, const Step& step) {
  const MatmulGrid grid(step, b.plan);
  const Stored& result = b.plan.stored[step.result];
  const hw::MatrixView left_view = matrix(step.operands[0].view);
  const BufferId left = b.add_buffer(step.operation + " left", step.operation, hw::BufferInfo::Use::operand);
  const BufferId right =
      b.add_buffer(step.operation + " right", step.operation, hw::BufferInfo::Use::operand, RegionSet::region1);
  std::vector<GatherItem> left_items;
  for (int k = 0; k < step.grid.inner; ++k)
    for (int r = 0; r < grid.row_groups(); ++r) {
      GatherItem gather{.stored = step.operands[0].stored, .view = left_view, .groups = step.inner_groups};
      gather.block = {grid.row_cuts[r], grid.row_cuts[r + 1], grid.inner_cuts[k], grid.inner_cuts[k + 1], grid.rows(r)};
      for (int c = 0; c < step.grid.columns; ++c) gather.tiles.push_back(grid.tile(r, c, k));
      left_items.push_back(std::move(gather));
    }
  std::vector<StageTransfer> transfers = b.gather_transfers(left_items, left, step.operation, "gather left");
  std::vector<StageTransfer> more = gather_right(b, step, grid, right);
  transfers.insert(transfers.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  b.exchange(std::move(transfers), step.operation, "gather operands");

  b.add_stage(hw::StageKind::compute, step.operation, "gemm");
  const bool reduces = step.grid.inner > 1;
  const BufferId product = reduces ? b.add_buffer(step.operation + " product", step.operation,
                                                  hw::BufferInfo::Use::operand, RegionSet::region1)
                                   : b.add_result(step.result, step.operation, RegionSet::region1);
  b.separate(left, product);
  grid.for_each([&](int r, int c, int k) {
    hw::KernelParams params{
        .kind = hw::KernelKind::gemm,
        .format = step.format,
        .out_format = result.layout.format,
        .coefficient_form = step.right_by_columns ? hw::CoefficientForm::row : hw::CoefficientForm::block};
    params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(grid.rows(r));
    params.inner = static_cast<std::int32_t>(grid.inner(k));
    params.columns = static_cast<std::int32_t>(grid.columns(c));
    params.coefficient_stride = step.right_by_columns ? params.columns : params.inner;
    const std::uint32_t tile = grid.tile(r, c, k);
    if (reduces) b.reserve(product, tile, grid.rows(r) * grid.columns(c) * hw::bytes_of(result.layout.format));
    b.call(tile, params, {{2, Place{product, 0, false}}, {3, Place{left, 0, false}}, {4, Place{right, 0, false}}});
  });
  if (reduces) reduce_partials(b, step, grid, product);
}

}  // namespace tw::compiler
