#include "compiler/plan/choice.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>

#include "hw/base/text.h"

namespace tw::compiler {
namespace {

constexpr std::int32_t largest_groups = 1 << 20;

std::optional<Grid> grid_from(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 3) return std::nullopt;
  std::int32_t numbers[3] = {};
  for (int at = 0; at < 3; ++at) {
    const std::string& part = parts[at];
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), numbers[at]);
    if (error != std::errc{} || end != part.data() + part.size() || numbers[at] < 1 || numbers[at] > largest_groups)
      return std::nullopt;
  }
  return Grid{numbers[0], numbers[1], numbers[2]};
}

class PlanReader {
 public:
  explicit PlanReader(const std::string& file) : file_(file) {}

  Result<Pins> read(const toml::table& root) {
    Pins pins;
    for (const auto& [key, node] : root) {
      if (key.str() != "operations" || !node.is_table()) {
        problem(node, fmt::format("unknown key \"{}\"; [operations.\"NAME\"] is expected", key.str()));
        continue;
      }
      for (const auto& [name, entry] : *node.as_table()) {
        if (const toml::table* table = entry.as_table())
          pins[std::string(name.str())] = read_pin(*table);
        else
          problem(entry, fmt::format("operation \"{}\" needs keys of its own", name.str()));
      }
    }
    if (problems_.empty()) return pins;
    return fail(ErrorKind::bad_input, join(problems_, "\n"), {{"file", file_}},
                "`tilewright plan MODEL --plan-out FILE` writes a plan that can be edited");
  }

 private:
  void problem(const toml::node& node, const std::string& what) {
    problems_.push_back(fmt::format("{}:{}: {}", file_, node.source().begin.line, what));
  }

  PlanChoice read_pin(const toml::table& table) {
    PlanChoice choice;
    const std::vector<std::string> known{"grid", "split", "long_runs"};
    if (!table.contains("grid")) problem(table, "key \"grid\" is missing, \"ROWSxCOLUMNSxINNER\" is expected");
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "grid") {
        const auto text = node.value_exact<std::string>();
        const auto grid = text ? grid_from(*text) : std::nullopt;
        if (grid)
          choice.grid = *grid;
        else
          problem(node, "grid: a text like \"5x72x4\" is expected, row x column x inner groups of at least 1");
      } else if (name == "split") {
        const auto text = node.value_exact<std::string>();
        if (!text || (*text != "rows" && *text != "columns"))
          problem(node, "split: \"rows\" or \"columns\" is expected");
        choice.split = text && *text == "columns" ? ReduceSplit::columns : ReduceSplit::rows;
      } else if (name == "long_runs") {
        const auto flag = node.value_exact<bool>();
        if (!flag) problem(node, "long_runs: true or false is expected");
        choice.long_runs = flag.value_or(false);
      } else {
        problem(node, fmt::format("unknown key \"{}\"{}", name, did_you_mean(name, known)));
      }
    }
    return choice;
  }

  const std::string& file_;
  std::vector<std::string> problems_;
};

}  // namespace

void Ranking::add(const Alternative& alternative) {
  const auto same = [&](const Alternative& other) { return other.choice == alternative.choice; };
  if (!wants(alternative) || std::any_of(kept_.begin(), kept_.end(), same)) return;
  const auto at = std::find_if(kept_.begin(), kept_.end(),
                               [&](const Alternative& other) { return alternative.rank() < other.rank(); });
  kept_.insert(at, alternative);
  if (kept_.size() > most_) kept_.pop_back();
}

std::string reason_against(const Alternative& worse, const Alternative& chosen) {
  if (!worse.within_budget && chosen.within_budget)
    return fmt::format("needs {} bytes of temporaries, more than is left beside parameters",
                       with_separators(worse.cost.temporary_bytes));
  const auto part = [](const char* name, std::int64_t cycles) {
    return cycles == 0 ? std::string()
                       : fmt::format("{} {}{}", name, cycles > 0 ? "+" : "-", with_separators(std::abs(cycles)));
  };
  std::vector<std::string> parts{
      part("compute", worse.cost.compute_cycles - chosen.cost.compute_cycles),
      part("exchange", worse.cost.exchange_cycles - chosen.cost.exchange_cycles),
      part("around it", (worse.total_cycles - worse.cost.cycles()) - (chosen.total_cycles - chosen.cost.cycles()))};
  std::erase(parts, "");
  return parts.empty() ? "the same cycles on more tiles" : join(parts, ", ");
}

std::string plan_toml(const std::vector<OperationChoice>& choices, const std::string& header) {
  std::string text = fmt::format("# {}\n# Delete what the planner may choose; edit and pass with --plan.\n", header);
  for (const OperationChoice& operation : choices) {
    const Alternative& chosen = operation.alternatives.front();
    text += fmt::format("\n[operations.\"{}\"]  # {} cycles\ngrid = \"{}\"\n", operation.operation,
                        with_separators(chosen.cost.cycles()), to_string(chosen.choice.grid));
    if (operation.kind != StepKind::matmul) continue;
    text += fmt::format("split = \"{}\"\nlong_runs = {}\n",
                        chosen.choice.split == ReduceSplit::columns ? "columns" : "rows", chosen.choice.long_runs);
  }
  return text;
}

Result<Pins> read_plan_toml(const std::string& text, const std::string& file) {
  try {
    return PlanReader(file).read(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::bad_input, fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()),
                {{"file", file}}, "a plan file is TOML");
  }
}

}  // namespace tw::compiler
