// compiler/plan/carry.h: which carried values of a loop need no copy.
#pragma once
#include <cstdint>
#include <map>

#include "compiler/plan/plan.h"

namespace tw::compiler {

// The value that becomes a carried one is made where the carried one lies, when that is dead by then: no copy.
// By index of the stored value: the carried value whose place it takes.
std::map<std::int32_t, std::int32_t> made_in_place(const Plan& plan);

}  // namespace tw::compiler
