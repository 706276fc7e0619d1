// hw/program/package_fields.h: checks of the fields that several tables of a package share. Internal to hw/program.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "hw/base/units.h"
#include "hw/program/container.h"
#include "hw/program/program.h"
#include "program_generated.h"

namespace tw::hw {

inline constexpr int number_formats = 4;
inline constexpr std::int64_t largest_extent = std::int64_t{1} << 31;
inline constexpr std::int64_t largest_elements = largest_extent * 16;  // of a tensor
inline constexpr std::size_t most_dims = 32;                           // of a shape, of one side of a view

// Collects the first thing that makes no sense; later ones follow from it.
class FieldReader {
 public:
  FieldReader(std::string path, const Section& section)
      : path_(std::move(path)), section_(name_of(section.kind)), offset_(section.offset) {}
  void require(bool holds, const std::string& what) {
    if (!holds && !failure_) failure_ = what;
  }
  Status status() const {
    if (!failure_) return {};
    return fail(ErrorKind::corrupt, fmt::format("{}: section \"{}\": {}", path_, section_, *failure_),
                {{"file", path_}, {"section", section_}, {"offset", std::to_string(offset_)}},
                "the file was not written by this version; compile the model again");
  }
  bool ok() const { return !failure_; }

  template <class Enum>
  Enum enumerator(std::uint8_t value, int count, const char* what) {
    require(value < count, fmt::format("{} {} is not known", what, value));
    return static_cast<Enum>(value);
  }

  // One side of a view; their sizes multiply to less than largest_extent.
  std::vector<ViewDim> dims(const std::vector<std::unique_ptr<fb::ViewDimT>>& from) {
    require(from.size() <= most_dims, fmt::format("a view has {} dimensions", from.size()));
    std::vector<ViewDim> out;
    std::int64_t extent = 1;
    for (const auto& dim : from) {
      require(
          dim->size >= 1 && dim->size < largest_extent && dim->stride > -largest_elements &&
              dim->stride < largest_elements && extent < ceil_div(largest_extent, std::max<std::int64_t>(1, dim->size)),
          fmt::format("a view's dimension of {} values, {} elements apart, is out of range", dim->size, dim->stride));
      if (!ok()) return {};
      extent *= dim->size;
      out.push_back({dim->size, dim->stride});
    }
    return out;
  }

  // A view whose every element lies in a tensor of this shape.
  MatrixView view(const fb::ViewT* from, const std::vector<std::int64_t>& shape) {
    require(from != nullptr, "a view is missing");
    require(shape.size() <= most_dims, fmt::format("a shape has {} dimensions", shape.size()));
    std::int64_t elements = 1;
    for (const std::int64_t dim : shape) {
      require(dim >= 1 && dim < largest_extent && elements < largest_elements / dim, "a shape is out of range");
      if (!ok()) return {};
      elements *= dim;
    }
    if (!ok()) return {};
    MatrixView out{dims(from->row_dims), dims(from->column_dims), from->offset};
    // Each step is checked, so that no sum overflows.
    require(out.offset >= 0 && out.offset < elements,
            fmt::format("a view starts at element {} of {}", out.offset, elements));
    std::int64_t low = out.offset, high = out.offset;
    for (const auto* side : {&out.row_dims, &out.column_dims})
      for (const ViewDim& dim : *side) {
        const std::int64_t steps = dim.size - 1, stride = dim.stride;
        require(steps == 0 || stride == 0 || std::abs(stride) <= elements / steps, "a view leaves its tensor");
        if (!ok()) return {};
        (stride < 0 ? low : high) += steps * stride;
      }
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
  std::uint64_t offset_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace tw::hw
