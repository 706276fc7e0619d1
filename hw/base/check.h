// hw/base/check.h: TW_CHECK, the assertion for our own bugs. It stays in release builds; an input must never reach one.
#pragma once
#include <fmt/format.h>

#include <string>

namespace tw {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tw

// TW_CHECK(condition, "format {}", values...): aborts with file, line, condition and message when false.
#define TW_CHECK(condition, ...) \
  ((condition) ? static_cast<void>(0) : ::tw::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)))
