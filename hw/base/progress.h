// hw/base/progress.h: how libraries tell how far they are. Libraries neither print nor log.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

namespace tw {

// progress(step, done, total); total 0 when it is not known. An empty function is allowed: check before calling.
using Progress = std::function<void(std::string_view step, std::int64_t done, std::int64_t total)>;

}  // namespace tw
