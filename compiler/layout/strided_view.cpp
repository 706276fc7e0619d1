#include "compiler/layout/strided_view.h"

#include "hw/base/check.h"

namespace tw::compiler {

StridedView whole(const Shape& shape) {
  StridedView view{shape, std::vector<std::int64_t>(shape.size(), 1), 0};
  for (int axis = static_cast<int>(shape.size()) - 2; axis >= 0; --axis)
    view.strides[axis] = view.strides[axis + 1] * shape[axis + 1];
  return view;
}

namespace {

// Axes of size 1 dropped and neighbours that continue each other joined: the fewest digits with the same elements.
std::vector<hw::ViewDim> joined_dims(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::vector<hw::ViewDim> dims;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool continues = !dims.empty() && dims.back().stride == strides[axis] * shape[axis];
    if (continues) {
      dims.back() = {dims.back().size * shape[axis], strides[axis]};
    } else {
      dims.push_back({shape[axis], strides[axis]});
    }
  }
  return dims;
}

}  // namespace

std::optional<StridedView> reshape(const StridedView& view, const Shape& shape) {
  TW_CHECK(elements_of(view.shape) == elements_of(shape), "reshape of {} elements", elements_of(view.shape));
  std::vector<hw::ViewDim> dims = joined_dims(view.shape, view.strides);
  StridedView result{shape, std::vector<std::int64_t>(shape.size(), 0), view.offset};
  // Cut the joined dims into the wanted axes, from the last one: each axis must lie inside one dim.
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (dims.empty() || dims.back().size % shape[axis] != 0) return std::nullopt;
    result.strides[axis] = dims.back().stride;
    dims.back() = {dims.back().size / shape[axis], dims.back().stride * shape[axis]};
    if (dims.back().size == 1) dims.pop_back();
  }
  return result;
}

StridedView transpose(const StridedView& view, std::span<const std::int64_t> permutation) {
  StridedView result = view;
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    result.shape[axis] = view.shape[permutation[axis]];
    result.strides[axis] = view.strides[permutation[axis]];
  }
  return result;
}

StridedView slice(const StridedView& view, std::span<const std::int64_t> starts, std::span<const std::int64_t> steps,
                  const Shape& shape) {
  StridedView result = view;
  result.shape = shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    result.offset += starts[axis] * view.strides[axis];
    result.strides[axis] = view.strides[axis] * steps[axis];
  }
  return result;
}

StridedView expand(const StridedView& view, const Shape& shape) {
  StridedView result{shape, std::vector<std::int64_t>(shape.size(), 0), view.offset};
  const std::size_t added = shape.size() - view.shape.size();
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis)
    result.strides[axis + added] = view.shape[axis] == 1 && shape[axis + added] != 1 ? 0 : view.strides[axis];
  return result;
}

hw::MatrixView matrix(const StridedView& view, int column_axes) {
  const std::size_t axes = view.shape.size();
  const std::size_t row_axes = axes - std::min<std::size_t>(axes, static_cast<std::size_t>(column_axes));
  const std::span shape(view.shape), strides(view.strides);
  return {joined_dims(shape.first(row_axes), strides.first(row_axes)),
          joined_dims(shape.subspan(row_axes), strides.subspan(row_axes)), view.offset};
}

bool is_whole(const StridedView& view, std::int64_t elements) {
  if (view.offset != 0 || elements_of(view.shape) != elements) return false;
  const std::vector<hw::ViewDim> dims = joined_dims(view.shape, view.strides);
  return dims.empty() || (dims.size() == 1 && dims[0].stride == 1);
}

}  // namespace tw::compiler
