// compiler/canonical/projections.cpp: biases into matmuls, and matmuls that share their left operand into one.
#include <algorithm>

#include "compiler/canonical/rewriter.h"

namespace tw::compiler {
namespace {

bool is_projection(const Rewriter& rewriter, const Operation& operation) {
  return operation.kind == OpKind::matmul && !operation.attributes.transpose_a && !operation.attributes.transpose_b &&
         !rewriter.is_parameter(operation.operands[0]) && rewriter.is_parameter(operation.operands[1]) &&
         rewriter.shape(operation.operands[1]).size() == 2;
}

// [K, N1], [K, N2], ... side by side.
TensorSourcePtr side_by_side(const std::vector<TensorSourcePtr>& sources, std::int64_t rows,
                             const std::vector<std::int64_t>& columns) {
  std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    inputs.emplace_back(sources[i], rows * columns[i]);
    total += columns[i];
  }
  return computed_source(inputs, rows * total, [=](std::span<const std::vector<float>> in, std::span<float> out) {
    auto to = out.begin();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < in.size(); ++i) to = std::copy_n(in[i].begin() + row * columns[i], columns[i], to);
  });
}

}  // namespace

// matmul + parameter vector of the last axis, on either side.
bool raise_bias(Rewriter& rewriter, OperationId id) {
  const Operation add = rewriter.operation(id);
  if (add.kind != OpKind::binary || add.attributes.binary != Binary::add) return false;
  for (int side = 0; side < 2; ++side) {
    const ValueId product = add.operands[side], bias = add.operands[1 - side];
    const Operation* matmul = rewriter.producer(product, OpKind::matmul);
    if (matmul == nullptr || matmul->operands.size() > 2 || !rewriter.used_once(product)) continue;
    if (!rewriter.is_parameter(matmul->operands[1]) || rewriter.shape(matmul->operands[1]).size() != 2) continue;
    const Shape& shape = rewriter.shape(product);
    if (!rewriter.is_parameter(bias) || rewriter.shape(bias).empty() ||
        elements_of(rewriter.shape(bias)) != shape.back() || rewriter.shape(bias).back() != shape.back())
      continue;
    if (rewriter.shape(add.results[0]) != shape) continue;
    const Operation made = *matmul;
    const OperationId old = *rewriter.producer_id(product);
    const ValueId vector =
        rewriter.add_parameter(rewriter.graph().value(bias).name, {shape.back()}, rewriter.graph().value(bias).source);
    const ValueId raised = rewriter.insert(id, OpKind::matmul, made.name + ".biased",
                                           {made.operands[0], made.operands[1], vector}, made.attributes);
    rewriter.replace_uses(add.results[0], raised);
    rewriter.erase(id);
    rewriter.erase(old);
    return true;
  }
  return false;
}

// Projections of one value, all with or all without a bias: one product, sliced.
bool merge_projections(Rewriter& rewriter, OperationId id) {
  const Operation first = rewriter.operation(id);
  if (!is_projection(rewriter, first)) return false;
  std::vector<OperationId> members;
  for (const OperationId user : rewriter.users(first.operands[0])) {
    const Operation& other = rewriter.operation(user);
    if (!is_projection(rewriter, other) || other.operands[0] != first.operands[0] ||
        other.operands.size() != first.operands.size())
      continue;
    if (other.operands.size() > 2 && !rewriter.is_parameter(other.operands[2])) continue;
    members.push_back(user);
  }
  if (members.size() < 2 || members.front() != id) return false;

  std::vector<TensorSourcePtr> weights, biases;
  std::vector<std::int64_t> columns;
  std::int64_t total = 0;
  for (const OperationId member : members) {
    const Operation& operation = rewriter.operation(member);
    weights.push_back(rewriter.graph().value(operation.operands[1]).source);
    if (operation.operands.size() > 2) biases.push_back(rewriter.graph().value(operation.operands[2]).source);
    columns.push_back(rewriter.shape(operation.results[0]).back());
    total += columns.back();
  }
  const std::int64_t inner = rewriter.shape(first.operands[1])[0];
  std::vector<ValueId> operands{first.operands[0], rewriter.add_parameter(first.name + ".merged.weight", {inner, total},
                                                                          side_by_side(weights, inner, columns))};
  if (!biases.empty())
    operands.push_back(rewriter.add_parameter(first.name + ".merged.bias", {total}, side_by_side(biases, 1, columns)));
  const ValueId merged = rewriter.insert(id, OpKind::matmul, first.name + ".merged", operands);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Operation operation = rewriter.operation(members[i]);
    const Shape sizes = rewriter.shape(operation.results[0]);
    Attributes attributes;
    attributes.starts.assign(sizes.size(), 0);
    attributes.steps.assign(sizes.size(), 1);
    attributes.starts.back() = start;
    const ValueId part = rewriter.insert(id, OpKind::slice, operation.name + ".part", {merged}, attributes, sizes);
    rewriter.replace_uses(operation.results[0], part);
    start += columns[i];
  }
  for (const OperationId member : members) rewriter.erase(member);
  return true;
}

}  // namespace tw::compiler
