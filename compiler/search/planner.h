// compiler/search/planner.h: walks the Graph in execution order and appends steps to the Plan. Internal to search.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/cost.h"
#include "compiler/plan/plan.h"
#include "compiler/search/layout_choice.h"
#include "compiler/search/search.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

// What is known of a graph value: where its elements are, and the look at them.
struct Known {
  std::int32_t stored = -1;     // index into Plan::stored
  std::int32_t parameter = -1;  // index into Plan::parameters
  std::int32_t input = -1;      // index into the main region's arguments: not yet read from the host
  StridedView view;
  bool is_parameter() const { return parameter >= 0; }
};

class Planner {
 public:
  Planner(const Graph& graph, const hw::Machine& machine, const SearchOptions& options);
  Result<Plan> run();

 private:
  // planner_values.cpp: values, views, re-layouts, casts.
  Known resolve(ValueId id);
  void define(ValueId id, Known known) { known_[id] = std::move(known); }
  void define_stored(ValueId id, std::int32_t stored);
  std::int32_t add_stored(const std::string& name, const Shape& shape, std::int64_t rows, std::int64_t columns,
                          hw::TensorLayout layout);
  Step& add_step(StepKind kind, const std::string& operation);
  std::int32_t read_input(const Known& known, int column_axes = 1);
  std::optional<std::int32_t> read_input_as(const Known& known, std::int64_t rows, std::int64_t columns);
  std::int32_t materialise(const Known& known, const std::string& name, const hw::TensorLayout& layout);
  std::int32_t relayout(const Known& known, const std::string& operation, const std::string& name,
                        const hw::TensorLayout& layout);
  bool is_plain(const Known& known, std::int64_t rows, std::int64_t columns) const;
  // The value as a stored matrix of rows x columns: itself when it is one, else re-laid out (spread).
  std::int32_t stored_matrix(const Known& known, const std::string& operation, const std::string& name,
                             std::int64_t rows, std::int64_t columns);
  // The same with plain column groups, and with exactly this layout.
  std::int32_t stored_as(const Known& known, const std::string& operation, const std::string& name,
                         const hw::TensorLayout& layout);
  std::int32_t stored_somewhere(const Known& known, const std::string& operation, const std::string& name);
  std::int32_t cast_to_f8(std::int32_t stored, const std::string& operation, int scale_exponent);
  Operand operand_of(const Known& known) const { return {known.stored, known.parameter, known.view}; }
  Operand whole_operand(std::int32_t stored) const;
  std::vector<OperationId> users(ValueId value) const;
  const std::string& name_of_value(ValueId id) const { return graph_.value(id).name; }

  // planner_matmul.cpp
  // Why there is no such grid; empty when there is.
  std::string impossible(const Grid& grid, std::int64_t rows, std::int64_t column_units,
                         std::int64_t inner_panels) const;
  void keep_choice(const Operation& operation, StepKind kind, std::vector<Alternative> alternatives);
  void refuse_pin(const Operation& operation, const PlanChoice& pin, const std::string& why);
  void plan_matmul(const Operation& operation);
  void plan_parameter_matmul(const Operation& operation, const Known& left, const Known& right);
  void plan_batched_matmul(const Operation& operation, const Known& left, const Known& right);
  struct ResultColumns {
    hw::ColumnGroups groups;
    std::int64_t unit = 16;                // blocks are cut at multiples of it
    std::vector<std::int64_t> should_cut;  // where a part for one reader ends: a cut there saves a re-layout
  };
  ResultColumns result_columns(const Operation& operation, std::int64_t columns) const;
  std::optional<OperationId> fusable_residual(const Operation& operation, const Shape& shape) const;
  std::int64_t follower_cycles(ValueId value, std::int64_t rows, std::int64_t columns,
                               std::int64_t column_blocks) const;

  // planner_attention.cpp
  AttentionForm attention_form(const Operation& operation) const;
  void plan_attention(const Operation& operation);
  Operand attention_operand(const Operation& operation, int which, const AttentionForm& form, int scale_exponent);

  // planner_operations.cpp
  void plan_operation(OperationId id);
  void plan_view(const Operation& operation);
  void plan_layer_norm(const Operation& operation);
  void plan_softmax(const Operation& operation);
  void plan_elementwise(const Operation& operation);
  void plan_binary(const Operation& operation);
  void plan_reduce(const Operation& operation);
  void plan_concat(const Operation& operation);
  void unsupported(const Operation& operation, const std::string& why);

  // planner_repeat.cpp
  void plan_region(const Region& region);
  void plan_repeat(const Operation& operation);
  bool plan_repeat_once(const Operation& operation, const std::vector<std::int32_t>& initial,
                        std::vector<hw::TensorLayout>& layouts, bool last_try);

  const Graph& graph_;
  const hw::Machine& machine_;
  const SearchOptions& options_;
  hw::NumberFormat format_;  // of stored values: F16, or F32 in f32 precision
  std::int64_t unit_;        // column unit of layouts: 32 in f8 precision, else 16
  std::int64_t temporary_budget_bytes_ = 0;
  Plan plan_;
  std::map<ValueId, Known> known_;
  std::map<std::pair<std::int32_t, int>, std::int32_t> casts_;  // (stored, scale exponent) -> F8 form
  std::set<OperationId> fused_;                                 // operations that another step already does
  std::map<ValueId, hw::TensorLayout> wanted_;                  // layouts that carried values should end in
  std::map<ValueId, std::vector<OperationId>> users_;
  std::set<ValueId> escapes_;  // results of regions: read from outside
  std::vector<std::string> problems_;
  std::set<std::string> pin_problems_;
};

}  // namespace tw::compiler
