// compiler/pipeline/steps.h: names and times the steps of the pipeline.
#pragma once
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "hw/base/progress.h"

namespace tw::compiler {

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
    for (auto& [known, total] : seconds_)
      if (known == name) {
        total += seconds;
        return;
      }
    seconds_.emplace_back(name, seconds);
  }
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }
  double total() const {
    double sum = 0;
    for (const auto& [name, seconds] : seconds_) sum += seconds;
    return sum;
  }

 private:
  const Progress& progress_;
  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace tw::compiler
