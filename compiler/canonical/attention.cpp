// compiler/canonical/attention.cpp: raises softmax(scale * Q K^T) V with heads split off by reshape and transpose.
#include <array>
#include <cmath>

#include "compiler/canonical/rewriter.h"

namespace tw::compiler {
namespace {

// [B, H, N, d] (or transposed [B, H, d, N]) that is a [B, N, H * d] value with its heads split off; scales met on the
// way are multiplied into `scale`.
struct Heads {
  ValueId source;  // [B, N, H * d]
  std::int64_t heads = 0;
};

ValueId strip_scale(const Rewriter& rewriter, ValueId value, double& scale) {
  constexpr int deepest = 3;
  for (int depth = 0; depth < deepest; ++depth) {
    const Operation* made = rewriter.producer(value, OpKind::binary);
    if (made == nullptr) return value;
    if (made->attributes.binary == Binary::multiply) {
      if (const auto b = rewriter.constant(made->operands[1])) {
        scale *= *b;
        value = made->operands[0];
      } else if (const auto a = rewriter.constant(made->operands[0])) {
        scale *= *a;
        value = made->operands[1];
      } else {
        return value;
      }
    } else if (const auto b = rewriter.constant(made->operands[1]); b && made->attributes.binary == Binary::divide) {
      scale /= *b;
      value = made->operands[0];
    } else {
      return value;
    }
  }
  return value;
}

// Follows scale, transpose to heads first (`wanted` permutation of [B, N, H, d]), scale, reshape from [B, N, H * d],
// scale.
std::optional<Heads> heads_of(const Rewriter& rewriter, ValueId value, const std::vector<std::int64_t>& wanted,
                              double& scale) {
  value = strip_scale(rewriter, value, scale);
  // A reshape that merges batch and heads ([B * H, N, d]) is looked through when the batch is one.
  if (const Operation* merged = rewriter.producer(value, OpKind::reshape))
    if (rewriter.shape(value).size() == 3 && rewriter.shape(merged->operands[0]).size() == 4 &&
        rewriter.shape(merged->operands[0])[0] == 1)
      value = merged->operands[0];
  const Operation* permuted = rewriter.producer(value, OpKind::transpose);
  if (permuted == nullptr || permuted->attributes.permutation != wanted) return std::nullopt;
  const ValueId split_value = strip_scale(rewriter, permuted->operands[0], scale);
  const Operation* split = rewriter.producer(split_value, OpKind::reshape);
  if (split == nullptr) return std::nullopt;
  const Shape& four = rewriter.shape(split_value);
  const ValueId source = strip_scale(rewriter, split->operands[0], scale);
  const Shape& three = rewriter.shape(source);
  if (four.size() != 4) return std::nullopt;
  const bool plain = three.size() == 3 && three[0] == four[0] && three[1] == four[1] && three[2] == four[2] * four[3];
  if (!plain && elements_of(three) != elements_of(four)) return std::nullopt;
  if (!plain) return std::nullopt;
  return Heads{source, four[2]};
}

// The form of sequence-first attention: [N, B, H * d] reshaped to [N, B * H, d], then heads first ([B * H, N, d]) by
// `wanted`. Learned queries arrive as a parameter of [B * H, N, d] instead.
struct Sequence {
  ValueId source;
  std::int64_t batch = 1, heads = 0;
  bool is_parameter = false;
};

std::optional<Sequence> sequence_of(const Rewriter& rewriter, ValueId value, const std::vector<std::int64_t>& wanted,
                                    double& scale) {
  value = strip_scale(rewriter, value, scale);
  if (rewriter.shape(value).size() != 3) return std::nullopt;
  if (rewriter.is_parameter(value)) return Sequence{value, 1, rewriter.shape(value)[0], true};
  const Operation* permuted = rewriter.producer(value, OpKind::transpose);
  if (permuted == nullptr || permuted->attributes.permutation != wanted) return std::nullopt;
  const ValueId split_value = strip_scale(rewriter, permuted->operands[0], scale);
  const Operation* split = rewriter.producer(split_value, OpKind::reshape);
  if (split == nullptr || rewriter.shape(split_value).size() != 3) return std::nullopt;
  const ValueId source = strip_scale(rewriter, split->operands[0], scale);
  const Shape &parts = rewriter.shape(split_value), &whole = rewriter.shape(source);
  if (whole.size() != 3 || whole[0] != parts[0] || whole[2] % parts[2] != 0 ||
      whole[1] * (whole[2] / parts[2]) != parts[1])
    return std::nullopt;
  return Sequence{source, whole[1], whole[2] / parts[2], false};
}

// [N, B, W] to [B, N, W]; a parameter [H, N, d] to [1, N, H * d].
ValueId batch_first(Rewriter& rewriter, OperationId before, const Sequence& part, const std::string& name) {
  const Shape shape = rewriter.shape(part.source);
  if (!part.is_parameter && part.batch == 1)
    return rewriter.insert(before, OpKind::reshape, name, {part.source}, {}, {1, shape[0], shape[2]});
  Attributes swap;
  swap.permutation = {1, 0, 2};
  const ValueId swapped = rewriter.insert(before, OpKind::transpose, name + ".swapped", {part.source}, swap);
  if (!part.is_parameter) return swapped;
  return rewriter.insert(before, OpKind::reshape, name, {swapped}, {}, {1, shape[1], shape[0] * shape[2]});
}

// softmax(Q K^T) V of three axes, heads and batch in the first one.
bool raise_sequence_attention(Rewriter& rewriter, OperationId id, const Operation& scores, double scale) {
  const Operation product = rewriter.operation(id);
  const std::vector<std::int64_t> heads_first{1, 0, 2}, keys_transposed{1, 2, 0};
  const auto q = sequence_of(rewriter, scores.operands[0], heads_first, scale);
  const auto k =
      sequence_of(rewriter, scores.operands[1], scores.attributes.transpose_b ? heads_first : keys_transposed, scale);
  double value_scale = 1.0;
  const auto v = sequence_of(rewriter, product.operands[1], heads_first, value_scale);
  if (!q || !k || !v || k->is_parameter || v->is_parameter || value_scale != 1.0) return false;
  if (q->batch != k->batch || k->batch != v->batch || q->heads != k->heads || k->heads != v->heads) return false;
  if (!rewriter.used_once(product.results[0])) return false;
  const OperationId back_id = rewriter.users(product.results[0])[0];
  const Operation back = rewriter.operation(back_id);
  if (back.kind != OpKind::transpose || back.attributes.permutation != heads_first) return false;
  const Shape mixed = rewriter.shape(product.results[0]);  // [B * H, N, e]
  Attributes attributes;
  attributes.heads = q->heads;
  attributes.scale = scale;
  const ValueId operands[3] = {batch_first(rewriter, back_id, *q, product.name + ".q"),
                               batch_first(rewriter, back_id, *k, product.name + ".k"),
                               batch_first(rewriter, back_id, *v, product.name + ".v")};
  ValueId y = rewriter.insert(back_id, OpKind::attention, product.name + ".attention",
                              {operands[0], operands[1], operands[2]}, attributes);
  if (q->batch > 1) {
    Attributes swap;
    swap.permutation = heads_first;
    y = rewriter.insert(back_id, OpKind::transpose, product.name + ".sequence_first", {y}, swap);
  }
  y = rewriter.insert(back_id, OpKind::reshape, product.name + ".split", {y}, {}, {mixed[1], mixed[0], mixed[2]});
  rewriter.replace_uses(back.results[0], y);
  return true;
}

}  // namespace

bool raise_attention(Rewriter& rewriter, OperationId id) {
  const Operation product = rewriter.operation(id);  // probabilities times values
  if (product.kind != OpKind::matmul || product.operands.size() != 2 || product.attributes.transpose_a ||
      product.attributes.transpose_b)
    return false;
  const Operation* softmax = rewriter.producer(product.operands[0], OpKind::softmax);
  if (softmax == nullptr) return false;
  double scale = 1.0;
  const ValueId scores_value = strip_scale(rewriter, softmax->operands[0], scale);
  const Operation* scores = rewriter.producer(scores_value, OpKind::matmul);
  if (scores == nullptr || scores->operands.size() != 2 || scores->attributes.transpose_a) return false;
  if (rewriter.shape(product.results[0]).size() == 3 && raise_sequence_attention(rewriter, id, *scores, scale))
    return true;
  const std::vector<std::int64_t> heads_first{0, 2, 1, 3}, keys_transposed{0, 2, 3, 1};
  const auto q = heads_of(rewriter, scores->operands[0], heads_first, scale);
  auto k = scores->attributes.transpose_b ? heads_of(rewriter, scores->operands[1], heads_first, scale)
                                          : heads_of(rewriter, scores->operands[1], keys_transposed, scale);
  double value_scale = 1.0;
  const auto v = heads_of(rewriter, product.operands[1], heads_first, value_scale);
  if (!q || !k || !v || value_scale != 1.0 || q->heads != k->heads || k->heads != v->heads) return false;

  // The result [B, H, N, e] must go back to [B, N, H * e]: transpose, then reshape, as the only readers.
  if (!rewriter.used_once(product.results[0])) return false;
  OperationId back_id = rewriter.users(product.results[0])[0];
  if (rewriter.operation(back_id).kind == OpKind::reshape && rewriter.shape(product.results[0]).size() == 3) {
    if (!rewriter.used_once(rewriter.operation(back_id).results[0])) return false;
    back_id = rewriter.users(rewriter.operation(back_id).results[0])[0];
  }
  const Operation back = rewriter.operation(back_id);
  if (back.kind != OpKind::transpose || back.attributes.permutation != heads_first) return false;
  Attributes attributes;
  attributes.heads = q->heads;
  attributes.scale = scale;
  // Batches that broadcast (one learned query for all) stay as they are.
  const std::array shapes{rewriter.shape(q->source), rewriter.shape(k->source), rewriter.shape(v->source)};
  if (!infer_shape({.kind = OpKind::attention, .name = product.name, .attributes = attributes}, shapes, {}))
    return false;
  const ValueId raised = rewriter.insert(back_id, OpKind::attention, product.name + ".attention",
                                         {q->source, k->source, v->source}, attributes);
  // Readers of the transposed result see it split again; their own reshape then merges with this one.
  const ValueId split =
      rewriter.insert(back_id, OpKind::reshape, product.name + ".split", {raised}, {}, rewriter.shape(back.results[0]));
  rewriter.replace_uses(back.results[0], split);
  return true;
}

}  // namespace tw::compiler
