// compiler/graph/graph.h: the Graph: shaped SSA with regions, holding the operations that planning needs.
// No precision and no layout decisions. Element type of every value is real (f32 semantics); integers exist only while
// importing and are folded away.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hw/base/id.h"
#include "hw/base/result.h"
#include "hw/base/violation.h"

namespace tw::compiler {

using Shape = std::vector<std::int64_t>;
std::int64_t elements_of(const Shape& shape);
std::string to_string(const Shape& shape);  // "[1,729,1152]"

// Operations after canonicalisation. Semantics and shapes: compiler/graph/operation_table.h and docs/graph.md.
enum class OpKind : std::uint8_t {
  matmul,      // a [..., M, K], b [K, N] or [..., K, N], optional bias [N]; transpose_a/b on the last two axes
  attention,   // q [B, Nq, H*d], k [B, Nk, H*d], v [B, Nk, H*e] -> [B, Nq, H*e]; heads, scale, causal
  layer_norm,  // x, optional gamma [W], optional beta [W]: over the last axis; epsilon
  softmax,     // over the last axis
  gelu,        // gelu_tanh or erf form
  unary,       // function
  binary,      // function, numpy broadcasting
  reduce,      // sum, mean or maximum over `axes`, keep_dims
  reshape,     // to the result's shape
  transpose,   // permutation
  slice,       // starts, steps per axis; sizes are the result's shape
  concat,      // axis
  expand,      // numpy broadcasting to the result's shape
  repeat,      // a body executed `count` times: carried values, invariants, iterated sequences of parameters
};
inline constexpr int op_kinds = 14;
const char* name_of(OpKind kind);

enum class Unary : std::uint8_t { relu, tanh, sigmoid, exp, sqrt, erf, negate, absolute, reciprocal, log };
enum class Binary : std::uint8_t { add, subtract, multiply, divide, power, maximum, minimum };
enum class Reduction : std::uint8_t { sum, mean, maximum };
const char* name_of(Unary function);
const char* name_of(Binary function);
const char* name_of(Reduction function);

// Attributes of all kinds in one struct; each kind uses the fields named in OpKind's comments.
struct Attributes {
  bool transpose_a = false, transpose_b = false;
  std::int64_t heads = 1;
  double scale = 1.0;
  bool causal = false;
  double epsilon = 1e-5;
  bool gelu_tanh = true;
  Unary unary = Unary::relu;
  Binary binary = Binary::add;
  Reduction reduction = Reduction::mean;
  std::vector<std::int64_t> axes;  // reduce; sorted, non-negative
  bool keep_dims = true;
  std::vector<std::int64_t> permutation;    // transpose
  std::vector<std::int64_t> starts, steps;  // slice, one per axis
  std::int64_t axis = 0;                    // concat
  std::int64_t count = 1;                   // repeat
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

// Where a parameter's numbers come from; read on demand so that a 1.7 GB model is never in memory at once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Writes all elements, row-major. Thread safe. Errors: io (external data), never for others.
  virtual Status read(std::span<float> out) const = 0;
  // The value of every element when it is one value (constants like 0.5): for folding without reading.
  virtual std::optional<float> uniform() const { return std::nullopt; }
};
using TensorSourcePtr = std::shared_ptr<const TensorSource>;

TensorSourcePtr dense_source(std::vector<float> values);
TensorSourcePtr uniform_source(float value, std::int64_t elements);
// normal(mean, deviation) of hw/base/random.h, stream = stream_seed(seed, name).
TensorSourcePtr normal_source(std::uint64_t stream, float mean, float deviation, std::int64_t elements);
// A function of other sources, computed on demand: reads all `inputs` (with their element counts) and calls `compute`.
TensorSourcePtr computed_source(std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs, std::int64_t elements,
                                std::function<void(std::span<const std::vector<float>>, std::span<float>)> compute);
// Reads `source` once, at the first read, and keeps its numbers: for small results of large inputs.
TensorSourcePtr kept_source(TensorSourcePtr source, std::int64_t elements);

struct Value {
  std::string name;  // unique within the graph
  Shape shape;
  TensorSourcePtr source;  // set: this value is a parameter (constant)
  bool is_parameter() const { return source != nullptr; }
};

struct Operation {
  OpKind kind = OpKind::unary;
  std::string name;               // unique; from the ONNX node that it comes from
  std::vector<ValueId> operands;  // a missing optional operand in the middle is not possible: see has_* below
  std::vector<ValueId> results;
  Attributes attributes;
  // repeat only. operands = initial carried values, then invariants. Body arguments = carried, invariants, iterated.
  // Body results = next carried values; the operation's results = final carried values.
  std::int32_t body = -1;                       // index into Graph::regions
  std::int32_t carried = 0;                     // number of carried values
  std::vector<std::vector<ValueId>> sequences;  // per iterated body argument: one parameter per iteration
};

struct Region {
  std::vector<ValueId> arguments;
  std::vector<OperationId> operations;  // in execution order
  std::vector<ValueId> results;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Operation> operations;
  std::vector<Region> regions;            // regions[0] is the main one: arguments = inputs, results = outputs
  std::vector<std::string> output_names;  // of regions[0].results, as in the model (a value may be output twice)

  const Region& main() const { return regions.front(); }
  const Value& value(ValueId id) const { return values[id.value]; }
  Value& value(ValueId id) { return values[id.value]; }
  const Operation& operation(OperationId id) const { return operations[id.value]; }
  Operation& operation(OperationId id) { return operations[id.value]; }
};

// Operands of layer_norm: [x, gamma, beta] where absent ones are simply missing from the end (gamma only, or none).
// matmul: [a, b] or [a, b, bias].

// Result shapes from operand shapes and attributes; Errors (bad_input): the operation, the operand, both shapes.
// reshape and expand take the target shape from `wanted`.
Result<Shape> infer_shape(const Operation& operation, std::span<const Shape> operands, const Shape& wanted);

// All violations: shapes recomputed and compared, every operand defined before use, unique names, region arity,
// sequences of equal shapes and of length count, parameters with sources.
std::vector<Violation> verify(const Graph& graph);

// Text form and back. print(parse(print(g))) == print(g). Parameters print as shape and a content tag; parse gives
// them a uniform_source of their printed value or zeros (text is for structure; numbers stay with the model).
std::string print(const Graph& graph);
Result<Graph> parse_graph(const std::string& text, const std::string& file);

// Parameters and multiply-adds, Repeat bodies multiplied by their count.
std::int64_t parameter_count(const Graph& graph);
std::int64_t multiply_adds(const Graph& graph);

}  // namespace tw::compiler
