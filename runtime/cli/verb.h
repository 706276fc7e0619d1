// runtime/cli/verb.h: the command line's verbs as one table: parsing, help, manual page and completion come from it.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hw/base/progress.h"
#include "hw/base/result.h"

namespace tw::runtime {

inline constexpr const char* tilewright_version = "0.1.0";
inline constexpr int schema_version = 1;

// An option of a verb. `value` names its argument; "" for a flag.
struct OptionInfo {
  const char* name;  // "output,o": long name and optional letter
  const char* value;
  const char* help;
  bool repeatable = false;
};

// What the user typed, after checking that it belongs to the verb.
class Arguments {
 public:
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise = {}) const;
  Result<std::int64_t> integer(const std::string& name, std::int64_t otherwise, std::int64_t low,
                               std::int64_t high) const;
  std::vector<std::string> all(const std::string& name) const;
  // "NAME=VALUE" options split at the first '='.
  Result<std::vector<std::pair<std::string, std::string>>> pairs(const std::string& name) const;
  const std::vector<std::string>& positional() const { return positional_; }

  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

class Context {
 public:
  Context(const Arguments& arguments, bool json);
  const Arguments& arguments;
  const bool json;
  Progress progress() const;                 // a line on stderr, only on a terminal and after a second
  void note(const std::string& text) const;  // stderr, unless --quiet
};

using VerbFunction = Result<int> (*)(const Context&, nlohmann::ordered_json& object, std::string& text);

struct Verb {
  const char* name;
  const char* summary;
  const char* usage;    // after the verb's name
  const char* example;  // a whole command line that works
  std::vector<OptionInfo> options;
  std::size_t least_positional, most_positional;
  VerbFunction run;
};

const std::vector<Verb>& verbs();
// Options that every verb takes.
const std::vector<OptionInfo>& common_options();
// Options of everything that compiles: machine, precision, batch, dims, seed, calibration.
std::vector<OptionInfo> compile_options();

// Parses the words after the verb (Boost.Program_options). Errors (usage): unknown options with the nearest name, ...
Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words);
std::string help_of(const Verb& verb);
std::string general_help();
std::string manual_page();
std::string completion(const std::string& shell);

int run_command_line(int argc, char** argv);

// One function a verb.
Result<int> run_model(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_machine(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_graph(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_plan(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_compile(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_check(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_simulate(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_inspect(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_calibrate(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_place(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_kernel(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_report(const Context&, nlohmann::ordered_json&, std::string&);
Result<int> run_version(const Context&, nlohmann::ordered_json&, std::string&);

}  // namespace tw::runtime
