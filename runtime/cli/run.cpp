// runtime/cli/run.cpp: dispatch, errors, exit codes, the common keys of --json.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "hw/base/parallel.h"
#include "hw/base/text.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {
namespace {

using Clock = std::chrono::steady_clock;

int exit_code(ErrorKind kind) { return kind == ErrorKind::usage ? 2 : kind == ErrorKind::does_not_fit ? 3 : 1; }

std::int64_t peak_rss_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

int print_error(const Error& error, bool json) {
  if (json) {
    nlohmann::ordered_json object{
        {"schema_version", schema_version},
        {"error",
         {{"kind", name_of(error.kind)}, {"message", error.message}, {"where", error.where}, {"hint", error.hint}}}};
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  fmt::print(stderr, "tilewright: {}{}\n", error.message, error.hint.empty() ? "" : "\n  " + error.hint);
  return exit_code(error.kind);
}

Status apply_limits(const Arguments& arguments) {
  TW_TRY(const std::int64_t threads, arguments.integer("threads", 0, 0, 1024));
  set_thread_limit(static_cast<int>(threads));
  TW_TRY(const std::int64_t limit, arguments.integer("memory-limit", 0, 0, std::int64_t{1} << 50));
  if (limit > 0) {
    const struct rlimit bytes { static_cast<rlim_t>(limit), static_cast<rlim_t>(limit) };
    if (::setrlimit(RLIMIT_DATA, &bytes) != 0)
      return fail(ErrorKind::usage, fmt::format("--memory-limit {} cannot be set", limit));
  }
  return {};
}

int run_verb(const Verb& verb, const std::vector<std::string>& words, bool json, Clock::time_point start) {
  const Result<Arguments> arguments = parse(verb, words);
  if (!arguments) return print_error(arguments.error(), json);
  if (arguments->has("help")) {
    fmt::print("{}", help_of(verb));
    return 0;
  }
  if (const Status limits = apply_limits(*arguments); !limits) return print_error(limits.error(), json);
  nlohmann::ordered_json object{
      {"schema_version", schema_version}, {"tilewright_version", tilewright_version}, {"command", verb.name}};
  std::string text;
  Result<int> code = 1;
  try {
    code = verb.run(Context(*arguments, json), object, text);
  } catch (const std::bad_alloc&) {
    code = fail(ErrorKind::io, "there is not enough memory", {},
                "free some, raise --memory-limit, or compile with --no-weights");
  }
  if (!code) return print_error(code.error(), json);
  object["wall_seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  object["peak_rss_bytes"] = peak_rss_bytes();
  if (json) {
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", text);
  }
  return *code;
}

}  // namespace

Context::Context(const Arguments& a, bool j) : arguments(a), json(j) {}

void Context::note(const std::string& text) const {
  if (!arguments.has("quiet")) fmt::print(stderr, "{}\n", text);
}

Progress Context::progress() const {
  if (arguments.has("quiet") || ::isatty(STDERR_FILENO) == 0) return {};
  // At most ten lines a second, and none in the first second.
  struct Last {
    Clock::time_point start = Clock::now(), shown = Clock::now();
  };
  return [last = std::make_shared<Last>()](std::string_view step, std::int64_t done, std::int64_t total) {
    const auto now = Clock::now();
    if (now - last->start < std::chrono::seconds(1) || now - last->shown < std::chrono::milliseconds(100)) return;
    last->shown = now;
    fmt::print(stderr, "\r\x1b[K{}{}", step,
               total > 0 ? fmt::format(" {} of {}", with_separators(done), with_separators(total)) : "");
    std::fflush(stderr);
  };
}

int run_command_line(int argc, char** argv) {
  const auto start = Clock::now();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (words.empty()) {
    fmt::print(stderr, "{}", general_help());
    return 2;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    fmt::print("{}", general_help());
    return 0;
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "--version") return run_verb(verbs().back(), rest, json, start);
  if (words[0] == "manual") {
    fmt::print("{}", manual_page());
    return 0;
  }
  if (words[0] == "completion" && rest.size() == 1 && (rest[0] == "bash" || rest[0] == "zsh")) {
    fmt::print("{}", completion(rest[0]));
    return 0;
  }
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    if (words[0] == verb.name) return run_verb(verb, rest, json, start);
    names.emplace_back(verb.name);
  }
  return print_error({ErrorKind::usage,
                      fmt::format("verb \"{}\" is not known{}", words[0], did_you_mean(words[0], names)),
                      {{"verb", words[0]}},
                      "verbs: " + join(names, ", ")},
                     json);
}

}  // namespace tw::runtime
