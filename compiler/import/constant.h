// compiler/import/constant.h: small typed tensors that are known while importing: shapes, axes, indices, scalars.
// Internal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "hw/base/result.h"

namespace tw::compiler {

struct Constant {
  Shape shape;
  std::vector<double> values;  // row-major; integers up to 2^53 are exact
  bool integer = false;

  std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
  // Whole numbers; what lies beyond 64 bits saturates ("to the end" is often written as the largest number), NaN is 0.
  std::vector<std::int64_t> as_integers() const;
};

// An operator's attributes and inputs, as the evaluator needs them; absent optional inputs are null.
struct ConstantNode {
  std::string op_type;
  std::vector<const Constant*> inputs;
  std::vector<std::int64_t> axes, permutation;  // from attributes, or from inputs by the caller
  std::int64_t axis = 0;
  bool keep_dims = true;
  bool to_integer = false, to_bool = false;  // Cast
};

// Computes an operator on constants. Nothing when the operator is not one of those that shape arithmetic uses.
// Errors (bad_input): shapes that do not belong together.
Result<std::optional<Constant>> evaluate_constant(const ConstantNode& node);

}  // namespace tw::compiler
