// hw/machine/parse.cpp: machine files in TOML: reading with all problems at once, checking, and writing back.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "hw/base/text.h"
#include "hw/machine/keys.h"

namespace tw::hw {
namespace {

std::string number_text(const MachineKey& key, double value) {
  const std::string_view unit = key.unit;
  const bool whole = value == std::floor(value) && std::abs(value) < 9e15;
  if (whole && (unit == "address" || unit == "mux")) return fmt::format("0x{:x}", static_cast<std::int64_t>(value));
  return whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

std::string allowed_text(const MachineKey& key) {
  return fmt::format("{} to {}{}{}", number_text(key, key.minimum), number_text(key, key.maximum), *key.unit ? " " : "",
                     key.unit);
}

// Collects problems in order of lines; becomes one Error.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(std::uint32_t line, const std::string& key, std::string message) {
    found_.push_back({line, key, std::move(message)});
  }
  bool empty() const { return found_.empty(); }
  tl::unexpected<Error> error() {
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    std::vector<std::string> lines;
    for (const Problem& problem : found_)
      lines.push_back(problem.line == 0 ? fmt::format("{}: {}", file_, problem.message)
                                        : fmt::format("{}:{}: {}", file_, problem.line, problem.message));
    const std::string head =
        lines.size() == 1 ? "" : fmt::format("machine file \"{}\" has {} problems:\n", file_, lines.size());
    std::map<std::string, std::string> where{{"file", file_}, {"key", found_.front().key}};
    if (found_.front().line != 0) where["line"] = std::to_string(found_.front().line);
    return fail(ErrorKind::bad_input, head + join(lines, "\n"), std::move(where),
                "`tilewright machine show ipu21` lists every key with its unit and allowed range");
  }

 private:
  struct Problem {
    std::uint32_t line;
    std::string key;
    std::string message;
  };
  std::string file_;
  std::vector<Problem> found_;
};

// Reads one file: walks what is there, then what should be there, then the relations.
class Reader {
 public:
  Reader(const toml::table& root, const std::string& file) : root_(root), problems_(file) {
    for (const MachineKey& key : machine_keys()) known_.emplace_back(key.path);
    known_.insert(known_.end(), {"name", "description"});
    for (const std::string& path : known_)
      if (const auto dot = path.find('.'); dot != std::string::npos) sections_.insert(path.substr(0, dot));
  }

  Result<Machine> read() {
    find_unknown(root_, "");
    read_text("name", machine_.name);
    if (root_.contains("description")) read_text("description", machine_.description);
    for (const MachineKey& key : machine_keys()) read_number(key);
    if (problems_.empty()) check_relations();
    if (!problems_.empty()) return problems_.error();
    return machine_;
  }

 private:
  void find_unknown(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string path = prefix + std::string(name.str());
      const std::uint32_t line = node.source().begin.line;
      if (prefix.empty() && sections_.contains(path)) {
        if (node.is_table())
          find_unknown(*node.as_table(), path + ".");
        else
          problems_.add(line, path, fmt::format("key \"{}\" is a section and needs keys of its own", path));
      } else if (std::find(known_.begin(), known_.end(), path) == known_.end()) {
        problems_.add(line, path, fmt::format("unknown key \"{}\"{}", path, did_you_mean(path, known_)));
      }
    }
  }

  void read_text(const std::string& path, std::string& target) {
    const toml::node* node = root_.get(path);
    const auto text = node ? node->value_exact<std::string>() : std::nullopt;
    if (!node) {
      problems_.add(0, path, fmt::format("missing key \"{}\"; a text is needed", path));
    } else if (!text || text->empty()) {
      problems_.add(node->source().begin.line, path, fmt::format("key \"{}\" must be a text that is not empty", path));
    } else {
      target = *text;
    }
  }

  void read_number(const MachineKey& key) {
    const toml::node_view<const toml::node> node = root_.at_path(key.path);
    if (!node) {
      problems_.add(0, key.path, fmt::format("missing key \"{}\"; allowed is {}", key.path, allowed_text(key)));
      return;
    }
    const std::uint32_t line = node.node()->source().begin.line;
    const bool real = std::holds_alternative<double*>(key.field(machine_));
    if (!node.is_integer() && !(real && node.is_floating_point())) {
      problems_.add(line, key.path,
                    fmt::format("key \"{}\" must be {} number; allowed is {}", key.path, real ? "a" : "an integer",
                                allowed_text(key)));
      return;
    }
    const double value = node.is_integer() ? static_cast<double>(*node.value<std::int64_t>()) : *node.value<double>();
    if (!(value >= key.minimum && value <= key.maximum)) {
      problems_.add(
          line, key.path,
          fmt::format("key \"{}\" is {}; allowed is {}", key.path, number_text(key, value), allowed_text(key)));
      return;
    }
    std::visit([&](auto* field) { *field = static_cast<std::remove_reference_t<decltype(*field)>>(value); },
               key.field(machine_));
  }

  // One relation between keys: reported at the line of the first key.
  void relate(const char* key, bool holds, const std::string& message) {
    if (!holds) problems_.add(root_.at_path(key).node()->source().begin.line, key, message);
  }

  void check_relations() {
    const Machine& m = machine_;
    const SramMap& s = m.sram;
    relate("name",
           m.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               std::string::npos,
           fmt::format("name \"{}\" may have letters, digits, '.', '_' and '-' only", m.name));
    relate("tiles", m.tiles % 64 == 0,
           fmt::format("tiles is {}; allowed is a multiple of 64 (physical rows)", m.tiles));
    relate_multiple("sram.base_bytes", s.base_bytes, "sram.element_bytes", s.element_bytes);
    relate_multiple("sram.region0_bytes", s.region0_bytes, "sram.element_bytes", s.element_bytes);
    relate_multiple("sram.region1_bytes", s.region1_bytes, "sram.region1_element_bytes", s.region1_element_bytes);
    relate_multiple("sram.region1_element_bytes", s.region1_element_bytes, "sram.element_bytes", s.element_bytes);
    relate("sram.region1_element_bytes", s.region1_base() % s.region1_element_bytes == 0,
           fmt::format("region 1 starts at 0x{:x} (sram.base_bytes + sram.region0_bytes), which is no multiple of "
                       "sram.region1_element_bytes 0x{:x}",
                       s.region1_base(), s.region1_element_bytes));
    relate("sram.region1_bytes", s.end() <= 0x100000,
           fmt::format("the SRAM ends at 0x{:x}; allowed is at most 0x100000, because exchange pointers have 18 bits "
                       "of words",
                       s.end()));
    relate("sram.unloadable_top_bytes", s.unloadable_top_bytes < s.region1_bytes,
           fmt::format("sram.unloadable_top_bytes is {}; it must be less than sram.region1_bytes {}",
                       s.unloadable_top_bytes, s.region1_bytes));
    relate("sram.loader_bytes", s.loader_bytes + s.worker_state_bytes < s.region0_bytes,
           fmt::format("sram.loader_bytes {} and sram.worker_state_bytes {} must be less than sram.region0_bytes {}",
                       s.loader_bytes, s.worker_state_bytes, s.region0_bytes));
    relate("sram.host_window_base_bytes",
           s.host_window_base_bytes >= s.base_bytes + s.loader_bytes &&
               s.host_window_base_bytes + s.host_window_bytes <= s.region1_base(),
           fmt::format("the host window 0x{:x} to 0x{:x} must lie in region 0, behind the loader: 0x{:x} to 0x{:x}",
                       s.host_window_base_bytes, s.host_window_base_bytes + s.host_window_bytes,
                       s.base_bytes + s.loader_bytes, s.region1_base()));
    relate("sram.host_window_incoming_bytes", s.host_window_incoming_bytes <= s.host_window_bytes,
           fmt::format("sram.host_window_incoming_bytes is {}; allowed is at most sram.host_window_bytes {}",
                       s.host_window_incoming_bytes, s.host_window_bytes));
    relate("fabric.neutral_mux", m.fabric.neutral_mux >= m.tiles && m.fabric.neutral_mux != m.fabric.host_mux,
           fmt::format("fabric.neutral_mux is 0x{:x}; it must be neither a tile (below {}) nor fabric.host_mux 0x{:x}",
                       m.fabric.neutral_mux, m.tiles, m.fabric.host_mux));
    relate("fabric.host_mux", m.fabric.host_mux >= m.tiles,
           fmt::format("fabric.host_mux is 0x{:x}; it must not be a tile (below {})", m.fabric.host_mux, m.tiles));
    relate("fabric.table_limit_bytes", m.fabric.table_limit_bytes <= s.region0_bytes,
           fmt::format(
               "fabric.table_limit_bytes is {}; allowed is at most sram.region0_bytes {}, because rows are fetched",
               m.fabric.table_limit_bytes, s.region0_bytes));
  }

  void relate_multiple(const char* key, std::uint32_t value, const char* unit_key, std::uint32_t unit) {
    relate(key, value % unit == 0, fmt::format("{} is {}; allowed is a multiple of {} {}", key, value, unit_key, unit));
  }

  const toml::table& root_;
  Problems problems_;
  Machine machine_;
  std::vector<std::string> known_;
  std::set<std::string> sections_;
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Result<Machine> parse_machine(const std::string& text, const std::string& file) {
  try {
    const toml::table root = toml::parse(text, file);
    return Reader(root, file).read();
  } catch (const toml::parse_error& error) {
    const std::string line = std::to_string(error.source().begin.line);
    return fail(ErrorKind::bad_input, fmt::format("{}:{}: no valid TOML: {}", file, line, error.description()),
                {{"file", file}, {"line", line}});
  }
}

std::string describe(const Machine& machine) {
  std::vector<std::vector<std::string>> rows = {{"key", "value", "unit", "allowed", "source"}};
  for (const MachineKey& key : machine_keys()) {
    const double value = value_of(key, machine);
    rows.push_back({key.path, number_text(key, value), key.unit,
                    fmt::format("{} to {}", number_text(key, key.minimum), number_text(key, key.maximum)),
                    value == key.known ? key.source : "this machine file"});
  }
  return fmt::format("{}: {}\n\n{}", machine.name, machine.description, aligned_table(rows));
}

std::string to_toml(const Machine& machine) {
  std::string text = "name = " + quoted(machine.name) + "\n";
  if (!machine.description.empty()) text += "description = " + quoted(machine.description) + "\n";
  std::string section;
  for (const MachineKey& key : machine_keys()) {
    const std::vector<std::string> path = split(key.path, '.');
    if (path.size() == 2 && path[0] != section) {
      section = path[0];
      text += "\n[" + section + "]\n";
    }
    text += path.back() + " = " + number_text(key, value_of(key, machine)) + "\n";
  }
  return text;
}

}  // namespace tw::hw
