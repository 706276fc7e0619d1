// runtime/cli/verbs_place.cpp: place.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "compiler/place/interval_packing.h"
#include "compiler/place/packing_csv.h"
#include "hw/base/check.h"
#include "hw/base/file.h"
#include "hw/base/text.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {

using nlohmann::ordered_json;

namespace {

constexpr int exit_unknown = 1, exit_does_not_fit = 3;

std::string sentence(const compiler::PackingResult& result, std::int64_t capacity,
                     const compiler::PackingLimits& limits) {
  switch (result.answer) {
    case compiler::PackingAnswer::fits:
      return fmt::format("fits: {} of {} bytes", with_separators(result.peak), with_separators(capacity));
    case compiler::PackingAnswer::does_not_fit:
      return result.proof == compiler::PackingProof::bound
                 ? fmt::format("does not fit: {} bytes are alive at one time, the capacity is {}",
                               with_separators(result.lower_bound), with_separators(capacity))
                 : fmt::format("does not fit in {} bytes: the search was exhaustive", with_separators(capacity));
    case compiler::PackingAnswer::unknown: break;
  }
  return fmt::format(
      "no answer within {}; no placement can be smaller than {} bytes; raise --{}",
      result.out_of_time ? fmt::format("{} s", limits.seconds) : fmt::format("{} nodes", with_separators(limits.nodes)),
      with_separators(result.lower_bound), result.out_of_time ? "seconds" : "nodes");
}

}  // namespace

Result<int> run_place(const Context& context, ordered_json& object, std::string& text) {
  const Arguments& arguments = context.arguments;
  if (!arguments.has("capacity")) return fail(ErrorKind::usage, "place: --capacity BYTES is needed");
  constexpr std::int64_t most_nodes = 1'000'000'000'000, most_seconds = 1'000'000;
  compiler::PackingProblem problem;
  compiler::PackingLimits limits;
  TW_TRY(problem.capacity, arguments.integer("capacity", 0, 0, compiler::largest_packing_bytes));
  TW_TRY(limits.nodes, arguments.integer("nodes", limits.nodes, 1, most_nodes));
  TW_TRY(const std::int64_t seconds, arguments.integer("seconds", 0, 0, most_seconds));
  limits.seconds = static_cast<double>(seconds);
  const std::string& file = arguments.positional()[0];
  TW_TRY(const std::string csv, read_text_file(file));
  TW_TRY(const compiler::PackingTable table, compiler::read_packing_csv(csv, file));
  problem.buffers = table.buffers;

  const auto start = std::chrono::steady_clock::now();
  auto packed = compiler::pack(problem, limits);
  if (!packed) {
    packed.error().message = file + ": " + packed.error().message;
    return tl::unexpected(std::move(packed).error());
  }
  const compiler::PackingResult& result = *packed;
  object["fits"] = result.answer == compiler::PackingAnswer::fits;
  object["capacity_bytes"] = problem.capacity;
  if (result.answer == compiler::PackingAnswer::fits) object["peak_bytes"] = result.peak;
  object["lower_bound_bytes"] = result.lower_bound;
  object["proof"] = compiler::name_of(result.proof);
  object["search_nodes"] = result.nodes;
  object["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  object["offsets"] = ordered_json::object();
  text = fmt::format("{}: {} buffers: {}\n", file, table.buffers.size(), sentence(result, problem.capacity, limits));
  if (result.answer == compiler::PackingAnswer::unknown) return exit_unknown;
  if (result.answer == compiler::PackingAnswer::does_not_fit) return exit_does_not_fit;

  const std::vector<Violation> violations = compiler::verify_packing(problem, result.offsets);
  TW_CHECK(violations.empty(), "{}", violations.empty() ? "" : violations.front().message);
  for (std::size_t index = 0; index < table.ids.size(); ++index)
    object["offsets"][table.ids[index]] = result.offsets[index];
  if (arguments.has("output")) {
    TW_TRY_STATUS(write_file(arguments.text("output"), compiler::packing_csv(table, result.offsets)));
    text += fmt::format("wrote {}\n", arguments.text("output"));
  }
  return 0;
}

}  // namespace tw::runtime
