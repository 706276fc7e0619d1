// runtime/cli/parse.cpp: the only place that includes Boost.Program_options.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <charconv>

#include "hw/base/text.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {
namespace {

namespace po = boost::program_options;

std::string long_name(const OptionInfo& option) { return split(option.name, ',')[0]; }

std::vector<OptionInfo> all_options(const Verb& verb) {
  std::vector<OptionInfo> options = verb.options;
  options.insert(options.end(), common_options().begin(), common_options().end());
  return options;
}

tl::unexpected<Error> usage(const Verb& verb, const std::string& what) {
  return fail(ErrorKind::usage, what, {{"verb", verb.name}}, fmt::format("see \"tilewright {} --help\"", verb.name));
}

}  // namespace

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<std::int64_t> Arguments::integer(const std::string& name, std::int64_t otherwise, std::int64_t low,
                                        std::int64_t high) const {
  if (!has(name)) return otherwise;
  const std::string digits = text(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < low || value > high)
    return fail(ErrorKind::usage, fmt::format("--{} is \"{}\"; a whole number from {} to {} is allowed", name, digits,
                                              with_separators(low), with_separators(high)));
  return value;
}

Result<std::vector<std::pair<std::string, std::string>>> Arguments::pairs(const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const std::string& item : all(name)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorKind::usage, fmt::format("--{} {}: NAME=VALUE is expected", name, item));
    list.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return list;
}

Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words) {
  po::options_description description;
  const std::vector<OptionInfo> options = all_options(verb);
  std::vector<std::string> names;
  for (const OptionInfo& option : options) {
    names.push_back("--" + long_name(option));
    if (*option.value == '\0') {
      description.add_options()(option.name, option.help);
    } else {
      description.add_options()(option.name, po::value<std::vector<std::string>>(), option.help);
    }
  }
  description.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);
  Arguments arguments;
  try {
    namespace style = po::command_line_style;
    const auto parsed = po::command_line_parser(words)
                            .options(description)
                            .positional(positional)
                            .style((style::unix_style & ~style::allow_guessing) | style::allow_long)
                            .run();
    for (const po::option& option : parsed.options) {
      if (option.string_key == "positional" || option.position_key >= 0) {
        arguments.positional_.insert(arguments.positional_.end(), option.value.begin(), option.value.end());
      } else {
        std::vector<std::string>& values = arguments.values_[option.string_key];
        values.insert(values.end(), option.value.begin(), option.value.end());
      }
    }
  } catch (const po::unknown_option& error) {
    return usage(verb, fmt::format("{}: option \"{}\" is not known{}", verb.name, error.get_option_name(),
                                   did_you_mean(error.get_option_name(), names)));
  } catch (const po::error& error) {
    return usage(verb, fmt::format("{}: {}", verb.name, error.what()));
  }
  for (const OptionInfo& option : options)
    if (const std::string name = long_name(option); !option.repeatable && arguments.all(name).size() > 1)
      return usage(verb, fmt::format("{}: --{} is given {} times; once is allowed", verb.name, name,
                                     arguments.all(name).size()));
  if (arguments.has("help")) return arguments;
  const std::size_t count = arguments.positional_.size();
  if (count < verb.least_positional || count > verb.most_positional)
    return usage(verb, fmt::format("{}: {} argument{} given; usage: tilewright {} {}", verb.name, count,
                                   count == 1 ? "" : "s", verb.name, verb.usage));
  return arguments;
}

namespace {

std::string options_text(const std::vector<OptionInfo>& options) {
  std::vector<std::vector<std::string>> rows;
  for (const OptionInfo& option : options) {
    const std::vector<std::string> parts = split(option.name, ',');
    std::string name = parts.size() > 1 ? "  -" + parts[1] + ", --" + parts[0] : "      --" + parts[0];
    if (*option.value != '\0') name += std::string(" ") + option.value;
    rows.push_back({name, option.help});
  }
  return aligned_table(rows);
}

}  // namespace

std::string help_of(const Verb& verb) {
  return fmt::format("tilewright {}: {}\n\nusage: tilewright {} {}\n\n{}\ncommon options:\n{}\nExample:\n  {}\n",
                     verb.name, verb.summary, verb.name, verb.usage,
                     verb.options.empty() ? "" : "options:\n" + options_text(verb.options),
                     options_text(common_options()), verb.example);
}

std::string general_help() {
  std::vector<std::vector<std::string>> rows;
  for (const Verb& verb : verbs()) rows.push_back({std::string("  ") + verb.name, verb.summary});
  return "tilewright: compiles neural networks for machines of many small tiles, and simulates them\n\nusage: "
         "tilewright VERB ...\n\nverbs:\n" +
         aligned_table(rows) +
         "\n\"tilewright VERB --help\" explains each.\n\nExample:\n  tilewright compile siglip-so400m:layers=4 -o "
         "model.twp && tilewright simulate model.twp --reference\n";
}

std::string manual_page() {
  std::string page = fmt::format(
      ".TH TILEWRIGHT 1 \"\" \"tilewright {}\"\n.SH NAME\ntilewright \\- compile neural networks for machines of many "
      "small tiles, and simulate them\n"
      ".SH SYNOPSIS\n.B tilewright\n.I VERB\n[\\fIARGUMENT\\fR ...]\n.SH VERBS\n",
      tilewright_version);
  const auto escaped = [](const std::string& text) {
    std::string result;
    for (const char c : text)
      result += c == '-' ? std::string("\\-") : c == '\\' ? std::string("\\e") : std::string(1, c);
    return result;
  };
  for (const Verb& verb : verbs()) {
    page += fmt::format(".SS {}\n{}.\n.PP\nUsage: tilewright {} {}\n", escaped(verb.name), escaped(verb.summary),
                        escaped(verb.name), escaped(verb.usage));
    for (const OptionInfo& option : verb.options)
      page += fmt::format(".TP\n.B \\-\\-{} {}\n{}\n", escaped(long_name(option)), escaped(option.value),
                          escaped(option.help));
    page += fmt::format(".PP\nExample: {}\n", escaped(verb.example));
  }
  page += ".SH EXIT STATUS\n0 done; 1 failed; 2 wrong usage; 3 the model does not fit the machine.\n";
  return page;
}

std::string completion(const std::string& shell) {
  std::string names;
  for (const Verb& verb : verbs()) names += std::string(names.empty() ? "" : " ") + verb.name;
  const auto options_of = [](const Verb& verb) {
    std::string options;
    for (const OptionInfo& option : all_options(verb)) options += (options.empty() ? "--" : " --") + long_name(option);
    return options;
  };
  if (shell == "zsh") {
    std::string script = "#compdef tilewright\nlocal -a verbs\nif (( CURRENT == 2 )); then\n  verbs=(";
    for (const Verb& verb : verbs()) script += fmt::format(" '{}:{}'", verb.name, verb.summary);
    script += " )\n  _describe verb verbs\n  return\nfi\ncase $words[2] in\n";
    for (const Verb& verb : verbs()) script += fmt::format("  {}) compadd -- {} ;;\n", verb.name, options_of(verb));
    return script + "esac\n_files\n";
  }
  std::string script =
      "_tilewright() {\n  local word=${COMP_WORDS[COMP_CWORD]}\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    "
      "COMPREPLY=($(compgen -W \"" +
      names +
      "\" -- \"$word\"))\n    return\n  fi\n  case $word in\n    -*) ;;\n    *) COMPREPLY=($(compgen -f -- "
      "\"$word\")); return ;;\n  esac\n  case ${COMP_WORDS[1]} in\n";
  for (const Verb& verb : verbs())
    script += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")) ;;\n", verb.name, options_of(verb));
  return script + "  esac\n}\ncomplete -F _tilewright tilewright\n";
}

}  // namespace tw::runtime
