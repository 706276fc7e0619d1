// compiler/import/emit.cpp: writes graphs as ONNX the way exporters do (opset 17): attention and GELU decomposed,
// biases as additions, large weights in a file beside the model.
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "compiler/canonical/canonical.h"
#include "compiler/import/import.h"
#include "hw/base/file.h"

namespace tw::compiler {
namespace {

constexpr int written_opset = 17, written_ir_version = 8;  // opset 17 came with IR version 8 (ONNX 1.12)
constexpr std::int64_t most_inline_bytes = 1 << 20;
constexpr std::int64_t data_alignment_bytes = 64;

const char* onnx_name(Unary function) {
  switch (function) {
    case Unary::relu: return "Relu";
    case Unary::tanh: return "Tanh";
    case Unary::sigmoid: return "Sigmoid";
    case Unary::exp: return "Exp";
    case Unary::sqrt: return "Sqrt";
    case Unary::erf: return "Erf";
    case Unary::negate: return "Neg";
    case Unary::absolute: return "Abs";
    case Unary::reciprocal: return "Reciprocal";
    case Unary::log: return "Log";
  }
  return "Identity";
}

const char* onnx_name(Binary function) {
  switch (function) {
    case Binary::add: return "Add";
    case Binary::subtract: return "Sub";
    case Binary::multiply: return "Mul";
    case Binary::divide: return "Div";
    case Binary::power: return "Pow";
    case Binary::maximum: return "Max";
    case Binary::minimum: return "Min";
  }
  return "Add";
}

// Builds the node list; large parameters are only noted here and streamed afterwards.
class Emitter {
 public:
  explicit Emitter(const Graph& graph) : graph_(graph), onnx_(*model_.mutable_graph()) {
    model_.set_ir_version(written_ir_version);
    model_.set_producer_name("tilewright");
    model_.add_opset_import()->set_version(written_opset);
    onnx_.set_name(graph.name);
  }

  Status run(const std::string& path) {
    for (const ValueId id : graph_.main().arguments) describe(onnx_.add_input(), name(id), graph_.value(id).shape);
    for (const OperationId id : graph_.main().operations) operation(graph_.operation(id));
    for (std::size_t index = 0; index < graph_.main().results.size(); ++index) {
      const ValueId result = graph_.main().results[index];
      node("Identity", "output/" + graph_.output_names[index], {name(result)}, output_name(index));
      describe(onnx_.add_output(), output_name(index), graph_.value(result).shape);
    }
    TW_TRY_STATUS(parameters(path));
    std::string bytes;
    if (!model_.SerializeToString(&bytes))
      return fail(ErrorKind::io, fmt::format("\"{}\": the model is too large for one protobuf message", path));
    return write_file(path, bytes);
  }

 private:
  std::string name(ValueId id) const { return graph_.value(id).name; }
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  // Output names may be those of values inside; the value of that name then keeps it.
  std::string output_name(std::size_t index) const {
    const std::string& wanted = graph_.output_names[index];
    for (const Value& value : graph_.values)
      if (value.name == wanted) return wanted + "/output";
    return wanted;
  }

  static void describe(onnx::ValueInfoProto* info, const std::string& name, const Shape& shape) {
    info->set_name(name);
    onnx::TypeProto_Tensor* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : shape) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }

  onnx::NodeProto& node(const char* op, const std::string& node_name, const std::vector<std::string>& inputs,
                        const std::string& output) {
    onnx::NodeProto& made = *onnx_.add_node();
    made.set_op_type(op);
    made.set_name(node_name);
    for (const std::string& input : inputs) made.add_input(input);
    made.add_output(output);
    return made;
  }

  static void put(onnx::NodeProto& node, const char* key, std::int64_t value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  static void put(onnx::NodeProto& node, const char* key, float value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  static void put(onnx::NodeProto& node, const char* key, const std::vector<std::int64_t>& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }

  std::string integers(const std::string& tensor_name, const std::vector<std::int64_t>& values) {
    onnx::TensorProto& tensor = *onnx_.add_initializer();
    tensor.set_name(tensor_name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor.add_int64_data(value);
    return tensor_name;
  }
  std::string scalar(const std::string& tensor_name, double value) {
    onnx::TensorProto& tensor = *onnx_.add_initializer();
    tensor.set_name(tensor_name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_float_data(static_cast<float>(value));
    return tensor_name;
  }
  std::string reshape(const std::string& base, const std::string& input, const Shape& to, const std::string& output) {
    node("Reshape", base, {input, integers(base + "/shape", to)}, output);
    return output;
  }
  std::string transpose(const std::string& base, const std::string& input, const std::vector<std::int64_t>& permutation,
                        const std::string& output) {
    put(node("Transpose", base, {input}, output), "perm", permutation);
    return output;
  }
  std::string step(const char* op, const std::string& base, const std::vector<std::string>& inputs) {
    node(op, base, inputs, base);
    return base;
  }

  void matmul(const Operation& operation, const std::string& output) {
    std::string operands[2];
    for (int side = 0; side < 2; ++side) {
      operands[side] = name(operation.operands[side]);
      if (!(side == 0 ? operation.attributes.transpose_a : operation.attributes.transpose_b)) continue;
      std::vector<std::int64_t> permutation;
      for (std::size_t axis = 0; axis < shape(operation.operands[side]).size(); ++axis)
        permutation.push_back(static_cast<std::int64_t>(axis));
      std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
      const std::string base = operation.name + (side == 0 ? "/a" : "/b");
      operands[side] = transpose(base, operands[side], permutation, base);
    }
    const bool biased = operation.operands.size() > 2;
    const std::string product = biased ? operation.name + "/MatMul" : output;
    node("MatMul", biased ? product : operation.name, {operands[0], operands[1]}, product);
    if (biased) node("Add", operation.name, {name(operation.operands[2]), product}, output);
  }

  void attention(const Operation& operation, const std::string& output) {
    const std::string& base = operation.name;
    const std::int64_t heads = operation.attributes.heads;
    std::string parts[3];
    const char* const names[3] = {"/q", "/k", "/v"};
    for (int index = 0; index < 3; ++index) {
      const Shape& whole = shape(operation.operands[index]);
      const std::string part = base + names[index];
      const std::string split = reshape(part + "/split", name(operation.operands[index]),
                                        {whole[0], whole[1], heads, whole[2] / heads}, part + "/split");
      parts[index] =
          transpose(part, split,
                    index == 1 ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3}, part);
    }
    const std::string scores = step("MatMul", base + "/scores", {parts[0], parts[1]});
    std::string scaled = step("Mul", base + "/scaled", {scores, scalar(base + "/scale", operation.attributes.scale)});
    const std::string softmax = base + "/softmax";
    put(node("Softmax", softmax, {scaled}, softmax), "axis", std::int64_t{-1});
    const std::string mixed = step("MatMul", base + "/mixed", {softmax, parts[2]});
    const std::string back = transpose(base + "/back", mixed, {0, 2, 1, 3}, base + "/back");
    reshape(base, back, shape(operation.results[0]), output);
  }

  void gelu(const Operation& operation, const std::string& output) {
    const std::string &base = operation.name, x = name(operation.operands[0]);
    std::string inside;
    if (operation.attributes.gelu_tanh) {
      const std::string cube = step("Pow", base + "/cube", {x, scalar(base + "/three", 3.0)});
      const std::string small = step("Mul", base + "/small", {cube, scalar(base + "/cubic", 0.044715)});
      const std::string sum = step("Add", base + "/sum", {x, small});
      const std::string argument =
          step("Mul", base + "/argument", {sum, scalar(base + "/root", std::sqrt(2.0 / 3.14159265358979323846))});
      inside = step("Tanh", base + "/tanh", {argument});
    } else {
      const std::string argument = step("Div", base + "/argument", {x, scalar(base + "/root", std::sqrt(2.0))});
      inside = step("Erf", base + "/erf", {argument});
    }
    const std::string plus = step("Add", base + "/plus", {inside, scalar(base + "/one", 1.0)});
    const std::string half = step("Mul", base + "/half", {x, scalar(base + "/point_five", 0.5)});
    node("Mul", base, {half, plus}, output);
  }

  void reduce(const Operation& operation, const std::string& output) {
    const Reduction reduction = operation.attributes.reduction;
    std::vector<std::string> inputs{name(operation.operands[0])};
    // ReduceSum has its axes as an input since opset 13; the others since 18.
    if (reduction == Reduction::sum) inputs.push_back(integers(operation.name + "/axes", operation.attributes.axes));
    onnx::NodeProto& made = node(reduction == Reduction::sum    ? "ReduceSum"
                                 : reduction == Reduction::mean ? "ReduceMean"
                                                                : "ReduceMax",
                                 operation.name, inputs, output);
    if (reduction != Reduction::sum) put(made, "axes", operation.attributes.axes);
    put(made, "keepdims", std::int64_t{operation.attributes.keep_dims});
  }

  void slice(const Operation& operation, const std::string& output) {
    std::vector<std::int64_t> ends, axes;
    for (std::size_t axis = 0; axis < operation.attributes.starts.size(); ++axis) {
      const std::int64_t end =
          operation.attributes.starts[axis] + shape(operation.results[0])[axis] * operation.attributes.steps[axis];
      ends.push_back(end < 0 ? std::numeric_limits<std::int64_t>::min()
                             : end);  // a backward slice to the first element
      axes.push_back(static_cast<std::int64_t>(axis));
    }
    const std::string& base = operation.name;
    node("Slice", base,
         {name(operation.operands[0]), integers(base + "/starts", operation.attributes.starts),
          integers(base + "/ends", ends), integers(base + "/axes", axes),
          integers(base + "/steps", operation.attributes.steps)},
         output);
  }

  void operation(const Operation& operation) {
    const std::string output = name(operation.results[0]);
    std::vector<std::string> inputs;
    for (const ValueId operand : operation.operands) inputs.push_back(name(operand));
    switch (operation.kind) {
      case OpKind::matmul: return matmul(operation, output);
      case OpKind::attention: return attention(operation, output);
      case OpKind::gelu: return gelu(operation, output);
      case OpKind::reduce: return reduce(operation, output);
      case OpKind::slice: return slice(operation, output);
      case OpKind::layer_norm: {
        // The scale is not optional in ONNX.
        if (inputs.size() == 1) {
          unit_scales_.emplace_back(operation.name + "/scale", shape(operation.operands[0]).back());
          inputs.push_back(operation.name + "/scale");
        }
        onnx::NodeProto& made = node("LayerNormalization", operation.name, inputs, output);
        put(made, "axis", std::int64_t{-1});
        put(made, "epsilon", static_cast<float>(operation.attributes.epsilon));
        return;
      }
      case OpKind::softmax: put(node("Softmax", operation.name, inputs, output), "axis", std::int64_t{-1}); return;
      case OpKind::unary: node(onnx_name(operation.attributes.unary), operation.name, inputs, output); return;
      case OpKind::binary: node(onnx_name(operation.attributes.binary), operation.name, inputs, output); return;
      case OpKind::reshape: reshape(operation.name, inputs[0], shape(operation.results[0]), output); return;
      case OpKind::transpose: transpose(operation.name, inputs[0], operation.attributes.permutation, output); return;
      case OpKind::concat:
        put(node("Concat", operation.name, inputs, output), "axis", operation.attributes.axis);
        return;
      case OpKind::expand:
        node("Expand", operation.name, {inputs[0], integers(operation.name + "/shape", shape(operation.results[0]))},
             output);
        return;
      case OpKind::repeat: return;  // unrolled before
    }
  }

  // Numbers inside the model while they are few, else streamed into one file beside it.
  Status parameters(const std::string& path) {
    std::int64_t bytes = 0;
    for (const Value& value : graph_.values)
      if (value.is_parameter()) bytes += elements_of(value.shape) * 4;
    for (const auto& [tensor_name, width] : unit_scales_) {
      onnx::TensorProto& tensor = *onnx_.add_initializer();
      tensor.set_name(tensor_name);
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      tensor.add_dims(width);
      for (std::int64_t i = 0; i < width; ++i) tensor.add_float_data(1.0F);
    }
    if (bytes <= most_inline_bytes) {
      for (const Value& value : graph_.values) {
        if (!value.is_parameter()) continue;
        TW_TRY(const std::vector<float> numbers, numbers_of(value));
        initialiser(value)->set_raw_data(numbers.data(), numbers.size() * 4);
      }
      return {};
    }
    const std::string data = path + "_data";
    const std::string location = std::filesystem::path(data).filename().string();
    return write_file(data, [&](const ByteSink& sink) -> Status {
      std::int64_t offset = 0;
      for (const Value& value : graph_.values) {
        if (!value.is_parameter()) continue;
        const std::vector<std::byte> padding(
            static_cast<std::size_t>((data_alignment_bytes - offset % data_alignment_bytes) % data_alignment_bytes));
        TW_TRY_STATUS(sink(padding));
        offset += static_cast<std::int64_t>(padding.size());
        TW_TRY(const std::vector<float> numbers, numbers_of(value));
        TW_TRY_STATUS(sink(std::as_bytes(std::span(numbers))));
        onnx::TensorProto* tensor = initialiser(value);
        tensor->set_data_location(onnx::TensorProto::EXTERNAL);
        const auto length = static_cast<std::int64_t>(numbers.size() * 4);
        for (const auto& [key, text] : {std::pair{"location", location}, std::pair{"offset", std::to_string(offset)},
                                        std::pair{"length", std::to_string(length)}}) {
          onnx::StringStringEntryProto* entry = tensor->add_external_data();
          entry->set_key(key);
          entry->set_value(text);
        }
        offset += length;
      }
      return {};
    });
  }

  static Result<std::vector<float>> numbers_of(const Value& value) {
    std::vector<float> numbers(static_cast<std::size_t>(elements_of(value.shape)));
    TW_TRY_STATUS(value.source->read(numbers));
    return numbers;
  }
  onnx::TensorProto* initialiser(const Value& value) {
    onnx::TensorProto* tensor = onnx_.add_initializer();
    tensor->set_name(value.name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : value.shape) tensor->add_dims(dim);
    return tensor;
  }

  const Graph& graph_;
  onnx::ModelProto model_;
  onnx::GraphProto& onnx_;
  std::vector<std::pair<std::string, std::int64_t>> unit_scales_;
};

}  // namespace

Status write_onnx(const Graph& graph, const std::string& path) {
  const Graph flat = unroll_repeats(graph);
  return Emitter(flat).run(path);
}

Status emit_onnx(const std::string& spec, const ImportOptions& options, const std::string& path) {
  ImportOptions flat = options;
  flat.canonicalise = false;  // exporters write layer after layer, projections apart
  TW_TRY(const Graph graph, generate(spec, flat));
  return write_onnx(graph, path);
}

}  // namespace tw::compiler
