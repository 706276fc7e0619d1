#include "compiler/lower/builder.h"

#include <algorithm>

#include "compiler/plan/cost.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

std::uint32_t tile_of_block(const hw::TensorLayout& layout, std::int32_t block) {
  return layout.tile_of(block / layout.column_blocks(), block % layout.column_blocks()).value;
}

}  // namespace

std::uint32_t Buffer::max_bytes() const { return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end()); }

std::int64_t operand_bytes(const OperandBlock& block, hw::NumberFormat format) {
  return block.row_stride * (block.column_end - block.column_begin) * hw::bytes_of(format);
}

hw::MatrixView whole_matrix(const Stored& stored) { return hw::plain_view(stored.rows, stored.columns); }

Builder::Builder(const Graph& g, const Plan& p, const hw::Machine& m)
    : graph(g), plan(p), machine(m), homes_(p, static_cast<std::size_t>(m.tiles)) {
  out.parameters = add_buffer("parameters", "", hw::BufferInfo::Use::parameter);
}

std::int32_t Builder::add_stage(hw::StageKind kind, const std::string& operation, const std::string& what) {
  Stage stage;
  stage.info.kind = kind;
  stage.info.operation = operation;
  stage.info.what = what;
  stage.info.iterations = repeat_ >= 0 ? out.repeats[repeat_].count : 1;
  out.stages.push_back(std::move(stage));
  return last_stage();
}

void Builder::begin_loop(std::int32_t repeat) {
  repeat_ = repeat;
  loop_begin_ = last_stage();
  loop_live_.clear();
}

void Builder::end_loop() {
  for (const BufferId buffer : loop_live_)
    out.buffers[buffer].last_stage = std::max(out.buffers[buffer].last_stage, last_stage() + 1);
  repeat_ = -1;
  loop_begin_ = -1;
}

BufferId Builder::add_buffer(const std::string& name, const std::string& operation, hw::BufferInfo::Use use,
                             RegionSet regions) {
  Buffer buffer{.name = name, .operation = operation, .use = use};
  buffer.regions = regions;
  buffer.bytes.assign(static_cast<std::size_t>(machine.tiles), 0);
  buffer.first_stage = -1;
  out.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(out.buffers.size()) - 1;
}

void Builder::reserve(BufferId buffer, std::uint32_t tile, std::int64_t bytes) {
  TW_CHECK(tile < out.buffers[buffer].bytes.size(), "tile {}", tile);
  std::uint32_t& size = out.buffers[buffer].bytes[tile];
  size = std::max(size, static_cast<std::uint32_t>(round_up(bytes, 8)));
}

void Builder::touch(BufferId id) {
  Buffer& buffer = out.buffers[id];
  const std::int32_t stage = last_stage();
  if (buffer.first_stage < 0) buffer.first_stage = stage;
  buffer.last_stage = std::max(buffer.last_stage, stage + 1);
  if (loop_begin_ >= 0 && buffer.first_stage < loop_begin_) loop_live_.insert(id);
}

Place Builder::place_of(std::int32_t stored) {
  if (const auto found = places_.find(stored); found != places_.end()) return found->second;
  const Stored& value = plan.stored[stored];
  TW_CHECK(value.materialised >= 0, "value {} is read before it is written", value.name);
  // A parameter laid out by the host: resident, one block a tile.
  const ParameterUse& use = plan.parameters[value.materialised];
  const Place place = reserve_parameter(use.iterated, largest_block_bytes(value.layout));
  PackJob job = pack_job(PackKind::tensor, {.parameter = value.materialised, .view = use.view}, value.layout.format);
  job.groups = value.layout.groups;
  job.scale_exponent = value.layout.scale_exponent;
  for (int r = 0; r < value.layout.row_blocks(); ++r)
    for (int c = 0; c < value.layout.column_blocks(); ++c)
      if (value.layout.block_bytes(r, c) > 0)
        job.targets.push_back({.tile = value.layout.tile_of(r, c).value,
                               .offset_bytes = place.offset_bytes,
                               .row_begin = value.layout.row_cuts[r],
                               .row_end = value.layout.row_cuts[r + 1],
                               .column_begin = value.layout.column_cuts[c],
                               .column_end = value.layout.column_cuts[c + 1]});
  out.packs.push_back(std::move(job));
  places_[stored] = place;
  return place;
}

BufferId Builder::add_result(std::int32_t stored, const std::string& operation, RegionSet regions) {
  const Stored& value = plan.stored[stored];
  if (const auto found = places_.find(stored); found != places_.end()) return found->second.buffer;
  const BufferId buffer = add_buffer(value.name, operation, hw::BufferInfo::Use::value, regions);
  for (int r = 0; r < value.layout.row_blocks(); ++r)
    for (int c = 0; c < value.layout.column_blocks(); ++c)
      reserve(buffer, value.layout.tile_of(r, c).value, value.layout.block_bytes(r, c));
  places_[stored] = {buffer, 0, false};
  return buffer;
}

std::int32_t Builder::intern(const hw::KernelParams& params) {
  std::vector<std::int32_t>& candidates = kernel_index_[hw::describe(params)];
  for (const std::int32_t index : candidates)
    if (out.kernels[index] == params) return index;
  out.kernels.push_back(params);
  candidates.push_back(static_cast<std::int32_t>(out.kernels.size()) - 1);
  return candidates.back();
}

void Builder::call(std::uint32_t tile, const hw::KernelParams& params,
                   std::initializer_list<std::pair<int, Place>> operands) {
  StageCall call{.tile = tile, .kernel = intern(params)};
  for (const auto& [register_number, place] : operands) {
    call.registers[register_number] = place;
    if (place.buffer >= 0) touch(place.buffer);
  }
  out.stages.back().calls.push_back(call);
}

Place Builder::reserve_parameter(bool iterated, std::int64_t bytes) {
  constexpr std::int64_t alignment = 32;
  std::uint32_t& used = iterated ? out.repeats[repeat_].record_bytes : out.parameter_bytes;
  TW_CHECK(!iterated || repeat_ >= 0, "an iterated parameter outside its Repeat");
  const Place place{iterated ? out.repeats[repeat_].records : out.parameters, used, iterated};
  used += static_cast<std::uint32_t>(round_up(bytes, alignment));
  return place;
}

WeightHomes::Home Builder::weight_home(const Step& step) {
  const WeightHomes::StepHomes& homes = homes_.of(step);
  WeightHomes::Pool& pool = homes_.pools()[homes.pool];
  if (!pool.reserved) pool.base = reserve_parameter(pool.iterated, pool.panels * pool.panel_bytes);
  pool.reserved = true;
  return {homes, pool};
}

PackJob Builder::pack_job(PackKind kind, const Operand& operand, hw::NumberFormat format) const {
  const ParameterUse& use = plan.parameters[operand.parameter];
  PackJob job{.kind = kind, .values = use.values, .repeat = use.iterated ? repeat_ : -1};
  job.view = matrix(operand.view);
  job.format = format;
  return job;
}

void Builder::exchange(std::vector<StageTransfer> transfers, const std::string& operation, const std::string& what) {
  if (transfers.empty()) return;
  add_stage(hw::StageKind::exchange, operation, what);
  std::set<BufferId> sources, targets;
  std::vector<std::int64_t> in(static_cast<std::size_t>(machine.tiles)), sent(in), receptions(in);
  for (const StageTransfer& transfer : transfers) {
    sources.insert(transfer.source);
    targets.insert(transfer.target);
    sent[transfer.source_tile] += transfer.bytes / bytes_per_word;
    for (const auto& [tile, offset] : transfer.targets) {
      in[tile] += transfer.bytes / bytes_per_word;
      receptions[tile] += 1;
    }
  }
  for (const BufferId buffer : sources) touch(buffer);
  for (const BufferId buffer : targets) touch(buffer);
  // A tile sends and receives at the same time: what it reads and what it writes lie in different elements.
  for (const BufferId source : sources)
    for (const BufferId target : targets) separate(source, target);
  Stage& stage = out.stages.back();
  stage.info.words = std::max(*std::max_element(in.begin(), in.end()), *std::max_element(sent.begin(), sent.end()));
  stage.info.estimated_cycles =
      phase_cycles(stage.info.words, *std::max_element(receptions.begin(), receptions.end()), machine);
  stage.moving_sources =
      std::all_of(transfers.begin(), transfers.end(), [](const StageTransfer& transfer) { return transfer.moving; });
  stage.transfers = std::move(transfers);
}

void Builder::fill(const std::vector<GatherItem>& items, BufferId target, const std::string& operation) {
  add_stage(hw::StageKind::compute, operation, "fill padding");
  std::set<std::uint32_t> done;
  for (const GatherItem& item : items)
    for (const std::uint32_t tile : item.tiles) {
      if (!done.insert(tile).second) continue;
      hw::KernelParams params{.kind = hw::KernelKind::fill};
      params.rows = 1;
      params.elements = static_cast<std::int32_t>(out.buffers[target].bytes[tile]);
      params.row_stride = params.elements;
      call(tile, params, {{2, Place{target, 0, false}}});
    }
}

// Rows that no item has, up to the row stride of its panels.
void Builder::fill_pad_rows(const std::vector<GatherItem>& items, BufferId target, const std::string& operation) {
  add_stage(hw::StageKind::compute, operation, "fill padding");
  std::set<std::uint32_t> done;
  for (const GatherItem& item : items) {
    const hw::TensorLayout& layout = plan.stored[item.stored].layout;
    const std::int64_t rows = item.block.row_end - item.block.row_begin, missing = item.block.row_stride - rows;
    if (missing == 0) continue;
    const std::int64_t row_bytes = std::int64_t{layout.panel()} * hw::bytes_of(layout.format);
    hw::KernelParams params{.kind = hw::KernelKind::fill};
    params.rows = static_cast<std::int32_t>((item.block.column_end - item.block.column_begin) / layout.panel());
    params.elements = static_cast<std::int32_t>(missing * row_bytes);
    params.row_stride = static_cast<std::int32_t>(item.block.row_stride * row_bytes);
    for (const std::uint32_t tile : item.tiles)
      if (done.insert(tile).second)
        call(tile, params, {{2, Place{target, static_cast<std::uint32_t>(rows * row_bytes), false}}});
  }
}

void Builder::gather(const std::vector<GatherItem>& items, BufferId target, const std::string& operation,
                     const std::string& what, bool zero_rows) {
  exchange(gather_transfers(items, target, operation, what, zero_rows), operation, what);
}

std::vector<StageTransfer> Builder::gather_transfers(const std::vector<GatherItem>& items, BufferId target,
                                                     const std::string& operation, const std::string& what,
                                                     bool zero_rows) {
  std::vector<std::vector<Run>> runs;
  bool aligned = true, covered = true;
  for (const GatherItem& item : items) {
    const Stored& source = plan.stored[item.stored];
    runs.push_back(gather_runs({&source.layout, source.columns}, item.view, item.groups, item.block,
                               item.piece ? &*item.piece : nullptr));
    aligned = aligned && word_aligned(runs.back());
    covered = covered && (item.piece || covers(runs.back(), item.block, source.layout));
    for (const std::uint32_t tile : item.tiles) reserve(target, tile, operand_bytes(item.block, source.layout.format));
  }
  if (!aligned) {
    gather_through_f32(items, runs, target, operation, what);
    return {};
  }
  const bool pieces = std::any_of(items.begin(), items.end(), [](const GatherItem& item) { return item.piece; });
  if (!covered || pieces) {
    fill(items, target, operation);
  } else if (zero_rows) {
    fill_pad_rows(items, target, operation);
  }
  return word_transfers(items, runs, target);
}

std::vector<StageTransfer> Builder::word_transfers(const std::vector<GatherItem>& items,
                                                   const std::vector<std::vector<Run>>& runs, BufferId target) {
  std::vector<StageTransfer> transfers;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const GatherItem& item = items[index];
    const hw::TensorLayout& layout = plan.stored[item.stored].layout;
    const Place place = place_of(item.stored);
    for (const Run& run : runs[index]) {
      StageTransfer transfer{.source_tile = tile_of_block(layout, run.source_block),
                             .source_offset_bytes = place.offset_bytes + run.source_offset,
                             .bytes = run.bytes};
      transfer.source = place.buffer;
      transfer.target = target;
      transfer.moving = place.moving;
      for (const std::uint32_t tile : item.tiles) transfer.targets.emplace_back(tile, run.target_offset);
      transfers.push_back(std::move(transfer));
    }
  }
  return transfers;
}

// Runs that are not whole words (odd F16 elements): widen the source to F32, where an element is a word, move words,
// and narrow at the receiver. F32 and F16 panels are both 16 wide, so only byte counts change.
void Builder::gather_through_f32(const std::vector<GatherItem>& items, const std::vector<std::vector<Run>>& runs,
                                 BufferId target, const std::string& operation, const std::string& what) {
  std::map<std::int32_t, BufferId> widened;
  add_stage(hw::StageKind::compute, operation, "widen to words");
  for (const GatherItem& item : items) {
    if (widened.contains(item.stored)) continue;
    const Stored& source = plan.stored[item.stored];
    TW_CHECK(source.layout.format == hw::NumberFormat::f16, "only F16 is widened, {} is not", source.name);
    const BufferId wide = add_buffer(source.name + " as words", operation, hw::BufferInfo::Use::operand);
    widened[item.stored] = wide;
    for (int r = 0; r < source.layout.row_blocks(); ++r)
      for (int c = 0; c < source.layout.column_blocks(); ++c) {
        if (source.layout.block_bytes(r, c) == 0) continue;
        const std::uint32_t tile = source.layout.tile_of(r, c).value;
        reserve(wide, tile, 2 * source.layout.block_bytes(r, c));
        hw::KernelParams params{
            .kind = hw::KernelKind::cast, .format = hw::NumberFormat::f16, .out_format = hw::NumberFormat::f32};
        params.rows = params.row_stride = params.out_row_stride =
            static_cast<std::int32_t>(source.layout.block_rows(r));
        params.columns = static_cast<std::int32_t>(source.layout.block_columns(c));
        call(tile, params, {{2, Place{wide, 0, false}}, {3, place_of(item.stored)}});
      }
  }
  const BufferId words = add_buffer("words of " + out.buffers[target].name, operation, hw::BufferInfo::Use::operand);
  for (const GatherItem& item : items)
    for (const std::uint32_t tile : item.tiles) reserve(words, tile, operand_bytes(item.block, hw::NumberFormat::f32));
  fill(items, words, operation);
  std::vector<StageTransfer> transfers;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const hw::TensorLayout& layout = plan.stored[items[index].stored].layout;
    for (const Run& run : runs[index]) {
      StageTransfer transfer{.source_tile = tile_of_block(layout, run.source_block),
                             .source_offset_bytes = 2 * run.source_offset,
                             .bytes = 2 * run.bytes};
      transfer.source = widened.at(items[index].stored);
      transfer.target = words;
      for (const std::uint32_t tile : items[index].tiles) transfer.targets.emplace_back(tile, 2 * run.target_offset);
      transfers.push_back(std::move(transfer));
    }
  }
  exchange(std::move(transfers), operation, what);
  add_stage(hw::StageKind::compute, operation, "narrow from words");
  std::set<std::uint32_t> done;
  for (const GatherItem& item : items)
    for (const std::uint32_t tile : item.tiles) {
      if (!done.insert(tile).second) continue;
      hw::KernelParams params{
          .kind = hw::KernelKind::cast, .format = hw::NumberFormat::f32, .out_format = hw::NumberFormat::f16};
      params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(item.block.row_stride);
      params.columns = static_cast<std::int32_t>(item.block.column_end - item.block.column_begin);
      call(tile, params, {{2, Place{target, 0, false}}, {3, Place{words, 0, false}}});
    }
}

}  // namespace tw::compiler
