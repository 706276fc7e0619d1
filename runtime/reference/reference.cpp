// runtime/reference/reference.cpp: walks the graph, reads parameters on demand, measures errors.
#include "runtime/reference/reference.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "hw/base/random.h"
#include "runtime/reference/operations.h"

namespace tw::runtime {
namespace {

using compiler::Graph;
using compiler::Operation;
using compiler::OpKind;
using compiler::Region;

class Evaluator {
 public:
  Evaluator(const Graph& graph, const EvaluateOptions& options) : graph_(graph), options_(options) {
    rounding_.f16 = options.quantised != nullptr && options.quantised->precision != "f32";
    if (options.quantised != nullptr)
      for (const hw::PlannedOperation& planned : options.quantised->plan) planned_[planned.operation] = &planned;
  }

  Result<std::map<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs) {
    for (const ValueId argument : graph_.main().arguments) {
      const compiler::Value& value = graph_.value(argument);
      const auto found = inputs.find(value.name);
      if (found == inputs.end())
        return fail(ErrorKind::bad_input,
                    fmt::format("input \"{}\" {} is missing", value.name, compiler::to_string(value.shape)),
                    {{"input", value.name}});
      if (found->second.shape != value.shape)
        return fail(ErrorKind::bad_input,
                    fmt::format("input \"{}\" is {}, the model takes {}", value.name,
                                compiler::to_string(found->second.shape), compiler::to_string(value.shape)),
                    {{"input", value.name}});
      Tensor tensor = found->second;
      if (rounding_.f16) round_to_f16(tensor);
      values_[argument] = std::make_shared<Tensor>(std::move(tensor));
    }
    TW_TRY_STATUS(region(graph_.main(), 0));
    std::map<std::string, Tensor> outputs;
    for (std::size_t index = 0; index < graph_.main().results.size(); ++index) {
      TW_TRY(const std::shared_ptr<const Tensor> value, read(graph_.main().results[index]));
      outputs[graph_.output_names[index]] = *value;
    }
    return outputs;
  }

 private:
  using Shared = std::shared_ptr<const Tensor>;

  Result<Shared> parameter(ValueId id) const {
    const compiler::Value& value = graph_.value(id);
    Tensor tensor{value.shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(value.shape)))};
    TW_TRY_STATUS(value.source->read(tensor.data));
    return std::make_shared<Tensor>(std::move(tensor));
  }

  Result<Shared> read(ValueId id) const {
    if (const auto found = values_.find(id); found != values_.end()) return found->second;
    return parameter(id);
  }

  Status region(const Region& region, std::int64_t iteration) {
    std::map<ValueId, int> left;  // readers still to come within this region
    for (const OperationId id : region.operations)
      for (const ValueId operand : graph_.operation(id).operands) ++left[operand];
    for (const ValueId result : region.results) ++left[result];
    for (const OperationId id : region.operations) {
      const Operation& operation = graph_.operation(id);
      if (options_.progress)
        options_.progress("reference", static_cast<std::int64_t>(id.value),
                          static_cast<std::int64_t>(graph_.operations.size()));
      if (operation.kind == OpKind::repeat) {
        TW_TRY_STATUS(repeat(operation));
      } else {
        std::vector<Shared> held;
        Operands operands;
        for (std::size_t index = 0; index < operation.operands.size(); ++index) {
          const ValueId operand = operation.operands[index];
          TW_TRY(Shared value, read(operand));
          // The machine holds parameters in F16; weights of matmuls are rounded where they are multiplied.
          const bool parameter = graph_.value(operand).is_parameter() || sequence_arguments_.contains(operand);
          const bool weight = operation.kind == OpKind::matmul && index == 1;
          if (rounding_.f16 && parameter && !weight) {
            auto rounded = std::make_shared<Tensor>(*value);
            round_to_f16(*rounded);
            value = std::move(rounded);
          }
          held.push_back(value);
          operands.push_back(held.back().get());
        }
        auto result = std::make_shared<Tensor>(compute(operation, operands));
        if (options_.observe) options_.observe(operation, iteration, operands, {result.get()});
        values_[operation.results[0]] = std::move(result);
      }
      // Values that this region made and nobody in it reads again are dropped.
      for (const ValueId operand : operation.operands)
        if (--left[operand] == 0 && made_here(region, operand)) values_.erase(operand);
    }
    return {};
  }

  bool made_here(const Region& region, ValueId id) const {
    for (const OperationId operation : region.operations)
      for (const ValueId result : graph_.operation(operation).results)
        if (result == id) return true;
    return false;
  }

  Status repeat(const Operation& operation) {
    const Region& body = graph_.regions[operation.body];
    std::vector<Shared> carried;
    for (std::int32_t index = 0; index < operation.carried; ++index) {
      TW_TRY(Shared value, read(operation.operands[index]));
      carried.push_back(std::move(value));
    }
    for (std::size_t index = operation.carried; index < operation.operands.size(); ++index) {
      TW_TRY(Shared value, read(operation.operands[index]));
      values_[body.arguments[index]] = std::move(value);
    }
    for (std::int64_t iteration = 0; iteration < operation.attributes.count; ++iteration) {
      for (std::int32_t index = 0; index < operation.carried; ++index) values_[body.arguments[index]] = carried[index];
      for (std::size_t index = 0; index < operation.sequences.size(); ++index) {
        TW_TRY(Shared member, parameter(operation.sequences[index][iteration]));
        const ValueId argument = body.arguments[operation.operands.size() + index];
        sequence_arguments_.insert(argument);
        values_[argument] = std::move(member);
      }
      TW_TRY_STATUS(region(body, iteration));
      for (std::int32_t index = 0; index < operation.carried; ++index) {
        TW_TRY(carried[index], read(body.results[index]));
      }
    }
    for (std::int32_t index = 0; index < operation.carried; ++index) values_[operation.results[index]] = carried[index];
    for (const ValueId argument : body.arguments) values_.erase(argument);
    return {};
  }

  Tensor compute(const Operation& operation, const Operands& operands) {
    const compiler::Shape& shape = graph_.value(operation.results[0]).shape;
    Rounding rounding = rounding_;
    if (const auto found = planned_.find(operation.name); found != planned_.end()) rounding.plan = found->second;
    Tensor result;
    switch (operation.kind) {
      case OpKind::matmul: result = matmul(operation, operands, shape, rounding); break;
      case OpKind::attention: result = attention(operation, operands, shape, rounding); break;
      case OpKind::layer_norm: result = layer_norm(operation, operands, rounding); break;
      case OpKind::softmax: result = softmax(operands); break;
      case OpKind::gelu: result = gelu(operation, operands, rounding); break;
      case OpKind::unary: result = unary(operation, operands); break;
      case OpKind::binary: result = binary(operation, operands, shape); break;
      case OpKind::reduce: result = reduce(operation, operands, shape); break;
      case OpKind::reshape: result = {shape, operands[0]->data}; break;
      case OpKind::transpose: result = transpose(operation, operands, shape); break;
      case OpKind::slice: result = slice(operation, operands, shape); break;
      case OpKind::concat: result = concat(operation, operands, shape); break;
      case OpKind::expand: result = expand(operands, shape); break;
      case OpKind::repeat: break;
    }
    const bool fused = rounding.plan != nullptr && rounding.plan->fused_add;
    if (rounding.f16 && !fused) round_to_f16(result);
    return result;
  }

  const Graph& graph_;
  const EvaluateOptions& options_;
  Rounding rounding_;
  std::map<std::string, const hw::PlannedOperation*> planned_;
  std::map<ValueId, Shared> values_;
  std::set<ValueId> sequence_arguments_;
};

}  // namespace

Result<std::map<std::string, Tensor>> evaluate(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                                               const EvaluateOptions& options) {
  return Evaluator(graph, options).run(inputs);
}

Comparison compare(const Tensor& actual, const Tensor& expected) {
  Comparison result;
  double error = 0, squared_error = 0, squared = 0, squared_actual = 0, product = 0;
  const std::size_t count = std::min(actual.data.size(), expected.data.size());
  for (std::size_t i = 0; i < count; ++i) {
    const double a = actual.data[i], e = expected.data[i];
    double difference = a == e ? 0.0 : std::fabs(a - e);
    if (std::isnan(difference)) difference = std::isnan(a) && std::isnan(e) ? 0.0 : HUGE_VAL;
    if (difference > result.max_abs_error) {
      result.max_abs_error = difference;
      result.worst_index = static_cast<std::int64_t>(i);
    }
    error += difference;
    squared_error += difference * difference;
    squared += e * e;
    squared_actual += a * a;
    product += a * e;
  }
  result.mean_abs_error = count > 0 ? error / static_cast<double>(count) : 0.0;
  result.rel_l2 = squared > 0 ? std::sqrt(squared_error / squared) : std::sqrt(squared_error);
  const double norms = std::sqrt(squared) * std::sqrt(squared_actual);
  result.cosine = norms > 0 ? product / norms : (squared_error > 0 ? 0.0 : 1.0);
  return result;
}

std::map<std::string, Tensor> random_inputs(const Graph& graph, std::uint64_t seed) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId argument : graph.main().arguments) {
    const compiler::Value& value = graph.value(argument);
    Tensor tensor{value.shape, std::vector<float>(static_cast<std::size_t>(compiler::elements_of(value.shape)))};
    fill_normal(stream_seed(seed, value.name), 0, 0.0F, 1.0F, tensor.data);
    inputs[value.name] = std::move(tensor);
  }
  return inputs;
}

}  // namespace tw::runtime
