#include "hw/base/result.h"

namespace tw {

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::bad_input: return "bad_input";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::does_not_fit: return "does_not_fit";
    case ErrorKind::corrupt: return "corrupt";
    case ErrorKind::device: return "device";
    case ErrorKind::io: return "io";
    case ErrorKind::mismatch: return "mismatch";
  }
  return "unknown";
}

}  // namespace tw
