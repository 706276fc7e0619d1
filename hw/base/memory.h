// hw/base/memory.h: memory of this process, as the kernel counts it.
#pragma once
#include <cstdint>

namespace tw {

// Resident set now, in bytes; 0 where the system does not tell.
std::int64_t rss_bytes();

}  // namespace tw
