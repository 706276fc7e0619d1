// compiler/exchange/list_scheduler.cpp: commits jobs one by one: the earliest first, ties by remaining work.
#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <tuple>

#include "compiler/exchange/scheduler.h"
#include "hw/fabric/fabric.h"

namespace tw::compiler {
namespace {

// Starts that differ by less than this fraction of the transfer (and this many events) count as equal, so that flight
// times do not break up the regular orders in which lanes stay full.
constexpr std::int32_t equal_fraction = 4, equal_events = 100;

class Scheduler {
 public:
  Scheduler(const Jobs& jobs, const hw::Machine& machine, const Strategy& strategy)
      : jobs_(jobs),
        machine_(machine),
        strategy_(strategy),
        tiles_(static_cast<std::size_t>(machine.tiles)),
        pending_(tiles_.size()),
        send_left_(tiles_.size()),
        receive_left_(tiles_.size()),
        receive_end_(tiles_.size(), 1) {
    for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
      tiles_[tile].combine = strategy.combine;
      const PhysicalTile physical = hw::physical_of({tile}, machine);
      physical_.push_back(physical.value);
      companion_.push_back(hw::logical_of(hw::pair_of(physical), machine).value);
    }
    for (std::uint32_t index = 0; index < jobs.jobs.size(); ++index) add_pending(index);
    for (std::vector<Pending>& list : pending_)
      std::stable_sort(list.begin(), list.end(), [](const Pending& a, const Pending& b) {
        return std::tuple(a.wave, a.rotation) < std::tuple(b.wave, b.rotation);
      });
  }

  PhaseSchedule run() {
    PhaseSchedule schedule;
    for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile) {
      schedule.busiest_items = std::max({schedule.busiest_items, send_left_[tile], receive_left_[tile]});
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
    std::uint32_t wave = 0;
    std::uint32_t rotation = 0;
    std::int32_t mean_flight = 0;
    // As things are: the first event at which the lanes are free, and the work left on its fullest receiver.
    std::int32_t start = 0;
    std::int64_t work = 0;
  };

  // A sender's best pending job. The queue gives the first wave first, and in it the smallest `time`.
  struct Candidate {
    std::uint32_t wave = 0;
    std::int32_t time = 0;  // mean event at which the receivers would select it
    std::int64_t work = 0;  // of the fullest lane that it uses
    std::uint32_t source = 0;
    std::uint32_t slot = 0;  // index in pending_[source]
    bool operator<(const Candidate& other) const {
      return std::tuple(wave, time, -work, source) < std::tuple(other.wave, other.time, -other.work, other.source);
    }
    bool operator>(const Candidate& other) const { return other < *this; }
  };

  void add_pending(std::uint32_t index) {
    const Job& job = jobs_.jobs[index];
    std::int64_t flight = 0;
    for (const Reception& reception : jobs_.of(job)) {
      flight += reception.flight;
      receive_left_[reception.tile] += job.items;
    }
    send_left_[job.source] += job.items;
    // Steps from the sender to the first receiver, counted upwards: within a group this is the rotation in which all
    // tiles can send and receive at once.
    const auto count = static_cast<std::uint32_t>(tiles_.size());
    const std::uint32_t rotation = (jobs_.receptions[job.first].tile + count - job.source) % count;
    pending_[job.source].push_back(
        {index, strategy_.waves[index], rotation, static_cast<std::int32_t>(flight / job.count)});
  }

  void update(Pending& pending) const {
    const Job& job = jobs_.jobs[pending.job];
    std::int32_t start = bus_free(job);
    std::int64_t work = 0;
    for (const Reception& reception : jobs_.of(job)) {
      start = std::max(start, receive_end_[reception.tile] - reception.flight - 1);
      work = std::max(work, receive_left_[reception.tile]);
    }
    pending.start = start;
    pending.work = work;
  }

  // First event at which the buses that a job drives are free.
  std::int32_t bus_free(const Job& job) const {
    const std::int32_t own = tiles_[job.source].send_end;
    return job.wide() ? std::max(own, tiles_[companion_[job.source]].send_end) : own;
  }

  Candidate candidate_of(std::uint32_t source) {
    const std::span<Pending> list =
        std::span(pending_[source]).first(std::min(pending_[source].size(), strategy_.considered));
    std::int32_t earliest = INT32_MAX;
    std::size_t same_wave = 0;
    for (; same_wave < list.size() && list[same_wave].wave == list[0].wave; ++same_wave) {
      update(list[same_wave]);
      earliest = std::min(earliest, list[same_wave].start);
    }
    const Pending* best = nullptr;
    for (const Pending& pending : list.first(same_wave)) {
      const std::int32_t items = jobs_.jobs[pending.job].items;
      if (pending.start > earliest + std::min(equal_events, items / equal_fraction)) continue;
      if (!best || std::tuple(-pending.work, pending.rotation) < std::tuple(-best->work, best->rotation))
        best = &pending;
    }
    return {best->wave, best->start + best->mean_flight, std::max(best->work, send_left_[source]), source,
            static_cast<std::uint32_t>(best - list.data())};
  }

  // Commits a job at the first event at which its controls fit, too.
  void place(const Candidate& candidate) {
    std::vector<Pending>& list = pending_[candidate.source];
    const Job& job = jobs_.jobs[list[candidate.slot].job];
    std::int32_t event = list[candidate.slot].start;
    list.erase(list.begin() + candidate.slot);
    TileRow& sender = tiles_[job.source];
    if (job.second_section) {
      sender.write_base(record_register);
      event = std::max(event, bus_free(job));
    }
    for (std::int32_t before = -1; before != event;) {
      before = event;
      event = sender.send_start(event);
      for (const Reception& reception : jobs_.of(job)) {
        const std::int32_t way = reception.flight + 1;
        event =
            tiles_[reception.tile].receive_start(event + way, job.items, reception, reception.tile == job.source) - way;
      }
    }
    sender.add_send({event, job.items, job.address_words, job.sctl});
    if (job.wide()) tiles_[companion_[job.source]].lend_bus(event + job.items);
    send_left_[job.source] -= job.items;
    const auto neutral = static_cast<std::uint32_t>(machine_.fabric.neutral_mux);
    for (const Reception& reception : jobs_.of(job)) {
      const std::int32_t selected = event + reception.flight + 1;
      tiles_[reception.tile].add_reception(selected, job.items, physical_[job.source], neutral, reception,
                                           reception.tile == job.source);
      receive_end_[reception.tile] = selected + job.items;
      receive_left_[reception.tile] -= job.items;
    }
  }

  const Jobs& jobs_;
  const hw::Machine& machine_;
  const Strategy& strategy_;
  std::vector<TileRow> tiles_;
  std::vector<std::uint32_t> physical_, companion_;     // by logical tile; the other tile of its pair
  std::vector<std::vector<Pending>> pending_;           // by sender: jobs in order
  std::vector<std::int64_t> send_left_, receive_left_;  // items still to schedule
  std::vector<std::int32_t> receive_end_;               // first event at which another source may be selected
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

}  // namespace

PhaseSchedule schedule_jobs(const Jobs& jobs, const hw::Machine& machine, const Strategy& strategy) {
  return Scheduler(jobs, machine, strategy).run();
}

}  // namespace tw::compiler
