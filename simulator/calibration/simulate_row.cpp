// simulator/calibration/simulate_row.cpp: a program of one kernel call, or of one phase, and its cycles.
#include <fmt/format.h>

#include <algorithm>

#include "hw/base/units.h"
#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/kernel/kernel.h"
#include "hw/program/program.h"
#include "simulator/calibration/calibration.h"
#include "simulator/system/simulation.h"

namespace tw::sim {
namespace {

using hw::Opcode;

// One tile works, the others stop at once. Stage 0 sets registers, stage 1 is what was measured.
class OneTileProgram {
 public:
  explicit OneTileProgram(const hw::Machine& machine) {
    program_.machine = machine;
    program_.tiles.resize(static_cast<std::size_t>(machine.tiles));
    program_.stages.push_back({.kind = hw::StageKind::compute, .operation = "registers", .what = "set registers"});
    program_.stages.push_back({.kind = hw::StageKind::compute, .operation = "measured", .what = "measured"});
    code_address_ = machine.sram.host_window_base_bytes + machine.sram.host_window_bytes;
    for (hw::TileProgram& tile : program_.tiles) tile.code_address_bytes = tile.entry_bytes = code_address_;
  }

  void emit(int stage, std::uint32_t tile, const hw::Instruction& instruction) {
    const auto words = hw::encode(instruction);
    std::vector<std::uint32_t>& code = program_.tiles[tile].code;
    program_.tiles[tile].origins.push_back({static_cast<std::uint32_t>(code.size()),
                                            static_cast<std::uint32_t>(instruction.words()),
                                            {static_cast<std::uint32_t>(stage)}});
    code.insert(code.end(), words.begin(), words.begin() + instruction.words());
  }
  void set(std::uint32_t tile, int d, std::uint32_t value) {
    emit(0, tile, {.opcode = Opcode::setzi, .d = d, .immediate = static_cast<std::int32_t>(value)});
  }

  // A call of a kernel whose operands lie in elements of their own: the first input in region 0, the others behind
  // each other in region 1.
  Status call(const hw::KernelParams& params) {
    const hw::SramMap& sram = program_.machine.sram;
    program_.kernels.push_back(params);
    std::uint32_t region1 = sram.region1_base(), region0 = code_address_ + sram.element_bytes;
    for (const hw::Operand& operand : hw::operands(params)) {
      const auto bytes = static_cast<std::uint32_t>(operand.bytes);
      const bool low = operand.register_number == 3 && region0 + bytes <= sram.region1_base();
      std::uint32_t& next = low ? region0 : region1;
      if (std::uint64_t{next} + bytes > sram.end())
        return fail(ErrorKind::bad_input, fmt::format("operands of {} do not fit a tile", hw::describe(params)));
      set(0, operand.register_number, next);
      next += static_cast<std::uint32_t>(round_up(bytes, low ? sram.element_bytes : sram.region1_element_bytes));
    }
    const std::uint32_t entry = code_address_ - 64;
    program_.tiles[0].entries.push_back({entry, 0});
    emit(1, 0, {.opcode = Opcode::call, .d = 10, .immediate = static_cast<std::int32_t>(entry)});
    return {};
  }

  // A row that takes so many events, with what the compiler puts around it: one base, call and return.
  Status phase(std::int32_t events) {
    program_.stages[1].kind = hw::StageKind::exchange;
    hw::RowSchedule row;
    row.events = events;
    TW_TRY(const std::vector<std::uint32_t> code, hw::encode_row(row, code_address_));
    constexpr int before_row = 5;  // set-up, put, call, trap, alignment
    const std::uint32_t address = code_address_ + before_row * 4 + 4;
    emit(1, 0, {.opcode = Opcode::setzi, .d = 9, .immediate = 0});
    emit(1, 0, {.opcode = Opcode::put, .s = 9, .immediate = hw::csr::outgoing_base});
    emit(1, 0, {.opcode = Opcode::call, .d = 10, .immediate = static_cast<std::int32_t>(address)});
    emit(0, 0, {.opcode = Opcode::trap});
    while (program_.tiles[0].code.size() * 4 < address - code_address_) emit(0, 0, {.opcode = Opcode::nop});
    program_.tiles[0].origins.push_back(
        {static_cast<std::uint32_t>(program_.tiles[0].code.size()), static_cast<std::uint32_t>(code.size()), {1}});
    program_.tiles[0].code.insert(program_.tiles[0].code.end(), code.begin(), code.end());
    for (std::uint32_t tile = 1; tile < program_.tiles.size(); ++tile)
      emit(1, tile, {.opcode = Opcode::sync, .immediate = 3});
    return {};
  }

  Result<std::int64_t> cycles() {
    for (std::uint32_t tile = 0; tile < program_.tiles.size(); ++tile)
      if (tile > 0 || program_.stages[1].kind == hw::StageKind::compute) emit(0, tile, {.opcode = Opcode::trap});
    TW_TRY(const auto simulation, Simulation::create(program_, {.timing_only = true, .checked = false}));
    TW_TRY(const RunResult run, simulation->run({}));
    if (run.fault) return fail(ErrorKind::device, run.fault->kind + ": " + run.fault->message);
    return run.stages[1].cycles;
  }

 private:
  hw::Program program_;
  std::uint32_t code_address_ = 0;
};

struct Recipe {
  CalibrationKind kind;
  std::vector<hw::KernelKind> kernels;  // called one after the other; none: a phase
};

const std::vector<Recipe>& recipes() {
  using enum hw::KernelKind;
  static const std::vector<Recipe> table{
      {{"gemm", "rows x inner x columns"}, {gemm}},
      {{"reduce", "sum of partials of rows x columns"}, {reduce}},
      {{"gelu", "rows of columns values"}, {gelu}},
      {{"cast", "F16 to F8, rows x columns values"}, {cast}},
      {{"copy", "rows runs of columns values of F16"}, {copy}},
      {{"add", "rows x columns values"}, {binary}},
      {{"layer_norm", "rows of columns values: statistics and apply in one call"},
       {layer_norm_statistics, layer_norm_apply}},
      {{"layer_norm_statistics", "rows of columns values"}, {layer_norm_statistics}},
      {{"layer_norm_apply", "rows of columns values"}, {layer_norm_apply}},
      {{"softmax", "whole rows of columns values"}, {softmax}},
      {{"softmax_split", "rows of columns values, rows split over the workers"}, {attention_softmax}},
      {{"attention_merge", "partials of rows x columns"}, {attention_merge}},
      {{"phase", "rows: events of the schedule's horizon"}, {}},
  };
  return table;
}

hw::KernelParams params_of(hw::KernelKind kind, const CalibrationRow& row) {
  const bool f8 = row.precision == "f8", f32 = row.precision == "f32";
  hw::KernelParams params{.kind = kind};
  params.format = f32                                  ? hw::NumberFormat::f32
                  : f8 && kind == hw::KernelKind::gemm ? hw::NumberFormat::f143
                                                       : hw::NumberFormat::f16;
  params.out_format = f32                                                                    ? hw::NumberFormat::f32
                      : kind == hw::KernelKind::cast || (f8 && kind != hw::KernelKind::gemm) ? hw::NumberFormat::f143
                                                                                             : hw::NumberFormat::f16;
  if (kind == hw::KernelKind::reduce || kind == hw::KernelKind::binary || kind == hw::KernelKind::gelu ||
      kind == hw::KernelKind::layer_norm_apply || kind == hw::KernelKind::softmax)
    params.out_format = params.format;
  params.rows = params.row_stride = params.out_row_stride = static_cast<std::int32_t>(row.rows);
  params.columns = params.coefficient_stride = params.total_columns = static_cast<std::int32_t>(row.columns);
  params.inner = static_cast<std::int32_t>(row.inner);
  params.partials = static_cast<std::int32_t>(std::max<std::int64_t>(1, row.partials));
  params.elements = params.rows * params.columns;
  params.has_scale = params.has_bias = kind == hw::KernelKind::layer_norm_apply;
  if (kind == hw::KernelKind::copy) {
    params.elements = params.columns * hw::bytes_of(params.format);
    params.row_stride = params.out_row_stride = params.elements;
  }
  return params;
}

}  // namespace

const std::vector<CalibrationKind>& calibration_kinds() {
  static const std::vector<CalibrationKind> kinds = [] {
    std::vector<CalibrationKind> made;
    for (const Recipe& recipe : recipes()) made.push_back(recipe.kind);
    return made;
  }();
  return kinds;
}

Result<std::int64_t> simulate_row(const CalibrationRow& row, const hw::Machine& machine) {
  const auto recipe =
      std::find_if(recipes().begin(), recipes().end(), [&](const Recipe& r) { return row.kind == r.kind.name; });
  const auto in_row = [&](Error error) {
    error.message = fmt::format("row \"{}\" (line {}): {}", row.name, row.line, error.message);
    return tl::unexpected(std::move(error));
  };
  if (recipe == recipes().end()) return in_row({ErrorKind::bad_input, fmt::format("unknown kind \"{}\"", row.kind)});
  std::int64_t total = 0;
  if (recipe->kernels.empty()) {
    if (row.rows < 1) return in_row({ErrorKind::bad_input, "a phase needs its events in \"rows\""});
    OneTileProgram program(machine);
    if (const Status made = program.phase(static_cast<std::int32_t>(row.rows)); !made) return in_row(made.error());
    return program.cycles();
  }
  for (const hw::KernelKind kind : recipe->kernels) {
    const hw::KernelParams params = params_of(kind, row);
    if (const Status good = hw::check(params); !good) return in_row(good.error());
    OneTileProgram program(machine);
    if (const Status made = program.call(params); !made) return in_row(made.error());
    const auto cycles = program.cycles();
    if (!cycles) return in_row(cycles.error());
    total += *cycles;
  }
  return total;
}

}  // namespace tw::sim
