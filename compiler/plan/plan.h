// compiler/plan/plan.h: the Plan: what was decided for each operation, as small values. Each decision is held once:
// lowering expands it, costs are pure functions of it, and nothing is derived twice.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/layout/strided_view.h"
#include "compiler/plan/attention_form.h"
#include "hw/number/number.h"
#include "hw/program/tensor_layout.h"

namespace tw::compiler {

enum class Precision : std::uint8_t {
  f8,  // F143 weights and activations into matmuls with parameters, F16 elsewhere
  f16,
  f32,  // the reference precision
};

// Largest magnitudes of the operands of each matmul and attention, by operation name (Repeat bodies: over all
// iterations): the F8 scales follow. From a calibration run of the f32 reference (runtime/session/calibrate.h).
struct OperandRange {
  float left_max_abs = 0, right_max_abs = 0;
  float value_max_abs = 0;  // attention: left are the queries, right the keys
};
using OperandRanges = std::map<std::string, OperandRange>;

// How many groups an operation's rows, columns and inner extent are cut into; rows * columns * inner <= tiles.
struct Grid {
  std::int32_t rows = 1, columns = 1, inner = 1;
  std::int64_t tiles() const { return std::int64_t{rows} * columns * inner; }
  friend bool operator==(const Grid&, const Grid&) = default;
};
std::string to_string(const Grid& grid);  // "5x72x4"

// Who owns which part of a result block after the reduce-scatter over the inner groups.
enum class ReduceSplit : std::uint8_t { rows, columns };

// A parameter as a step uses it: one graph value, or one per iteration of the enclosing Repeat.
struct ParameterUse {
  std::vector<ValueId> values;
  bool iterated = false;
  StridedView view;  // over each value's elements
};

// A distributed value: rows x columns, flat element = row * columns + column.
struct Stored {
  std::string name;  // graph value
  Shape shape;       // of the graph value, same number of elements
  std::int64_t rows = 0, columns = 0;
  hw::TensorLayout layout;
  std::int32_t materialised = -1;  // index into Plan::parameters: resident from the start, never computed
};

// What a step reads: a look at a stored value, or a parameter.
struct Operand {
  std::int32_t stored = -1;
  std::int32_t parameter = -1;
  StridedView view;
};

enum class StepKind : std::uint8_t {
  input,           // host -> result
  output,          // operand 0 -> host
  matmul,          // operands: left, weights (parameter) [, bias (parameter)]
  batched_matmul,  // operands: left, right (both stored)
  attention,       // operands: q, k, v
  layer_norm,      // operands: x [, gamma [, beta]]
  softmax,
  gelu,
  unary,
  binary,
  reduce,
  cast,        // operand 0 to another format in the same cuts
  relayout,    // operands are the pieces of a concatenation along `axis` (one piece: a plain re-layout)
  loop_begin,  // `count` iterations
  carry,       // operand 0 becomes the carried value `result` for the next iteration (same layout)
  loop_end,
};
const char* name_of(StepKind kind);

// Closed-form cost of a step, cycles of one execution, and bytes of the busiest tile.
struct StepCost {
  std::int64_t compute_cycles = 0, exchange_cycles = 0, phases = 0;
  std::int64_t temporary_bytes = 0, resident_bytes = 0, table_bytes = 0, words = 0;
  std::int64_t cycles() const { return compute_cycles + exchange_cycles; }
};

// What is chosen for a matmul or an attention; the rest of a plan follows.
struct PlanChoice {
  Grid grid;
  ReduceSplit split = ReduceSplit::rows;
  bool long_runs = false;  // the left operand is moved first, into runs that are long enough for double words
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};
// By graph operation: choices that the search has to keep.
using Pins = std::map<std::string, PlanChoice>;

// A choice with its price.
struct Alternative {
  PlanChoice choice;
  StepCost cost;
  std::int64_t total_cycles = 0;  // with re-layouts before and after, and what follows on the same tiles
  bool within_budget = false;     // of temporary bytes beside the parameters
  // Smaller is better: what fits, then cycles, then few tiles, then the smaller grid.
  auto rank() const {
    return std::tuple{!within_budget,   within_budget ? 0 : cost.temporary_bytes,
                      total_cycles,     choice.grid.tiles(),
                      choice.grid.rows, choice.grid.columns,
                      choice.split,     choice.long_runs};
  }
};

// One operation's choice and its runners-up.
struct OperationChoice {
  std::string operation;
  StepKind kind = StepKind::matmul;
  std::vector<Alternative> alternatives;  // the first is the one in the plan
};

struct Step {
  StepKind kind = StepKind::unary;
  std::string operation;  // graph operation
  std::vector<Operand> operands;
  std::int32_t result = -1;  // index into Plan::stored
  Attributes attributes;     // the graph operation's
  Grid grid;
  ReduceSplit split = ReduceSplit::rows;
  hw::NumberFormat format = hw::NumberFormat::f16;  // of the matmul's operands
  std::int32_t left_scale_exponent = 0, right_scale_exponent = 0;
  std::int32_t value_scale_exponent = 0;  // attention in F8
  hw::ColumnGroups inner_groups;          // matmul: the order in which the left operand's inner extent is gathered
  AttentionForm attention;                // attention: how its heads lie
  bool right_by_columns = false;          // batched_matmul: the right operand lies transposed, and its tiles take it so
  std::int32_t first_block = 0;           // cast of a part of a value: the source's column block at which it begins
  std::int32_t bias = -1;                 // matmul: index into operands, or -1
  std::int32_t residual = -1;             // matmul: stored value in the result's layout that is added, or -1
  std::int32_t residual_parameter = -1;   // matmul: index into operands of a parameter in the result's layout, or -1
  std::int32_t axis = 0;                  // relayout of several pieces
  std::int32_t input = -1;                // input: which; output: which
  std::int32_t count = 1;                 // loop_begin
  StepCost cost;
};

struct PlannedInput {
  std::string name;
  Shape shape;          // the graph's tensor
  hw::MatrixView view;  // matrix element -> flat element of that tensor: the host packs through it
};

struct Plan {
  Precision precision = Precision::f8;
  std::vector<Stored> stored;
  std::vector<ParameterUse> parameters;
  std::vector<Step> steps;
  std::vector<PlannedInput> inputs;
  std::vector<std::string> outputs;
  std::vector<OperationChoice> choices;  // in order of the steps
  std::int64_t estimated_cycles = 0;     // closed forms, Repeats multiplied
  std::int64_t resident_bytes = 0;       // busiest tile, all iterations
};

}  // namespace tw::compiler
