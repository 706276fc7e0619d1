// compiler/import/import.h: from a model (ONNX file or built-in generator) to a canonical, rolled Graph.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "hw/base/result.h"

namespace tw::compiler {

// Numbers for a model input that is to be a constant (axes, shapes: as test cases feed them).
struct InputConstant {
  Shape shape;
  std::vector<double> values;
  bool integer = false;
};

struct ImportOptions {
  std::vector<std::pair<std::string, std::int64_t>> dims;  // --dim NAME=N
  std::int64_t batch = 0;                                  // 0: as in the model; generators and a symbolic first dim
  std::int64_t seed = 0;                                   // generators without their own seed=
  std::map<std::string, InputConstant> constants;          // inputs that are constants, by name
  bool canonicalise = true;                                // raise patterns and roll repeats
  std::vector<std::string> without;                        // rewrites that are not applied (canonical/rewrites.h)
};

// The imported graph is verified. Errors: io; bad_input (malformed model: node and field); unsupported: one Error whose
// message lists every unsupported node (name, operator, attribute or shape, what would be supported).
Result<Graph> import_model(const std::string& model, const ImportOptions& options);

// Generator specs: "siglip-so400m:layers=4,batch=2,seed=1", "gemm:rows=..", "mlp:..", "attention:..", "encoder:..".
bool is_generator(const std::string& model);
struct GeneratorInfo {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> options;  // name, "default: meaning"
};
std::vector<GeneratorInfo> list_generators();
Result<Graph> generate(const std::string& spec, const ImportOptions& options);

// Writes a generator's model as ONNX (opset 17); parameters above 1 MiB in total go to PATH_data beside it.
Status emit_onnx(const std::string& spec, const ImportOptions& options, const std::string& path);
// The same for any graph; Repeats are written layer after layer. Errors: io.
Status write_onnx(const Graph& graph, const std::string& path);

}  // namespace tw::compiler
