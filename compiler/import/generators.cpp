// compiler/import/generators.cpp: built-in models, written as the graphs that an import of their ONNX form gives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/canonical/canonical.h"
#include "compiler/graph/builder.h"
#include "compiler/import/import.h"
#include "hw/base/random.h"
#include "hw/base/text.h"

namespace tw::compiler {
namespace {

using Options = std::map<std::string, std::int64_t>;

struct Generator {
  const char* name;
  const char* summary;
  std::vector<std::pair<std::string, std::int64_t>> defaults;
  void (*make)(GraphBuilder&, const Options&);
};

// Parameters by name, drawn from their own stream of the seed.
class Parameters {
 public:
  Parameters(GraphBuilder& builder, std::int64_t seed) : builder_(builder), seed_(static_cast<std::uint64_t>(seed)) {}
  ValueId normal(const std::string& name, const Shape& shape, double deviation, double mean = 0.0) {
    return builder_.parameter(name, shape,
                              normal_source(stream_seed(seed_, name), static_cast<float>(mean),
                                            static_cast<float>(deviation), elements_of(shape)));
  }
  ValueId weight(const std::string& name, std::int64_t inner, std::int64_t columns) {
    return normal(name, {inner, columns}, 1.0 / std::sqrt(static_cast<double>(inner)));
  }
  ValueId bias(const std::string& name, std::int64_t columns) { return normal(name, {columns}, 0.02); }

 private:
  GraphBuilder& builder_;
  std::uint64_t seed_;
};

ValueId linear(GraphBuilder& g, Parameters& p, const std::string& name, ValueId x, std::int64_t inner,
               std::int64_t columns) {
  return g.matmul(name, x, p.weight(name + ".weight", inner, columns), p.bias(name + ".bias", columns));
}

ValueId layer_norm(GraphBuilder& g, Parameters& p, const std::string& name, ValueId x, std::int64_t width) {
  constexpr double epsilon = 1e-6;
  return g.layer_norm(name, x, p.normal(name + ".weight", {width}, 0.1, 1.0), p.normal(name + ".bias", {width}, 0.02),
                      epsilon);
}

// Self attention with separate projections; canonicalisation merges them.
ValueId self_attention(GraphBuilder& g, Parameters& p, const std::string& name, ValueId x, std::int64_t width,
                       std::int64_t heads) {
  const ValueId q = linear(g, p, name + ".q", x, width, width);
  const ValueId k = linear(g, p, name + ".k", x, width, width);
  const ValueId v = linear(g, p, name + ".v", x, width, width);
  const ValueId o =
      g.attention(name + ".attention", q, k, v, heads, 1.0 / std::sqrt(static_cast<double>(width / heads)));
  return linear(g, p, name + ".out", o, width, width);
}

ValueId mlp(GraphBuilder& g, Parameters& p, const std::string& name, ValueId x, std::int64_t width, std::int64_t hidden,
            std::int64_t outputs) {
  const ValueId up = linear(g, p, name + ".up", x, width, hidden);
  return linear(g, p, name + ".down", g.gelu(name + ".gelu", up, true), hidden, outputs);
}

ValueId encoder_layer(GraphBuilder& g, Parameters& p, const std::string& name, ValueId x, std::int64_t width,
                      std::int64_t heads, std::int64_t hidden) {
  const ValueId attention = self_attention(g, p, name, layer_norm(g, p, name + ".norm1", x, width), width, heads);
  const ValueId middle = g.binary(name + ".residual1", Binary::add, x, attention);
  const ValueId dense =
      mlp(g, p, name + ".mlp", layer_norm(g, p, name + ".norm2", middle, width), width, hidden, width);
  return g.binary(name + ".residual2", Binary::add, middle, dense);
}

void make_gemm(GraphBuilder& g, const Options& o) {
  Parameters p(g, o.at("seed"));
  const ValueId x = g.input("x", {o.at("rows"), o.at("inner")});
  g.output("y", g.matmul("gemm", x, p.weight("gemm.weight", o.at("inner"), o.at("columns"))));
}

void make_mlp(GraphBuilder& g, const Options& o) {
  Parameters p(g, o.at("seed"));
  const ValueId x = g.input("x", {o.at("rows"), o.at("inputs")});
  g.output("y", mlp(g, p, "mlp", x, o.at("inputs"), o.at("hidden"), o.at("outputs")));
}

void make_attention(GraphBuilder& g, const Options& o) {
  Parameters p(g, o.at("seed"));
  const ValueId x = g.input("x", {o.at("batch"), o.at("tokens"), o.at("width")});
  g.output("y", self_attention(g, p, "self", x, o.at("width"), o.at("heads")));
}

void make_encoder(GraphBuilder& g, const Options& o) {
  Parameters p(g, o.at("seed"));
  ValueId x = g.input("x", {o.at("batch"), o.at("tokens"), o.at("width")});
  for (std::int64_t layer = 0; layer < o.at("layers"); ++layer)
    x = encoder_layer(g, p, fmt::format("layers.{}", layer), x, o.at("width"), o.at("heads"), o.at("mlp"));
  g.output("y", x);
}

// Learned queries that look at all tokens through one attention, as in the head of a vision tower.
void make_pooling(GraphBuilder& g, const Options& o) {
  const std::int64_t width = o.at("width"), heads = o.at("heads"), batch = o.at("batch"), queries = o.at("queries");
  Parameters p(g, o.at("seed"));
  const ValueId x = layer_norm(g, p, "norm", g.input("x", {batch, o.at("tokens"), width}), width);
  const ValueId probe = g.expand("probes", p.normal("probe", {1, queries, width}, 1.0), {batch, queries, width});
  const ValueId q = linear(g, p, "q", probe, width, width);
  const ValueId k = linear(g, p, "k", x, width, width), v = linear(g, p, "v", x, width, width);
  const ValueId y = g.attention("attention", q, k, v, heads, 1.0 / std::sqrt(static_cast<double>(width / heads)));
  g.output("y", linear(g, p, "out", y, width, width));
}

// The So400m/14 vision tower at 384 pixels: 27 x 27 patches of 14 x 14 x 3 (the last six pixels are not read), and the
// attention-pooling head with one learned query.
void make_siglip(GraphBuilder& g, const Options& o) {
  constexpr std::int64_t width = 1152, hidden = 4304, heads = 16, side = 27, patch = 14, pixels = 384, channels = 3;
  constexpr std::int64_t tokens = side * side, read = side * patch, patch_values = channels * patch * patch;
  const std::int64_t batch = o.at("batch");
  Parameters p(g, o.at("seed"));
  ValueId x = g.input("pixel_values", {batch, channels, pixels, pixels});
  x = g.slice("stem.crop", x, {0, 0, 0, 0}, {1, 1, 1, 1}, {batch, channels, read, read});
  x = g.reshape("stem.grid", x, {batch, channels, side, patch, side, patch});
  x = g.transpose("stem.patches", x, {0, 2, 4, 1, 3, 5});
  x = g.reshape("stem.tokens", x, {batch, tokens, patch_values});
  x = g.matmul("stem.patch", x, p.normal("stem.patch.weight", {patch_values, width}, 0.04),
               p.bias("stem.patch.bias", width));
  x = g.binary("stem.position", Binary::add, x, p.normal("stem.position.weight", {1, tokens, width}, 0.05));
  for (std::int64_t layer = 0; layer < o.at("layers"); ++layer)
    x = encoder_layer(g, p, fmt::format("layers.{}", layer), x, width, heads, hidden);
  x = layer_norm(g, p, "norm", x, width);
  g.output("last_hidden_state", x);

  const ValueId probe = g.expand("head.probes", p.normal("head.probe", {1, 1, width}, 1.0), {batch, 1, width});
  const ValueId q = linear(g, p, "head.q", probe, width, width);
  const ValueId k = linear(g, p, "head.k", x, width, width);
  const ValueId v = linear(g, p, "head.v", x, width, width);
  ValueId y = g.attention("head.attention", q, k, v, heads, 1.0 / std::sqrt(static_cast<double>(width / heads)));
  y = linear(g, p, "head.out", y, width, width);
  const ValueId dense = mlp(g, p, "head.mlp", layer_norm(g, p, "head.norm", y, width), width, hidden, width);
  y = g.binary("head.residual", Binary::add, y, dense);
  g.output("pooler_output", g.reshape("head.pool", y, {batch, width}));
}

const std::vector<Generator>& generators() {
  static const std::vector<Generator> list{
      {"siglip-so400m",
       "SigLIP So400m/14 vision tower at 384 pixels, random weights",
       {{"layers", 27}, {"batch", 1}, {"seed", 0}},
       make_siglip},
      {"gemm", "one matmul", {{"rows", 64}, {"inner", 128}, {"columns", 96}, {"seed", 0}}, make_gemm},
      {"mlp",
       "two linear layers with a tanh GELU",
       {{"rows", 48}, {"inputs", 64}, {"hidden", 128}, {"outputs", 32}, {"seed", 0}},
       make_mlp},
      {"attention",
       "self attention with projections",
       {{"tokens", 128}, {"width", 144}, {"heads", 2}, {"batch", 1}, {"seed", 0}},
       make_attention},
      {"pooling",
       "attention pooling: learned queries over all tokens",
       {{"tokens", 50}, {"width", 96}, {"heads", 4}, {"queries", 1}, {"batch", 1}, {"seed", 0}},
       make_pooling},
      {"encoder",
       "transformer encoder layers",
       {{"layers", 2}, {"tokens", 50}, {"width", 144}, {"heads", 2}, {"mlp", 288}, {"batch", 1}, {"seed", 0}},
       make_encoder},
  };
  return list;
}

const Generator* find_generator(std::string_view name) {
  for (const Generator& generator : generators())
    if (name == generator.name) return &generator;
  return nullptr;
}

Result<Options> options_of(const Generator& generator, const std::string& spec, const std::string& text,
                           const ImportOptions& import) {
  Options options(generator.defaults.begin(), generator.defaults.end());
  if (import.seed != 0) options["seed"] = import.seed;
  if (import.batch > 0) {
    if (!options.contains("batch"))
      return fail(ErrorKind::usage, fmt::format("\"{}\" has no batch; leave --batch out", spec), {{"model", spec}});
    options["batch"] = import.batch;
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : generator.defaults) names.push_back(name);
  for (const std::string& item : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string name(trim(item.substr(0, equals)));
    if (!options.contains(name))
      return fail(ErrorKind::usage,
                  fmt::format("model \"{}\": option \"{}\" is not known{}; options: {}", spec, name,
                              did_you_mean(name, names), join(names, ", ")),
                  {{"model", spec}});
    const std::string number(equals == std::string::npos ? "" : trim(item.substr(equals + 1)));
    char* end = nullptr;
    const long long value = std::strtoll(number.c_str(), &end, 10);
    constexpr long long largest = 1 << 24;
    const bool seed = name == "seed";
    if (number.empty() || *end != '\0' || value < (seed ? 0 : 1) || value > (seed ? (1LL << 62) : largest))
      return fail(ErrorKind::usage,
                  fmt::format("model \"{}\": {} is \"{}\"; a whole number from {} to {} is allowed", spec, name, number,
                              seed ? 0 : 1, with_separators(largest)),
                  {{"model", spec}});
    options[name] = value;
  }
  if (options.contains("heads") && options.contains("width") && options["width"] % options["heads"] != 0)
    return fail(
        ErrorKind::usage,
        fmt::format("model \"{}\": width {} is not a multiple of {} heads", spec, options["width"], options["heads"]),
        {{"model", spec}});
  return options;
}

}  // namespace

bool is_generator(const std::string& model) { return find_generator(model.substr(0, model.find(':'))) != nullptr; }

std::vector<GeneratorInfo> list_generators() {
  std::vector<GeneratorInfo> list;
  for (const Generator& generator : generators()) {
    GeneratorInfo info{generator.name, generator.summary, {}};
    for (const auto& [name, value] : generator.defaults) info.options.emplace_back(name, std::to_string(value));
    list.push_back(std::move(info));
  }
  return list;
}

Result<Graph> generate(const std::string& spec, const ImportOptions& options) {
  const std::size_t colon = spec.find(':');
  const Generator* generator = find_generator(spec.substr(0, colon));
  if (generator == nullptr)
    return fail(ErrorKind::usage, fmt::format("model \"{}\" is no generator", spec), {{"model", spec}});
  TW_TRY(const Options values,
         options_of(*generator, spec, colon == std::string::npos ? "" : spec.substr(colon + 1), options));
  GraphBuilder builder(spec);
  generator->make(builder, values);
  Graph graph = std::move(builder).finish();
  if (!options.canonicalise) return graph;
  return canonicalise(std::move(graph), options.without);
}

}  // namespace tw::compiler
