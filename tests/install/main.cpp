// tests/install/main.cpp: uses the installed headers and libraries: compiles a small generated model.
#include <cstdio>

#include "compiler/import/import.h"
#include "compiler/pipeline/compile.h"
#include "hw/machine/machine.h"

int main() {
  const auto graph = tw::compiler::import_model("gemm:rows=64,inner=128,columns=96", {});
  const auto machine = tw::hw::load_machine("ipu21-64");
  if (!graph || !machine) {
    std::fprintf(stderr, "%s\n", (graph ? machine.error() : graph.error()).message.c_str());
    return 1;
  }
  const auto outcome = tw::compiler::compile(*graph, *machine, {.precision = tw::compiler::Precision::f16});
  if (!outcome || !outcome->fits) return 1;
  std::printf("%lld cycles\n", static_cast<long long>(outcome->program.estimated_cycles));
  return 0;
}
