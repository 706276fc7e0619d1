// runtime/cli/calibration_data.h: the measured rows of bench/calibration/ipu21.csv, embedded at build time.
#pragma once
#include <string_view>

namespace tw::runtime {

std::string_view calibration_csv();

}  // namespace tw::runtime
