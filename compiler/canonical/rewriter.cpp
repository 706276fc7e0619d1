#include "compiler/canonical/rewriter.h"

#include <algorithm>

#include "hw/base/check.h"

namespace tw::compiler {

Rewriter::Rewriter(Graph graph) : graph_(std::move(graph)) {
  for (const Value& value : graph_.values) names_.insert(value.name);
  for (const Operation& operation : graph_.operations) operation_names_.insert(operation.name);
  reindex();
}

void Rewriter::reindex() {
  producer_.clear();
  users_.clear();
  position_.clear();
  const Region& main = graph_.main();
  for (std::size_t at = 0; at < main.operations.size(); ++at) {
    const OperationId id = main.operations[at];
    position_[id] = at;
    for (const ValueId result : graph_.operation(id).results) producer_[result] = id;
    for (const ValueId operand : graph_.operation(id).operands) {
      std::vector<OperationId>& list = users_[operand];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  outputs_ = {main.results.begin(), main.results.end()};
}

std::optional<OperationId> Rewriter::producer_id(ValueId id) const {
  const auto found = producer_.find(id);
  return found == producer_.end() ? std::nullopt : std::optional(found->second);
}

const Operation* Rewriter::producer(ValueId id) const {
  const auto found = producer_.find(id);
  return found == producer_.end() ? nullptr : &graph_.operation(found->second);
}

const Operation* Rewriter::producer(ValueId id, OpKind kind) const {
  const Operation* made = producer(id);
  return made != nullptr && made->kind == kind ? made : nullptr;
}

const Operation* Rewriter::binary_producer(ValueId id, Binary function) const {
  const Operation* made = producer(id, OpKind::binary);
  return made != nullptr && made->attributes.binary == function ? made : nullptr;
}

const Operation* Rewriter::unary_producer(ValueId id, Unary function) const {
  const Operation* made = producer(id, OpKind::unary);
  return made != nullptr && made->attributes.unary == function ? made : nullptr;
}

const std::vector<OperationId>& Rewriter::users(ValueId id) const {
  static const std::vector<OperationId> none;
  const auto found = users_.find(id);
  return found == users_.end() ? none : found->second;
}

bool Rewriter::used_once(ValueId id) const { return users(id).size() == 1 && !outputs_.contains(id); }

std::optional<float> Rewriter::constant(ValueId id) const {
  const Value& value = graph_.value(id);
  return value.is_parameter() ? value.source->uniform() : std::nullopt;
}

std::string Rewriter::unique_name(const std::string& name) {
  std::string candidate = name;
  for (int number = 2; !names_.insert(candidate).second; ++number) candidate = name + "." + std::to_string(number);
  return candidate;
}

ValueId Rewriter::add_parameter(const std::string& name, Shape shape, TensorSourcePtr source) {
  graph_.values.push_back({unique_name(name), std::move(shape), std::move(source)});
  return {static_cast<std::uint32_t>(graph_.values.size()) - 1};
}

ValueId Rewriter::insert(OperationId before, OpKind kind, const std::string& name, std::vector<ValueId> operands,
                         Attributes attributes, const Shape& wanted) {
  std::string unique = name;
  for (int number = 2; !operation_names_.insert(unique).second; ++number) unique = name + "." + std::to_string(number);
  Operation operation{
      .kind = kind, .name = std::move(unique), .operands = std::move(operands), .attributes = std::move(attributes)};
  std::vector<Shape> shapes;
  for (const ValueId operand : operation.operands) shapes.push_back(shape(operand));
  Result<Shape> inferred = infer_shape(operation, shapes, wanted);
  TW_CHECK(inferred.has_value(), "{}", inferred.error().message);
  graph_.values.push_back({unique_name(operation.name), *std::move(inferred), nullptr});
  const ValueId result{static_cast<std::uint32_t>(graph_.values.size()) - 1};
  operation.results = {result};
  graph_.operations.push_back(std::move(operation));
  std::vector<OperationId>& list = graph_.regions[0].operations;
  list.insert(std::find(list.begin(), list.end(), before), {static_cast<std::uint32_t>(graph_.operations.size()) - 1});
  reindex();
  return result;
}

void Rewriter::set_operands(OperationId id, std::vector<ValueId> operands) {
  graph_.operation(id).operands = std::move(operands);
  reindex();
}

void Rewriter::replace_uses(ValueId old_value, ValueId new_value) {
  for (const OperationId id : graph_.main().operations)
    std::replace(graph_.operation(id).operands.begin(), graph_.operation(id).operands.end(), old_value, new_value);
  std::replace(graph_.regions[0].results.begin(), graph_.regions[0].results.end(), old_value, new_value);
  reindex();
}

void Rewriter::erase(OperationId id) {
  std::erase(graph_.regions[0].operations, id);
  operation_names_.erase(graph_.operation(id).name);
  reindex();
}

void Rewriter::remove_dead() {
  std::vector<OperationId>& list = graph_.regions[0].operations;
  std::set<ValueId> read = outputs_;
  std::vector<OperationId> kept;
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    const Operation& operation = graph_.operation(*at);
    if (std::none_of(operation.results.begin(), operation.results.end(),
                     [&](ValueId result) { return read.contains(result); })) {
      operation_names_.erase(operation.name);
      continue;
    }
    kept.push_back(*at);
    read.insert(operation.operands.begin(), operation.operands.end());
  }
  list.assign(kept.rbegin(), kept.rend());
  reindex();
}

// Renumbers values and operations densely in order of use.
Graph Rewriter::finish() && {
  remove_dead();
  Graph result;
  result.name = graph_.name;
  result.output_names = graph_.output_names;
  result.regions.emplace_back();
  std::map<ValueId, ValueId> renumbered;
  const auto keep = [&](ValueId id) {
    const auto [found, added] = renumbered.try_emplace(id, ValueId{static_cast<std::uint32_t>(result.values.size())});
    if (added) result.values.push_back(graph_.value(id));
    return found->second;
  };
  for (const ValueId argument : graph_.main().arguments) result.regions[0].arguments.push_back(keep(argument));
  for (const OperationId id : graph_.main().operations) {
    Operation operation = graph_.operation(id);
    for (ValueId& operand : operation.operands) operand = keep(operand);
    for (ValueId& value : operation.results) value = keep(value);
    result.operations.push_back(std::move(operation));
    result.regions[0].operations.push_back({static_cast<std::uint32_t>(result.operations.size()) - 1});
  }
  for (const ValueId output : graph_.main().results) result.regions[0].results.push_back(keep(output));
  return result;
}

}  // namespace tw::compiler
