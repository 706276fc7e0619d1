// hw/base/violation.h: what a checker found. Checkers are pure, report everything, and name their rules.
#pragma once
#include <string>

namespace tw {

struct Violation {
  std::string rule;     // "placement.disjoint", "row.decodes_to_schedule", ... (docs/reference/rules.md)
  std::string message;  // names tile, address, stage and both values
};

}  // namespace tw
