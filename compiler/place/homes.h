// compiler/place/homes.h: where parameters live: the panels of a product's weight block are spread over the tiles that
// need the block, jointly for all products, so that no tile holds many more than the others.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tw::compiler {

// One weight block: `panels` panels that live on `tiles`, each of which needs all of them.
struct HomeGroup {
  std::vector<std::uint32_t> tiles;  // distinct
  std::int64_t panels = 0;
};

struct Homes {
  std::vector<std::vector<std::int64_t>> counts;  // by group, by its tiles: panels that live there
  std::int64_t most_panels = 0;                   // on one tile, all groups together
};

// Every panel once, inside its group, with the smallest possible maximum over `tile_count` tiles: each panel goes to
// the least loaded tile of its group; then, while some fullest tile can hand a panel on (along groups that share
// tiles) to a tile with at least two fewer, it does. Deterministic: ties go to the lower tile.
Homes balance_homes(std::span<const HomeGroup> groups, std::size_t tile_count);

}  // namespace tw::compiler
