#include "compiler/plan/plan.h"

#include <fmt/format.h>

namespace tw::compiler {

std::string to_string(const Grid& grid) { return fmt::format("{}x{}x{}", grid.rows, grid.columns, grid.inner); }

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::input: return "input";
    case StepKind::output: return "output";
    case StepKind::matmul: return "matmul";
    case StepKind::batched_matmul: return "batched_matmul";
    case StepKind::attention: return "attention";
    case StepKind::layer_norm: return "layer_norm";
    case StepKind::softmax: return "softmax";
    case StepKind::gelu: return "gelu";
    case StepKind::unary: return "unary";
    case StepKind::binary: return "binary";
    case StepKind::reduce: return "reduce";
    case StepKind::cast: return "cast";
    case StepKind::relayout: return "relayout";
    case StepKind::loop_begin: return "loop_begin";
    case StepKind::carry: return "carry";
    case StepKind::loop_end: return "loop_end";
  }
  return "unknown";
}

}  // namespace tw::compiler
