// compiler/layout/strided_view.h: a tensor that is a strided look at another tensor's elements: what reshape,
// transpose, slice and expand make without moving anything.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "hw/program/tensor_layout.h"

namespace tw::compiler {

// Element (i0, i1, ...) of the view is flat element offset + sum i_d * stride_d of the base tensor.
struct StridedView {
  Shape shape;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  friend bool operator==(const StridedView&, const StridedView&) = default;
};

// The whole base tensor of this shape, row-major.
StridedView whole(const Shape& shape);

// Views of views. reshape gives nothing when no strides can express it (the value must then be moved).
std::optional<StridedView> reshape(const StridedView& view, const Shape& shape);
StridedView transpose(const StridedView& view, std::span<const std::int64_t> permutation);
StridedView slice(const StridedView& view, std::span<const std::int64_t> starts, std::span<const std::int64_t> steps,
                  const Shape& shape);
StridedView expand(const StridedView& view, const Shape& shape);

// Rows = all axes but the last `column_axes`, columns = those.
hw::MatrixView matrix(const StridedView& view, int column_axes = 1);

// True when the view is the whole base tensor of `elements` elements in row-major order (shape aside).
bool is_whole(const StridedView& view, std::int64_t elements);

}  // namespace tw::compiler
