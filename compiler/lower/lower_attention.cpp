// compiler/lower/lower_attention.cpp: attention with queries, keys and heads split over tiles: scores, local softmax,
// weighted values, and a merge of the key groups by (maximum, sum).
#include <algorithm>

#include "compiler/lower/builder.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

struct Geometry {
  std::int64_t batch, heads, queries, keys, width, value_width;
  AttentionForm form;
  int query_groups, key_groups;
  std::vector<std::int32_t> query_cuts, key_cuts;  // within one batch element
  const hw::TensorLayout* result = nullptr;
  hw::NumberFormat format = hw::NumberFormat::f16;  // of scores, partial sums and the result

  Geometry(const Step& step, const Plan& plan) {
    const Shape& q = step.operands[0].view.shape;
    const Shape& k = step.operands[1].view.shape;
    const Shape& v = step.operands[2].view.shape;
    batch = q[0];
    heads = step.attributes.heads;
    queries = q[1];
    keys = k[1];
    width = q[2] / heads;
    value_width = v[2] / heads;
    form = step.attention;
    query_groups = step.grid.rows;
    key_groups = step.grid.inner;
    query_cuts = hw::balanced_cuts(queries, query_groups, 1, true);
    key_cuts = hw::balanced_cuts(keys, key_groups, form.key_unit, true);
    result = &plan.stored[step.result].layout;
    format = result->format;
  }
  // The tile of (batch, query group, key group, head): the owner of that row piece of the result.
  std::uint32_t tile(std::int64_t b, int q, int k, std::int64_t head) const {
    return static_cast<std::uint32_t>(((b * query_groups + q) * key_groups + k) * heads + head);
  }
  std::int64_t query_rows(int q) const { return query_cuts[q + 1] - query_cuts[q]; }
  std::int64_t key_rows(int k) const { return key_cuts[k + 1] - key_cuts[k]; }
  std::int64_t key_stride(int k) const { return round_up(key_rows(k), form.key_unit); }
  int result_block(std::int64_t b, int q, int k) const {
    return static_cast<int>((b * query_groups + q) * key_groups + k);
  }
  std::int64_t owned_rows(std::int64_t b, int q, int k) const { return result->block_rows(result_block(b, q, k)); }
  // First owned row within query group q's rows.
  std::int64_t owned_begin(std::int64_t b, int q, int k) const {
    return result->row_cuts[result_block(b, q, k)] - b * queries - query_cuts[q];
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t b = 0; b < batch; ++b)
      for (int q = 0; q < query_groups; ++q)
        for (int k = 0; k < key_groups; ++k)
          for (std::int64_t head = 0; head < heads; ++head) visit(b, q, k, head);
  }
};

// The rows x columns matrix of one batch element of an operand [B, N, H * width] that begins at a column.
hw::MatrixView head_view(const Operand& operand, std::int64_t batch, std::int64_t first_column, std::int64_t columns) {
  const StridedView& view = operand.view;
  hw::MatrixView result{{{view.shape[1], view.strides[1]}}, {{columns, view.strides[2]}}, view.offset};
  result.offset += batch * view.strides[0] + first_column * view.strides[2];
  return result;
}

void append(std::vector<StageTransfer>& transfers, std::vector<StageTransfer>&& more) {
  transfers.insert(transfers.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

BufferId gather_queries(Builder& builder, const Step& step, const Geometry& g, std::vector<StageTransfer>& transfers) {
  const BufferId buffer = builder.add_buffer(step.operation + " q", step.operation, hw::BufferInfo::Use::operand);
  const hw::ColumnGroups groups = g.form.head_groups();
  std::vector<GatherItem> items;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t head = 0; head < g.heads; ++head)
      for (int q = 0; q < g.query_groups; ++q) {
        GatherItem item{.stored = step.operands[0].stored,
                        .view = head_view(step.operands[0], b, head * g.width, g.width),
                        .groups = groups};
        item.block = {g.query_cuts[q], g.query_cuts[q + 1], 0, g.form.stored_width, g.query_rows(q)};
        for (int k = 0; k < g.key_groups; ++k) item.tiles.push_back(g.tile(b, q, k, head));
        items.push_back(std::move(item));
      }
  append(transfers, builder.gather_transfers(items, buffer, step.operation, "gather queries"));
  return buffer;
}

// Keys (operand 1) or values (operand 2) of each key group; the rows of the last panel are filled up with zeros.
BufferId gather_keys(Builder& builder, const Step& step, const Geometry& g, int which,
                     std::vector<StageTransfer>& transfers) {
  const bool values = which == 2;
  const std::int64_t stored = values ? g.form.stored_values : g.form.stored_width;
  hw::ColumnGroups groups = g.form.head_groups();
  if (values) {
    // In F8 a head's values come with its neighbours' columns in the same panels.
    const std::int64_t columns = g.form.f8() ? stored : g.value_width;
    groups = {1, static_cast<std::int32_t>(columns), static_cast<std::int32_t>(stored)};
  }
  const BufferId buffer = builder.add_buffer(step.operation + (values ? " v" : " k"), step.operation,
                                             hw::BufferInfo::Use::operand, RegionSet::region1);
  std::vector<GatherItem> items;
  bool ragged = false;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t head = 0; head < g.heads; ++head)
      for (int k = 0; k < g.key_groups; ++k) {
        const std::int64_t first = values ? head * g.value_width - g.form.value_offset(head) : head * g.width;
        GatherItem item{.stored = step.operands[which].stored,
                        .view = head_view(step.operands[which], b, first, groups.columns()),
                        .groups = groups};
        item.block = {g.key_cuts[k], g.key_cuts[k + 1], 0, stored, g.key_stride(k)};
        ragged = ragged || g.key_stride(k) != g.key_rows(k);
        for (int q = 0; q < g.query_groups; ++q) item.tiles.push_back(g.tile(b, q, k, head));
        items.push_back(std::move(item));
      }
  append(transfers,
         builder.gather_transfers(items, buffer, step.operation, values ? "gather values" : "gather keys", ragged));
  return buffer;
}

// Every owner of rows receives the statistics of all key groups for its rows, and the other groups' partial rows.
void exchange_partials(Builder& builder, const Step& step, const Geometry& g, BufferId partial, BufferId statistics,
                       BufferId received, BufferId all_statistics) {
  constexpr std::int64_t statistics_bytes = 8;  // (maximum, sum) in F32
  const std::int64_t row_bytes = 16 * hw::bytes_of(g.format);
  const std::int64_t panels = g.form.stored_values / 16;
  std::vector<StageTransfer> transfers;
  for (int t = 0; t < g.key_groups; ++t)
    g.for_each([&](std::int64_t b, int q, int k, std::int64_t head) {
      const std::int64_t rows = g.owned_rows(b, q, k), begin = g.owned_begin(b, q, k);
      if (rows == 0) return;
      const int from = (k + t) % g.key_groups;
      const std::uint32_t owner = g.tile(b, q, k, head), sender = g.tile(b, q, from, head);
      builder.reserve(all_statistics, owner, g.key_groups * rows * statistics_bytes);
      StageTransfer pairs{.source_tile = sender,
                          .source_offset_bytes = static_cast<std::uint32_t>(begin * statistics_bytes),
                          .bytes = static_cast<std::uint32_t>(rows * statistics_bytes)};
      pairs.source = statistics;
      pairs.target = all_statistics;
      pairs.targets.emplace_back(owner, static_cast<std::uint32_t>(from * rows * statistics_bytes));
      transfers.push_back(std::move(pairs));
      if (from == k) return;
      const std::int64_t slot = from < k ? from : from - 1;
      builder.reserve(received, owner, (g.key_groups - 1) * panels * rows * row_bytes);
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        StageTransfer rows_of{
            .source_tile = sender,
            .source_offset_bytes = static_cast<std::uint32_t>((panel * g.query_rows(q) + begin) * row_bytes),
            .bytes = static_cast<std::uint32_t>(rows * row_bytes)};
        rows_of.source = partial;
        rows_of.target = received;
        rows_of.targets.emplace_back(owner, static_cast<std::uint32_t>((slot * panels + panel) * rows * row_bytes));
        transfers.push_back(std::move(rows_of));
      }
    });
  builder.exchange(std::move(transfers), step.operation, "exchange partials");
}

}  // namespace

void lower_attention(Builder& builder, const Step& step) {
  const Geometry g(step, builder.plan);
  const auto operand = hw::BufferInfo::Use::operand;
  const std::int64_t bytes = hw::bytes_of(g.format);
  std::vector<StageTransfer> transfers;
  const BufferId queries = gather_queries(builder, step, g, transfers);
  const BufferId keys = gather_keys(builder, step, g, 1, transfers);
  const BufferId values = gather_keys(builder, step, g, 2, transfers);
  builder.exchange(std::move(transfers), step.operation, "gather operands");

  builder.add_stage(hw::StageKind::compute, step.operation, "scores");
  const BufferId scores = builder.add_buffer(step.operation + " scores", step.operation, operand, RegionSet::region1);
  builder.separate(queries, scores);
  g.for_each([&](std::int64_t b, int q, int k, std::int64_t head) {
    const std::uint32_t tile = g.tile(b, q, k, head);
    hw::KernelParams params{.kind = hw::KernelKind::gemm,
                            .format = g.form.format,
                            .out_format = g.format,
                            .coefficient_form = hw::CoefficientForm::row};
    params.scale_exponent = step.left_scale_exponent + step.right_scale_exponent;
    params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(g.query_rows(q));
    params.inner = static_cast<std::int32_t>(g.form.stored_width);
    params.columns = params.coefficient_stride = static_cast<std::int32_t>(g.key_stride(k));
    builder.reserve(scores, tile, g.query_rows(q) * g.key_stride(k) * bytes);
    builder.call(tile, params,
                 {{2, Place{scores, 0, false}}, {3, Place{queries, 0, false}}, {4, Place{keys, 0, false}}});
  });

  builder.add_stage(hw::StageKind::compute, step.operation, "softmax");
  const BufferId probabilities = builder.add_buffer(step.operation + " probabilities", step.operation, operand);
  const BufferId statistics = builder.add_buffer(step.operation + " statistics", step.operation, operand);
  g.for_each([&](std::int64_t b, int q, int k, std::int64_t head) {
    const std::uint32_t tile = g.tile(b, q, k, head);
    hw::KernelParams params{.kind = hw::KernelKind::attention_softmax, .format = g.format, .out_format = g.form.format};
    if (g.form.f8()) params.scale_exponent = probability_scale_exponent;
    params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(g.query_rows(q));
    params.columns = static_cast<std::int32_t>(g.key_rows(k));
    params.scale = static_cast<float>(step.attributes.scale);
    params.causal = step.attributes.causal;
    params.row_offset = params.causal ? g.query_cuts[q] : 0;
    params.column_offset = params.causal ? g.key_cuts[k] : 0;
    builder.reserve(probabilities, tile, g.query_rows(q) * g.key_stride(k) * hw::bytes_of(g.form.format));
    builder.reserve(statistics, tile, g.query_rows(q) * 8);
    builder.call(tile, params,
                 {{2, Place{probabilities, 0, false}}, {3, Place{scores, 0, false}}, {4, Place{statistics, 0, false}}});
  });

  builder.add_stage(hw::StageKind::compute, step.operation, "weighted values");
  const BufferId partial = builder.add_buffer(step.operation + " partial", step.operation, operand, RegionSet::region1);
  builder.separate(probabilities, partial);
  g.for_each([&](std::int64_t b, int q, int k, std::int64_t head) {
    const std::uint32_t tile = g.tile(b, q, k, head);
    hw::KernelParams params{.kind = hw::KernelKind::gemm,
                            .format = g.form.format,
                            .out_format = g.format,
                            .coefficient_form = hw::CoefficientForm::block};
    if (g.form.f8()) params.scale_exponent = probability_scale_exponent + step.value_scale_exponent;
    params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(g.query_rows(q));
    params.inner = params.coefficient_stride = static_cast<std::int32_t>(g.key_stride(k));
    params.columns = static_cast<std::int32_t>(g.form.stored_values);
    builder.reserve(partial, tile, g.query_rows(q) * g.form.stored_values * bytes);
    builder.call(tile, params,
                 {{2, Place{partial, 0, false}}, {3, Place{probabilities, 0, false}}, {4, Place{values, 0, false}}});
  });

  BufferId received = -1, all_statistics = statistics;
  if (g.key_groups > 1) {
    received = builder.add_buffer(step.operation + " partials", step.operation, operand);
    all_statistics = builder.add_buffer(step.operation + " all statistics", step.operation, operand);
    exchange_partials(builder, step, g, partial, statistics, received, all_statistics);
  }
  builder.add_stage(hw::StageKind::compute, step.operation, "merge");
  const BufferId result = builder.add_result(step.result, step.operation);
  g.for_each([&](std::int64_t b, int q, int k, std::int64_t head) {
    const std::int64_t rows = g.owned_rows(b, q, k);
    if (rows == 0) return;
    hw::KernelParams params{.kind = hw::KernelKind::attention_merge, .format = g.format, .out_format = g.format};
    params.rows = params.out_row_stride = static_cast<std::int32_t>(rows);
    params.columns = static_cast<std::int32_t>(g.value_width);
    params.row_stride = static_cast<std::int32_t>(g.query_rows(q));
    params.partials = g.key_groups;
    params.group = k;
    params.column_offset = static_cast<std::int32_t>(g.form.value_offset(head));
    const auto own = static_cast<std::uint32_t>(g.owned_begin(b, q, k) * 16 * bytes);
    builder.call(g.tile(b, q, k, head), params,
                 {{2, Place{result, 0, false}},
                  {3, Place{partial, own, false}},
                  {4, Place{received, 0, false}},
                  {5, Place{all_statistics, 0, false}}});
  });
}

}  // namespace tw::compiler
