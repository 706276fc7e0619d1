#include "hw/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tw {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  fmt::print(stderr, "tilewright: internal error at {}:{}: {} ({}); this is a bug, please report it\n", file, line,
             message, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tw
