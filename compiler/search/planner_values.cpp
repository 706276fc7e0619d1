#include <algorithm>

#include "compiler/search/planner.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {

Known Planner::resolve(ValueId id) {
  if (const auto found = known_.find(id); found != known_.end()) return found->second;
  const Value& value = graph_.value(id);
  TW_CHECK(value.is_parameter(), "value {} is used before it is made", value.name);
  Known known{.view = whole(value.shape)};
  known.parameter = static_cast<std::int32_t>(plan_.parameters.size());
  plan_.parameters.push_back({{id}, false, known.view});
  known_[id] = known;
  return known;
}

void Planner::define_stored(ValueId id, std::int32_t stored) {
  define(id, {.stored = stored, .view = whole(graph_.value(id).shape)});
}

std::int32_t Planner::add_stored(const std::string& name, const Shape& shape, std::int64_t rows, std::int64_t columns,
                                 hw::TensorLayout layout) {
  plan_.stored.push_back({name, shape, rows, columns, std::move(layout), -1});
  return static_cast<std::int32_t>(plan_.stored.size()) - 1;
}

Step& Planner::add_step(StepKind kind, const std::string& operation) {
  plan_.steps.push_back({.kind = kind, .operation = operation});
  return plan_.steps.back();
}

Operand Planner::whole_operand(std::int32_t stored) const {
  const Stored& value = plan_.stored[stored];
  return {stored, -1, whole({value.rows, value.columns})};
}

std::vector<OperationId> Planner::users(ValueId value) const {
  const auto found = users_.find(value);
  return found == users_.end() ? std::vector<OperationId>{} : found->second;
}

// Reads an input from the host as the matrix that `known` looks at, its last `column_axes` axes as columns: the host
// packs through the view.
std::int32_t Planner::read_input(const Known& known, int column_axes) {
  const ValueId id = graph_.main().arguments[known.input];
  const Value& value = graph_.value(id);
  const hw::MatrixView view = matrix(known.view, column_axes);
  const auto index = static_cast<std::int32_t>(plan_.inputs.size());
  plan_.inputs.push_back({value.name, value.shape, view});
  const hw::TensorLayout layout = spread_layout(view.rows(), view.columns(), format_, unit_, machine_);
  const std::int32_t stored = add_stored(value.name, value.shape, view.rows(), view.columns(), layout);
  Step& step = add_step(StepKind::input, value.name);
  step.input = index;
  step.result = stored;
  step.cost = host_cost(layout, machine_);
  return stored;
}

// A parameter as a distributed value: resident in `layout` from the start.
std::int32_t Planner::materialise(const Known& known, const std::string& name, const hw::TensorLayout& layout) {
  ParameterUse use = plan_.parameters[known.parameter];
  use.view = known.view;
  const hw::MatrixView view = matrix(known.view);
  const std::int32_t stored = add_stored(name, known.view.shape, view.rows(), view.columns(), layout);
  plan_.stored[stored].materialised = static_cast<std::int32_t>(plan_.parameters.size());
  plan_.parameters.push_back(std::move(use));
  return stored;
}

// An input seen as rows x columns is packed so by the host, where the rows and the columns are whole axes of its view.
std::optional<std::int32_t> Planner::read_input_as(const Known& known, std::int64_t rows, std::int64_t columns) {
  if (known.input < 0) return std::nullopt;
  const Shape& shape = known.view.shape;
  std::int64_t inner = 1;
  int axes = 0;
  while (inner < columns && axes < static_cast<int>(shape.size())) inner *= shape[shape.size() - 1 - axes++];
  if (inner != columns || elements_of(shape) != rows * columns) return std::nullopt;
  return read_input(known, axes);
}

bool Planner::is_plain(const Known& known, std::int64_t rows, std::int64_t columns) const {
  if (known.stored < 0) return false;
  const Stored& value = plan_.stored[known.stored];
  return value.rows == rows && value.columns == columns && is_whole(known.view, rows * columns);
}

std::int32_t Planner::relayout(const Known& known, const std::string& operation, const std::string& name,
                               const hw::TensorLayout& layout) {
  if (known.is_parameter()) return materialise(known, name, layout);
  Known source = known;
  if (source.input >= 0) {
    source.stored = read_input(known);
    source.view = whole(known.view.shape);
    if (plan_.stored[source.stored].layout == layout) return source.stored;
  }
  const std::int32_t stored = add_stored(name, known.view.shape, layout.rows(), layout.groups.columns(), layout);
  Step& step = add_step(StepKind::relayout, operation);
  step.operands = {operand_of(source)};
  step.result = stored;
  step.cost = is_whole(source.view, elements_of(source.view.shape)) &&
                      plan_.stored[source.stored].layout.rows() == layout.rows()
                  ? relayout_cost(plan_.stored[source.stored].layout, layout, machine_)
                  : relayout_cost(layout, machine_);
  return stored;
}

std::int32_t Planner::stored_matrix(const Known& known, const std::string& operation, const std::string& name,
                                    std::int64_t rows, std::int64_t columns) {
  if (is_plain(known, rows, columns)) return known.stored;
  if (const auto read = read_input_as(known, rows, columns)) return *read;
  Known reshaped = known;
  if (const auto view = reshape(known.view, {rows, columns})) {
    reshaped.view = *view;
  } else {
    // No strides express it: move to the value's own shape first, whose rows are then whole.
    reshaped.stored = stored_somewhere(known, operation, name);
    reshaped.parameter = reshaped.input = -1;
    const Stored& moved = plan_.stored[reshaped.stored];
    reshaped.view = *reshape(whole({moved.rows, moved.columns}), {rows, columns});
    if (moved.rows == rows && moved.columns == columns) return reshaped.stored;
  }
  return relayout(reshaped, operation, name, spread_layout(rows, columns, format_, unit_, machine_));
}

std::int32_t Planner::stored_as(const Known& known, const std::string& operation, const std::string& name,
                                const hw::TensorLayout& layout) {
  const std::int64_t rows = layout.rows(), columns = layout.groups.columns();
  if (is_plain(known, rows, columns) && plan_.stored[known.stored].layout == layout) return known.stored;
  Known matrix_of = known;
  if (const auto read = read_input_as(known, rows, columns)) {
    if (plan_.stored[*read].layout == layout) return *read;
    matrix_of = {.stored = *read, .view = whole({rows, columns})};
  } else if (const auto view = reshape(known.view, {rows, columns})) {
    matrix_of.view = *view;
  } else {
    matrix_of = {.stored = stored_somewhere(known, operation, name)};
    const Stored& moved = plan_.stored[matrix_of.stored];
    matrix_of.view = *reshape(whole({moved.rows, moved.columns}), {rows, columns});
  }
  return relayout(matrix_of, operation, name, layout);
}

std::int32_t Planner::stored_somewhere(const Known& known, const std::string& operation, const std::string& name) {
  const hw::MatrixView view = matrix(known.view);
  if (is_plain(known, view.rows(), view.columns())) return known.stored;
  if (known.input >= 0) return read_input(known);
  return relayout(known, operation, name, spread_layout(view.rows(), view.columns(), format_, unit_, machine_));
}

std::int32_t Planner::cast_to_f8(std::int32_t stored, const std::string& operation, int scale_exponent) {
  const auto key = std::pair{stored, scale_exponent};
  if (const auto found = casts_.find(key); found != casts_.end()) return found->second;
  const Stored source = plan_.stored[stored];
  const auto layout = f8_layout(source.layout, scale_exponent);
  if (!layout) {
    const std::int32_t moved = relayout({.stored = stored, .view = whole({source.rows, source.columns})}, operation,
                                        source.name, spread_layout(source.rows, source.columns, format_, 32, machine_));
    return casts_[key] = cast_to_f8(moved, operation, scale_exponent);
  }
  const std::int32_t result = add_stored(source.name + ".f8", source.shape, source.rows, source.columns, *layout);
  Step& step = add_step(StepKind::cast, operation);
  step.operands = {whole_operand(stored)};
  step.result = result;
  step.cost =
      local_cost({.kind = hw::KernelKind::cast, .format = format_, .out_format = layout->format}, *layout, machine_);
  casts_[key] = result;
  return result;
}

}  // namespace tw::compiler
