// compiler/canonical/folding.cpp: vectors that a product behind them can carry: a norm's gamma and beta, the biases of
// keys and values.
#include <algorithm>

#include "compiler/canonical/rewrites.h"

namespace tw::compiler {
namespace {

// x [.., K] times parameters [K, N], bias (if any) a parameter.
bool is_projection_of(const Rewriter& rewriter, const Operation& operation, ValueId x) {
  return operation.kind == OpKind::matmul && operation.operands[0] == x && !operation.attributes.transpose_a &&
         !operation.attributes.transpose_b && rewriter.is_parameter(operation.operands[1]) &&
         rewriter.shape(operation.operands[1]).size() == 2 &&
         std::count(operation.operands.begin(), operation.operands.end(), x) == 1 &&
         (operation.operands.size() < 3 || rewriter.is_parameter(operation.operands[2]));
}

TensorSourcePtr source_of(const Rewriter& rewriter, ValueId id) { return rewriter.graph().value(id).source; }

// diag(scale) * weights.
TensorSourcePtr rows_scaled(TensorSourcePtr weights, TensorSourcePtr scale, std::int64_t inner, std::int64_t columns) {
  return computed_source({{std::move(weights), inner * columns}, {std::move(scale), inner}}, inner * columns,
                         [=](std::span<const std::vector<float>> in, std::span<float> out) {
                           for (std::int64_t k = 0; k < inner; ++k)
                             for (std::int64_t n = 0; n < columns; ++n)
                               out[k * columns + n] = in[0][k * columns + n] * in[1][k];
                         });
}

// bias + vector * weights; `bias` may be null.
TensorSourcePtr bias_plus_product(const TensorSourcePtr& bias, TensorSourcePtr vector, TensorSourcePtr weights,
                                  std::int64_t inner, std::int64_t columns) {
  std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs{{std::move(vector), inner},
                                                               {std::move(weights), inner * columns}};
  if (bias) inputs.emplace_back(bias, columns);
  return kept_source(computed_source(std::move(inputs), columns,
                                     [=](std::span<const std::vector<float>> in, std::span<float> out) {
                                       std::vector<double> sums(static_cast<std::size_t>(columns), 0.0);
                                       if (in.size() > 2) std::copy(in[2].begin(), in[2].end(), sums.begin());
                                       for (std::int64_t k = 0; k < inner; ++k)
                                         for (std::int64_t n = 0; n < columns; ++n)
                                           sums[n] += static_cast<double>(in[0][k]) * in[1][k * columns + n];
                                       std::transform(sums.begin(), sums.end(), out.begin(),
                                                      [](double sum) { return static_cast<float>(sum); });
                                     }),
                     columns);
}

// A projection, or the slice of columns of one that holds queries, keys or values of an exporter's merged product.
struct Projection {
  OperationId product;
  std::int64_t first = 0, columns = 0;
};

std::optional<Projection> biased_projection(const Rewriter& rewriter, ValueId value) {
  if (!rewriter.used_once(value)) return std::nullopt;
  Projection found{.columns = rewriter.shape(value).back()};
  if (const Operation* slice = rewriter.producer(value, OpKind::slice)) {
    const Shape& whole = rewriter.shape(slice->operands[0]);
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      if (slice->attributes.steps[axis] != 1 || (axis + 1 < whole.size() && rewriter.shape(value)[axis] != whole[axis]))
        return std::nullopt;
    found.first = slice->attributes.starts.back();
    value = slice->operands[0];
    // Nobody else may look at these columns.
    for (const OperationId user : rewriter.users(value)) {
      const Operation& other = rewriter.operation(user);
      if (other.kind != OpKind::slice || other.attributes.steps.back() != 1) return std::nullopt;
      if (other.results[0] == slice->results[0]) continue;
      const std::int64_t begin = other.attributes.starts.back(), end = begin + rewriter.shape(other.results[0]).back();
      if (begin < found.first + found.columns && found.first < end) return std::nullopt;
    }
  }
  const std::optional<OperationId> product = rewriter.producer_id(value);
  if (!product) return std::nullopt;
  const Operation& operation = rewriter.operation(*product);
  if (operation.operands.size() < 3 || !is_projection_of(rewriter, operation, operation.operands[0]))
    return std::nullopt;
  const std::optional<float> uniform = rewriter.constant(operation.operands[2]);
  if (uniform && *uniform == 0) return std::nullopt;
  found.product = *product;
  return found;
}

// The bias with zeros in the projection's columns.
void clear_bias(Rewriter& rewriter, const Projection& projection) {
  const Operation product = rewriter.operation(projection.product);
  const std::int64_t all = rewriter.shape(product.operands[2]).back();
  const std::string name = rewriter.graph().value(product.operands[2]).name + ".cleared";
  const TensorSourcePtr cleared =
      projection.columns == all
          ? uniform_source(0, all)
          : computed_source({{source_of(rewriter, product.operands[2]), all}}, all,
                            [=](std::span<const std::vector<float>> in, std::span<float> out) {
                              std::copy(in[0].begin(), in[0].end(), out.begin());
                              std::fill_n(out.begin() + projection.first, projection.columns, 0.0F);
                            });
  const ValueId bias = rewriter.add_parameter(name, {all}, cleared);
  rewriter.set_operands(projection.product, {product.operands[0], product.operands[1], bias});
}

}  // namespace

// layer_norm(x) * gamma + beta, read by products only: W' = diag(gamma) W, b' = b + beta W.
bool fold_norm_scale(Rewriter& rewriter, OperationId id) {
  const Operation norm = rewriter.operation(id);
  if (norm.kind != OpKind::layer_norm || norm.operands.size() < 2) return false;
  for (std::size_t extra = 1; extra < norm.operands.size(); ++extra)
    if (!rewriter.is_parameter(norm.operands[extra])) return false;
  const std::vector<OperationId> readers = rewriter.users(norm.results[0]);
  if (readers.empty() || rewriter.is_output(norm.results[0])) return false;
  for (const OperationId reader : readers)
    if (!is_projection_of(rewriter, rewriter.operation(reader), norm.results[0])) return false;

  const TensorSourcePtr gamma = source_of(rewriter, norm.operands[1]);
  for (const OperationId reader : readers) {
    const Operation product = rewriter.operation(reader);
    const Shape shape = rewriter.shape(product.operands[1]);
    const TensorSourcePtr weights = source_of(rewriter, product.operands[1]);
    const ValueId scaled = rewriter.add_parameter(rewriter.graph().value(product.operands[1]).name + ".scaled", shape,
                                                  rows_scaled(weights, gamma, shape[0], shape[1]));
    std::optional<ValueId> bias;
    if (product.operands.size() > 2) bias = product.operands[2];
    if (norm.operands.size() > 2)
      bias =
          rewriter.add_parameter(product.name + ".bias.shifted", {shape[1]},
                                 bias_plus_product(bias ? source_of(rewriter, *bias) : nullptr,
                                                   source_of(rewriter, norm.operands[2]), weights, shape[0], shape[1]));
    std::vector<ValueId> operands{product.operands[0], scaled};
    if (bias) operands.push_back(*bias);
    rewriter.set_operands(reader, std::move(operands));
  }
  rewriter.set_operands(id, {norm.operands[0]});
  return true;
}

// q (k + b) = q k + q b: the last is one number for all keys of a query, and softmax does not see it.
bool drop_key_bias(Rewriter& rewriter, OperationId id) {
  const Operation attention = rewriter.operation(id);
  if (attention.kind != OpKind::attention) return false;
  const auto keys = biased_projection(rewriter, attention.operands[1]);
  if (!keys) return false;
  clear_bias(rewriter, *keys);
  return true;
}

// p (v + b) = p v + b, and (p v + b) W + c = p v W + (c + b W).
bool fold_value_bias(Rewriter& rewriter, OperationId id) {
  const Operation attention = rewriter.operation(id);
  if (attention.kind != OpKind::attention || !rewriter.used_once(attention.results[0])) return false;
  const auto values = biased_projection(rewriter, attention.operands[2]);
  const OperationId reader = rewriter.users(attention.results[0])[0];
  const Operation product = rewriter.operation(reader);
  if (!values || !is_projection_of(rewriter, product, attention.results[0])) return false;
  const Operation made = rewriter.operation(values->product);
  const std::int64_t all = rewriter.shape(made.operands[2]).back();
  const Projection part = *values;
  const TensorSourcePtr vector = computed_source({{source_of(rewriter, made.operands[2]), all}}, part.columns,
                                                 [=](std::span<const std::vector<float>> in, std::span<float> out) {
                                                   std::copy_n(in[0].begin() + part.first, part.columns, out.begin());
                                                 });
  const Shape shape = rewriter.shape(product.operands[1]);
  const ValueId bias = rewriter.add_parameter(
      product.name + ".bias.shifted", {shape[1]},
      bias_plus_product(product.operands.size() > 2 ? source_of(rewriter, product.operands[2]) : nullptr, vector,
                        source_of(rewriter, product.operands[1]), shape[0], shape[1]));
  rewriter.set_operands(reader, {attention.results[0], product.operands[1], bias});
  clear_bias(rewriter, part);
  return true;
}

}  // namespace tw::compiler
