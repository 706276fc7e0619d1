// runtime/cli/verbs_compile.cpp: plan, compile, check.
#include <fmt/format.h>

#include "compiler/plan/choice.h"
#include "hw/base/file.h"
#include "hw/base/text.h"
#include "hw/program/package.h"
#include "runtime/cli/compiling.h"

namespace tw::runtime {

using nlohmann::ordered_json;

namespace {

constexpr int does_not_fit = 3;

Result<int> feasibility(const Context& context, ordered_json& object, std::string& text, bool table) {
  TW_TRY(CompileRequest request, compile_request(context));
  request.options.feasibility_only = true;
  constexpr std::int64_t most_alternatives = 1000;
  TW_TRY(const std::int64_t alternatives, context.arguments.integer("alternatives", 0, 0, most_alternatives));
  request.options.alternatives = static_cast<std::size_t>(alternatives);
  TW_TRY(const Compiled compiled, compile_model(context, request, false));
  put_outcome(object, request, compiled);
  if (table && compiled.outcome.fits) text = plan_text(compiled.outcome.program);
  if (alternatives > 0) text += "\n" + choices_text(compiled.outcome.choices) + "\n";
  text += outcome_text(request, compiled);
  if (context.arguments.has("plan-out") && !compiled.outcome.choices.empty()) {
    const std::string header = fmt::format("tilewright plan {} --machine {} --precision {}", request.model,
                                           request.machine.name, compiler::name_of(request.options.precision));
    TW_TRY_STATUS(
        write_file(context.arguments.text("plan-out"), compiler::plan_toml(compiled.outcome.choices, header)));
    text += fmt::format("  wrote {}\n", context.arguments.text("plan-out"));
  }
  return compiled.outcome.fits ? 0 : does_not_fit;
}

}  // namespace

Result<int> run_plan(const Context& context, ordered_json& object, std::string& text) {
  return feasibility(context, object, text, true);
}

Result<int> run_check(const Context& context, ordered_json& object, std::string& text) {
  return feasibility(context, object, text, false);
}

Result<int> run_compile(const Context& context, ordered_json& object, std::string& text) {
  if (!context.arguments.has("output")) return fail(ErrorKind::usage, "compile: -o P.twp is missing");
  TW_TRY(CompileRequest request, compile_request(context));
  TW_TRY(const Compiled compiled, compile_model(context, request, !context.arguments.has("no-weights")));
  put_outcome(object, request, compiled);
  text = outcome_text(request, compiled);
  if (!compiled.outcome.fits) return does_not_fit;
  const std::vector<Violation> broken = hw::verify(compiled.outcome.program);
  if (!broken.empty())
    return fail(ErrorKind::corrupt,
                fmt::format("the compiled program breaks {}: {} ({} findings)", broken[0].rule, broken[0].message,
                            broken.size()),
                {}, "this is a bug; please report it with the model");
  TW_TRY(const std::uint64_t bytes, hw::write_package(compiled.outcome.program, context.arguments.text("output")));
  object["package_bytes"] = bytes;
  object["package"] = context.arguments.text("output");
  text += fmt::format("  wrote {} ({} bytes)\n", context.arguments.text("output"),
                      with_separators(static_cast<std::int64_t>(bytes)));
  return 0;
}

}  // namespace tw::runtime
