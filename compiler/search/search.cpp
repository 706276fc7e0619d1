#include "compiler/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/plan/carry.h"
#include "compiler/search/planner.h"
#include "hw/base/check.h"
#include "hw/base/text.h"
#include "hw/base/units.h"

namespace tw::compiler {
namespace {

// SRAM that is not for tensors: kernels, program, tables, stacks. A guess that placement checks; docs/fidelity.md
// allows 64,000 bytes for code and 24,576 for tables.
constexpr std::int64_t support_bytes = 96 * 1024;

// Bytes of one parameter in the precision: matmul weights in F8 when the precision says so.
std::int64_t parameter_bytes(const Graph& graph, Precision precision) {
  std::vector<bool> is_weight(graph.values.size(), false);
  std::vector<std::int64_t> copies(graph.values.size(), 0);
  const auto visit = [&](auto&& self, const Region& region, std::int64_t count) -> void {
    for (const OperationId id : region.operations) {
      const Operation& operation = graph.operation(id);
      for (std::size_t index = 0; index < operation.operands.size(); ++index) {
        const ValueId operand = operation.operands[index];
        copies[operand.value] = std::max<std::int64_t>(copies[operand.value], 1);
        if (operation.kind == OpKind::matmul && index == 1) is_weight[operand.value] = true;
      }
      if (operation.body < 0) continue;
      const Region& body = graph.regions[operation.body];
      self(self, body, count * operation.attributes.count);
      for (std::size_t index = 0; index < operation.sequences.size(); ++index) {
        const ValueId argument = body.arguments[operation.operands.size() + index];
        for (const ValueId member : operation.sequences[index]) {
          copies[member.value] = 1;
          if (is_weight[argument.value]) is_weight[member.value] = true;
        }
      }
    }
  };
  visit(visit, graph.main(), 1);
  const std::int64_t bytes = precision == Precision::f32 ? 4 : 2;
  std::int64_t total = 0;
  for (std::size_t index = 0; index < graph.values.size(); ++index) {
    if (!graph.values[index].is_parameter() || copies[index] == 0) continue;
    total += elements_of(graph.values[index].shape) * (precision == Precision::f8 && is_weight[index] ? 1 : bytes);
  }
  return total;
}

std::int64_t matmul_minimum(const Graph& graph, const Operation& operation, const hw::Machine& machine,
                            Precision precision) {
  const Shape& shape = graph.value(operation.results[0]).shape;
  const Shape& a = graph.value(operation.operands[0]).shape;
  const std::int64_t columns = shape.back();
  const std::int64_t inner = operation.attributes.transpose_a && a.size() > 1 ? a[a.size() - 2] : a.back();
  const hw::NumberFormat format = precision == Precision::f8    ? hw::NumberFormat::f143
                                  : precision == Precision::f16 ? hw::NumberFormat::f16
                                                                : hw::NumberFormat::f32;
  MatmulProblem problem{.rows = elements_of(shape) / columns,
                        .inner = round_up(inner, hw::panel_width(format)),
                        .columns = round_up(columns, 16),
                        .format = format,
                        .result_format = precision == Precision::f32 ? hw::NumberFormat::f32 : hw::NumberFormat::f16};

  // The smallest block on every axis that the tile count allows: no grid can have smaller operands on all axes at once,
  // so the product of the two operands and the partial is bounded by the geometric mean argument over r * c * k =
  // tiles.
  const double volume = static_cast<double>(problem.rows) * static_cast<double>(problem.inner) *
                        static_cast<double>(problem.columns) / machine.tiles;
  // a = rk, b = kc, p = rc with a * b * p = volume^2: their weighted sum is at least 3 * cube root of the product.
  const double weighted = static_cast<double>(hw::bytes_of(format)) * hw::bytes_of(format) * 2.0 * volume * volume;
  const double three_operands = 3.0 * std::cbrt(weighted);
  // With one row group the weights are used where they are resident: only the left operand and the partial remain,
  // rows * (bytes * inner / Kg + 2 * columns / Cg) with Kg * Cg <= tiles.
  const double two_operands = 2.0 * static_cast<double>(problem.rows) *
                              std::sqrt(2.0 * hw::bytes_of(format) * static_cast<double>(problem.inner) *
                                        static_cast<double>(problem.columns) / machine.tiles);
  return static_cast<std::int64_t>(std::min(three_operands, two_operands));
}

}  // namespace

Planner::Planner(const Graph& graph, const hw::Machine& machine, const SearchOptions& options)
    : graph_(graph),
      machine_(machine),
      options_(options),
      format_(options.precision == Precision::f32 ? hw::NumberFormat::f32 : hw::NumberFormat::f16),
      unit_(options.precision == Precision::f8 ? 32 : 16) {
  plan_.precision = options.precision;
  temporary_budget_bytes_ =
      std::max<std::int64_t>(16 * 1024, machine.sram.capacity_bytes() - support_bytes -
                                            parameter_bytes(graph, options.precision) / machine.tiles * 5 / 4);
  // A quarter is left for values that live across an operation.
  temporary_budget_bytes_ =
      static_cast<std::int64_t>(static_cast<double>(temporary_budget_bytes_ * 3 / 4) * options.budget_fraction);
  for (std::size_t index = 0; index < graph.operations.size(); ++index)
    for (const ValueId operand : graph.operations[index].operands)
      users_[operand].push_back({static_cast<std::uint32_t>(index)});
  for (const Region& region : graph.regions) escapes_.insert(region.results.begin(), region.results.end());
}

Result<Plan> Planner::run() {
  const Region& main = graph_.main();
  for (std::size_t index = 0; index < main.arguments.size(); ++index) {
    Known known{.view = whole(graph_.value(main.arguments[index]).shape)};
    known.input = static_cast<std::int32_t>(index);
    // Read at once when several operations look at it; a single reader decides the matrix it wants to see.
    if (users(main.arguments[index]).size() != 1 || escapes_.contains(main.arguments[index])) {
      const std::int32_t stored = read_input(known);
      known.input = -1;
      known.stored = stored;
    }
    define(main.arguments[index], known);
  }
  plan_region(main);
  for (std::size_t index = 0; index < main.results.size(); ++index) {
    const Known known = resolve(main.results[index]);
    const std::int32_t stored = stored_somewhere(known, graph_.output_names[index], graph_.output_names[index]);
    Step& step = add_step(StepKind::output, graph_.output_names[index]);
    step.operands = {whole_operand(stored)};
    step.input = static_cast<std::int32_t>(index);
    step.cost = host_cost(plan_.stored[stored].layout, machine_);
    plan_.outputs.push_back(graph_.output_names[index]);
  }
  for (const auto& [name, pin] : options_.pins) {
    std::vector<std::string> names;
    for (const OperationChoice& choice : plan_.choices) names.push_back(choice.operation);
    const bool refused = std::any_of(pin_problems_.begin(), pin_problems_.end(), [&](const std::string& problem) {
      return problem.starts_with(fmt::format("operation \"{}\"", name));
    });
    if (!refused && std::find(names.begin(), names.end(), name) == names.end())
      pin_problems_.insert(fmt::format("operation \"{}\" has no choice to pin{}", name, did_you_mean(name, names)));
  }
  if (!pin_problems_.empty())
    return fail(ErrorKind::bad_input,
                "the pinned plan is impossible:\n  " +
                    join(std::vector<std::string>(pin_problems_.begin(), pin_problems_.end()), "\n  "),
                {}, "`tilewright plan MODEL --alternatives 5` lists what is possible");
  if (!problems_.empty())
    return fail(ErrorKind::unsupported, fmt::format("{} operation{} cannot be planned:\n  {}", problems_.size(),
                                                    problems_.size() == 1 ? "" : "s", join(problems_, "\n  ")));
  for (const auto& [from, to] : made_in_place(plan_))
    for (Step& step : plan_.steps)
      if (step.kind == StepKind::carry && step.operands[0].stored == from && step.result == to) step.cost = {};
  std::int64_t count = 1;
  for (const Step& step : plan_.steps) {
    if (step.kind == StepKind::loop_begin) count = step.count;
    plan_.estimated_cycles += count * step.cost.cycles();
    if (step.kind == StepKind::loop_end) count = 1;
  }
  return std::move(plan_);
}

Result<Plan> search(const Graph& graph, const hw::Machine& machine, const SearchOptions& options) {
  return Planner(graph, machine, options).run();
}

LowerBound lower_bound(const Graph& graph, const hw::Machine& machine, Precision precision) {
  LowerBound bound;
  bound.resident_bytes = ceil_div(parameter_bytes(graph, precision), machine.tiles);
  for (const Operation& operation : graph.operations) {
    if (operation.kind != OpKind::matmul) continue;
    const std::int64_t bytes = matmul_minimum(graph, operation, machine, precision);
    if (bytes > bound.temporary_bytes) {
      bound.temporary_bytes = bytes;
      bound.operation = operation.name;
    }
  }
  return bound;
}

}  // namespace tw::compiler
