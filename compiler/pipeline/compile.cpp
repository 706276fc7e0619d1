#include "compiler/pipeline/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "compiler/emit/emit.h"
#include "compiler/lower/lower.h"
#include "compiler/pipeline/obstruction.h"
#include "compiler/pipeline/steps.h"
#include "compiler/place/problem.h"
#include "compiler/search/layout_choice.h"
#include "compiler/search/search.h"
#include "hw/base/check.h"
#include "hw/base/parallel.h"
#include "hw/base/units.h"

namespace tw::compiler {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::f8: return "f8";
    case Precision::f16: return "f16";
    case Precision::f32: return "f32";
  }
  return "unknown";
}

Result<Precision> precision_from(std::string_view name) {
  for (const Precision precision : {Precision::f8, Precision::f16, Precision::f32})
    if (name == name_of(precision)) return precision;
  return fail(ErrorKind::usage, fmt::format("precision \"{}\" is not known; it is one of f8, f16, f32", name));
}

namespace {

// Rows and addresses of all tiles, once everything has a place.
struct Assembled {
  Addresses addresses;
  std::vector<StageRows> rows;  // by stage; empty for stages without exchange
  std::vector<TileCode> tiles;
  std::vector<hw::Binding> bindings;
};

// First guess of the code bytes of the busiest tile, from counts; placement is repeated when it was too small.
std::uint32_t guess_code_bytes(const Lowered& lowered, const hw::Machine& machine) {
  const auto tiles = static_cast<std::size_t>(machine.tiles);
  std::vector<std::uint64_t> bytes(tiles, 0);
  std::vector<std::vector<std::int32_t>> kernels(tiles);
  for (const Stage& stage : lowered.stages) {
    for (const StageTransfer& transfer : stage.transfers) {
      bytes[transfer.source_tile] += 8;                                       // a send beyond 64 words takes two
      for (const auto& [tile, offset] : transfer.targets) bytes[tile] += 10;  // source, often pointer or neutral
    }
    for (const StageCall& call : stage.calls) {
      bytes[call.tile] += 6 * 4;
      kernels[call.tile].push_back(call.kernel);
    }
  }
  std::uint64_t most = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    std::sort(kernels[tile].begin(), kernels[tile].end());
    kernels[tile].erase(std::unique(kernels[tile].begin(), kernels[tile].end()), kernels[tile].end());
    const std::uint64_t area = kernel_area(lowered, kernels[tile], machine).bytes;
    most = std::max(most, area + bytes[tile] + lowered.stages.size() * 24);
  }
  return static_cast<std::uint32_t>(round_up(static_cast<std::int64_t>(most), 1024));
}

std::uint32_t packet_table_bytes(const Lowered& lowered, const hw::Machine& machine) {
  std::vector<std::uint32_t> bytes(static_cast<std::size_t>(machine.tiles), 0);
  for (const LoweredBinding& bound : lowered.bindings) {
    const hw::TensorLayout& layout = bound.binding.layout;
    for (int block = 0; block < layout.blocks(); ++block) {
      const std::int64_t block_bytes =
          layout.block_bytes(block / layout.column_blocks(), block % layout.column_blocks());
      // At most: one long packet per 256 bytes, one short one, two page crossings each, the closing one.
      if (block_bytes > 0)
        bytes[layout.first_tile + block] +=
            static_cast<std::uint32_t>(8 * (ceil_div(block_bytes, 256) + 2 * ceil_div(block_bytes, 4096) + 4));
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

// Weights in region 0 feed the GEMM more slowly: the entry has to say so, and that is known only after placement.
void settle_weight_regions(Lowered& lowered, const Addresses& addresses, const hw::Machine& machine) {
  std::map<std::int32_t, std::int32_t> slower;
  for (Stage& stage : lowered.stages)
    for (StageCall& call : stage.calls) {
      hw::KernelParams params = lowered.kernels[call.kernel];
      if (params.kind != hw::KernelKind::gemm) continue;
      const Place& weights = call.registers[4];
      const int region = machine.sram.region_of(addresses.buffer[weights.buffer] + weights.offset_bytes);
      if (region == params.weights_region) continue;
      const auto [found, added] = slower.try_emplace(call.kernel, static_cast<std::int32_t>(lowered.kernels.size()));
      if (added) {
        params.weights_region = region;
        lowered.kernels.push_back(params);
      }
      call.kernel = found->second;
    }
}

std::vector<hw::Binding> bind(const Lowered& lowered, const Addresses& addresses) {
  std::vector<hw::Binding> bindings;
  constexpr std::uint64_t block_alignment = 64, page = 4096;  // long host packets, host pages
  std::uint64_t host = 0;
  for (const LoweredBinding& bound : lowered.bindings) {
    hw::Binding binding = bound.binding;
    const std::uint32_t offset = binding.block_address_bytes.empty() ? 0 : binding.block_address_bytes[0];
    binding.block_address_bytes.clear();
    binding.host_base = host;
    for (int block = 0; block < binding.layout.blocks(); ++block) {
      binding.block_address_bytes.push_back(addresses.buffer[bound.buffer] + offset);
      binding.block_offsets.push_back(binding.bytes);
      const auto bytes = static_cast<std::uint64_t>(
          binding.layout.block_bytes(block / binding.layout.column_blocks(), block % binding.layout.column_blocks()));
      binding.bytes += static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(bytes), block_alignment));
    }
    host += static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(binding.bytes), page));
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

Result<Assembled> assemble(const Lowered& lowered, const Addresses& addresses, const hw::Machine& machine) {
  Assembled made{.addresses = addresses};
  made.bindings = bind(lowered, addresses);
  made.rows.resize(lowered.stages.size());
  std::vector<Status> statuses(lowered.stages.size());
  parallel_for(lowered.stages.size(), [&](std::size_t index) {
    if (lowered.stages[index].info.kind != hw::StageKind::exchange) return;
    Result<StageRows> rows = encode_stage(lowered.stages[index], addresses, machine);
    if (rows) {
      made.rows[index] = *std::move(rows);
    } else {
      statuses[index] = tl::unexpected(std::move(rows).error());
    }
  });
  for (Status& status : statuses)
    if (!status) return tl::unexpected(std::move(status).error());
  made.tiles.resize(static_cast<std::size_t>(machine.tiles));
  parallel_for(made.tiles.size(), [&](std::size_t tile) {
    made.tiles[tile] =
        generate_tile(static_cast<std::uint32_t>(tile), lowered, addresses, made.bindings, made.rows, machine);
  });
  return made;
}

// Debug info: every buffer of every tile with its lifetime.
void add_buffer_info(hw::Program& program, const Lowered& lowered, const Assembled& made, const hw::Machine& machine,
                     std::uint32_t packet_bytes) {
  const auto stages = static_cast<std::int32_t>(lowered.stages.size());
  parallel_for(program.tiles.size(), [&](std::size_t tile) {
    std::vector<hw::BufferInfo>& buffers = program.tiles[tile].buffers;
    for (std::size_t id = 0; id < lowered.buffers.size(); ++id) {
      const Buffer& buffer = lowered.buffers[id];
      if (buffer.bytes[tile] == 0) continue;
      buffers.push_back({buffer.name, buffer.operation, made.addresses.buffer[id], buffer.bytes[tile],
                         buffer.first_stage, buffer.last_stage, buffer.use});
    }
    const TileCode& code = made.tiles[tile];
    const std::uint32_t kernels = program.tiles[tile].code_address_bytes - made.addresses.code;
    if (kernels > 0)
      buffers.push_back({"kernels", "", made.addresses.code, kernels, 0, stages, hw::BufferInfo::Use::code});
    const std::uint32_t words = static_cast<std::uint32_t>(program.tiles[tile].code.size()) * 4;
    buffers.push_back({"supervisor program", "", program.tiles[tile].code_address_bytes, words - code.table_bytes, 0,
                       stages, hw::BufferInfo::Use::code});
    if (code.table_bytes > 0)
      buffers.push_back({"exchange rows", "", program.tiles[tile].code_address_bytes + words - code.table_bytes,
                         code.table_bytes, 0, stages, hw::BufferInfo::Use::table});
    if (!program.tiles[tile].segments.empty())
      buffers.push_back(
          {"host packets", "", made.addresses.packets, packet_bytes, 0, stages, hw::BufferInfo::Use::host});
    buffers.push_back({"support, stack and worker state", "", machine.sram.base_bytes,
                       machine.sram.loader_bytes + machine.sram.worker_state_bytes + machine.code.support_bytes, 0,
                       stages, hw::BufferInfo::Use::support});
  });
}

std::vector<hw::PlannedOperation> planned_operations(const Plan& plan) {
  std::vector<hw::PlannedOperation> operations;
  std::int32_t repetitions = 1;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::loop_begin) repetitions = step.count;
    if (step.kind == StepKind::loop_end) repetitions = 1;
    if (step.result < 0 || step.kind == StepKind::loop_begin) continue;
    const bool moves = step.kind == StepKind::cast || step.kind == StepKind::relayout || step.kind == StepKind::carry ||
                       step.kind == StepKind::input;
    hw::PlannedOperation planned;
    planned.operation = moves ? step.operation + " (" + name_of(step.kind) + ")" : step.operation;
    planned.kind = name_of(step.kind);
    const hw::TensorLayout& layout = plan.stored[step.result].layout;
    planned.grid = moves ? fmt::format("{}x{}x1", layout.row_blocks(), layout.column_blocks()) : to_string(step.grid);
    const bool matmul = step.kind == StepKind::matmul, attention = step.kind == StepKind::attention;
    planned.precision = hw::name_of(matmul || attention ? step.format : layout.format);
    planned.cycles = step.cost.cycles();
    planned.compute_cycles = step.cost.compute_cycles;
    planned.exchange_cycles = step.cost.exchange_cycles;
    planned.temporary_bytes = step.cost.temporary_bytes;
    planned.resident_bytes = step.cost.resident_bytes;
    planned.repetitions = repetitions;
    planned.left_f8 = planned.right_f8 = (matmul || attention) && step.format == hw::NumberFormat::f143;
    planned.inner_groups = step.grid.inner;
    if (matmul) {
      planned.inner_width = step.inner_groups.width;
      planned.inner_padded = step.inner_groups.padded;
      planned.inner_tail_share = step.inner_groups.tail_share;
    }
    if (attention) {
      planned.inner_width = step.attention.head_groups().width;
      planned.inner_padded = step.attention.head_groups().padded;
      planned.value_scale_exponent = step.value_scale_exponent;
    }
    if (step.kind == StepKind::layer_norm) {
      planned.inner_groups = layout.column_blocks();
      planned.inner_width = balanced_unit(layout, layout.groups.width);
    }
    planned.fused_add = matmul && (step.residual >= 0 || step.residual_parameter >= 0);
    planned.left_scale_exponent = step.left_scale_exponent;
    planned.right_scale_exponent = step.right_scale_exponent;
    planned.layout = fmt::format("{} rows x {} columns in {} x {} blocks, {}", plan.stored[step.result].rows,
                                 plan.stored[step.result].columns, layout.row_blocks(), layout.column_blocks(),
                                 hw::name_of(layout.format));
    operations.push_back(std::move(planned));
  }
  return operations;
}

void record_totals(hw::Program& program, const Lowered& lowered, const Assembled& made) {
  std::int64_t used = 0, peak = 0;
  for (std::size_t tile = 0; tile < program.tiles.size(); ++tile) {
    const TileCode& code = made.tiles[tile];
    program.exchange_table_bytes_max = std::max(program.exchange_table_bytes_max, code.table_bytes);
    program.code_bytes_max = std::max(program.code_bytes_max, code.used_bytes);
    std::int64_t constant = 0;
    std::vector<std::int64_t> live(lowered.stages.size() + 1, 0);
    bool works = false;
    for (const hw::BufferInfo& buffer : program.tiles[tile].buffers) {
      const bool tensor = buffer.use == hw::BufferInfo::Use::value || buffer.use == hw::BufferInfo::Use::operand ||
                          buffer.use == hw::BufferInfo::Use::host;
      works = works || (tensor && buffer.bytes > 0);
      if (!tensor) {
        constant += buffer.bytes;
        continue;
      }
      live[std::max(buffer.first_stage, 0)] += buffer.bytes;
      live[std::max(buffer.last_stage, 0)] -= buffer.bytes;
    }
    used += works ? 1 : 0;
    std::int64_t sum = constant, most = constant;
    for (const std::int64_t change : live) most = std::max(most, sum += change);
    if (most > peak) {
      peak = most;
      program.peak_tile = static_cast<std::uint32_t>(tile);
    }
  }
  program.tiles_used = static_cast<std::int32_t>(used);
  program.tile_peak_bytes = static_cast<std::uint32_t>(peak);
  for (const hw::ParameterImage& image : program.parameters)
    if (image.tile == 0) program.resident_bytes_max += image.bytes;
}

hw::Program make_program(const Plan& plan, const Lowered& lowered, Assembled& made, const hw::Machine& machine,
                         std::uint32_t packet_bytes) {
  hw::Program program;
  program.machine = machine;
  program.precision = name_of(plan.precision);
  for (const Stage& stage : lowered.stages) program.stages.push_back(stage.info);
  program.kernels = lowered.kernels;
  for (TileCode& code : made.tiles) program.tiles.push_back(std::move(code.program));
  program.bindings = made.bindings;
  for (const LoweredCheckpoint& point : lowered.checkpoints) {
    hw::Checkpoint checkpoint = point.checkpoint;
    checkpoint.block_address_bytes.assign(static_cast<std::size_t>(checkpoint.layout.blocks()),
                                          made.addresses.buffer[point.buffer]);
    program.checkpoints.push_back(std::move(checkpoint));
  }
  program.plan = planned_operations(plan);
  program.estimated_cycles = plan.estimated_cycles;
  add_buffer_info(program, lowered, made, machine, packet_bytes);
  return program;
}

// Lays out, places, schedules and encodes one plan.
class PlanCompiler {
 public:
  PlanCompiler(const Graph& graph, const hw::Machine& machine, const SearchOptions& options, Steps& steps)
      : graph_(graph), machine_(machine), options_(options), steps_(steps) {}

  Plan plan;        // every value has one layout, every operation one grid and one format
  Lowered lowered;  // stages name buffers, kernels and transfers of all tiles; nothing has an address yet
  std::uint32_t packet_bytes = 0;
  std::optional<Assembled> made;  // every byte has its address and every tile its instructions
  std::optional<Obstruction> obstruction;

  Status run() {
    TW_TRY(plan, steps_.run("search", [&] { return search(graph_, machine_, options_); }));
    TW_TRY(lowered, steps_.run("lower", [&] { return lower(graph_, plan, machine_); }));
    for (Stage& stage : lowered.stages)
      std::stable_sort(stage.calls.begin(), stage.calls.end(),
                       [](const StageCall& a, const StageCall& b) { return a.tile < b.tile; });
    packet_bytes = packet_table_bytes(lowered, machine_);
    std::uint32_t code_bytes = guess_code_bytes(lowered, machine_);
    constexpr int tries = 5;  // each gives the code the room that it needed before
    for (int attempt = 0; attempt < tries && !made; ++attempt) {
      TW_TRY_STATUS(place_and_assemble(code_bytes));
      if (obstruction) return {};
    }
    if (made) return {};
    return fail(ErrorKind::unsupported,
                fmt::format("the code of a tile kept growing beyond {} bytes in {} placements", code_bytes, tries), {},
                "please report this model");
  }

 private:
  Status place_and_assemble(std::uint32_t& code_bytes) {
    const PlacementProblem problem = placement_problem(lowered, machine_, code_bytes, packet_bytes);
    const PlacementResult placed = steps_.run("place", [&] { return place(problem, machine_.sram); });
    if (!placed.fits) {
      obstruction = placement_obstruction(graph_, machine_, options_, plan, lowered, problem, placed);
      return {};
    }
    const std::vector<Violation> broken = verify_placement(problem, placed, machine_.sram);
    TW_CHECK(broken.empty(), "place broke {}: {}", broken[0].rule, broken[0].message);
    const Addresses addresses = addresses_of(lowered, placed, machine_, code_bytes);
    settle_weight_regions(lowered, addresses, machine_);
    TW_TRY(Assembled assembled,
           steps_.run("schedule and encode", [&] { return assemble(lowered, addresses, machine_); }));
    std::uint32_t used = 0;
    for (const TileCode& code : assembled.tiles) used = std::max(used, code.used_bytes);
    if (used <= code_bytes) {
      made = std::move(assembled);
    } else {
      code_bytes = static_cast<std::uint32_t>(round_up(used + used / 16, 1024));
    }
    return {};
  }

  const Graph& graph_;
  const hw::Machine& machine_;
  const SearchOptions& options_;
  Steps& steps_;
};

bool same_choices(const Plan& a, const Plan& b) {
  return std::equal(a.choices.begin(), a.choices.end(), b.choices.begin(), b.choices.end(),
                    [](const OperationChoice& x, const OperationChoice& y) {
                      return x.operation == y.operation && x.alternatives[0].choice == y.alternatives[0].choice;
                    });
}

}  // namespace

Result<CompileOutcome> compile(const Graph& graph, const hw::Machine& machine, const CompileOptions& options) {
  CompileOutcome outcome;
  Steps steps(options.progress);
  const auto finish = [&]() -> CompileOutcome&& {
    outcome.stages = steps.records();
    outcome.compile_seconds = steps.total() - outcome.weights_seconds;
    return std::move(outcome);
  };

  const LowerBound bound = steps.run("bound", [&] { return lower_bound(graph, machine, options.precision); });
  outcome.lower_bound_bytes = bound.resident_bytes + bound.temporary_bytes;
  outcome.obstruction = bound_obstruction(graph, machine, options.precision, bound);
  if (outcome.obstruction) return finish();

  // The search weighs bytes by a budget; what then does not fit is planned again with less of it, a few times.
  std::optional<PlanCompiler> chosen;
  SearchOptions search_options{options.precision, options.ranges, options.pins, options.alternatives};
  for (const double fraction : {1.0, 0.8, 0.65, 0.5, 0.35}) {
    search_options.budget_fraction = fraction;
    PlanCompiler attempt(graph, machine, search_options, steps);
    TW_TRY_STATUS(attempt.run());
    if (chosen && same_choices(chosen->plan, attempt.plan)) continue;
    if (chosen && !attempt.made) continue;  // the first says why
    chosen.emplace(std::move(attempt));
    if (chosen->made) break;
  }
  outcome.choices = chosen->plan.choices;
  if (!chosen->made) {
    outcome.obstruction = chosen->obstruction;
    return finish();
  }
  const Plan& plan = chosen->plan;
  Lowered& lowered = chosen->lowered;
  std::optional<Assembled>& made = chosen->made;

  outcome.program = make_program(plan, lowered, *made, machine, chosen->packet_bytes);
  outcome.program.model = graph.name;
  const auto weights_start = std::chrono::steady_clock::now();
  const bool with_data = options.weights && !options.feasibility_only;
  TW_TRY_STATUS(pack_parameters(graph, lowered, made->addresses, machine, outcome.program.parameters, with_data,
                                options.progress));
  outcome.program.has_weights = with_data;
  record_totals(outcome.program, lowered, *made);
  outcome.weights_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - weights_start).count();
  steps.add("weights", outcome.weights_seconds);

  if (outcome.program.exchange_table_bytes_max > machine.fabric.table_limit_bytes) {
    std::uint32_t tile = 0;
    for (std::size_t index = 0; index < made->tiles.size(); ++index)
      if (made->tiles[index].table_bytes == outcome.program.exchange_table_bytes_max)
        tile = static_cast<std::uint32_t>(index);
    outcome.obstruction = table_obstruction(machine, tile, outcome.program.exchange_table_bytes_max);
    return finish();
  }
  outcome.fits = true;
  return finish();
}

}  // namespace tw::compiler
