#include "runtime/cli/compiling.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "compiler/canonical/rewrites.h"
#include "compiler/plan/choice.h"
#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/memory.h"
#include "hw/base/text.h"
#include "runtime/cli/scales.h"

namespace tw::runtime {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Result<compiler::ImportOptions> import_options(const Arguments& arguments) {
  compiler::ImportOptions options;
  TW_TRY(const auto dims, arguments.pairs("dim"));
  for (const auto& [name, text] : dims) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1)
      return fail(ErrorKind::usage, fmt::format("--dim {}={}: a whole number of at least 1 is expected", name, text));
    options.dims.emplace_back(name, value);
  }
  options.without = arguments.all("without");
  TW_TRY_STATUS(compiler::check_rewrite_names(options.without));
  constexpr std::int64_t largest_batch = 1 << 16;
  TW_TRY(options.batch, arguments.integer("batch", 0, 1, largest_batch));
  TW_TRY(options.seed, arguments.integer("seed", 0, 0, std::int64_t{1} << 62));
  return options;
}

Result<CompileRequest> compile_request(const Context& context) {
  CompileRequest request;
  request.model = context.arguments.positional()[0];
  TW_TRY(request.import, import_options(context.arguments));
  TW_TRY(request.machine, hw::load_machine(context.arguments.text("machine", "ipu21")));
  TW_TRY(request.options.precision, compiler::precision_from(context.arguments.text("precision", "f8")));
  request.options.progress = context.progress();
  if (context.arguments.has("plan")) {
    const std::string file = context.arguments.text("plan");
    TW_TRY(const std::string text, read_text_file(file, 1 << 24));
    TW_TRY(request.options.pins, compiler::read_plan_toml(text, file));
  }
  return request;
}

Result<Compiled> compile_model(const Context& context, CompileRequest& request, bool with_weights) {
  Compiled compiled;
  auto start = Clock::now();
  TW_TRY(compiled.graph, compiler::import_model(request.model, request.import));
  compiled.import_seconds = seconds_since(start);
  compiled.import_rss_bytes = rss_bytes();
  start = Clock::now();
  if (with_weights && request.options.precision == compiler::Precision::f8) {
    // A model that cannot fit is refused before its reference is run.
    compiler::CompileOptions quick = request.options;
    quick.weights = false;
    quick.feasibility_only = true;
    TW_TRY(compiler::CompileOutcome outcome, compiler::compile(compiled.graph, request.machine, quick));
    if (!outcome.fits) {
      compiled.outcome = std::move(outcome);
      return compiled;
    }
    start = Clock::now();
    TW_TRY(request.options.ranges,
           operand_ranges(context, compiled.graph, static_cast<std::uint64_t>(request.import.seed)));
  }
  compiled.calibrate_seconds = seconds_since(start);
  request.options.weights = with_weights;
  TW_TRY(compiled.outcome, compiler::compile(compiled.graph, request.machine, request.options));
  hw::Program& program = compiled.outcome.program;
  program.model = request.model;
  program.dims = request.import.dims;
  program.batch = request.import.batch;
  program.without_rewrites = request.import.without;
  program.seed = request.import.seed;
  program.tilewright_version = tilewright_version;
  if (!compiler::is_generator(request.model)) {
    TW_TRY(const std::vector<std::byte> bytes, read_file(request.model));
    program.model_hash = fmt::format("{:016x}", hash_bytes(bytes));
  }
  return compiled;
}

double error_bound_fraction(const hw::Program& program) {
  double weighted = 0, total = 0;
  constexpr double exchange_error = 0.03;  // phases: docs/fidelity.md
  for (const hw::PlannedOperation& planned : program.plan) {
    const double exchange = static_cast<double>(planned.exchange_cycles) * planned.repetitions;
    const double compute = static_cast<double>(planned.compute_cycles) * planned.repetitions;
    hw::KernelKind kind = hw::KernelKind::gemm;
    if (planned.kind == "layer_norm") kind = hw::KernelKind::layer_norm_apply;
    if (planned.kind == "attention") kind = hw::KernelKind::attention_softmax;
    if (const auto found = hw::kernel_from(planned.kind)) kind = *found;
    weighted += exchange * exchange_error + compute * hw::price_error_fraction(kind);
    total += exchange + compute;
  }
  return total > 0 ? weighted / total : 0;
}

namespace {

const char* name_of(compiler::ReduceSplit split) { return split == compiler::ReduceSplit::rows ? "rows" : "columns"; }

void put_choices(nlohmann::ordered_json& object, const std::vector<compiler::OperationChoice>& choices) {
  object["choices"] = nlohmann::ordered_json::array();
  for (const compiler::OperationChoice& choice : choices) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const compiler::Alternative& chosen = choice.alternatives.front();
    for (const compiler::Alternative& other : choice.alternatives)
      list.push_back({{"grid", to_string(other.choice.grid)},
                      {"split", name_of(other.choice.split)},
                      {"long_runs", other.choice.long_runs},
                      {"cycles", other.cost.cycles()},
                      {"compute_cycles", other.cost.compute_cycles},
                      {"exchange_cycles", other.cost.exchange_cycles},
                      {"temporary_bytes", other.cost.temporary_bytes},
                      {"more_cycles", other.total_cycles - chosen.total_cycles},
                      {"reason", &other == &chosen ? "chosen" : reason_against(other, chosen)}});
    object["choices"].push_back({{"operation", choice.operation}, {"alternatives", std::move(list)}});
  }
}

}  // namespace

void put_outcome(nlohmann::ordered_json& object, const CompileRequest& request, const Compiled& compiled) {
  const compiler::CompileOutcome& outcome = compiled.outcome;
  const hw::Program& program = outcome.program;
  object["fits"] = outcome.fits;
  object["model"] = request.model;
  object["machine"] = request.machine.name;
  object["precision"] = compiler::name_of(request.options.precision);
  object["batch"] = std::max<std::int64_t>(1, request.import.batch);
  object["compile_seconds"] = compiled.import_seconds + outcome.compile_seconds;
  object["weights_seconds"] = outcome.weights_seconds;
  object["calibrate_seconds"] = compiled.calibrate_seconds;
  object["stage_seconds"] = {{"import", compiled.import_seconds}};
  object["stage_rss_bytes"] = {{"import", compiled.import_rss_bytes}};
  for (const compiler::StageRecord& stage : outcome.stages) {
    object["stage_seconds"][stage.name] = stage.seconds;
    object["stage_rss_bytes"][stage.name] = stage.rss_bytes;
  }
  object["tile_capacity_bytes"] = request.machine.sram.capacity_bytes();
  object["lower_bound_bytes"] = outcome.lower_bound_bytes;
  if (!outcome.fits) {
    const compiler::Obstruction& obstruction = *outcome.obstruction;
    nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
    for (const auto& buffer : obstruction.buffers) buffers.push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
    object["obstruction"] = {{"tile", obstruction.tile},
                             {"event", obstruction.event},
                             {"needed_bytes", obstruction.needed_bytes},
                             {"available_bytes", obstruction.available_bytes},
                             {"buffers", buffers},
                             {"proof", obstruction.proof},
                             {"alternatives", obstruction.alternatives}};
    return;
  }
  object["tiles_used"] = program.tiles_used;
  object["estimated_cycles"] = program.estimated_cycles;
  object["error_bound_fraction"] = error_bound_fraction(program);
  object["resident_bytes_max"] = program.resident_bytes_max;
  object["tile_peak_bytes"] = program.tile_peak_bytes;
  object["exchange_table_bytes_max"] = program.exchange_table_bytes_max;
  object["code_bytes_max"] = program.code_bytes_max;
  nlohmann::ordered_json plan = nlohmann::ordered_json::array();
  for (const hw::PlannedOperation& planned : program.plan)
    plan.push_back({{"operation", planned.operation},
                    {"kind", planned.kind},
                    {"grid", planned.grid},
                    {"precision", planned.precision},
                    {"cycles", planned.cycles},
                    {"compute_cycles", planned.compute_cycles},
                    {"exchange_cycles", planned.exchange_cycles},
                    {"repetitions", planned.repetitions},
                    {"temporary_bytes", planned.temporary_bytes},
                    {"resident_bytes", planned.resident_bytes},
                    {"layout", planned.layout},
                    {"left_scale_exponent", planned.left_scale_exponent},
                    {"right_scale_exponent", planned.right_scale_exponent}});
  object["plan"] = std::move(plan);
  if (request.options.alternatives > 0) put_choices(object, outcome.choices);
}

std::string choices_text(const std::vector<compiler::OperationChoice>& choices) {
  std::vector<std::vector<std::string>> rows{{"operation", "grid", "split", "long runs", "cycles", "more", "why not"}};
  for (const compiler::OperationChoice& choice : choices) {
    const compiler::Alternative& chosen = choice.alternatives.front();
    for (const compiler::Alternative& other : choice.alternatives) {
      const bool first = &other == &chosen;
      rows.push_back({first ? choice.operation : "", to_string(other.choice.grid), name_of(other.choice.split),
                      other.choice.long_runs ? "yes" : "no", with_separators(other.cost.cycles()),
                      first ? "" : "+" + with_separators(other.total_cycles - chosen.total_cycles),
                      first ? "chosen" : reason_against(other, chosen)});
    }
  }
  return aligned_table(rows);
}

std::string plan_text(const hw::Program& program) {
  std::vector<std::vector<std::string>> rows{{"operation", "kind", "grid", "precision", "times", "cycles", "compute",
                                              "exchange", "temporary", "resident", "layout"}};
  for (const hw::PlannedOperation& planned : program.plan)
    rows.push_back({planned.operation, planned.kind, planned.grid, planned.precision,
                    std::to_string(planned.repetitions), with_separators(planned.cycles),
                    with_separators(planned.compute_cycles), with_separators(planned.exchange_cycles),
                    with_separators(planned.temporary_bytes), with_separators(planned.resident_bytes), planned.layout});
  return aligned_table(rows);
}

std::string outcome_text(const CompileRequest& request, const Compiled& compiled) {
  const compiler::CompileOutcome& outcome = compiled.outcome;
  if (outcome.fits) {
    const hw::Program& program = outcome.program;
    return fmt::format(
        "fits: {} in {} on {}\n  {} cycles estimated ({:.3f} ms at {:.2f} GHz, within {:.0f} %)\n  {} of {} bytes a "
        "tile at the peak (tile {}); {} resident, {} exchange rows, {} code\n  {} of {} tiles used\n",
        request.model, compiler::name_of(request.options.precision), request.machine.name,
        with_separators(program.estimated_cycles),
        static_cast<double>(program.estimated_cycles) / request.machine.clock_hz * 1e3, request.machine.clock_hz / 1e9,
        100 * error_bound_fraction(program), with_separators(program.tile_peak_bytes),
        with_separators(request.machine.sram.capacity_bytes()), program.peak_tile,
        with_separators(program.resident_bytes_max), with_separators(program.exchange_table_bytes_max),
        with_separators(program.code_bytes_max), program.tiles_used, request.machine.tiles);
  }
  const compiler::Obstruction& o = *outcome.obstruction;
  std::string text =
      fmt::format("does not fit: tile {} needs {} bytes at {}, has room for {} of them ({} short; proof: {})\n", o.tile,
                  with_separators(o.needed_bytes), o.event, with_separators(o.available_bytes),
                  with_separators(o.needed_bytes - o.available_bytes), o.proof);
  constexpr std::size_t most = 10;
  for (std::size_t i = 0; i < std::min(most, o.buffers.size()); ++i)
    text += fmt::format("  alive: {} {}\n", o.buffers[i].name, with_separators(o.buffers[i].bytes));
  for (const std::string& alternative : o.alternatives) text += fmt::format("  would help: {}\n", alternative);
  return text;
}

}  // namespace tw::runtime
