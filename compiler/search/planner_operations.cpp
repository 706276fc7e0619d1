#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "compiler/plan/kernel_function.h"
#include "compiler/search/planner.h"
#include "hw/base/check.h"
#include "hw/base/units.h"

namespace tw::compiler {
void Planner::unsupported(const Operation& operation, const std::string& why) {
  problems_.push_back(fmt::format("operation \"{}\" ({}): {}", operation.name, name_of(operation.kind), why));
  // Planning goes on with something of the right shape, so that every problem is found.
  for (const ValueId result : operation.results) {
    const Shape& shape = graph_.value(result).shape;
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    const std::int64_t rows = elements_of(shape) / columns;
    define_stored(result, add_stored(name_of_value(result), shape, rows, columns,
                                     spread_layout(rows, columns, format_, unit_, machine_)));
  }
}

void Planner::plan_operation(OperationId id) {
  if (fused_.contains(id)) return;
  const Operation& operation = graph_.operation(id);
  switch (operation.kind) {
    case OpKind::matmul: return plan_matmul(operation);
    case OpKind::attention: return plan_attention(operation);
    case OpKind::layer_norm: return plan_layer_norm(operation);
    case OpKind::softmax: return plan_softmax(operation);
    case OpKind::gelu:
    case OpKind::unary: return plan_elementwise(operation);
    case OpKind::binary: return plan_binary(operation);
    case OpKind::reduce: return plan_reduce(operation);
    case OpKind::reshape:
    case OpKind::transpose:
    case OpKind::slice:
    case OpKind::expand: return plan_view(operation);
    case OpKind::concat: return plan_concat(operation);
    case OpKind::repeat: return plan_repeat(operation);
  }
}

void Planner::plan_view(const Operation& operation) {
  Known known = resolve(operation.operands[0]);
  const Shape& shape = graph_.value(operation.results[0]).shape;
  switch (operation.kind) {
    case OpKind::transpose: known.view = transpose(known.view, operation.attributes.permutation); break;
    case OpKind::slice:
      known.view = slice(known.view, operation.attributes.starts, operation.attributes.steps, shape);
      break;
    case OpKind::expand: known.view = expand(known.view, shape); break;
    default: {
      if (const auto view = reshape(known.view, shape)) {
        known.view = *view;
        break;
      }
      // The host packs an input in any order.
      const std::int64_t columns = shape.empty() ? 1 : shape.back();
      if (const auto read = read_input_as(known, elements_of(shape) / columns, columns)) {
        define_stored(operation.results[0], *read);
        return;
      }
      // The elements have to move: into their own row-major order, of which any shape is a view.
      const std::int32_t stored = stored_somewhere(known, operation.name, name_of_value(operation.results[0]));
      known = {.stored = stored, .view = whole(shape)};
    }
  }
  define(operation.results[0], known);
}

void Planner::plan_layer_norm(const Operation& operation) {
  const ValueId x = operation.operands[0];
  const Shape& shape = graph_.value(x).shape;
  const std::int64_t columns = shape.back(), rows = elements_of(shape) / columns;
  std::int32_t stored = stored_matrix(resolve(x), operation.name, name_of_value(x), rows, columns);
  if (balanced_unit(plan_.stored[stored].layout, columns) == 0)
    stored = stored_as({.stored = stored, .view = whole({rows, columns})}, operation.name, name_of_value(x),
                       spread_layout(rows, columns, format_, unit_, machine_));
  Step step{.kind = StepKind::layer_norm, .operation = operation.name, .attributes = operation.attributes};
  step.operands = {whole_operand(stored)};
  for (std::size_t extra = 1; extra < operation.operands.size(); ++extra) {
    const Known known = resolve(operation.operands[extra]);
    if (!known.is_parameter()) return unsupported(operation, "a computed gamma or beta; parameters are supported");
    step.operands.push_back(operand_of(known));
  }
  const hw::TensorLayout layout = plan_.stored[stored].layout;
  step.cost = layer_norm_cost(layout, columns, machine_);
  step.grid = {layout.row_blocks(), layout.column_blocks(), 1};
  step.result = add_stored(name_of_value(operation.results[0]), shape, rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

void Planner::plan_softmax(const Operation& operation) {
  const Shape& shape = graph_.value(operation.operands[0]).shape;
  const std::int64_t columns = shape.back(), rows = elements_of(shape) / columns;
  const hw::TensorLayout layout = row_layout(rows, columns, format_, machine_);
  Step step{.kind = StepKind::softmax, .operation = operation.name, .attributes = operation.attributes};
  step.operands = {whole_operand(
      stored_as(resolve(operation.operands[0]), operation.name, name_of_value(operation.operands[0]), layout))};
  step.cost = local_cost({.kind = hw::KernelKind::softmax, .format = format_}, layout, machine_);
  step.grid = {layout.row_blocks(), 1, 1};
  step.result = add_stored(name_of_value(operation.results[0]), shape, rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

void Planner::plan_elementwise(const Operation& operation) {
  const bool gelu = operation.kind == OpKind::gelu;
  Known known = resolve(operation.operands[0]);
  std::int32_t stored = stored_somewhere(known, operation.name, name_of_value(operation.operands[0]));
  if (plan_.stored[stored].layout.groups.groups != 1) {
    const Stored& grouped = plan_.stored[stored];
    stored = relayout({.stored = stored, .view = whole({grouped.rows, grouped.columns})}, operation.name, grouped.name,
                      spread_layout(grouped.rows, grouped.columns, format_, unit_, machine_));
  }
  const hw::TensorLayout layout = plan_.stored[stored].layout;
  Step step{
      .kind = gelu ? StepKind::gelu : StepKind::unary, .operation = operation.name, .attributes = operation.attributes};
  step.operands = {whole_operand(stored)};
  hw::KernelParams params{.kind = gelu ? hw::KernelKind::gelu : hw::KernelKind::unary, .format = format_};
  params.unary = kernel_function(operation.attributes.unary);
  step.cost = local_cost(params, layout, machine_);
  step.grid = {layout.row_blocks(), layout.column_blocks(), 1};
  step.result = add_stored(name_of_value(operation.results[0]), graph_.value(operation.results[0]).shape,
                           plan_.stored[stored].rows, plan_.stored[stored].columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

void Planner::plan_binary(const Operation& operation) {
  const Shape& shape = graph_.value(operation.results[0]).shape;
  const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = elements_of(shape) / columns;
  Known a = resolve(operation.operands[0]), b = resolve(operation.operands[1]);
  a.view = expand(a.view, shape);
  b.view = expand(b.view, shape);
  // The layout comes from an operand that is a whole stored value with plain columns, a first.
  const auto plain_layout = [&](const Known& known) {
    return is_plain(known, rows, columns) && plan_.stored[known.stored].layout.groups.groups == 1;
  };
  const hw::TensorLayout layout = plain_layout(a)   ? plan_.stored[a.stored].layout
                                  : plain_layout(b) ? plan_.stored[b.stored].layout
                                                    : spread_layout(rows, columns, format_, unit_, machine_);
  Step step{.kind = StepKind::binary, .operation = operation.name, .attributes = operation.attributes};
  for (std::size_t which = 0; which < 2; ++which) {
    const Known& known = which == 0 ? a : b;
    // One value everywhere becomes an immediate of the kernel; other parameters are laid out by the host.
    const bool scalar = graph_.value(operation.operands[which]).is_parameter() &&
                        graph_.value(operation.operands[which]).source->uniform().has_value();
    const bool other_is_parameter = (which == 0 ? b : a).is_parameter();
    if (known.is_parameter() && (scalar && !other_is_parameter)) {
      step.operands.push_back(operand_of(known));
    } else {
      step.operands.push_back(
          whole_operand(stored_as(known, operation.name, name_of_value(operation.operands[which]), layout)));
    }
  }
  hw::KernelParams params{.kind = hw::KernelKind::binary, .format = format_};
  params.binary = kernel_function(operation.attributes.binary);
  step.cost = local_cost(params, layout, machine_);
  step.grid = {layout.row_blocks(), layout.column_blocks(), 1};
  step.result = add_stored(name_of_value(operation.results[0]), shape, rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

void Planner::plan_reduce(const Operation& operation) {
  Known known = resolve(operation.operands[0]);
  const std::vector<std::int64_t>& axes = operation.attributes.axes;
  // Reduced axes last: the kernel sums along the columns of whole rows.
  std::vector<std::int64_t> permutation;
  const auto reduced = [&](std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(known.view.shape.size()); ++axis)
    if (!reduced(axis)) permutation.push_back(axis);
  for (const std::int64_t axis : axes) permutation.push_back(axis);
  known.view = transpose(known.view, permutation);
  std::int64_t columns = 1;
  for (std::size_t axis = known.view.shape.size() - axes.size(); axis < known.view.shape.size(); ++axis)
    columns *= known.view.shape[axis];
  const std::int64_t rows = elements_of(known.view.shape) / columns;
  const hw::TensorLayout layout = row_layout(rows, columns, format_, machine_);
  Step step{.kind = StepKind::reduce, .operation = operation.name, .attributes = operation.attributes};
  step.operands = {whole_operand(stored_as(known, operation.name, name_of_value(operation.operands[0]), layout))};
  step.cost = local_cost({.kind = hw::KernelKind::row_reduce, .format = format_}, layout, machine_);
  step.grid = {layout.row_blocks(), 1, 1};
  hw::TensorLayout result_layout = row_layout(rows, 1, format_, machine_);
  step.result = add_stored(name_of_value(operation.results[0]), graph_.value(operation.results[0]).shape, rows, 1,
                           std::move(result_layout));
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

void Planner::plan_concat(const Operation& operation) {
  const Shape& shape = graph_.value(operation.results[0]).shape;
  const std::int64_t columns = shape.back(), rows = elements_of(shape) / columns;
  Step step{.kind = StepKind::relayout, .operation = operation.name, .attributes = operation.attributes};
  step.axis = static_cast<std::int32_t>(operation.attributes.axis);
  for (const ValueId piece : operation.operands) {
    Known known = resolve(piece);
    if (known.is_parameter() || known.input >= 0)
      known = {.stored = stored_somewhere(known, operation.name, name_of_value(piece)),
               .view = whole(known.view.shape)};
    step.operands.push_back(operand_of(known));
  }
  const hw::TensorLayout layout = spread_layout(rows, columns, format_, unit_, machine_);
  step.cost = relayout_cost(layout, machine_);
  step.result = add_stored(name_of_value(operation.results[0]), shape, rows, columns, layout);
  const std::int32_t result = step.result;
  plan_.steps.push_back(std::move(step));
  define_stored(operation.results[0], result);
}

}  // namespace tw::compiler
