// compiler/graph/text.cpp: the text form of a graph.
//
//   graph "name"
//   input %x [2,3]
//   parameter %w [3,4] uniform 0.5
//   region 1 (%a [2,3], %b [3,4]) {
//     %t = binary "add" (%a, %a) function=add
//     return %t
//   }
//   %y = matmul "gemm" (%x, %w) transpose_b=1 -> [2,4]
//   output "y" %y
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "compiler/graph/graph.h"
#include "hw/base/text.h"

namespace tw::compiler {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

std::string list(const std::vector<std::int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }

// Only what differs from the defaults is printed, so that texts stay short and new attributes change no old text.
std::string attributes_text(const Operation& operation) {
  const Attributes &a = operation.attributes, defaults;
  std::string text;
  const auto put = [&](const char* name, const std::string& value) { text += fmt::format(" {}={}", name, value); };
  if (a.transpose_a) put("transpose_a", "1");
  if (a.transpose_b) put("transpose_b", "1");
  if (operation.kind == OpKind::attention) {
    put("heads", std::to_string(a.heads));
    put("scale", fmt::format("{}", a.scale));
    if (a.causal) put("causal", "1");
  }
  if (operation.kind == OpKind::layer_norm) put("epsilon", fmt::format("{}", a.epsilon));
  if (operation.kind == OpKind::gelu) put("tanh", a.gelu_tanh ? "1" : "0");
  if (operation.kind == OpKind::unary) put("function", name_of(a.unary));
  if (operation.kind == OpKind::binary) put("function", name_of(a.binary));
  if (operation.kind == OpKind::reduce) {
    put("function", name_of(a.reduction));
    put("axes", list(a.axes));
    put("keep_dims", a.keep_dims ? "1" : "0");
  }
  if (operation.kind == OpKind::transpose) put("permutation", list(a.permutation));
  if (operation.kind == OpKind::slice) {
    put("starts", list(a.starts));
    put("steps", list(a.steps));
  }
  if (operation.kind == OpKind::concat) put("axis", std::to_string(a.axis));
  if (operation.kind == OpKind::repeat) {
    put("count", std::to_string(a.count));
    put("region", std::to_string(operation.body));
    put("carried", std::to_string(operation.carried));
  }
  return text;
}

// Numbers that the text does not hold: zeros, but not known to be one value, so that they print as they came.
class AbsentSource final : public TensorSource {
 public:
  Status read(std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0F);
    return {};
  }
};

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string run() {
    text_ = fmt::format("graph {}\n", quoted(graph_.name));
    for (const ValueId id : graph_.main().arguments) text_ += fmt::format("input {} {}\n", name(id), shape(id));
    for (std::size_t index = 0; index < graph_.values.size(); ++index) {
      const Value& value = graph_.values[index];
      if (!value.is_parameter()) continue;
      const std::optional<float> uniform = value.source->uniform();
      text_ += fmt::format("parameter {} {}{}\n", quoted(value.name), to_string(value.shape),
                           uniform ? fmt::format(" uniform {}", *uniform) : "");
    }
    for (std::size_t index = 1; index < graph_.regions.size(); ++index) {
      text_ += fmt::format("region {} (", index);
      for (std::size_t at = 0; at < graph_.regions[index].arguments.size(); ++at)
        text_ += fmt::format("{}{} {}", at ? ", " : "", name(graph_.regions[index].arguments[at]),
                             shape(graph_.regions[index].arguments[at]));
      text_ += ") {\n";
      operations(graph_.regions[index], "  ");
      text_ += fmt::format("  return {}\n}}\n", names(graph_.regions[index].results));
    }
    operations(graph_.main(), "");
    for (std::size_t index = 0; index < graph_.main().results.size(); ++index)
      text_ += fmt::format("output {} {}\n", quoted(graph_.output_names[index]), name(graph_.main().results[index]));
    return std::move(text_);
  }

 private:
  std::string name(ValueId id) const { return quoted(graph_.value(id).name); }
  std::string shape(ValueId id) const { return to_string(graph_.value(id).shape); }
  std::string names(const std::vector<ValueId>& ids) const {
    std::string text;
    for (const ValueId id : ids) text += (text.empty() ? "" : ", ") + name(id);
    return text;
  }

  void operations(const Region& region, const char* indent) {
    for (const OperationId id : region.operations) {
      const Operation& operation = graph_.operation(id);
      text_ += fmt::format("{}{} = {} {} ({})", indent, names(operation.results), name_of(operation.kind),
                           quoted(operation.name), names(operation.operands));
      text_ += attributes_text(operation);
      for (const auto& sequence : operation.sequences) text_ += fmt::format(" sequence=({})", names(sequence));
      text_ += " ->";
      for (const ValueId result : operation.results) text_ += " " + shape(result);
      text_ += "\n";
    }
  }

  const Graph& graph_;
  std::string text_;
};

class Parser {
 public:
  Parser(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<Graph> run() {
    graph_.regions.emplace_back();
    while (skip_space(), at_ < text_.size()) {
      const Status status = statement();
      if (!status) return tl::unexpected(status.error());
    }
    const std::vector<Violation> broken = verify(graph_);
    if (!broken.empty())
      return fail(ErrorKind::bad_input, fmt::format("{}: {}: {}", file_, broken[0].rule, broken[0].message),
                  {{"file", file_}});
    return std::move(graph_);
  }

 private:
  tl::unexpected<Error> bad(const std::string& what) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n');
    return fail(ErrorKind::bad_input, fmt::format("{}:{}: {}", file_, line, what),
                {{"file", file_}, {"line", std::to_string(line)}});
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '-' || text_[at_] == '.' || text_[at_] == '+'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Result<std::string> string() {
    if (!accept("\"")) return bad("a quoted name is expected");
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      result += text_[at_++];
    }
    if (at_ == text_.size()) return bad("a quoted name has no end");
    ++at_;
    return result;
  }
  Result<std::vector<std::int64_t>> integers() {
    if (!accept("[")) return bad("\"[\" is expected");
    std::vector<std::int64_t> values;
    while (!accept("]")) {
      const std::string digits = word();
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc{} || digits.empty() || end != digits.data() + digits.size())
        return bad("a whole number is expected");
      values.push_back(value);
      accept(",");
    }
    return values;
  }
  Result<ValueId> known() {
    TW_TRY(const std::string name, string());
    const auto found = values_.find(name);
    if (found == values_.end()) return bad(fmt::format("value \"{}\" is not known here", name));
    return found->second;
  }
  Result<ValueId> make(const std::string& name, Shape shape, TensorSourcePtr source = nullptr) {
    constexpr std::int64_t most_elements = std::int64_t{1} << 40;
    std::int64_t elements = 1;
    for (const std::int64_t dim : shape) {
      if (dim < 1 || elements > most_elements / dim)
        return bad(fmt::format("value \"{}\" has a shape of {}", name, to_string(shape)));
      elements *= dim;
    }
    graph_.values.push_back({name, std::move(shape), std::move(source)});
    const ValueId id{static_cast<std::uint32_t>(graph_.values.size()) - 1};
    if (!values_.try_emplace(name, id).second) return bad(fmt::format("value \"{}\" is there twice", name));
    return id;
  }

  Status statement() {
    if (accept("graph ")) {
      TW_TRY(graph_.name, string());
    } else if (accept("input ")) {
      TW_TRY(const std::string name, string());
      TW_TRY(Shape shape, integers());
      TW_TRY(const ValueId id, make(name, std::move(shape)));
      graph_.regions[0].arguments.push_back(id);
    } else if (accept("parameter ")) {
      TW_TRY(const std::string name, string());
      TW_TRY(Shape shape, integers());
      const bool uniform = accept("uniform");
      const float value = uniform ? std::strtof(word().c_str(), nullptr) : 0.0F;
      TW_TRY(const ValueId id, make(name, std::move(shape)));
      const std::int64_t elements = elements_of(graph_.value(id).shape);
      graph_.value(id).source = uniform ? uniform_source(value, elements) : std::make_shared<AbsentSource>();
    } else if (accept("output ")) {
      TW_TRY(const std::string name, string());
      TW_TRY(const ValueId id, known());
      graph_.output_names.push_back(name);
      graph_.regions[0].results.push_back(id);
    } else if (accept("region ")) {
      TW_TRY_STATUS(region());
    } else {
      TW_TRY_STATUS(operation(0));
    }
    return {};
  }

  Status region() {
    word();
    const std::size_t index = graph_.regions.size();
    graph_.regions.emplace_back();
    if (!accept("(")) return bad("\"(\" is expected");
    while (!accept(")")) {
      TW_TRY(const std::string name, string());
      TW_TRY(Shape shape, integers());
      TW_TRY(const ValueId id, make(name, std::move(shape)));
      graph_.regions[index].arguments.push_back(id);
      accept(",");
    }
    if (!accept("{")) return bad("\"{\" is expected");
    while (!accept("return")) {
      if (at_ >= text_.size()) return bad("a region has no end");
      TW_TRY_STATUS(operation(index));
    }
    while (!accept("}")) {
      TW_TRY(const ValueId id, known());
      graph_.regions[index].results.push_back(id);
      accept(",");
    }
    return {};
  }

  Status operation(std::size_t region) {
    Operation made;
    std::vector<std::string> results;
    do {
      TW_TRY(std::string name, string());
      results.push_back(std::move(name));
    } while (accept(","));
    if (!accept("=")) return bad("\"=\" is expected");
    const std::string kind = word();
    bool found = false;
    for (int index = 0; index < op_kinds; ++index)
      if (kind == name_of(static_cast<OpKind>(index))) {
        made.kind = static_cast<OpKind>(index);
        found = true;
      }
    if (!found) return bad(fmt::format("operation \"{}\" is not known", kind));
    TW_TRY(made.name, string());
    if (!accept("(")) return bad("\"(\" is expected");
    while (!accept(")")) {
      TW_TRY(const ValueId id, known());
      made.operands.push_back(id);
      accept(",");
    }
    while (!accept("->")) {
      const std::string key = word();
      if (key.empty() || !accept("=")) return bad("an attribute or \"->\" is expected");
      TW_TRY_STATUS(attribute(made, key));
    }
    for (const std::string& name : results) {
      TW_TRY(Shape shape, integers());
      TW_TRY(const ValueId id, make(name, std::move(shape)));
      made.results.push_back(id);
    }
    graph_.operations.push_back(std::move(made));
    graph_.regions[region].operations.push_back({static_cast<std::uint32_t>(graph_.operations.size()) - 1});
    return {};
  }

  template <class Enum>
  Status function(Enum& into, int count) {
    const std::string name = word();
    for (int index = 0; index < count; ++index)
      if (name == name_of(static_cast<Enum>(index))) {
        into = static_cast<Enum>(index);
        return {};
      }
    return bad(fmt::format("function \"{}\" is not known", name));
  }

  Status attribute(Operation& made, const std::string& key) {
    Attributes& a = made.attributes;
    if (key == "sequence") {
      if (!accept("(")) return bad("\"(\" is expected");
      std::vector<ValueId> members;
      while (!accept(")")) {
        TW_TRY(const ValueId id, known());
        members.push_back(id);
        accept(",");
      }
      made.sequences.push_back(std::move(members));
      return {};
    }
    if (key == "function") {
      if (made.kind == OpKind::unary) return function(a.unary, 10);
      if (made.kind == OpKind::binary) return function(a.binary, 7);
      return function(a.reduction, 3);
    }
    for (const auto& [name, values] : std::initializer_list<std::pair<const char*, std::vector<std::int64_t>*>>{
             {"axes", &a.axes}, {"permutation", &a.permutation}, {"starts", &a.starts}, {"steps", &a.steps}}) {
      if (key != name) continue;
      TW_TRY(*values, integers());
      return {};
    }
    const std::string number = word();
    const double value = std::strtod(number.c_str(), nullptr);
    if (key == "transpose_a")
      a.transpose_a = value != 0;
    else if (key == "transpose_b")
      a.transpose_b = value != 0;
    else if (key == "heads")
      a.heads = static_cast<std::int64_t>(value);
    else if (key == "scale")
      a.scale = value;
    else if (key == "causal")
      a.causal = value != 0;
    else if (key == "epsilon")
      a.epsilon = value;
    else if (key == "tanh")
      a.gelu_tanh = value != 0;
    else if (key == "keep_dims")
      a.keep_dims = value != 0;
    else if (key == "axis")
      a.axis = static_cast<std::int64_t>(value);
    else if (key == "count")
      a.count = static_cast<std::int64_t>(value);
    else if (key == "region")
      made.body = static_cast<std::int32_t>(value);
    else if (key == "carried")
      made.carried = static_cast<std::int32_t>(value);
    else
      return bad(fmt::format("attribute \"{}\" is not known", key));
    return {};
  }

  const std::string& text_;
  std::string file_;
  std::size_t at_ = 0;
  Graph graph_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).run(); }

Result<Graph> parse_graph(const std::string& text, const std::string& file) { return Parser(text, file).run(); }

}  // namespace tw::compiler
