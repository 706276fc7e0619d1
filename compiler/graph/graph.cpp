#include "compiler/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "hw/base/check.h"
#include "hw/base/random.h"

namespace tw::compiler {

std::int64_t elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::matmul: return "matmul";
    case OpKind::attention: return "attention";
    case OpKind::layer_norm: return "layer_norm";
    case OpKind::softmax: return "softmax";
    case OpKind::gelu: return "gelu";
    case OpKind::unary: return "unary";
    case OpKind::binary: return "binary";
    case OpKind::reduce: return "reduce";
    case OpKind::reshape: return "reshape";
    case OpKind::transpose: return "transpose";
    case OpKind::slice: return "slice";
    case OpKind::concat: return "concat";
    case OpKind::expand: return "expand";
    case OpKind::repeat: return "repeat";
  }
  return "unknown";
}

const char* name_of(Unary function) {
  switch (function) {
    case Unary::relu: return "relu";
    case Unary::tanh: return "tanh";
    case Unary::sigmoid: return "sigmoid";
    case Unary::exp: return "exp";
    case Unary::sqrt: return "sqrt";
    case Unary::erf: return "erf";
    case Unary::negate: return "negate";
    case Unary::absolute: return "absolute";
    case Unary::reciprocal: return "reciprocal";
    case Unary::log: return "log";
  }
  return "unknown";
}

const char* name_of(Binary function) {
  switch (function) {
    case Binary::add: return "add";
    case Binary::subtract: return "subtract";
    case Binary::multiply: return "multiply";
    case Binary::divide: return "divide";
    case Binary::power: return "power";
    case Binary::maximum: return "maximum";
    case Binary::minimum: return "minimum";
  }
  return "unknown";
}

const char* name_of(Reduction function) {
  switch (function) {
    case Reduction::sum: return "sum";
    case Reduction::mean: return "mean";
    case Reduction::maximum: return "maximum";
  }
  return "unknown";
}

namespace {

class DenseSource final : public TensorSource {
 public:
  explicit DenseSource(std::vector<float> values) : values_(std::move(values)) {}
  Status read(std::span<float> out) const override {
    TW_CHECK(out.size() == values_.size(), "reads {} of {} elements", out.size(), values_.size());
    std::copy(values_.begin(), values_.end(), out.begin());
    return {};
  }
  std::optional<float> uniform() const override {
    if (values_.empty()) return std::nullopt;
    const bool same = std::all_of(values_.begin(), values_.end(), [&](float v) { return v == values_.front(); });
    return same ? std::optional(values_.front()) : std::nullopt;
  }

 private:
  std::vector<float> values_;
};

class UniformSource final : public TensorSource {
 public:
  explicit UniformSource(float value) : value_(value) {}
  Status read(std::span<float> out) const override {
    std::fill(out.begin(), out.end(), value_);
    return {};
  }
  std::optional<float> uniform() const override { return value_; }

 private:
  float value_;
};

class NormalSource final : public TensorSource {
 public:
  NormalSource(std::uint64_t stream, float mean, float deviation)
      : stream_(stream), mean_(mean), deviation_(deviation) {}
  Status read(std::span<float> out) const override {
    fill_normal(stream_, 0, mean_, deviation_, out);
    return {};
  }

 private:
  std::uint64_t stream_;
  float mean_, deviation_;
};

class ComputedSource final : public TensorSource {
 public:
  using Compute = std::function<void(std::span<const std::vector<float>>, std::span<float>)>;
  ComputedSource(std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs, Compute compute)
      : inputs_(std::move(inputs)), compute_(std::move(compute)) {}
  Status read(std::span<float> out) const override {
    std::vector<std::vector<float>> values;
    for (const auto& [source, elements] : inputs_) {
      values.emplace_back(static_cast<std::size_t>(elements));
      TW_TRY_STATUS(source->read(values.back()));
    }
    compute_(values, out);
    return {};
  }

 private:
  std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs_;
  Compute compute_;
};

class KeptSource final : public TensorSource {
 public:
  KeptSource(TensorSourcePtr source, std::int64_t elements)
      : source_(std::move(source)), elements_(static_cast<std::size_t>(elements)) {}
  Status read(std::span<float> out) const override {
    const std::scoped_lock lock(mutex_);
    if (values_.empty()) {
      std::vector<float> values(elements_);
      TW_TRY_STATUS(source_->read(values));
      values_ = std::move(values);
    }
    std::copy(values_.begin(), values_.end(), out.begin());
    return {};
  }

 private:
  TensorSourcePtr source_;
  std::size_t elements_;
  mutable std::mutex mutex_;
  mutable std::vector<float> values_;
};

std::int64_t count_of(const Graph& graph, const Region& region,
                      const std::function<std::int64_t(const Operation&)>& of) {
  std::int64_t total = 0;
  for (const OperationId id : region.operations) {
    const Operation& operation = graph.operation(id);
    total += operation.kind == OpKind::repeat
                 ? operation.attributes.count * count_of(graph, graph.regions[operation.body], of)
                 : of(operation);
  }
  return total;
}

}  // namespace

TensorSourcePtr dense_source(std::vector<float> values) { return std::make_shared<DenseSource>(std::move(values)); }
TensorSourcePtr uniform_source(float value, std::int64_t) { return std::make_shared<UniformSource>(value); }
TensorSourcePtr normal_source(std::uint64_t stream, float mean, float deviation, std::int64_t) {
  return std::make_shared<NormalSource>(stream, mean, deviation);
}
TensorSourcePtr computed_source(std::vector<std::pair<TensorSourcePtr, std::int64_t>> inputs, std::int64_t,
                                std::function<void(std::span<const std::vector<float>>, std::span<float>)> compute) {
  return std::make_shared<ComputedSource>(std::move(inputs), std::move(compute));
}

TensorSourcePtr kept_source(TensorSourcePtr source, std::int64_t elements) {
  return std::make_shared<KeptSource>(std::move(source), elements);
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t total = 0;
  for (const Value& value : graph.values)
    if (value.is_parameter()) total += elements_of(value.shape);
  return total;
}

std::int64_t multiply_adds(const Graph& graph) {
  return count_of(graph, graph.main(), [&](const Operation& operation) -> std::int64_t {
    if (operation.kind == OpKind::matmul) {
      const Shape& a = graph.value(operation.operands[0]).shape;
      const std::int64_t inner = operation.attributes.transpose_a && a.size() > 1 ? a[a.size() - 2] : a.back();
      return elements_of(graph.value(operation.results[0]).shape) * inner;
    }
    if (operation.kind == OpKind::attention) {
      const Shape& q = graph.value(operation.operands[0]).shape;
      const Shape& k = graph.value(operation.operands[1]).shape;
      const Shape& v = graph.value(operation.operands[2]).shape;
      return q[0] * q[1] * k[1] * (q[2] + v[2]);
    }
    return 0;
  });
}

}  // namespace tw::compiler
