// compiler/exchange/schedule.cpp: the order of transfers: earliest first, ties by remaining work of the fuller lane.
#include <algorithm>
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
constexpr std::int32_t equal_fraction = 4, equal_events = 48;

class Scheduler {
 public:
  Scheduler(const Jobs& jobs, const hw::Machine& machine, bool combine)
      : jobs_(jobs), machine_(machine), tiles_(static_cast<std::size_t>(machine.tiles)), pending_(tiles_.size()) {
    for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
      tiles_[tile].combine = combine;
      physical_.push_back(hw::physical_of({static_cast<std::uint32_t>(tile)}, machine).value);
    }
    for (std::uint32_t index = 0; index < jobs.jobs.size(); ++index) {
      const Job& job = jobs.jobs[index];
      pending_[job.source].push_back(index);
      tiles_[job.source].send_left += job.words;
      for (const Reception& reception : jobs.of(job)) tiles_[reception.tile].receive_left += job.words;
    }
  }

  PhaseSchedule run() {
    PhaseSchedule schedule;
    for (const TileRow& tile : tiles_)
      schedule.busiest_words = std::max({schedule.busiest_words, tile.send_left, tile.receive_left});
    for (std::uint32_t tile = 0; tile < tiles_.size(); ++tile)
      if (!pending_[tile].empty()) queue_.push(candidate_of(tile));
    while (!queue_.empty()) {
      const Candidate old = queue_.top();
      queue_.pop();
      const Candidate now = candidate_of(old.source);
      if (old < now) {  // its lanes have been given to others since
        queue_.push(now);
        continue;
      }
      place(now);
      if (!pending_[now.source].empty()) queue_.push(candidate_of(now.source));
    }
    for (TileRow& tile : tiles_) {
      schedule.rows.push_back(tile.finish(machine_.fabric.row_tail_cycles));
      schedule.horizon_events = std::max(schedule.horizon_events, schedule.rows.back().events);
    }
    return schedule;
  }

 private:
  // A sender's best pending job. The queue gives the smallest `time` first.
  struct Candidate {
    std::int32_t time = 0;  // mean source control event at the receivers
    std::int64_t work = 0;  // of the fullest lane that it uses
    std::uint32_t source = 0;
    std::uint32_t slot = 0;  // index in pending_[source]
    bool operator<(const Candidate& other) const {
      return std::tuple(time, -work, source) < std::tuple(other.time, -other.work, other.source);
    }
    bool operator>(const Candidate& other) const { return other < *this; }
  };

  // The first event at which the lanes of a job are free, and the work that is left on its receivers.
  struct Lanes {
    std::int32_t start = 0;
    std::int64_t work = 0;
  };
  Lanes lanes_of(const Job& job) const {
    Lanes lanes{tiles_[job.source].send_end, 0};
    for (const Reception& reception : jobs_.of(job)) {
      const TileRow& tile = tiles_[reception.tile];
      lanes.start = std::max(lanes.start, tile.receive_end - reception.flight - 1);
      lanes.work = std::max(lanes.work, tile.receive_left);
    }
    return lanes;
  }

  // Steps from the sender to the first receiver, counted upwards: within a group this is the rotation in which all
  // tiles can send and receive at once.
  std::uint32_t rotation(const Job& job) const {
    const auto count = static_cast<std::uint32_t>(tiles_.size());
    return (jobs_.receptions[job.first].tile + count - job.source) % count;
  }

  Candidate candidate_of(std::uint32_t source) {
    const std::vector<std::uint32_t>& pending = pending_[source];
    lanes_.clear();
    std::int32_t earliest = INT32_MAX;
    for (const std::uint32_t index : pending) {
      lanes_.push_back(lanes_of(jobs_.jobs[index]));
      earliest = std::min(earliest, lanes_.back().start);
    }
    std::size_t best = pending.size();
    for (std::size_t slot = 0; slot < pending.size(); ++slot) {
      const Job& job = jobs_.jobs[pending[slot]];
      if (lanes_[slot].start > earliest + std::min(equal_events, job.words / equal_fraction)) continue;
      if (best == pending.size() || std::tuple(-lanes_[slot].work, rotation(job)) <
                                        std::tuple(-lanes_[best].work, rotation(jobs_.jobs[pending[best]])))
        best = slot;
    }
    const Job& job = jobs_.jobs[pending[best]];
    std::int64_t flight = 0;
    for (const Reception& reception : jobs_.of(job)) flight += reception.flight;
    return {lanes_[best].start + static_cast<std::int32_t>(flight / job.count),
            std::max(lanes_[best].work, tiles_[source].send_left), source, static_cast<std::uint32_t>(best)};
  }

  // Commits a job at the first event at which its controls fit, too.
  void place(const Candidate& candidate) {
    std::vector<std::uint32_t>& pending = pending_[candidate.source];
    const Job& job = jobs_.jobs[pending[candidate.slot]];
    pending.erase(pending.begin() + candidate.slot);
    TileRow& sender = tiles_[job.source];
    std::int32_t event = lanes_of(job).start;
    for (std::int32_t before = -1; before != event;) {
      before = event;
      event = sender.send_start(event);
      for (const Reception& reception : jobs_.of(job))
        event = tiles_[reception.tile].receive_start(event + reception.flight + 1, job.words, reception,
                                                     reception.tile == job.source) -
                reception.flight - 1;
    }
    sender.add_send({event, job.words, job.address_words, job.sctl});
    for (const Reception& reception : jobs_.of(job))
      tiles_[reception.tile].add_reception(event + reception.flight + 1, job.words, physical_[job.source],
                                           static_cast<std::uint32_t>(machine_.fabric.neutral_mux), reception,
                                           reception.tile == job.source);
  }

  const Jobs& jobs_;
  const hw::Machine& machine_;
  std::vector<TileRow> tiles_;
  std::vector<std::uint32_t> physical_;
  std::vector<std::vector<std::uint32_t>> pending_;  // by sender: jobs in order
  std::vector<Lanes> lanes_;                         // scratch of candidate_of
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

// Rows with combined controls may turn out to be impossible to align.
Status check_rows(const PhaseSchedule& schedule) {
  for (std::size_t tile = 0; tile < schedule.rows.size(); ++tile) {
    const hw::RowSchedule& row = schedule.rows[tile];
    if (row.events == 0) continue;
    auto code = hw::encode_row(row, 0);
    if (!code) {
      code.error().where["tile"] = std::to_string(tile);
      return tl::unexpected(std::move(code).error());
    }
  }
  return {};
}

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

Result<PhaseSchedule> schedule_phase(std::span<const Transfer> transfers, const hw::Machine& machine) {
  const Jobs jobs = jobs_of(transfers, machine);
  PhaseSchedule schedule = Scheduler(jobs, machine, true).run();
  if (check_rows(schedule)) return schedule;
  schedule = Scheduler(jobs, machine, false).run();
  TW_TRY_STATUS(check_rows(schedule));
  return schedule;
}

}  // namespace tw::compiler
