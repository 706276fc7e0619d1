#include "compiler/lower/weight_homes.h"

#include <algorithm>

#include "compiler/lower/matmul_grid.h"

namespace tw::compiler {

WeightHomes::WeightHomes(const Plan& plan, std::size_t tiles) {
  std::map<std::pair<int, std::int64_t>, std::vector<const Step*>> pools;  // by Repeat (-1: none) and bytes of a panel
  int repeat = -1, repeats = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::loop_begin) repeat = repeats++;
    if (step.kind == StepKind::loop_end) repeat = -1;
    if (step.kind != StepKind::matmul) continue;
    const bool iterated = plan.parameters[step.operands[1].parameter].iterated;
    const std::int64_t panel_bytes = std::int64_t{hw::panel_width(step.format)} * 16 * hw::bytes_of(step.format);
    pools[{iterated ? repeat : -1, panel_bytes}].push_back(&step);
  }
  for (const auto& [key, steps] : pools) add_pool(plan, steps, key.first >= 0, tiles);
}

void WeightHomes::add_pool(const Plan& plan, const std::vector<const Step*>& steps, bool iterated, std::size_t tiles) {
  std::vector<HomeGroup> groups;
  for (const Step* step : steps) {
    const MatmulGrid grid(*step, plan);
    for (int c = 0; c < step->grid.columns; ++c)
      for (int k = 0; k < step->grid.inner; ++k) {
        HomeGroup group;
        group.panels = grid.columns(c) / 16 * (grid.inner(k) / hw::panel_width(step->format));
        for (int r = 0; r < step->grid.rows; ++r) group.tiles.push_back(grid.tile(r, c, k));
        groups.push_back(std::move(group));
      }
  }
  Homes homes = balance_homes(groups, tiles);
  std::vector<std::int64_t> used(tiles);
  std::size_t group = 0;
  for (const Step* step : steps) {
    StepHomes made{.pool = pools_.size(), .grid = step->grid, .first = used};
    for (int block = 0; block < step->grid.columns * step->grid.inner; ++block, ++group) {
      for (std::size_t r = 0; r < homes.counts[group].size(); ++r)
        used[groups[group].tiles[r]] += homes.counts[group][r];
      made.counts.push_back(std::move(homes.counts[group]));
    }
    steps_[step->result] = std::move(made);
  }
  const Step& any = *steps.front();
  pools_.push_back({.panel_bytes = std::int64_t{hw::panel_width(any.format)} * 16 * hw::bytes_of(any.format),
                    .panels = homes.most_panels,
                    .iterated = iterated});
}

std::pair<std::int64_t, std::int64_t> WeightHomes::Home::panels(int r, int c, int k) const {
  const std::vector<std::int64_t>& counts = step_.counts[static_cast<std::size_t>(c) * step_.grid.inner + k];
  std::int64_t begin = 0;
  for (int before = 0; before < r; ++before) begin += counts[before];
  return {begin, begin + counts[r]};
}

Place WeightHomes::Home::place(std::uint32_t tile) const {
  Place place = pool_.base;
  place.offset_bytes += static_cast<std::uint32_t>(step_.first[tile] * pool_.panel_bytes);
  return place;
}

}  // namespace tw::compiler
