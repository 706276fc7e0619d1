// compiler/canonical/constant_queries.cpp: attention whose queries are constants (a learned probe), re-associated.
// Per head: softmax(q (X Wk + bk)^T) (X Wv + bv) = softmax((q Wk^T) X^T) X Wv + bv: q Wk^T is a constant of one row a
// query and head, bk adds one number to a row of scores, and probabilities sum to one. Neither keys nor values of all
// tokens are made.
#include <algorithm>
#include <numeric>

#include "compiler/canonical/rewrites.h"

namespace tw::compiler {
namespace {

struct Pooling {
  Operation attention;
  Operation keys, values;                                                                     // their products
  std::int64_t batch = 0, queries = 0, tokens = 0, heads = 0, width = 0, key = 0, value = 0;  // key, value: of a head
};

const Operation* plain_projection(const Rewriter& rewriter, ValueId id) {
  const Operation* made = rewriter.producer(id, OpKind::matmul);
  const bool plain = made != nullptr && rewriter.used_once(id) && !made->attributes.transpose_a &&
                     !made->attributes.transpose_b && rewriter.is_parameter(made->operands[1]) &&
                     rewriter.shape(made->operands[1]).size() == 2 && rewriter.shape(made->operands[0]).size() == 3 &&
                     (made->operands.size() < 3 || rewriter.is_parameter(made->operands[2]));
  return plain ? made : nullptr;
}

// Every sample of the batch asks the same.
bool equal_rows(const Rewriter& rewriter, ValueId queries, std::int64_t batch) {
  if (batch == 1) return true;
  std::vector<float> numbers(static_cast<std::size_t>(elements_of(rewriter.shape(queries))));
  if (!rewriter.graph().value(queries).source->read(numbers)) return false;
  const std::size_t row = numbers.size() / static_cast<std::size_t>(batch);
  return std::equal(numbers.begin() + static_cast<std::ptrdiff_t>(row), numbers.end(), numbers.begin());
}

std::optional<Pooling> pooling_of(const Rewriter& rewriter, OperationId id) {
  const Operation& attention = rewriter.operation(id);
  if (attention.kind != OpKind::attention || attention.attributes.causal ||
      !rewriter.is_parameter(attention.operands[0]))
    return std::nullopt;
  const Operation *keys = plain_projection(rewriter, attention.operands[1]),
                  *values = plain_projection(rewriter, attention.operands[2]);
  if (keys == nullptr || values == nullptr) return std::nullopt;
  const Shape &q = rewriter.shape(attention.operands[0]), &k = rewriter.shape(attention.operands[1]),
              &v = rewriter.shape(attention.operands[2]);
  const std::int64_t heads = attention.attributes.heads;
  Pooling found{attention,    *keys,       *values, k[0], q[1], k[1], heads, rewriter.shape(keys->operands[0])[2],
                k[2] / heads, v[2] / heads};
  if (rewriter.shape(values->operands[0])[2] != found.width || !equal_rows(rewriter, attention.operands[0], q[0]))
    return std::nullopt;
  const std::int64_t rows = found.heads * found.queries;  // one score a token each
  const std::int64_t before = found.batch * found.tokens * (found.width + rows / heads) * (k[2] + v[2]);
  const std::int64_t after = found.batch * rows * found.width * (2 * found.tokens + v[2]);
  return after < before ? std::optional(found) : std::nullopt;
}

// scale * q_h Wk_h^T for every head h and query: [H * Nq, W].
TensorSourcePtr folded_queries(const Rewriter& rewriter, const Pooling& pooling) {
  const std::int64_t width = pooling.width, heads = pooling.heads, queries = pooling.queries, key = pooling.key,
                     elements = width * heads * queries;
  const double scale = pooling.attention.attributes.scale;
  const ValueId q = pooling.attention.operands[0], weights = pooling.keys.operands[1];
  TensorSourcePtr made = computed_source(
      {{rewriter.graph().value(q).source, elements_of(rewriter.shape(q))},
       {rewriter.graph().value(weights).source, width * heads * key}},
      elements, [=](std::span<const std::vector<float>> in, std::span<float> out) {
        for (std::int64_t head = 0; head < heads; ++head)
          for (std::int64_t query = 0; query < queries; ++query)
            for (std::int64_t w = 0; w < width; ++w) {
              const float* row = &in[0][(query * heads + head) * key];
              const double sum = std::inner_product(row, row + key, &in[1][(w * heads + head) * key], 0.0);
              out[(head * queries + query) * width + w] = static_cast<float>(scale * sum);
            }
      });
  return kept_source(std::move(made), elements);
}

// [H * Nq, H * e]: 1 where a column belongs to the row's head.
TensorSourcePtr own_columns(std::int64_t heads, std::int64_t queries, std::int64_t value) {
  std::vector<float> mask(static_cast<std::size_t>(heads * queries * heads * value), 0.0F);
  for (std::int64_t row = 0; row < heads * queries; ++row)
    std::fill_n(mask.begin() + (row * heads + row / queries) * value, value, 1.0F);
  return dense_source(std::move(mask));
}

// [Nq, H * Nq]: 1 where a column is the row's query, of any head.
TensorSourcePtr sum_of_heads(std::int64_t heads, std::int64_t queries) {
  std::vector<float> ones(static_cast<std::size_t>(heads * queries * queries), 0.0F);
  for (std::int64_t query = 0; query < queries; ++query)
    for (std::int64_t head = 0; head < heads; ++head) ones[query * heads * queries + head * queries + query] = 1.0F;
  return dense_source(std::move(ones));
}

}  // namespace

bool reassociate_constant_queries(Rewriter& rewriter, OperationId id) {
  const std::optional<Pooling> found = pooling_of(rewriter, id);
  if (!found) return false;
  const Pooling& p = *found;
  const std::string& name = p.attention.name;
  const std::int64_t rows = p.heads * p.queries, columns = p.heads * p.value;

  const ValueId folded = rewriter.add_parameter(name + ".queries", {1, rows, p.width}, folded_queries(rewriter, p));
  const ValueId scores = rewriter.insert(id, OpKind::matmul, name + ".scores", {folded, p.keys.operands[0]},
                                         {.transpose_b = true});  // [B, H * Nq, N]
  const ValueId probabilities = rewriter.insert(id, OpKind::softmax, name + ".softmax", {scores});
  const ValueId pooled =
      rewriter.insert(id, OpKind::matmul, name + ".pool", {probabilities, p.values.operands[0]});  // [B, H * Nq, W]
  // All heads' columns of every row, of which a row's own head is kept.
  const ValueId all = rewriter.insert(id, OpKind::matmul, name + ".values", {pooled, p.values.operands[1]});
  const ValueId mask =
      rewriter.add_parameter(name + ".own_columns", {rows, columns}, own_columns(p.heads, p.queries, p.value));
  const ValueId own = rewriter.insert(id, OpKind::binary, name + ".own", {all, mask}, {.binary = Binary::multiply});
  const ValueId ones = rewriter.add_parameter(name + ".heads", {1, p.queries, rows}, sum_of_heads(p.heads, p.queries));
  ValueId y = rewriter.insert(id, OpKind::matmul, name + ".joined", {ones, own});  // [B, Nq, H * e]
  if (p.values.operands.size() > 2)
    y = rewriter.insert(id, OpKind::binary, name + ".biased", {y, p.values.operands[2]}, {.binary = Binary::add});
  rewriter.replace_uses(p.attention.results[0], y);
  return true;
}

}  // namespace tw::compiler
