// simulator/system/loadable.h: what a program must satisfy before its indexes and addresses can be followed at all.
#pragma once
#include "hw/base/result.h"
#include "hw/program/program.h"

namespace tw::sim {

// Errors (corrupt): a table with the wrong number of entries, an index out of range, bytes outside the SRAM.
Status check_loadable(const hw::Program& program);

}  // namespace tw::sim
