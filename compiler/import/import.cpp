#include "compiler/import/import.h"

namespace tw::compiler {

Result<Graph> import_model(const std::string& model, const ImportOptions& options) {
  if (is_generator(model)) return generate(model, options);
  return fail(ErrorKind::unsupported, "ONNX");
}

}  // namespace tw::compiler
