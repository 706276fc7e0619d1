// hw/base/id.h: strong ids. An Id is a dense index into one table; ids of different tables do not mix.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace tw {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TileId = Id<struct TileTag>;            // logical tile number, 0 .. Machine::tiles - 1
using PhysicalTile = Id<struct PhysicalTag>;  // physical number on the fabric, a permutation of the logical ones
using ValueId = Id<struct ValueTag>;          // index into Graph::values
using OperationId = Id<struct OperationTag>;  // index into Graph::operations
using StageId = Id<struct StageTag>;          // index into Program::stages (and Plan::stages)

}  // namespace tw

template <class Tag>
struct std::hash<tw::Id<Tag>> {
  std::size_t operator()(tw::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
