#include "compiler/import/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/canonical/canonical.h"
#include "hw/base/text.h"

namespace tw::compiler {
namespace {

constexpr int oldest_opset = 1, newest_opset = 21;
constexpr std::int64_t small_elements = 4096;  // tensors up to this size are also kept as numbers
constexpr std::int64_t largest_dim = std::int64_t{1} << 31;

constexpr std::int64_t largest_elements = std::int64_t{1} << 40;

bool is_sensible(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 1 || dim > largest_dim || elements > largest_elements / dim) return false;
    elements *= dim;
  }
  return true;
}

// Which nodes the outputs depend on.
std::vector<bool> used_nodes(const onnx::GraphProto& graph) {
  std::set<std::string> wanted;
  for (const onnx::ValueInfoProto& output : graph.output()) wanted.insert(output.name());
  std::vector<bool> used(static_cast<std::size_t>(graph.node_size()));
  for (int index = graph.node_size(); index-- > 0;) {
    const onnx::NodeProto& node = graph.node(index);
    const bool read = std::any_of(node.output().begin(), node.output().end(),
                                  [&](const std::string& name) { return !name.empty() && wanted.contains(name); });
    if (!read) continue;
    used[static_cast<std::size_t>(index)] = true;
    wanted.insert(node.input().begin(), node.input().end());
  }
  return used;
}

std::string list_problems(const std::vector<std::string>& problems) {
  constexpr std::size_t most = 20;
  std::string text = fmt::format("{} node{} cannot be imported:", problems.size(), problems.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(most, problems.size()); ++i) text += "\n  " + problems[i];
  if (problems.size() > most) text += fmt::format("\n  ... and {} more", problems.size() - most);
  return text;
}

// What is wrong with a node whatever its shapes are: the operator itself, or a convolution that is no patch embedding.
std::string problem_without_shapes(Importer& importer, const onnx::NodeProto& proto) {
  const NodeView node(importer, proto);
  const std::vector<std::string> folded{"Shape", "Range", "Equal", "Greater", "Less", "And",
                                        "Or",    "Not",   "Mod",   "Floor",   "Ceil", "ReduceProd"};
  if (importer_of(proto.op_type()) == nullptr &&
      std::find(folded.begin(), folded.end(), proto.op_type()) == folded.end())
    return fmt::format("node \"{}\" ({}): the operator is not supported", node.name(), proto.op_type());
  if (proto.op_type() != "Conv") return {};
  const std::vector<std::int64_t> kernel = node.integers("kernel_shape"), strides = node.integers("strides"),
                                  pads = node.integers("pads");
  const bool unit = std::all_of(kernel.begin(), kernel.end(), [](std::int64_t size) { return size == 1; });
  const bool padded = std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad != 0; });
  if (node.integer("group", 1) == 1 && !padded && (kernel.empty() || unit || kernel == strides)) return {};
  return fmt::format(
      "node \"{}\" (Conv): kernel {}, strides {}, pads {}, group {}; supported: patch embedding (kernel = stride, no "
      "padding, one group)",
      node.name(), to_string(kernel), to_string(strides), to_string(pads), node.integer("group", 1));
}

}  // namespace

NodeView::NodeView(Importer& i, const onnx::NodeProto& node)
    : importer(i),
      node_(node),
      name_(node.name().empty() ? (node.output_size() > 0 ? node.output(0) : node.op_type()) : node.name()) {}

Shape NodeView::shape(int index) const {
  if (!has(index)) return {};
  const Known* known = importer.find(node_.input(index));
  return known->constant ? known->constant->shape : importer.shape(*known->value);
}

Result<ValueId> NodeView::value(int index) const {
  if (!has(index)) return malformed(fmt::format("input {} is missing", index));
  Known* known = importer.find(node_.input(index));
  if (!known->value) {
    if (elements_of(known->constant->shape) == 0) return unsupported("an empty tensor", "tensors with elements");
    TW_TRY(known->value, importer.parameter(node_.input(index), *known->constant));
  }
  return *known->value;
}

const Constant* NodeView::constant(int index) const {
  if (!has(index)) return nullptr;
  const Known* known = importer.find(node_.input(index));
  return known->constant ? &*known->constant : nullptr;
}

Result<const Constant*> NodeView::numbers(int index, const char* what) const {
  const Constant* found = has(index) ? constant(index) : nullptr;
  if (found == nullptr)
    return unsupported(fmt::format("{} that are computed at run time", what),
                       fmt::format("{} that fold to constants", what));
  return found;
}

const onnx::AttributeProto* NodeView::attribute(const char* name) const {
  for (const onnx::AttributeProto& attribute : node_.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::int64_t NodeView::integer(const char* name, std::int64_t otherwise) const {
  const onnx::AttributeProto* found = attribute(name);
  return found != nullptr ? found->i() : otherwise;
}

float NodeView::number(const char* name, float otherwise) const {
  const onnx::AttributeProto* found = attribute(name);
  return found != nullptr ? found->f() : otherwise;
}

std::string NodeView::text(const char* name, const std::string& otherwise) const {
  const onnx::AttributeProto* found = attribute(name);
  return found != nullptr ? found->s() : otherwise;
}

std::vector<std::int64_t> NodeView::integers(const char* name) const {
  const onnx::AttributeProto* found = attribute(name);
  return found != nullptr ? std::vector<std::int64_t>(found->ints().begin(), found->ints().end())
                          : std::vector<std::int64_t>{};
}

Result<std::vector<std::int64_t>> NodeView::axes(int index) const {
  if (attribute("axes") != nullptr) return integers("axes");
  if (!has(index)) return std::vector<std::int64_t>{};
  TW_TRY(const Constant* constant, numbers(index, "axes"));
  return constant->as_integers();
}

Result<std::int64_t> NodeView::axis_of(std::int64_t axis, std::size_t rank) const {
  const auto size = static_cast<std::int64_t>(rank);
  const std::int64_t positive = axis < 0 ? axis + size : axis;
  if (positive < 0 || positive >= size) return malformed(fmt::format("axis {} of a tensor of rank {}", axis, rank));
  return positive;
}

tl::unexpected<Error> NodeView::unsupported(const std::string& what, const std::string& supported) const {
  return fail(ErrorKind::unsupported,
              fmt::format("node \"{}\" ({}): {}; supported: {}", name_, node_.op_type(), what, supported),
              {{"node", name_}});
}

tl::unexpected<Error> NodeView::malformed(const std::string& what) const {
  return fail(ErrorKind::bad_input, fmt::format("node \"{}\" ({}): {}", name_, node_.op_type(), what),
              {{"node", name_}});
}

namespace {

// Before opset 7 operands were lined up by attributes.
bool broadcasts_along_axis(const NodeView& node) {
  return node.importer.opset() < 7 && node.integer("broadcast", 0) != 0;
}

}  // namespace

Importer::Importer(const onnx::ModelProto& model, std::string folder, const ImportOptions& options,
                   const std::string& name)
    : model_(model), folder_(std::move(folder)), options_(options), builder_(name) {}

Known* Importer::find(const std::string& name) {
  const auto found = known_.find(name);
  return found == known_.end() ? nullptr : &found->second;
}

std::string Importer::unique(const std::string& name) {
  const std::string base = name.empty() ? "value" : name;
  const int count = names_[base]++;
  if (count == 0) return base;
  return unique(base + "." + std::to_string(count + 1));
}

Result<ValueId> Importer::emit(const NodeView& node, const std::string& suffix, OpKind kind,
                               std::vector<ValueId> operands, Attributes attributes, const Shape& wanted) {
  Operation operation{.kind = kind, .name = node.name(), .operands = operands, .attributes = attributes};
  if (!is_sensible(wanted))
    return node.unsupported(fmt::format("a result of shape {}", to_string(wanted)),
                            fmt::format("dimensions of at least 1 and {} elements", largest_elements));
  std::vector<Shape> shapes;
  for (const ValueId operand : operands) shapes.push_back(shape(operand));
  const Result<Shape> inferred = infer_shape(operation, shapes, wanted);
  if (!inferred) return tl::unexpected(inferred.error());
  if (!is_sensible(*inferred))
    return node.unsupported(fmt::format("a result of shape {}", to_string(*inferred)),
                            fmt::format("dimensions of at least 1 and {} elements", largest_elements));
  return builder_.add(kind, unique(node.name() + suffix), std::move(operands), std::move(attributes), wanted);
}

Result<ValueId> Importer::parameter(const std::string& name, Shape shape, TensorSourcePtr source) {
  return builder_.parameter(unique(name), std::move(shape), std::move(source));
}

Result<ValueId> Importer::parameter(const std::string& name, const Constant& constant) {
  std::vector<float> values(constant.values.begin(), constant.values.end());
  return parameter(name, constant.shape, dense_source(std::move(values)));
}

Result<ValueId> Importer::scalar(const NodeView& node, const std::string& suffix, float value) {
  return parameter(node.name() + suffix, {}, uniform_source(value, 1));
}

Status Importer::define(const NodeView& node, int index, ValueId value) {
  if (index >= node.proto().output_size() || node.proto().output(index).empty()) return {};
  if (!known_.try_emplace(node.proto().output(index), Known{std::nullopt, value}).second)
    return node.malformed(fmt::format("output \"{}\" exists already", node.proto().output(index)));
  return {};
}

Status Importer::define(const NodeView& node, int index, Constant constant) {
  if (index >= node.proto().output_size() || node.proto().output(index).empty()) return {};
  if (!known_.try_emplace(node.proto().output(index), Known{std::move(constant), std::nullopt}).second)
    return node.malformed(fmt::format("output \"{}\" exists already", node.proto().output(index)));
  return {};
}

Status Importer::read_initialisers() {
  for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
    if (known_.contains(tensor.name()))
      return fail(ErrorKind::bad_input, fmt::format("initialiser \"{}\" is there twice", tensor.name()),
                  {{"tensor", tensor.name()}});
    TW_TRY(TensorData data, tensor_data(tensor, folder_, tensor.name()));
    Known known;
    if (elements_of(data.shape) <= small_elements) {
      TW_TRY(known.constant, tensor_constant(tensor, folder_, tensor.name()));
    } else {
      TW_TRY(known.value, parameter(tensor.name(), data.shape, data.source));
    }
    known_[tensor.name()] = std::move(known);
  }
  return {};
}

Status Importer::read_inputs() {
  std::vector<std::string> wanted_dims;
  std::vector<std::string> problems;
  for (const onnx::ValueInfoProto& input : model_.graph().input()) {
    if (known_.contains(input.name())) continue;  // an initialiser that is listed as input
    if (const auto constant = options_.constants.find(input.name()); constant != options_.constants.end()) {
      Constant numbers{constant->second.shape, constant->second.values, constant->second.integer};
      known_[input.name()] = {std::move(numbers), std::nullopt};
      continue;
    }
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
      problems.push_back(fmt::format("input \"{}\" has no tensor shape", input.name()));
      continue;
    }
    Shape shape;
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      std::int64_t size = dim.has_dim_value() ? dim.dim_value() : 0;
      if (!dim.has_dim_value()) {
        if (!dim.dim_param().empty()) wanted_dims.push_back(dim.dim_param());
        for (const auto& [name, value] : options_.dims)
          if (name == dim.dim_param()) size = value;
        if (size == 0 && options_.batch > 0 && shape.empty()) size = options_.batch;
        if (size == 0) {
          problems.push_back(fmt::format("input \"{}\": dimension \"{}\" is not bound; give --dim {}=N", input.name(),
                                         dim.dim_param(), dim.dim_param().empty() ? "NAME" : dim.dim_param()));
          size = 1;
        }
      }
      if (size < 1 || size > largest_dim)
        return fail(
            ErrorKind::bad_input,
            fmt::format("input \"{}\" has a dimension of {}; 1 to {} are allowed", input.name(), size, largest_dim),
            {{"input", input.name()}});
      shape.push_back(size);
    }
    if (!is_sensible(shape))
      return fail(ErrorKind::bad_input,
                  fmt::format("input \"{}\" has a shape of {}; {} elements are allowed", input.name(), to_string(shape),
                              largest_elements),
                  {{"input", input.name()}});
    const int type = input.type().tensor_type().elem_type();
    const bool real = type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16 ||
                      type == onnx::TensorProto::BFLOAT16 || type == onnx::TensorProto::DOUBLE;
    if (!real)
      problems.push_back(fmt::format(
          "input \"{}\" holds integers (element type {}); floating-point inputs are supported", input.name(), type));
    known_[input.name()] = {std::nullopt, builder_.input(unique(input.name()), shape)};
  }
  for (const auto& [name, value] : options_.dims)
    if (std::find(wanted_dims.begin(), wanted_dims.end(), name) == wanted_dims.end())
      return fail(ErrorKind::usage, fmt::format("--dim {}={}: the model has no dimension of that name{}{}", name, value,
                                                did_you_mean(name, wanted_dims),
                                                wanted_dims.empty() ? "; all its dimensions are fixed"
                                                                    : "; it has " + join(wanted_dims, ", ")));
  if (!problems.empty()) return fail(ErrorKind::unsupported, join(problems, "\n  "));
  return {};
}

// Shape arithmetic: all inputs are numbers, and the result is small.
Result<bool> Importer::try_fold(const NodeView& node) {
  if (node.inputs() == 0) return false;
  ConstantNode constant_node{.op_type = node.op()};
  for (int index = 0; index < node.inputs(); ++index) {
    if (!node.has(index)) {
      if (node.op() != "Slice" || index < 3) return false;  // only its axes and steps may be left out in the middle
      constant_node.inputs.push_back(nullptr);
      continue;
    }
    const Constant* constant = node.constant(index);
    if (constant == nullptr) return false;
    constant_node.inputs.push_back(constant);
  }
  if (constant_node.inputs[0] == nullptr || (node.op() == "Mod" && node.integer("fmod", 0) != 0)) return false;
  constant_node.axis = node.integer("axis", 0);
  constant_node.axes = node.integers("axes");
  constant_node.keep_dims = node.integer("keepdims", 1) != 0;
  constant_node.permutation = node.integers("perm");
  if (node.op() == "Transpose" && constant_node.permutation.empty())
    for (std::size_t axis = constant_node.inputs[0]->shape.size(); axis-- > 0;)
      constant_node.permutation.push_back(static_cast<std::int64_t>(axis));
  if (node.op() == "Cast") {
    const std::int64_t to = node.integer("to", 1);
    constant_node.to_bool = to == onnx::TensorProto::BOOL;
    constant_node.to_integer = to != onnx::TensorProto::FLOAT && to != onnx::TensorProto::DOUBLE &&
                               to != onnx::TensorProto::FLOAT16 && to != onnx::TensorProto::BFLOAT16;
  }
  const bool whole_reduction =
      constant_node.axes.empty() || constant_node.axes.size() == constant_node.inputs[0]->shape.size();
  if ((node.op() == "ReduceProd" || node.op() == "ReduceSum") && !whole_reduction &&
      constant_node.inputs[0]->shape.size() != 1)
    return false;
  for (const Constant* input : constant_node.inputs)
    if (input != nullptr && input->values.empty() && node.op() != "Concat") return false;
  Result<std::optional<Constant>> folded = evaluate_constant(constant_node);
  if (!folded) return node.malformed(folded.error().message);
  if (!*folded) return false;
  TW_TRY_STATUS(define(node, 0, **std::move(folded)));
  return true;
}

Status Importer::import_node(const onnx::NodeProto& proto) {
  const NodeView node(*this, proto);
  for (const std::string& input : proto.input()) {
    if (input.empty() || known_.contains(input)) continue;
    return fail(
        ErrorKind::bad_input,
        fmt::format("node \"{}\" ({}) reads \"{}\", which nothing makes before it", node.name(), node.op(), input),
        {{"node", node.name()}});
  }
  if (!proto.domain().empty() && proto.domain() != "ai.onnx" &&
      !(proto.domain() == "com.microsoft" && node.op() == "Gelu"))
    return node.unsupported(fmt::format("operator domain \"{}\"", proto.domain()), "the standard ONNX operators");
  if (broadcasts_along_axis(node))
    return node.unsupported("broadcasting along an axis as before opset 7",
                            "broadcasting as since opset 7: export it again with opset 17");
  if (!node.has(0) && node.op() != "Constant") return node.malformed("input 0 is missing");
  TW_TRY(const bool folded, try_fold(node));
  if (folded) return {};
  const NodeImporter import = importer_of(node.op());
  if (import == nullptr) {
    std::string shapes;
    for (int index = 0; index < node.inputs(); ++index)
      if (node.has(index)) shapes += (shapes.empty() ? "" : ", ") + to_string(node.shape(index));
    const std::vector<std::string> names = imported_operators();
    const std::string nearest = nearest_name(node.op(), names);
    return node.unsupported(fmt::format("the operator is not supported (inputs {})", shapes),
                            fmt::format("{} operators, see docs/onnx-support.md{}", names.size(),
                                        nearest.empty() ? "" : "; nearest: " + nearest));
  }
  return import(*this, node);
}

Status Importer::bind_outputs() {
  for (const onnx::ValueInfoProto& output : model_.graph().output()) {
    Known* known = find(output.name());
    if (known == nullptr) {
      if (failed_.contains(output.name())) continue;
      return fail(ErrorKind::bad_input, fmt::format("output \"{}\" is made by no node", output.name()),
                  {{"output", output.name()}});
    }
    if (!known->value) {
      if (elements_of(known->constant->shape) == 0)
        return fail(ErrorKind::unsupported, fmt::format("output \"{}\" is empty", output.name()));
      TW_TRY(known->value, parameter(output.name(), *known->constant));
    }
    builder_.output(output.name(), *known->value);
  }
  return {};
}

Result<Graph> Importer::run() {
  for (const onnx::OperatorSetIdProto& opset : model_.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") opset_ = static_cast<int>(opset.version());
  if (opset_ < oldest_opset || opset_ > newest_opset)
    return fail(ErrorKind::unsupported,
                fmt::format("the model uses opset {}; {} to {} are supported", opset_, oldest_opset, newest_opset), {},
                "export it again with opset 17");
  if (model_.graph().output_size() == 0) return fail(ErrorKind::bad_input, "the model has no output");
  TW_TRY_STATUS(read_initialisers());
  TW_TRY_STATUS(read_inputs());
  std::vector<std::string> problems;
  const std::vector<bool> used = used_nodes(model_.graph());
  for (int index = 0; index < model_.graph().node_size(); ++index) {
    if (!used[static_cast<std::size_t>(index)]) continue;  // exporters leave nodes that nothing reads
    const onnx::NodeProto& node = model_.graph().node(index);
    // What depends on a node that failed is not complained about again.
    const bool follows = std::any_of(node.input().begin(), node.input().end(),
                                     [&](const std::string& input) { return failed_.contains(input); });
    Status status;
    if (follows) {
      // Its shapes are not known, but an operator or a convolution that no shape would make importable is named all the
      // same.
      if (std::string why = problem_without_shapes(*this, node); !why.empty()) problems.push_back(std::move(why));
    } else {
      status = import_node(node);
      if (!status && status.error().kind != ErrorKind::unsupported) return tl::unexpected(std::move(status).error());
      if (!status) problems.push_back(status.error().message);
    }
    if (follows || !status)
      for (const std::string& output : node.output()) failed_[output] = node.name();
  }
  if (!problems.empty()) return fail(ErrorKind::unsupported, list_problems(problems));
  TW_TRY_STATUS(bind_outputs());
  return std::move(builder_).finish();
}

NodeImporter importer_of(const std::string& op_type) {
  static const std::map<std::string, NodeImporter> table = [] {
    std::map<std::string, NodeImporter> all;
    for (const auto& family : {arithmetic_operators(), shape_operators(), network_operators()})
      for (const OperatorEntry& entry : family) all[entry.op_type] = entry.import;
    return all;
  }();
  const auto found = table.find(op_type);
  return found == table.end() ? nullptr : found->second;
}

std::vector<std::string> imported_operators() {
  std::vector<std::string> names;
  for (const auto& family : {arithmetic_operators(), shape_operators(), network_operators()})
    for (const OperatorEntry& entry : family) names.emplace_back(entry.op_type);
  std::sort(names.begin(), names.end());
  return names;
}

Result<Graph> import_model(const std::string& model, const ImportOptions& options) {
  if (is_generator(model)) return generate(model, options);
  if (model.find('/') == std::string::npos && !model.ends_with(".onnx")) {
    std::vector<std::string> names;
    for (const GeneratorInfo& info : list_generators()) names.push_back(info.name);
    return fail(ErrorKind::bad_input,
                fmt::format("model \"{}\" is neither a generator nor an .onnx file{}", model,
                            did_you_mean(model.substr(0, model.find(':')), names)),
                {{"model", model}}, "generators: " + join(names, ", "));
  }
  const auto with_file = [&](Error error) {
    error.where.emplace("file", model);
    if (error.message.find(model) == std::string::npos) error.message = model + ": " + error.message;
    return tl::unexpected(std::move(error));
  };
  TW_TRY(const onnx::ModelProto proto, read_onnx(model));
  const std::string folder = std::filesystem::path(model).parent_path().string();
  Result<Graph> graph = Importer(proto, folder.empty() ? "." : folder, options, model).run();
  if (!graph) return with_file(std::move(graph).error());
  const std::vector<Violation> broken = verify(*graph);
  if (!broken.empty())
    return with_file({ErrorKind::bad_input, "the model breaks " + broken[0].rule + ": " + broken[0].message, {}, {}});
  if (!options.canonicalise) return graph;
  return canonicalise(*std::move(graph), options.without);
}

}  // namespace tw::compiler
