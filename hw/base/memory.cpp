#include "hw/base/memory.h"

#include <unistd.h>

#include <fstream>

namespace tw {

std::int64_t rss_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0, resident_pages = 0;
  if (!(statm >> pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace tw
