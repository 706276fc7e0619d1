// hw/base/result.h: how a failure that is not our bug travels: tl::expected with one Error type.
#pragma once
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tw {

// What kind of failure; decides the exit code (docs/cli.md): usage 2, does_not_fit 3, the others 1.
enum class ErrorKind { usage, bad_input, unsupported, does_not_fit, corrupt, device, io, mismatch };

const char* name_of(ErrorKind kind);

// One failure. The message names the thing, its value and what is allowed (lower case, no final stop);
// `where` is machine readable ("file", "line", "node", "tile", ...), `hint` says what to do.
struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
  std::map<std::string, std::string> where;
  std::string hint;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message, std::map<std::string, std::string> where = {},
                                  std::string hint = {}) {
  return tl::unexpected(Error{kind, std::move(message), std::move(where), std::move(hint)});
}

}  // namespace tw

#define TW_JOIN_(a, b) a##b
#define TW_JOIN(a, b) TW_JOIN_(a, b)

// Declares or assigns `target` from a Result, or returns its error from this function.
#define TW_TRY(target, ...) TW_TRY_(TW_JOIN(tw_result_, __COUNTER__), target, __VA_ARGS__)
#define TW_TRY_(result, target, ...)                             \
  auto result = (__VA_ARGS__);                                   \
  if (!result) return tl::unexpected(std::move(result).error()); \
  target = *std::move(result)

// The same for a Status, where there is nothing to declare.
#define TW_TRY_STATUS(...)                                               \
  do {                                                                   \
    auto tw_status = (__VA_ARGS__);                                      \
    if (!tw_status) return tl::unexpected(std::move(tw_status).error()); \
  } while (false)
