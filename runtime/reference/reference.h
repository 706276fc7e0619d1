// runtime/reference/reference.h: independent host numerics of a Graph: f32 (Eigen), and quantised as a plan says.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "hw/base/progress.h"
#include "hw/base/result.h"
#include "hw/program/program.h"

namespace tw::runtime {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;  // row-major
};

struct EvaluateOptions {
  // null: pure f32. Otherwise rounds as the machine's plan does: matmul operands that the plan holds in F8 through F143
  // at the planned scale, F16 elsewhere (stored values, attention operands and probabilities); accumulation in f32.
  const hw::Program* quantised = nullptr;
  // Called after each operation with its result (iteration: of the enclosing Repeat, 0 outside).
  std::function<void(const compiler::Operation&, std::int64_t iteration, const std::vector<const Tensor*>& operands,
                     const std::vector<const Tensor*>& results)>
      observe;
  Progress progress;
};

// Outputs by output name. Errors (bad_input): a missing input or a wrong shape (names both); io (external data).
Result<std::map<std::string, Tensor>> evaluate(const compiler::Graph& graph,
                                               const std::map<std::string, Tensor>& inputs,
                                               const EvaluateOptions& options = {});

// Error measures of `actual` against `expected`, element by element.
struct Comparison {
  double max_abs_error = 0, mean_abs_error = 0, rel_l2 = 0, cosine = 1;
  std::int64_t worst_index = 0;  // flat index of the largest error
};
Comparison compare(const Tensor& actual, const Tensor& expected);

// Inputs drawn from a seeded normal distribution, one stream per input name.
std::map<std::string, Tensor> random_inputs(const compiler::Graph& graph, std::uint64_t seed);

}  // namespace tw::runtime
