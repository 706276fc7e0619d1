// runtime/reference/operations.h: what each graph operation computes, on host tensors. Internal to reference.
#pragma once
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/reference/reference.h"

namespace tw::runtime {

// How results and operands are rounded: nothing in f32.
struct Rounding {
  bool f16 = false;                            // stored values and attention operands
  const hw::PlannedOperation* plan = nullptr;  // of this operation: F8 operands and scales, groups of the inner extent
};

using Operands = std::vector<const Tensor*>;

Tensor matmul(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape,
              const Rounding& rounding);
Tensor attention(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape,
                 const Rounding& rounding);
Tensor layer_norm(const compiler::Operation& operation, const Operands& operands, const Rounding& rounding);
Tensor softmax(const Operands& operands);
Tensor gelu(const compiler::Operation& operation, const Operands& operands, const Rounding& rounding);
Tensor unary(const compiler::Operation& operation, const Operands& operands);
Tensor binary(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape);
Tensor reduce(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape);
Tensor transpose(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape);
Tensor slice(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape);
Tensor concat(const compiler::Operation& operation, const Operands& operands, const compiler::Shape& shape);
Tensor expand(const Operands& operands, const compiler::Shape& shape);

void round_to_f16(Tensor& tensor);
void round_to_f143(std::vector<float>& values, int scale_exponent);

}  // namespace tw::runtime
