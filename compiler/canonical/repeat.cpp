// compiler/canonical/repeat.cpp: finds repeated layers in the flat main region and rolls them into a Repeat; unrolls.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/canonical/canonical.h"
#include "hw/base/check.h"

namespace tw::compiler {
namespace {

// A run of `count` layers of `period` operations, from position `start` of the main region.
struct Run {
  std::size_t start = 0, period = 0, count = 0;
  std::size_t carried = 0;
  std::size_t rolled() const { return (count - 1) * period; }
};

class Roller {
 public:
  explicit Roller(const Graph& graph) : graph_(graph), list_(graph.main().operations) {
    for (std::size_t at = 0; at < list_.size(); ++at)
      for (const ValueId result : graph.operation(list_[at]).results) position_[result] = at;
  }

  std::optional<Run> best_run() const {
    std::optional<Run> best;
    for (std::size_t period = 1; period <= list_.size() / 2; ++period)
      for (std::size_t start = 0; start + 2 * period <= list_.size(); ++start) {
        const std::optional<Run> run = run_at(start, period);
        if (!run) continue;
        const auto rank = [](const Run& r) {
          return std::tuple{r.rolled(), r.count, std::numeric_limits<std::size_t>::max() - r.carried,
                            std::numeric_limits<std::size_t>::max() - r.start};
        };
        if (!best || rank(*run) > rank(*best)) best = run;
      }
    return best;
  }

  Graph roll(const Run& run) const;

 private:
  const Operation& at(std::size_t position) const { return graph_.operation(list_[position]); }
  std::optional<std::size_t> made_at(ValueId id) const {
    const auto found = position_.find(id);
    return found == position_.end() ? std::nullopt : std::optional(found->second);
  }

  bool same_operation(const Operation& a, const Operation& b) const {
    if (a.kind != b.kind || a.kind == OpKind::repeat || a.operands.size() != b.operands.size() ||
        !(a.attributes == b.attributes))
      return false;
    return graph_.value(a.results[0]).shape == graph_.value(b.results[0]).shape;
  }

  // Position p of one layer against p + period of the next; `first`: p lies in the run's first layer, whose operands
  // from outside stand for carried values.
  bool same(std::size_t p, std::size_t period, std::size_t start, bool first) const {
    const Operation &a = at(p), &b = at(p + period);
    if (!same_operation(a, b)) return false;
    const std::size_t layer = first ? start : start + (p - start) / period * period;
    for (std::size_t index = 0; index < a.operands.size(); ++index) {
      const ValueId va = a.operands[index], vb = b.operands[index];
      const bool pa = graph_.value(va).is_parameter(), pb = graph_.value(vb).is_parameter();
      if (pa != pb || graph_.value(va).shape != graph_.value(vb).shape) return false;
      if (pa) continue;
      const auto ma = made_at(va), mb = made_at(vb);
      if (va == vb && (!ma || *ma < start)) continue;  // an invariant from outside
      if (!mb || *mb < layer) return false;            // the next layer may reach into this one, not behind it
      const bool inside = ma && *ma >= layer;
      if (inside ? *ma + period != *mb : *mb >= layer + period) return false;
      if (!inside && !first && (!ma || *ma + period != *mb)) return false;
    }
    return true;
  }

  std::optional<Run> run_at(std::size_t start, std::size_t period) const {
    for (std::size_t p = start; p < start + period; ++p)
      if (!same(p, period, start, true)) return std::nullopt;
    Run run{start, period, 2, 0};
    while (start + (run.count + 1) * period <= list_.size()) {
      bool matches = true;
      for (std::size_t p = start + (run.count - 1) * period; matches && p < start + run.count * period; ++p)
        matches = same(p, period, start, false);
      if (!matches) break;
      ++run.count;
    }
    const std::optional<std::set<std::size_t>> carried = carried_of(run);
    if (!carried) return std::nullopt;
    run.carried = carried->size();
    return run;
  }

  // Offsets of the operations whose results go from layer to layer. Nothing when the run cannot be rolled: a value of
  // an inner layer is read from outside, or one value of the first layer stands for two different beginnings.
  std::optional<std::set<std::size_t>> carried_of(const Run& run) const {
    std::set<std::size_t> carried;
    std::map<std::size_t, ValueId> initial;
    const std::size_t second = run.start + run.period, end = run.start + run.count * run.period;
    for (std::size_t p = second; p < second + run.period; ++p)
      for (std::size_t index = 0; index < at(p).operands.size(); ++index) {
        const auto made = made_at(at(p).operands[index]);
        if (!made || *made < run.start || *made >= second) continue;
        const std::size_t offset = *made - run.start;
        const ValueId begin = at(p - run.period).operands[index];
        const auto [found, added] = initial.try_emplace(offset, begin);
        if (!added && found->second != begin) return std::nullopt;
        if (graph_.value(begin).shape != graph_.value(at(*made).results[0]).shape) return std::nullopt;
        carried.insert(offset);
      }
    if (carried.empty()) return std::nullopt;
    const std::size_t last = end - run.period;
    const auto readable = [&](ValueId id) {  // from outside the run
      const auto made = made_at(id);
      if (!made || *made < run.start || *made >= end) return true;
      return *made >= last && carried.contains(*made - last);
    };
    for (std::size_t p = end; p < list_.size(); ++p)
      for (const ValueId operand : at(p).operands)
        if (!readable(operand)) return std::nullopt;
    for (const ValueId result : graph_.main().results)
      if (!readable(result)) return std::nullopt;
    return carried;
  }

  const Graph& graph_;
  const std::vector<OperationId>& list_;
  std::map<ValueId, std::size_t> position_;
};

// "layers.0.mlp.up" and "layers.1.mlp.up" -> "layers.*.mlp.up".
std::string common_name(const std::string& a, const std::string& b) {
  std::size_t front = 0, back = 0;
  while (front < std::min(a.size(), b.size()) && a[front] == b[front]) ++front;
  while (back < std::min(a.size(), b.size()) - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  return a.substr(0, front) + "*" + a.substr(a.size() - back);
}

Graph Roller::roll(const Run& run) const {
  Graph result = graph_;
  const std::set<std::size_t> carried = *carried_of(run);
  const std::size_t second = run.start + run.period, end = run.start + run.count * run.period;
  std::set<std::string> names;
  for (const Value& value : result.values) names.insert(value.name);
  std::set<std::string> operation_names;
  for (const Operation& operation : result.operations) operation_names.insert(operation.name);
  const auto operation_name = [&](std::string name) {
    while (!operation_names.insert(name).second) name += "'";
    return name;
  };
  const auto new_value = [&](std::string name, const Shape& shape) {
    while (!names.insert(name).second) name += "'";
    result.values.push_back({name, shape, nullptr});
    return ValueId{static_cast<std::uint32_t>(result.values.size()) - 1};
  };

  Region body;
  Operation repeat{.kind = OpKind::repeat};
  repeat.attributes.count = static_cast<std::int64_t>(run.count);
  repeat.carried = static_cast<std::int32_t>(carried.size());
  std::map<ValueId, ValueId> inside;  // values as the second layer names them -> body values
  for (const std::size_t offset : carried) {
    const ValueId previous = at(run.start + offset).results[0];
    const ValueId argument =
        new_value(common_name(graph_.value(previous).name, graph_.value(at(second + offset).results[0]).name) + ".in",
                  graph_.value(previous).shape);
    inside[previous] = argument;
    body.arguments.push_back(argument);
    // Its beginning is what the first layer reads in its place.
    for (std::size_t p = second; p < second + run.period; ++p)
      for (std::size_t index = 0; index < at(p).operands.size(); ++index)
        if (at(p).operands[index] == previous && repeat.operands.size() < body.arguments.size())
          repeat.operands.push_back(at(p - run.period).operands[index]);
  }
  // Invariants: computed outside, read by every layer alike.
  for (std::size_t p = second; p < second + run.period; ++p)
    for (const ValueId operand : at(p).operands) {
      const auto made = made_at(operand);
      if (graph_.value(operand).is_parameter() || inside.contains(operand) || (made && *made >= run.start)) continue;
      const ValueId argument = new_value(graph_.value(operand).name + ".invariant", graph_.value(operand).shape);
      inside[operand] = argument;
      body.arguments.push_back(argument);
      repeat.operands.push_back(operand);
    }
  for (std::size_t p = second; p < second + run.period; ++p) {
    Operation operation = at(p);
    operation.name = operation_name(common_name(at(p - run.period).name, operation.name));
    for (std::size_t index = 0; index < operation.operands.size(); ++index) {
      ValueId& operand = operation.operands[index];
      if (graph_.value(operand).is_parameter()) {
        std::vector<ValueId> members;
        for (std::size_t layer = 0; layer < run.count; ++layer)
          members.push_back(at(p - run.period + layer * run.period).operands[index]);
        const ValueId argument = new_value(common_name(graph_.value(members[0]).name, graph_.value(members[1]).name),
                                           graph_.value(operand).shape);
        body.arguments.push_back(argument);
        repeat.sequences.push_back(std::move(members));
        operand = argument;
      } else {
        operand = inside.at(operand);
      }
    }
    const ValueId made =
        new_value(common_name(graph_.value(at(p - run.period).results[0]).name, graph_.value(at(p).results[0]).name),
                  graph_.value(at(p).results[0]).shape);
    inside[at(p).results[0]] = made;
    operation.results = {made};
    result.operations.push_back(std::move(operation));
    body.operations.push_back({static_cast<std::uint32_t>(result.operations.size()) - 1});
  }
  repeat.name = common_name(at(run.start).name, at(second).name);
  repeat.name = operation_name(repeat.name.substr(0, repeat.name.find('*')) + "repeat");
  const std::size_t last = end - run.period;
  for (const std::size_t offset : carried) {
    body.results.push_back(inside.at(at(second + offset).results[0]));
    repeat.results.push_back(at(last + offset).results[0]);
  }
  repeat.body = static_cast<std::int32_t>(result.regions.size());
  result.regions.push_back(std::move(body));
  result.operations.push_back(std::move(repeat));
  std::vector<OperationId> operations(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(run.start));
  operations.push_back({static_cast<std::uint32_t>(result.operations.size()) - 1});
  operations.insert(operations.end(), list_.begin() + static_cast<std::ptrdiff_t>(end), list_.end());
  result.regions[0].operations = std::move(operations);
  return result;
}

// Drops operations and values that no region names any more.
Graph compacted(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  result.output_names = graph.output_names;
  result.regions.resize(graph.regions.size());
  std::map<ValueId, ValueId> values;
  const auto keep = [&](ValueId& id) {
    const auto [found, added] = values.try_emplace(id, ValueId{static_cast<std::uint32_t>(result.values.size())});
    if (added) result.values.push_back(graph.value(id));
    id = found->second;
  };
  for (std::size_t index = 0; index < graph.regions.size(); ++index) {
    Region region = graph.regions[index];
    for (ValueId& argument : region.arguments) keep(argument);
    for (OperationId& id : region.operations) {
      Operation operation = graph.operation(id);
      for (ValueId& operand : operation.operands) keep(operand);
      for (auto& sequence : operation.sequences)
        for (ValueId& member : sequence) keep(member);
      for (ValueId& value : operation.results) keep(value);
      result.operations.push_back(std::move(operation));
      id = {static_cast<std::uint32_t>(result.operations.size()) - 1};
    }
    for (ValueId& value : region.results) keep(value);
    result.regions[index] = std::move(region);
  }
  return result;
}

}  // namespace

Graph roll_repeats(Graph graph) {
  constexpr int most_runs = 8;
  for (int run_number = 0; run_number < most_runs; ++run_number) {
    const Roller roller(graph);
    const std::optional<Run> run = roller.best_run();
    constexpr std::size_t smallest_body = 3;  // shorter bodies save nothing
    if (!run || run->period < smallest_body) break;
    graph = compacted(roller.roll(*run));
  }
  return graph;
}

Graph unroll_repeats(const Graph& graph) {
  Graph result = graph;
  std::vector<OperationId> flat;
  std::map<ValueId, ValueId> renamed;
  const auto current = [&](ValueId id) {
    const auto found = renamed.find(id);
    return found == renamed.end() ? id : found->second;
  };
  for (const OperationId id : graph.main().operations) {
    Operation operation = graph.operation(id);
    for (ValueId& operand : operation.operands) operand = current(operand);
    if (operation.kind != OpKind::repeat) {
      result.operation(id) = operation;
      flat.push_back(id);
      continue;
    }
    const Region& body = graph.regions[operation.body];
    std::vector<ValueId> carried(operation.operands.begin(), operation.operands.begin() + operation.carried);
    for (std::int64_t iteration = 0; iteration < operation.attributes.count; ++iteration) {
      std::map<ValueId, ValueId> local;
      for (std::size_t index = 0; index < operation.operands.size(); ++index)
        local[body.arguments[index]] = index < carried.size() ? carried[index] : operation.operands[index];
      for (std::size_t index = 0; index < operation.sequences.size(); ++index)
        local[body.arguments[operation.operands.size() + index]] = operation.sequences[index][iteration];
      for (const OperationId inner : body.operations) {
        Operation copy = graph.operation(inner);
        const std::string suffix = "#" + std::to_string(iteration);
        copy.name += suffix;
        for (ValueId& operand : copy.operands)
          if (const auto found = local.find(operand); found != local.end()) operand = found->second;
        const Value& made = graph.value(copy.results[0]);
        result.values.push_back({made.name + suffix, made.shape, nullptr});
        local[copy.results[0]] = {static_cast<std::uint32_t>(result.values.size()) - 1};
        copy.results = {local[copy.results[0]]};
        result.operations.push_back(std::move(copy));
        flat.push_back({static_cast<std::uint32_t>(result.operations.size()) - 1});
      }
      for (std::size_t index = 0; index < carried.size(); ++index) carried[index] = local.at(body.results[index]);
    }
    for (std::size_t index = 0; index < carried.size(); ++index) renamed[operation.results[index]] = carried[index];
  }
  for (ValueId& output : result.regions[0].results) output = current(output);
  result.regions[0].operations = std::move(flat);
  result.regions.resize(1);
  return compacted(result);
}

}  // namespace tw::compiler
