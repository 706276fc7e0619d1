#include "hw/base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <memory>

namespace tw {

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) { body(i); });
}

void set_thread_limit(int threads) {
  static std::unique_ptr<tbb::global_control> control;
  control.reset();
  if (threads > 0)
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                    static_cast<std::size_t>(threads));
}

}  // namespace tw
