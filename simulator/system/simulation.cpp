// simulator/system/simulation.cpp: the SystemC modules, elaborated once and re-armed for each run.
#include "simulator/system/simulation.h"

#include <chrono>
#include <cstdlib>

#include "simulator/system/loadable.h"
#include "simulator/system/world.h"

// SystemC's library refers to sc_main; simulations are driven from run() instead.
int sc_main(int, char**) { return 0; }

namespace tw::sim {
namespace {

// One tile: a single method that executes instructions until the tile waits, then waits for the wake event.
class TileModule : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(TileModule);
  TileModule(sc_core::sc_module_name name, std::uint32_t tile, sc_core::sc_event& wake, sc_core::sc_event& arrived,
             World*& world)
      : sc_core::sc_module(name), tile_(tile), wake_(wake), arrived_(arrived), world_(world) {
    SC_METHOD(activate);
    sensitive << wake_;
    dont_initialize();
  }

 private:
  void activate() {
    if (world_ == nullptr || tile_ >= world_->tiles() || world_->stopped()) return;
    world_->run_tile(tile_);
    arrived_.notify(sc_core::SC_ZERO_TIME);
  }

  std::uint32_t tile_;
  sc_core::sc_event& wake_;
  sc_core::sc_event& arrived_;
  World*& world_;
};

// The barrier network: when every tile of a wake-up has arrived, resolves the barrier and wakes them at its time.
class SyncNetwork : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(SyncNetwork);
  SyncNetwork(sc_core::sc_module_name name, sc_core::sc_event& wake, sc_core::sc_event& arrived, World*& world)
      : sc_core::sc_module(name), wake_(wake), arrived_(arrived), world_(world) {
    SC_METHOD(activate);
    sensitive << arrived_;
    dont_initialize();
  }

 private:
  void activate() {
    if (world_ == nullptr || world_->stopped()) return;
    const std::int64_t release = world_->resolve_barrier();
    if (release < 0) return;  // all tiles are done, or the run has stopped
    const std::int64_t now = static_cast<std::int64_t>(sc_core::sc_time_stamp().value()) - start_;
    wake_.notify(sc_core::sc_time::from_value(static_cast<sc_dt::uint64>(release - now)));
  }

 public:
  std::int64_t start_ = 0;  // SystemC time at which the current run began

 private:
  sc_core::sc_event& wake_;
  sc_core::sc_event& arrived_;
  World*& world_;
};

// SystemC elaborates once per process: the modules are made for the largest machine asked for first and re-armed.
struct Elaborated {
  World* world = nullptr;
  sc_core::sc_event wake{"wake"}, arrived{"arrived"};
  std::vector<std::unique_ptr<TileModule>> tiles;
  std::unique_ptr<SyncNetwork> sync;
  bool in_use = false;

  static Elaborated& instance(int at_least) {
    static Elaborated modules(at_least);
    return modules;
  }

 private:
  explicit Elaborated(int count) {
    sync = std::make_unique<SyncNetwork>("sync", wake, arrived, world);
    for (int tile = 0; tile < count; ++tile)
      tiles.push_back(std::make_unique<TileModule>(sc_core::sc_module_name(("tile" + std::to_string(tile)).c_str()),
                                                   static_cast<std::uint32_t>(tile), wake, arrived, world));
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
  }
};

}  // namespace

struct Simulation::State {
  World world;
  Elaborated* modules = nullptr;
  State(const hw::Program& program, const Options& options) : world(program, options) {}
  ~State() {
    if (modules == nullptr) return;
    modules->world = nullptr;
    modules->in_use = false;
  }
};

Simulation::Simulation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Simulation::~Simulation() = default;

Result<std::unique_ptr<Simulation>> Simulation::create(const hw::Program& program, const Options& options) {
  if (!program.has_weights && !options.timing_only)
    return fail(ErrorKind::bad_input, "the package holds no weights, so nothing can be computed", {},
                "simulate it with --timing, or compile it without --no-weights");
  TW_TRY_STATUS(check_loadable(program));
  ::setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 1);
  // Modules for the whole ipu21 family are cheap (1,536 tiles), so that tests may mix machines in one process.
  constexpr int family_tiles = 1536;
  Elaborated& modules = Elaborated::instance(std::max(family_tiles, program.machine.tiles));
  if (program.machine.tiles > static_cast<int>(modules.tiles.size()))
    return fail(ErrorKind::unsupported,
                "a machine of " + std::to_string(program.machine.tiles) + " tiles after one of " +
                    std::to_string(modules.tiles.size()) + " in the same process",
                {}, "simulate the larger machine first");
  if (modules.in_use)
    return fail(ErrorKind::unsupported, "another simulation is alive in this process", {}, "end it first");
  auto state = std::make_unique<State>(program, options);
  if (!state->world.has_memory())
    return fail(ErrorKind::device,
                "the host has no address space for the memory of " + std::to_string(program.machine.tiles) + " tiles",
                {}, "simulate with --timing, which needs none, or a smaller machine");
  state->modules = &modules;
  modules.in_use = true;
  return std::unique_ptr<Simulation>(new Simulation(std::move(state)));
}

Result<RunResult> Simulation::run(const std::map<std::string, std::vector<std::byte>>& inputs) {
  const auto start = std::chrono::steady_clock::now();
  Elaborated& modules = *state_->modules;
  modules.wake.cancel();
  modules.arrived.cancel();
  state_->world.reset(inputs);
  modules.world = &state_->world;
  modules.sync->start_ = static_cast<std::int64_t>(sc_core::sc_time_stamp().value());
  modules.wake.notify(sc_core::SC_ZERO_TIME);
  try {
    sc_core::sc_start();
  } catch (const sc_core::sc_report& report) {
    return fail(ErrorKind::device, std::string("SystemC: ") + report.what());
  }
  modules.world = nullptr;
  RunResult result = state_->world.finish();
  result.simulate_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace tw::sim
