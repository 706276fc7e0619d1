// compiler/exchange/schedule.cpp: transfers into jobs, and the choice among a few orders of them.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "compiler/exchange/scheduler.h"
#include "hw/base/check.h"
#include "hw/base/units.h"
#include "hw/fabric/fabric.h"

namespace tw::compiler {
namespace {

// Whether all rows can be encoded.
Status check_rows(const PhaseSchedule& schedule) {
  for (std::size_t tile = 0; tile < schedule.rows.size(); ++tile) {
    if (schedule.rows[tile].events == 0) continue;
    auto code = hw::encode_row(schedule.rows[tile], 0);
    if (code) continue;
    code.error().where["tile"] = std::to_string(tile);
    return tl::unexpected(std::move(code).error());
  }
  return {};
}

// Combined controls need aligned instructions, and between very short transfers there may be nothing to split for that:
// then the phase is scheduled without them.
Result<PhaseSchedule> schedule_by(Strategy strategy, const Jobs& jobs, const hw::Machine& machine) {
  constexpr std::int64_t short_items = 8;
  std::int64_t items = 0;
  for (const Job& job : jobs.jobs) items += job.items;
  strategy.combine = items >= short_items * static_cast<std::int64_t>(jobs.jobs.size());
  for (;; strategy.combine = false) {
    PhaseSchedule schedule = schedule_jobs(jobs, machine, strategy);
    Status status = check_rows(schedule);
    if (status) return schedule;
    if (!strategy.combine) return tl::unexpected(std::move(status).error());
  }
}

// Collectives of very different fan-out one after the other, the widest first: narrow transfers in between would make
// whole groups of receivers wait for each other.
std::vector<std::uint32_t> waves_by_fan_out(const Jobs& jobs) {
  constexpr std::uint32_t very_different = 4;
  std::map<std::uint32_t, std::uint32_t, std::greater<>> wave_of;  // by number of receivers
  for (const Job& job : jobs.jobs) wave_of.emplace(job.count, 0);
  std::uint32_t wave = 0;
  std::uint32_t previous = 0;
  for (auto& [count, its_wave] : wave_of) {
    if (count * very_different <= previous) ++wave;
    its_wave = wave;
    previous = count;
  }
  std::vector<std::uint32_t> waves;
  for (const Job& job : jobs.jobs) waves.push_back(wave_of.at(job.count));
  return waves;
}

// The second section of all rows behind the first.
void second_section_last(const Jobs& jobs, std::vector<std::uint32_t>& waves) {
  const std::uint32_t last = waves.empty() ? 0 : *std::max_element(waves.begin(), waves.end());
  for (std::size_t index = 0; index < waves.size(); ++index)
    if (jobs.jobs[index].second_section) waves[index] += last + 1;
}

// Items out of and into the busiest tile.
std::int64_t busiest_items(const Jobs& jobs, const hw::Machine& machine) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(machine.tiles)), in(out);
  for (const Job& job : jobs.jobs) {
    out[job.source] += job.items;
    for (const Reception& reception : jobs.of(job)) in[reception.tile] += job.items;
  }
  return std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
}

// Whether a transfer can be sent as double words: long enough, aligned, and to both tiles of physical pairs only.
bool can_pair(const Transfer& transfer, const hw::Machine& machine) {
  const std::int64_t shortest = machine.fabric.pair_min_items;
  const std::span<const Destination> all = transfer.destinations;
  if (shortest == 0 || transfer.words < 2 * shortest || transfer.words % 2 != 0 || all.size() % 2 != 0 ||
      transfer.address_bytes % 8 != 0)
    return false;
  const PhysicalTile source = hw::physical_of(transfer.source, machine);
  const std::int64_t items = transfer.words / 2;
  std::vector<std::uint32_t> tiles;
  for (const Destination& destination : all) {
    if (destination.address_bytes % 8 != 0) return false;
    const PhysicalTile physical = hw::physical_of(destination.tile, machine);
    tiles.push_back(physical.value & ~2U);
    // It would disconnect where it starts to send (see below), and half of it may be too short.
    const int flight = hw::pair_flight_time(source, physical);
    if (physical == source && (items == -flight || items == -flight - 1)) return false;
  }
  std::sort(tiles.begin(), tiles.end());
  for (std::size_t index = 0; index < tiles.size(); index += 2)
    if (tiles[index] != tiles[index + 1]) return false;
  return true;
}

// The parts of a transfer that is sent as double words.
void add_wide_jobs(Jobs& jobs, const Transfer& transfer, const hw::Machine& machine) {
  const PhysicalTile source = hw::physical_of(transfer.source, machine);
  const std::int64_t items = transfer.words / 2;
  const std::int64_t parts = ceil_div(items, machine.fabric.max_transfer_words);
  std::vector<Reception> receptions;
  for (const Destination& destination : transfer.destinations) {
    const PhysicalTile physical = hw::physical_of(destination.tile, machine);
    receptions.push_back({destination.tile.value, hw::pair_flight_time(source, physical),
                          hw::pair_write_latency(physical, machine), destination.address_bytes / 4,
                          hw::pair_format(physical), hw::pair_owner(source, physical) == physical});
  }
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto begin = static_cast<std::uint32_t>(balanced_cut(part, items, parts));
    const auto end = static_cast<std::uint32_t>(balanced_cut(part + 1, items, parts));
    jobs.jobs.push_back({transfer.source.value, transfer.address_bytes / 4 + 2 * begin,
                         static_cast<std::int32_t>(end - begin), static_cast<std::uint8_t>(3 | hw::Send::sctl_wide),
                         static_cast<std::uint32_t>(jobs.receptions.size()),
                         static_cast<std::uint32_t>(receptions.size()), transfer.moving});
    for (Reception reception : receptions) {
      reception.address_words += 2 * begin;
      jobs.receptions.push_back(reception);
    }
  }
}

// The parts of a transfer to these destinations. Parts respect the machine's limit of words.
void add_jobs(Jobs& jobs, const Transfer& transfer, std::span<const Destination> destinations,
              const hw::Machine& machine) {
  const PhysicalTile source = hw::physical_of(transfer.source, machine);
  std::int64_t parts = ceil_div(transfer.words, machine.fabric.max_transfer_words);
  std::vector<Reception> receptions;
  int directions = 0;
  for (const Destination& destination : destinations) {
    const PhysicalTile physical = hw::physical_of(destination.tile, machine);
    const int flight = hw::flight_time(source, physical);
    receptions.push_back(
        {destination.tile.value, flight, hw::write_latency(physical, machine), destination.address_bytes / 4});
    directions |= destinations.size() > 1 ? 3 : hw::direction(source, physical);
    // A tile that receives from itself for as long as the way round takes would disconnect where it starts to send.
    const auto words = static_cast<int>(transfer.words);
    if (destination.tile == transfer.source && (words == -flight || words == -flight - 1)) parts = 2;
  }
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto begin = static_cast<std::uint32_t>(balanced_cut(part, transfer.words, parts));
    const auto end = static_cast<std::uint32_t>(balanced_cut(part + 1, transfer.words, parts));
    jobs.jobs.push_back({transfer.source.value, transfer.address_bytes / 4 + begin,
                         static_cast<std::int32_t>(end - begin), static_cast<std::uint8_t>(directions),
                         static_cast<std::uint32_t>(jobs.receptions.size()),
                         static_cast<std::uint32_t>(receptions.size()), transfer.moving});
    for (Reception reception : receptions) {
      reception.address_words += begin;
      jobs.receptions.push_back(reception);
    }
  }
}

}  // namespace

Jobs jobs_of(std::span<const Transfer> transfers, const hw::Machine& machine, std::size_t split_up_to, bool pairs) {
  Jobs jobs;
  for (const Transfer& transfer : transfers) {
    const std::span<const Destination> all = transfer.destinations;
    TW_CHECK(transfer.words > 0 && !all.empty(), "a transfer of tile {} moves {} words to {} tiles",
             transfer.source.value, transfer.words, all.size());
    if (pairs && can_pair(transfer, machine)) {
      add_wide_jobs(jobs, transfer, machine);
      continue;
    }
    const std::size_t step = all.size() <= split_up_to ? 1 : all.size();
    for (std::size_t first = 0; first < all.size(); first += step)
      add_jobs(jobs, transfer, all.subspan(first, step), machine);
  }
  return jobs;
}

// A few orders; what is near the bound is taken at once. Regular collectives want the strict rotation, irregular ones a
// choice. A gather in a small group is shorter when its multicasts are sent one receiver at a time, because then all
// tiles of the group send at once: (n - 1) instead of n times the words; where lanes allow it that is tried first.
Result<PhaseSchedule> schedule_phase(std::span<const Transfer> transfers, const hw::Machine& machine) {
  constexpr std::size_t choice = 12, small_group = 16;
  const Jobs whole = jobs_of(transfers, machine, 1, false);
  const Jobs split = jobs_of(transfers, machine, small_group, false);
  const Jobs paired = jobs_of(transfers, machine, 1, true);
  std::int64_t bound = busiest_items(whole, machine);
  std::vector<const Jobs*> variants = {&whole};
  if (split.jobs.size() != whole.jobs.size() && busiest_items(split, machine) == bound)
    variants.insert(variants.begin(), &split);
  const auto is_wide = [](const Job& job) { return job.wide(); };
  if (std::any_of(paired.jobs.begin(), paired.jobs.end(), is_wide) && busiest_items(paired, machine) < bound) {
    variants.insert(variants.begin(), &paired);
    bound = busiest_items(paired, machine);
  }
  std::optional<PhaseSchedule> best;
  for (const Jobs* jobs : variants) {
    std::vector<std::uint32_t> mixed(jobs->jobs.size(), 0);
    std::vector<std::uint32_t> by_fan_out = waves_by_fan_out(*jobs);
    second_section_last(*jobs, mixed);
    second_section_last(*jobs, by_fan_out);
    std::vector<Strategy> strategies = {{by_fan_out, 1}, {by_fan_out, choice}};
    if (by_fan_out != mixed) strategies.push_back({mixed, choice});
    for (const Strategy& strategy : strategies) {
      TW_TRY(PhaseSchedule schedule, schedule_by(strategy, *jobs, machine));
      if (!best || schedule.horizon_events < best->horizon_events) best = std::move(schedule);
      if (best->horizon_events <= bound + bound / 50 + 150) return *std::move(best);  // 2 % and a flight
    }
  }
  return *std::move(best);
}

}  // namespace tw::compiler
