// hw/base/parallel.h: parallel loops whose result does not depend on the thread count: result i goes to slot i.
#pragma once
#include <cstddef>
#include <functional>

namespace tw {

// Calls body(i) for i in [0, count), on oneTBB's threads. body must touch only slot i of what it writes.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body);

// Limits the threads used by parallel_for in this process from now on; 0 means all cores.
void set_thread_limit(int threads);

}  // namespace tw
