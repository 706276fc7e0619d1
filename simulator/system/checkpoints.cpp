// simulator/system/checkpoints.cpp: values read back from the tiles when their stage has ended.
#include <algorithm>
#include <set>

#include "hw/base/parallel.h"
#include "simulator/system/world.h"

namespace tw::sim {

// With checkpoints a stage is finished on all tiles before the next one may reuse its memory. Between two barriers a
// loop can go back from its last stages to its first: every tile counts its turns, so that equal ones meet.
void World::run_queued_in_stage_order() {
  std::set<std::pair<std::int32_t, std::int32_t>> order;  // turn and stage
  for (const TileState& tile : tiles_)
    for (const QueuedCall& call : tile.calls) order.emplace(call.turn, call.stage);
  for (const auto& [turn, stage] : order) {
    parallel_for(tiles_.size(), [&, turn = turn, stage = stage](std::size_t tile) {
      for (const QueuedCall& call : tiles_[tile].calls)
        if (call.stage == stage && call.turn == turn) execute(program_.kernels[call.kernel], call.operands);
    });
    read_checkpoints(stage);
  }
  for (TileState& tile : tiles_) tile.calls.clear();
}

void World::read_checkpoints(std::int32_t stage) {
  const std::int64_t iteration = iteration_[stage]++;
  for (const hw::Checkpoint& point : program_.checkpoints) {
    if (static_cast<std::int32_t>(point.stage.value) != stage) continue;
    const auto wanted = [&](const std::string& name) { return name == "*" || name == point.operation; };
    if (std::none_of(options_.checkpoints.begin(), options_.checkpoints.end(), wanted)) continue;
    result_.checkpoints.push_back(read_checkpoint(point, iteration));
  }
}

CheckpointData World::read_checkpoint(const hw::Checkpoint& point, std::int64_t iteration) {
  CheckpointData data{point.operation, point.value, iteration, point.shape, {}};
  std::int64_t elements = 1;
  for (const std::int64_t dim : point.shape) elements *= dim;
  data.data.assign(static_cast<std::size_t>(elements), 0.0F);
  const hw::TensorLayout& layout = point.layout;
  const std::int64_t b = layout.panel();
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c) {
      const std::int64_t bytes = layout.block_bytes(r, c), rows = layout.block_rows(r);
      if (bytes == 0) continue;
      std::vector<float> block(static_cast<std::size_t>(rows * layout.block_columns(c)));
      const std::byte* from =
          sram_.at(layout.tile_of(r, c).value,
                   point.block_address_bytes[static_cast<std::size_t>(r * layout.column_blocks() + c)]);
      hw::decode(layout.format, {from, static_cast<std::size_t>(bytes)}, layout.scale_exponent, block);
      for (std::int64_t j = 0; j < layout.block_columns(c); ++j) {
        const std::int64_t column = layout.groups.column_of(layout.column_cuts[c] + j);
        if (column < 0) continue;
        for (std::int64_t i = 0; i < rows; ++i)
          data.data[point.view.at(layout.row_cuts[r] + i, column)] = block[(j / b * rows + i) * b + j % b];
      }
    }
  return data;
}

}  // namespace tw::sim
