// compiler/exchange/schedule.cpp: the order of transfers: earliest first, ties by remaining work of the fuller lane.
#include <algorithm>
#include <optional>
#include <queue>

#include <fmt/format.h>

#include "compiler/exchange/scheduler.h"
#include "hw/base/check.h"
#include "hw/base/units.h"
#include "hw/fabric/fabric.h"

namespace tw::compiler {
namespace {

// Starts that differ by less than this fraction of the transfer (and this many events) count as equal, so that flight
// times do not break up the regular orders in which lanes stay full.
constexpr std::int32_t equal_fraction = 4, equal_events = 100;
// Jobs of one sender that are compared at a time: the next ones of its rotation.
constexpr std::size_t considered = 12;

class Scheduler {
 public:
  // `combine`: by tile, whether a source and a pointer change may share an event.
  Scheduler(const Jobs& jobs, const hw::Machine& machine, const std::vector<bool>& combine)
      : jobs_(jobs),
        machine_(machine),
        tiles_(static_cast<std::size_t>(machine.tiles)),
        pending_(tiles_.size()),
        send_left_(tiles_.size()),
        receive_left_(tiles_.size()),
        receive_end_(tiles_.size(), 1) {
    for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
      tiles_[tile].combine = combine[tile];
      physical_.push_back(hw::physical_of({tile}, machine).value);
    }
    for (std::uint32_t index = 0; index < jobs.jobs.size(); ++index) add_pending(index);
    for (std::vector<Pending>& list : pending_)
      std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.rotation < b.rotation; });
  }

  PhaseSchedule run() {
    PhaseSchedule schedule;
    for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
      schedule.busiest_words = std::max({schedule.busiest_words, send_left_[tile], receive_left_[tile]});
      if (!pending_[tile].empty()) queue_.push(candidate_of(tile));
    }
    while (!queue_.empty()) {
      const Candidate old = queue_.top();
      queue_.pop();
      const Candidate now = candidate_of(old.source);
      if (old < now) {  // its lanes have been given to others since
        queue_.push(now);
        continue;
      }
      place(now);
      if (!pending_[old.source].empty()) queue_.push(candidate_of(old.source));
    }
    for (TileRow& tile : tiles_) {
      schedule.rows.push_back(tile.finish(machine_.fabric.row_tail_cycles));
      schedule.horizon_events = std::max(schedule.horizon_events, schedule.rows.back().events);
    }
    return schedule;
  }

 private:
  // A job that waits in its sender's list.
  struct Pending {
    std::uint32_t job = 0;
    std::uint32_t rotation = 0;
    std::int32_t mean_flight = 0;
    // As things are: the first event at which the lanes are free, and the work left on its fullest receiver.
    std::int32_t start = 0;
    std::int64_t work = 0;
  };

  // A sender's best pending job. The queue gives the smallest `time` first.
  struct Candidate {
    std::int32_t time = 0;  // mean event at which the receivers would select it
    std::int64_t work = 0;  // of the fullest lane that it uses
    std::uint32_t source = 0;
    std::uint32_t slot = 0;  // index in pending_[source]
    bool operator<(const Candidate& other) const {
      return std::tuple(time, -work, source) < std::tuple(other.time, -other.work, other.source);
    }
    bool operator>(const Candidate& other) const { return other < *this; }
  };

  void add_pending(std::uint32_t index) {
    const Job& job = jobs_.jobs[index];
    std::int64_t flight = 0;
    for (const Reception& reception : jobs_.of(job)) {
      flight += reception.flight;
      receive_left_[reception.tile] += job.words;
    }
    send_left_[job.source] += job.words;
    // Steps from the sender to the first receiver, counted upwards: within a group this is the rotation in which all
    // tiles can send and receive at once.
    const auto count = static_cast<std::uint32_t>(tiles_.size());
    const std::uint32_t rotation = (jobs_.receptions[job.first].tile + count - job.source) % count;
    pending_[job.source].push_back({index, rotation, static_cast<std::int32_t>(flight / job.count)});
  }

  void update(Pending& pending) const {
    const Job& job = jobs_.jobs[pending.job];
    std::int32_t start = tiles_[job.source].send_end;
    std::int64_t work = 0;
    for (const Reception& reception : jobs_.of(job)) {
      start = std::max(start, receive_end_[reception.tile] - reception.flight - 1);
      work = std::max(work, receive_left_[reception.tile]);
    }
    pending.start = start;
    pending.work = work;
  }

  Candidate candidate_of(std::uint32_t source) {
    const std::span<Pending> list = std::span(pending_[source]).first(std::min(pending_[source].size(), considered));
    std::int32_t earliest = INT32_MAX;
    for (Pending& pending : list) {
      update(pending);
      earliest = std::min(earliest, pending.start);
    }
    const Pending* best = nullptr;
    for (const Pending& pending : list) {
      const std::int32_t words = jobs_.jobs[pending.job].words;
      if (pending.start > earliest + std::min(equal_events, words / equal_fraction)) continue;
      if (!best || std::tuple(-pending.work, pending.rotation) < std::tuple(-best->work, best->rotation))
        best = &pending;
    }
    return {best->start + best->mean_flight, std::max(best->work, send_left_[source]), source,
            static_cast<std::uint32_t>(best - list.data())};
  }

  // Commits a job at the first event at which its controls fit, too.
  void place(const Candidate& candidate) {
    std::vector<Pending>& list = pending_[candidate.source];
    const Job& job = jobs_.jobs[list[candidate.slot].job];
    std::int32_t event = list[candidate.slot].start;
    list.erase(list.begin() + candidate.slot);
    TileRow& sender = tiles_[job.source];
    for (std::int32_t before = -1; before != event;) {
      before = event;
      event = sender.send_start(event);
      for (const Reception& reception : jobs_.of(job)) {
        const std::int32_t way = reception.flight + 1;
        event =
            tiles_[reception.tile].receive_start(event + way, job.words, reception, reception.tile == job.source) - way;
      }
    }
    sender.add_send({event, job.words, job.address_words, job.sctl});
    send_left_[job.source] -= job.words;
    const auto neutral = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    for (const Reception& reception : jobs_.of(job)) {
      const std::int32_t selected = event + reception.flight + 1;
      tiles_[reception.tile].add_reception(selected, job.words, physical_[job.source], neutral, reception,
                                           reception.tile == job.source);
      receive_end_[reception.tile] = selected + job.words;
      receive_left_[reception.tile] -= job.words;
    }
  }

  const Jobs& jobs_;
  const hw::Machine& machine_;
  std::vector<TileRow> tiles_;
  std::vector<std::uint32_t> physical_;
  std::vector<std::vector<Pending>> pending_;           // by sender: jobs in order
  std::vector<std::int64_t> send_left_, receive_left_;  // words still to schedule
  std::vector<std::int32_t> receive_end_;               // first event at which another source may be selected
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

}  // namespace

Jobs jobs_of(std::span<const Transfer> transfers, const hw::Machine& machine) {
  Jobs jobs;
  for (const Transfer& transfer : transfers) {
    TW_CHECK(transfer.words > 0 && !transfer.destinations.empty(), "a transfer of tile {} moves {} words to {} tiles",
             transfer.source.value, transfer.words, transfer.destinations.size());
    const PhysicalTile source = hw::physical_of(transfer.source, machine);
    std::int64_t pieces = ceil_div(transfer.words, machine.fabric.max_transfer_words);
    int directions = 0;
    for (const Destination& destination : transfer.destinations) {
      const PhysicalTile physical = hw::physical_of(destination.tile, machine);
      directions |= transfer.destinations.size() > 1 ? 3 : hw::direction(source, physical);
      // A tile that receives from itself for as long as the way round takes would need to disconnect where it starts to
      // send.
      const int flight = hw::flight_time(source, physical);
      const auto words = static_cast<int>(transfer.words);
      if (destination.tile == transfer.source && (words == -flight || words == -flight - 1)) pieces = 2;
    }
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const auto begin = static_cast<std::uint32_t>(balanced_cut(piece, transfer.words, pieces));
      const auto end = static_cast<std::uint32_t>(balanced_cut(piece + 1, transfer.words, pieces));
      jobs.jobs.push_back({transfer.source.value, transfer.address_bytes / 4 + begin,
                           static_cast<std::int32_t>(end - begin), static_cast<std::uint8_t>(directions),
                           static_cast<std::uint32_t>(jobs.receptions.size()),
                           static_cast<std::uint32_t>(transfer.destinations.size())});
      for (const Destination& destination : transfer.destinations) {
        const PhysicalTile physical = hw::physical_of(destination.tile, machine);
        jobs.receptions.push_back({destination.tile.value, hw::flight_time(source, physical),
                                   hw::write_latency(physical, machine), destination.address_bytes / 4 + begin});
      }
    }
  }
  return jobs;
}

// Combined controls need aligned instructions, and between very short transfers there may be nothing to split for that:
// such tiles are scheduled again without them.
Result<PhaseSchedule> schedule_phase(std::span<const Transfer> transfers, const hw::Machine& machine) {
  constexpr int attempts = 4;
  const Jobs jobs = jobs_of(transfers, machine);
  std::vector<bool> combine(static_cast<std::size_t>(machine.tiles), true);
  for (int attempt = 1;; ++attempt) {
    PhaseSchedule schedule = Scheduler(jobs, machine, combine).run();
    std::optional<Error> failure;
    for (std::uint32_t tile = 0; tile < schedule.rows.size(); ++tile) {
      if (schedule.rows[tile].events == 0) continue;
      auto code = hw::encode_row(schedule.rows[tile], 0);
      if (code) continue;
      combine[tile] = false;
      failure = std::move(code).error();
      failure->where["tile"] = std::to_string(tile);
    }
    if (!failure) return schedule;
    if (attempt == attempts) return tl::unexpected(*std::move(failure));
    if (attempt + 1 == attempts) combine.assign(combine.size(), false);
  }
}

}  // namespace tw::compiler
