// compiler/import/onnx_model.h: reading ONNX files and their tensors. Internal to import; includes the protobuf header.
#pragma once
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/import/constant.h"
#include "hw/base/result.h"

namespace tw::compiler {

// Parses a model file. Errors: io; bad_input (no protobuf, no graph, older or newer than supported).
Result<onnx::ModelProto> read_onnx(const std::string& path);

// Where a tensor's elements are: raw bytes in memory, typed fields, or a range of another file of the model's folder.
struct TensorData {
  Shape shape;
  int element_type = 0;
  bool integer = false;
  TensorSourcePtr source;  // elements as F32
};
// Errors (bad_input): an element type without conversion, sizes that do not match, external paths outside the folder.
Result<TensorData> tensor_data(const onnx::TensorProto& tensor, const std::string& folder, const std::string& name);
// The same as a small constant with exact integers. Errors as above.
Result<Constant> tensor_constant(const onnx::TensorProto& tensor, const std::string& folder, const std::string& name);

}  // namespace tw::compiler
