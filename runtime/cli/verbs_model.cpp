// runtime/cli/verbs_model.cpp: model, machine, graph, kernel, version.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/import/import.h"
#include "hw/base/text.h"
#include "hw/kernel/kernel.h"
#include "runtime/cli/compiling.h"
#include "runtime/cli/verb.h"

namespace tw::runtime {

using nlohmann::ordered_json;

Result<int> run_model(const Context& context, ordered_json& object, std::string& text) {
  const std::string& what = context.arguments.positional()[0];
  if (what == "list") {
    object["generators"] = ordered_json::array();
    for (const compiler::GeneratorInfo& info : compiler::list_generators()) {
      ordered_json options = ordered_json::object();
      text += fmt::format("{}  {}\n", info.name, info.summary);
      for (const auto& [name, value] : info.options) {
        options[name] = value;
        text += fmt::format("    {}={}\n", name, value);
      }
      object["generators"].push_back({{"name", info.name}, {"summary", info.summary}, {"options", options}});
    }
    return 0;
  }
  if (what != "emit" || context.arguments.positional().size() != 2 || !context.arguments.has("output"))
    return fail(ErrorKind::usage, "model: \"list\" or \"emit SPEC -o M.onnx\" is expected");
  TW_TRY(const compiler::ImportOptions options, import_options(context.arguments));
  TW_TRY_STATUS(compiler::emit_onnx(context.arguments.positional()[1], options, context.arguments.text("output")));
  object["file"] = context.arguments.text("output");
  text = fmt::format("wrote {}\n", context.arguments.text("output"));
  return 0;
}

Result<int> run_machine(const Context& context, ordered_json& object, std::string& text) {
  const std::vector<std::string>& words = context.arguments.positional();
  if (words[0] == "list" && words.size() == 1) {
    object["machines"] = ordered_json::array();
    for (const hw::MachineFile& file : hw::list_machines()) {
      object["machines"].push_back({{"name", file.name}, {"path", file.path}});
      text += fmt::format("{}  {}\n", file.name, file.path);
    }
    return 0;
  }
  if ((words[0] != "show" && words[0] != "check") || words.size() != 2)
    return fail(ErrorKind::usage, "machine: \"list\", \"show NAME\" or \"check FILE\" is expected");
  TW_TRY(const hw::Machine machine, hw::load_machine(words[1]));
  object["machine"] = machine.name;
  object["tiles"] = machine.tiles;
  object["tile_capacity_bytes"] = machine.sram.capacity_bytes();
  object["clock_hz"] = machine.clock_hz;
  object["toml"] = hw::to_toml(machine);
  text = words[0] == "show"
             ? hw::describe(machine)
             : fmt::format("{}: a sound machine of {} tiles with {} bytes each\n", words[1],
                           with_separators(machine.tiles), with_separators(machine.sram.capacity_bytes()));
  return 0;
}

Result<int> run_graph(const Context& context, ordered_json& object, std::string& text) {
  TW_TRY(compiler::ImportOptions options, import_options(context.arguments));
  options.canonicalise = !context.arguments.has("raw");
  TW_TRY(const compiler::Graph graph, compiler::import_model(context.arguments.positional()[0], options));
  text = compiler::print(graph);
  object["model"] = context.arguments.positional()[0];
  object["parameters"] = compiler::parameter_count(graph);
  object["multiply_adds"] = compiler::multiply_adds(graph);
  object["operations"] = graph.operations.size();
  object["text"] = text;
  text += fmt::format("# {} parameters, {} multiply-adds\n", with_separators(compiler::parameter_count(graph)),
                      with_separators(compiler::multiply_adds(graph)));
  return 0;
}

Result<int> run_kernel(const Context& context, ordered_json& object, std::string& text) {
  const Arguments& arguments = context.arguments;
  hw::KernelParams params;
  TW_TRY(params.kind, hw::kernel_from(arguments.positional()[0]));
  TW_TRY(const hw::Machine machine, hw::load_machine(arguments.text("machine", "ipu21")));
  TW_TRY(const compiler::Precision precision, compiler::precision_from(arguments.text("precision", "f16")));
  constexpr std::int64_t largest = 1 << 22;
  TW_TRY(const std::int64_t rows, arguments.integer("rows", 1, 1, largest));
  TW_TRY(const std::int64_t columns, arguments.integer("columns", 16, 1, largest));
  TW_TRY(const std::int64_t partials, arguments.integer("partials", 1, 1, 4096));
  const bool f8 = precision == compiler::Precision::f8, f32 = precision == compiler::Precision::f32;
  const bool gemm = params.kind == hw::KernelKind::gemm;
  params.format = f32 ? hw::NumberFormat::f32 : f8 && gemm ? hw::NumberFormat::f143 : hw::NumberFormat::f16;
  params.out_format = f32                                         ? hw::NumberFormat::f32
                      : params.kind == hw::KernelKind::cast && f8 ? hw::NumberFormat::f143
                                                                  : hw::NumberFormat::f16;
  TW_TRY(const std::int64_t inner, arguments.integer("inner", hw::panel_width(params.format), 1, largest));
  params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(rows);
  params.columns = params.coefficient_stride = params.total_columns = static_cast<std::int32_t>(columns);
  params.inner = static_cast<std::int32_t>(inner);
  params.partials = static_cast<std::int32_t>(partials);
  const bool bytes = params.kind == hw::KernelKind::fill || params.kind == hw::KernelKind::copy;
  TW_TRY(const std::int64_t elements, arguments.integer("elements", rows * columns * (bytes ? 2 : 1), 1, largest));
  params.elements = static_cast<std::int32_t>(elements);
  if (bytes) {
    params.rows = 1;
    params.row_stride = params.out_row_stride = params.elements;
  }
  TW_TRY_STATUS(hw::check(params));
  const std::int64_t cycles = hw::cycles(params, machine), flops = hw::flops(params);
  object["kernel"] = hw::describe(params);
  object["machine"] = machine.name;
  object["cycles"] = cycles;
  object["code_bytes"] = hw::family_code_bytes(params.kind, machine) + hw::entry_code_bytes(params, machine);
  object["operand_bytes"] = ordered_json::array();
  text = fmt::format("{}: {} cycles\n  {} flop, {:.1f} a cycle\n", hw::describe(params), with_separators(cycles),
                     with_separators(flops), static_cast<double>(flops) / static_cast<double>(cycles));
  for (const hw::Operand& operand : hw::operands(params)) {
    object["operand_bytes"].push_back({{"name", operand.name},
                                       {"register", operand.register_number},
                                       {"bytes", operand.bytes},
                                       {"written", operand.written}});
    text += fmt::format("  m{} {}: {} bytes\n", operand.register_number, operand.name, with_separators(operand.bytes));
  }
  object["flops"] = flops;
  object["source"] = hw::price_source(params);
  object["error_bound_fraction"] = hw::price_error_fraction(params.kind);
  text += fmt::format("  code: {} bytes of the family, {} of this entry\n  price: {}\n",
                      with_separators(hw::family_code_bytes(params.kind, machine)),
                      with_separators(hw::entry_code_bytes(params, machine)), hw::price_source(params));
  return 0;
}

Result<int> run_version(const Context&, ordered_json& object, std::string& text) {
  object["compiler"] = __VERSION__;
  text = fmt::format("tilewright {} (built with {})\n", tilewright_version, __VERSION__);
  return 0;
}

}  // namespace tw::runtime
