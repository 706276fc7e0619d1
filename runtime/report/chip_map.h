// runtime/report/chip_map.h: one number a tile. Internal to report.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/report/views.h"

namespace tw::runtime {

struct ChipMap {
  std::string id, title, unit;
  std::vector<std::int64_t> values;  // by logical tile
};
std::vector<ChipMap> chip_maps(const ReportInput& input);

}  // namespace tw::runtime
