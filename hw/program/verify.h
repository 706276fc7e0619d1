// hw/program/verify.h: the rules that a program is checked against. Internal to hw/program; docs/reference/rules.md
// lists the same names (a test compares).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "hw/base/violation.h"
#include "hw/program/program.h"

namespace tw::hw {

struct ProgramRule {
  const char* name;
  const char* says;
};
std::span<const ProgramRule> program_rules();

// Where a checker of one tile puts what it finds.
struct TileFindings {
  std::uint32_t tile = 0;
  std::vector<Violation> list;
  void add(const char* rule, const std::string& message);
};

// Operands of every entry of Program::kernels, made once.
using KernelOperands = std::vector<std::vector<Operand>>;

// The parameter images of one tile.
using TileImages = std::vector<const ParameterImage*>;

// Follows the supervisor program of one tile from its entry to its end, loops included, with the registers' values:
// calls, kernels' operands, rows and host sends. The tile's code must lie in region 0 and its entries name kernels.
void verify_code(const Program& program, const KernelOperands& operands, const TileImages& images,
                 TileFindings& findings);

}  // namespace tw::hw
