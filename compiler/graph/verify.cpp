// compiler/graph/verify.cpp: the graph's checker; recomputes shapes and walks definitions.
#include <fmt/format.h>

#include <set>

#include "compiler/graph/graph.h"

namespace tw::compiler {
namespace {

class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph) {}

  std::vector<Violation> run() {
    if (graph_.regions.empty()) {
      add("graph.main", "there is no main region");
      return std::move(found_);
    }
    std::set<std::string> names;
    for (std::size_t index = 0; index < graph_.values.size(); ++index) {
      const Value& value = graph_.values[index];
      if (!names.insert(value.name).second)
        add("graph.unique_names", fmt::format("value \"{}\" is there twice", value.name));
      for (const std::int64_t dim : value.shape)
        if (dim < 1)
          add("graph.positive_dims", fmt::format("value \"{}\" has shape {}", value.name, to_string(value.shape)));
      if (value.is_parameter()) defined_.insert({static_cast<std::uint32_t>(index)});
    }
    names.clear();
    for (const Operation& operation : graph_.operations)
      if (!names.insert(operation.name).second)
        add("graph.unique_names", fmt::format("operation \"{}\" is there twice", operation.name));
    region(graph_.main());
    if (graph_.output_names.size() != graph_.main().results.size())
      add("graph.outputs",
          fmt::format("{} names for {} outputs", graph_.output_names.size(), graph_.main().results.size()));
    return std::move(found_);
  }

 private:
  void add(const char* rule, std::string message) { found_.push_back({rule, std::move(message)}); }

  bool known(ValueId id, const std::string& who) {
    if (id.value < graph_.values.size() && defined_.contains(id)) return true;
    add("graph.defined_before_use",
        fmt::format("\"{}\" reads {} before it is made", who,
                    id.value < graph_.values.size() ? "\"" + graph_.value(id).name + "\"" : "an unknown value"));
    return false;
  }

  void define(ValueId id, const std::string& who) {
    if (id.value >= graph_.values.size() || !defined_.insert(id).second)
      add("graph.single_assignment", fmt::format("\"{}\" makes a value that exists already", who));
  }

  void region(const Region& region) {
    for (const ValueId argument : region.arguments) define(argument, "region argument");
    for (const OperationId id : region.operations) {
      if (id.value >= graph_.operations.size()) {
        add("graph.operations", "a region lists an operation that does not exist");
        continue;
      }
      operation(graph_.operation(id));
    }
    for (const ValueId result : region.results) known(result, "region result");
  }

  void operation(const Operation& operation) {
    std::vector<Shape> shapes;
    for (const ValueId operand : operation.operands) {
      if (!known(operand, operation.name)) return;
      shapes.push_back(graph_.value(operand).shape);
    }
    if (operation.kind == OpKind::repeat) return repeat(operation);
    if (operation.results.size() != 1)
      return add("graph.one_result", fmt::format("\"{}\" has {} results", operation.name, operation.results.size()));
    define(operation.results[0], operation.name);
    const Shape& shape = graph_.value(operation.results[0]).shape;
    const Result<Shape> inferred = infer_shape(operation, shapes, shape);
    if (!inferred) {
      add("graph.shapes", inferred.error().message);
    } else if (*inferred != shape) {
      add("graph.shapes",
          fmt::format("\"{}\" makes {}, recorded is {}", operation.name, to_string(*inferred), to_string(shape)));
    }
  }

  void repeat(const Operation& operation) {
    if (operation.body <= 0 || operation.body >= static_cast<int>(graph_.regions.size()))
      return add("graph.repeat_body", fmt::format("\"{}\" has no body", operation.name));
    const Region& body = graph_.regions[operation.body];
    const auto carried = static_cast<std::size_t>(operation.carried);
    if (body.arguments.size() != operation.operands.size() + operation.sequences.size() ||
        body.results.size() != carried || operation.results.size() != carried || carried > operation.operands.size())
      return add("graph.repeat_arity", fmt::format("\"{}\": body and operands do not match", operation.name));
    for (const std::vector<ValueId>& sequence : operation.sequences) {
      if (static_cast<std::int64_t>(sequence.size()) != operation.attributes.count)
        add("graph.sequence_length", fmt::format("\"{}\" runs {} times over {} members", operation.name,
                                                 operation.attributes.count, sequence.size()));
    }
    for (std::size_t index = 0; index < operation.sequences.size(); ++index)
      for (const ValueId member : operation.sequences[index])
        if (!graph_.value(member).is_parameter() ||
            graph_.value(member).shape != graph_.value(body.arguments[operation.operands.size() + index]).shape)
          add("graph.sequence_members", fmt::format("\"{}\": member \"{}\" is no parameter of the argument's shape",
                                                    operation.name, graph_.value(member).name));
    if (!entered_.insert(operation.body).second)
      return add("graph.region_once",
                 fmt::format("\"{}\": region {} has another owner", operation.name, operation.body));
    region(body);
    for (std::size_t index = 0; index < carried; ++index) {
      define(operation.results[index], operation.name);
      if (graph_.value(body.results[index]).shape != graph_.value(body.arguments[index]).shape)
        add("graph.carried_shapes", fmt::format("\"{}\": carried value {} changes its shape", operation.name, index));
    }
  }

  const Graph& graph_;
  std::set<ValueId> defined_;
  std::set<std::int32_t> entered_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify(const Graph& graph) { return Checker(graph).run(); }

}  // namespace tw::compiler
