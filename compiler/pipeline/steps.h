// compiler/pipeline/steps.h: names and times the steps of the pipeline.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "hw/base/memory.h"
#include "hw/base/progress.h"

namespace tw::compiler {

// What one step of a compile took, and the resident set of the process when it ended.
struct StageRecord {
  std::string name;
  double seconds = 0;
  std::int64_t rss_bytes = 0;
};

class Steps {
 public:
  explicit Steps(const Progress& progress) : progress_(progress) {}

  // Runs one step, records its seconds, returns what it returns.
  template <class Function>
  auto run(const std::string& name, Function&& function) {
    if (progress_) progress_(name, 0, 0);
    const auto start = std::chrono::steady_clock::now();
    auto result = std::forward<Function>(function)();
    add(name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return result;
  }
  // Steps that run several times (placement and schedules with more room for code) are summed.
  void add(const std::string& name, double seconds) {
    for (StageRecord& record : records_)
      if (record.name == name) {
        record.seconds += seconds;
        record.rss_bytes = std::max(record.rss_bytes, rss_bytes());
        return;
      }
    records_.push_back({name, seconds, rss_bytes()});
  }
  const std::vector<StageRecord>& records() const { return records_; }
  double total() const {
    double sum = 0;
    for (const StageRecord& record : records_) sum += record.seconds;
    return sum;
  }

 private:
  const Progress& progress_;
  std::vector<StageRecord> records_;
};

}  // namespace tw::compiler
