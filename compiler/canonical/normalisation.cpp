// compiler/canonical/normalisation.cpp: raises decomposed layer norm and GELU.
#include <algorithm>
#include <cmath>

#include "compiler/canonical/rewriter.h"

namespace tw::compiler {
namespace {

bool near(std::optional<float> value, double wanted) {
  return value && std::fabs(*value - wanted) <= 1e-3 * std::fabs(wanted) + 1e-7;
}

bool means_last_axis(const Rewriter& rewriter, const Operation* reduce, ValueId of) {
  if (reduce == nullptr || reduce->attributes.reduction != Reduction::mean || reduce->operands[0] != of ||
      !reduce->attributes.keep_dims)
    return false;
  const auto last = static_cast<std::int64_t>(rewriter.shape(of).size()) - 1;
  return reduce->attributes.axes == std::vector<std::int64_t>{last};
}

// x * x, or x to the power 2.
bool is_square_of(const Rewriter& rewriter, ValueId value, ValueId x) {
  if (const Operation* product = rewriter.binary_producer(value, Binary::multiply))
    return product->operands[0] == x && product->operands[1] == x;
  const Operation* power = rewriter.binary_producer(value, Binary::power);
  return power != nullptr && power->operands[0] == x && near(rewriter.constant(power->operands[1]), 2.0);
}

bool is_cube_of(const Rewriter& rewriter, ValueId value, ValueId x) {
  if (const Operation* power = rewriter.binary_producer(value, Binary::power))
    return power->operands[0] == x && near(rewriter.constant(power->operands[1]), 3.0);
  const Operation* product = rewriter.binary_producer(value, Binary::multiply);
  if (product == nullptr) return false;
  return (product->operands[0] == x && is_square_of(rewriter, product->operands[1], x)) ||
         (product->operands[1] == x && is_square_of(rewriter, product->operands[0], x));
}

// value = factor * rest for a constant factor on either side (or a division by a constant).
struct Scaled {
  double factor = 1.0;
  ValueId rest;
};
std::optional<Scaled> scaled(const Rewriter& rewriter, ValueId value) {
  if (const Operation* product = rewriter.binary_producer(value, Binary::multiply))
    for (int side = 0; side < 2; ++side)
      if (const auto factor = rewriter.constant(product->operands[side]))
        return Scaled{*factor, product->operands[1 - side]};
  if (const Operation* quotient = rewriter.binary_producer(value, Binary::divide))
    if (const auto divisor = rewriter.constant(quotient->operands[1]))
      return Scaled{1.0 / *divisor, quotient->operands[0]};
  return std::nullopt;
}

// All factors of a product of the tree under `value`, constants multiplied together.
void factors_of(const Rewriter& rewriter, ValueId value, double& constant, std::vector<ValueId>& factors,
                int depth = 0) {
  if (const auto number = rewriter.constant(value)) {
    constant *= *number;
    return;
  }
  constexpr int deepest = 4;
  if (const Operation* product = rewriter.binary_producer(value, Binary::multiply);
      product != nullptr && depth < deepest) {
    factors_of(rewriter, product->operands[0], constant, factors, depth + 1);
    factors_of(rewriter, product->operands[1], constant, factors, depth + 1);
    return;
  }
  if (const auto quotient = rewriter.binary_producer(value, Binary::divide); quotient != nullptr && depth < deepest) {
    if (const auto divisor = rewriter.constant(quotient->operands[1])) {
      constant /= *divisor;
      factors_of(rewriter, quotient->operands[0], constant, factors, depth + 1);
      return;
    }
  }
  factors.push_back(value);
}

// 1 + f(argument) with f = tanh or erf; gives the argument.
std::optional<std::pair<ValueId, bool>> one_plus(const Rewriter& rewriter, ValueId value) {
  const Operation* sum = rewriter.binary_producer(value, Binary::add);
  if (sum == nullptr) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    if (!near(rewriter.constant(sum->operands[side]), 1.0)) continue;
    if (const Operation* tanh = rewriter.unary_producer(sum->operands[1 - side], Unary::tanh))
      return std::pair{tanh->operands[0], true};
    if (const Operation* erf = rewriter.unary_producer(sum->operands[1 - side], Unary::erf))
      return std::pair{erf->operands[0], false};
  }
  return std::nullopt;
}

// sqrt(2 / pi) * (x + 0.044715 x^3), in the orders that exporters write.
bool is_tanh_argument(const Rewriter& rewriter, ValueId value, ValueId x) {
  const auto outer = scaled(rewriter, value);
  if (!outer || std::fabs(outer->factor - std::sqrt(2.0 / 3.14159265358979)) > 1e-3) return false;
  const Operation* sum = rewriter.binary_producer(outer->rest, Binary::add);
  if (sum == nullptr) return false;
  for (int side = 0; side < 2; ++side) {
    if (sum->operands[side] != x) continue;
    double constant = 1.0;
    std::vector<ValueId> factors;
    factors_of(rewriter, sum->operands[1 - side], constant, factors);
    if (std::fabs(constant - 0.044715) > 1e-4) continue;
    const bool cube = factors.size() == 1 && is_cube_of(rewriter, factors[0], x);
    const bool three =
        factors.size() == 3 && std::all_of(factors.begin(), factors.end(), [&](ValueId factor) { return factor == x; });
    const bool square_and_x = factors.size() == 2 && ((factors[0] == x && is_square_of(rewriter, factors[1], x)) ||
                                                      (factors[1] == x && is_square_of(rewriter, factors[0], x)));
    if (cube || three || square_and_x) return true;
  }
  return false;
}

bool is_erf_argument(const Rewriter& rewriter, ValueId value, ValueId x) {
  const auto outer = scaled(rewriter, value);
  return outer && outer->rest == x && std::fabs(outer->factor - std::sqrt(0.5)) < 1e-3;
}

}  // namespace

// (x - mean) / sqrt(mean((x - mean)^2) + eps), then optionally * gamma and + beta.
bool raise_layer_norm(Rewriter& rewriter, OperationId id) {
  const Operation quotient = rewriter.operation(id);
  if (quotient.kind != OpKind::binary || quotient.attributes.binary != Binary::divide) return false;
  const ValueId centred = quotient.operands[0];
  const Operation* subtract = rewriter.binary_producer(centred, Binary::subtract);
  const Operation* root = rewriter.unary_producer(quotient.operands[1], Unary::sqrt);
  if (subtract == nullptr || root == nullptr) return false;
  const ValueId x = subtract->operands[0];
  if (!means_last_axis(rewriter, rewriter.producer(subtract->operands[1], OpKind::reduce), x)) return false;
  const Operation* sum = rewriter.binary_producer(root->operands[0], Binary::add);
  if (sum == nullptr) return false;
  for (int side = 0; side < 2; ++side) {
    const auto epsilon = rewriter.constant(sum->operands[side]);
    const Operation* variance = rewriter.producer(sum->operands[1 - side], OpKind::reduce);
    if (!epsilon || variance == nullptr) continue;
    // The deviations may be computed twice by the exporter: any x - mean(x) will do.
    const ValueId squared = variance->operands[0];
    bool squares = is_square_of(rewriter, squared, centred);
    if (!squares)
      if (const Operation* square = rewriter.producer(squared, OpKind::binary)) {
        const Operation* again = rewriter.binary_producer(square->operands[0], Binary::subtract);
        squares = again != nullptr && again->operands == subtract->operands &&
                  is_square_of(rewriter, squared, square->operands[0]);
      }
    if (!squares || !means_last_axis(rewriter, variance, squared)) continue;
    const std::int64_t width = rewriter.shape(x).back();
    Attributes attributes;
    attributes.epsilon = *epsilon;
    ValueId replaced = quotient.results[0];
    std::vector<ValueId> operands{x};
    OperationId at = id;
    // gamma, then beta, when they are parameters along the last axis and nothing else reads in between.
    for (const Binary wanted : {Binary::multiply, Binary::add}) {
      if (!rewriter.used_once(replaced)) break;
      const OperationId user_id = rewriter.users(replaced)[0];
      const Operation& user = rewriter.operation(user_id);
      if (user.kind != OpKind::binary) break;
      // A gamma of ones has been folded away: beta follows at once.
      const bool no_gamma = wanted == Binary::multiply && user.attributes.binary == Binary::add;
      if (!no_gamma && user.attributes.binary != wanted) break;
      const ValueId factor = Rewriter::other(user, replaced);
      const bool vector = rewriter.is_parameter(factor) && elements_of(rewriter.shape(factor)) == width &&
                          !rewriter.shape(factor).empty() && rewriter.shape(factor).back() == width;
      if (!vector || rewriter.shape(user.results[0]) != rewriter.shape(x)) break;
      if (no_gamma)
        operands.push_back(rewriter.add_parameter(quotient.name + ".gamma", {width}, uniform_source(1.0F, width)));
      operands.push_back(
          rewriter.add_parameter(rewriter.graph().value(factor).name, {width}, rewriter.graph().value(factor).source));
      replaced = user.results[0];
      at = user_id;
      if (no_gamma) break;
    }
    const ValueId raised = rewriter.insert(at, OpKind::layer_norm, quotient.name + ".layer_norm", operands, attributes);
    rewriter.replace_uses(replaced, raised);
    return true;
  }
  return false;
}

// 0.5 * x * (1 + f(...)), factors in any order.
bool raise_gelu(Rewriter& rewriter, OperationId id) {
  const Operation product = rewriter.operation(id);
  if (product.kind != OpKind::binary || product.attributes.binary != Binary::multiply) return false;
  double constant = 1.0;
  std::vector<ValueId> factors;
  factors_of(rewriter, product.results[0], constant, factors);
  if (factors.size() != 2 || std::fabs(constant - 0.5) > 1e-3) return false;
  for (int side = 0; side < 2; ++side) {
    const ValueId x = factors[side];
    const auto inside = one_plus(rewriter, factors[1 - side]);
    if (!inside) continue;
    const auto [argument, tanh] = *inside;
    if (!(tanh ? is_tanh_argument(rewriter, argument, x) : is_erf_argument(rewriter, argument, x))) continue;
    Attributes attributes;
    attributes.gelu_tanh = tanh;
    const ValueId raised = rewriter.insert(id, OpKind::gelu, product.name + ".gelu", {x}, attributes);
    rewriter.replace_uses(product.results[0], raised);
    return true;
  }
  return false;
}

}  // namespace tw::compiler
