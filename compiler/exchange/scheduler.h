// compiler/exchange/scheduler.h: list scheduling of multicasts on send lanes, receive lanes and control events.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/exchange/phase.h"

namespace tw::compiler {

// One receiver of a job.
struct Reception {
  std::uint32_t tile = 0;
  std::int32_t flight = 0;   // source control event = send event + flight + 1
  std::int32_t latency = 0;  // first write = source control event + latency
  std::uint32_t address_words = 0;
};

// A transfer, or a part of one that was longer than the machine's limit.
struct Job {
  std::uint32_t source = 0;
  std::uint32_t address_words = 0;
  std::int32_t words = 0;
  std::uint8_t sctl = 0;
  std::uint32_t first = 0, count = 0;  // its receptions
  bool second_section = false;         // after the tile's base write
};

struct Jobs {
  std::vector<Job> jobs;
  std::vector<Reception> receptions;
  std::span<const Reception> of(const Job& job) const { return std::span(receptions).subspan(job.first, job.count); }
};

// Transfers to at most `split_up_to` receivers become one job a receiver.
Jobs jobs_of(std::span<const Transfer> transfers, const hw::Machine& machine, std::size_t split_up_to);

// One tile while rows grow: its sends and its receptions are appended in order, so its three lists stay sorted.
class TileRow {
 public:
  std::int32_t send_end = 0;  // first event at which the bus is free

  // The smallest event >= `event` at which a send may start beside this tile's controls.
  std::int32_t send_start(std::int32_t event) const;
  // The smallest control event >= `event` at which `words` words may be received. `self`: the tile is also the sender,
  // so that the controls must fit beside that send, too.
  std::int32_t receive_start(std::int32_t event, std::int32_t words, const Reception& reception, bool self) const;

  void add_send(const hw::Send& send);
  // Writes OUTGOING_BASE at the first slot with room behind all sends so far, once; sends follow behind it.
  void write_base(int base_register);
  void add_reception(std::int32_t event, std::int32_t words, std::uint32_t source, std::uint32_t neutral,
                     const Reception& reception, bool self);
  hw::RowSchedule finish(std::int32_t tail);

  // Whether a source and a pointer change may share an event (sendpicp, which must be aligned).
  bool combine = true;

 private:
  std::int32_t pointer_event(std::int32_t select, std::int32_t end, const Reception& reception,
                             std::int32_t own_send) const;
  bool beside_sends(std::int32_t control_event, std::int32_t own_send) const;
  bool may_combine(std::int32_t event, std::int32_t select, std::int32_t end) const;

  hw::RowSchedule row_;
  std::uint32_t pointer_ = no_pointer;  // where the next word would be written
  std::int32_t write_end_ = 1;          // event after the last write
  static constexpr std::uint32_t no_pointer = 0xffffffffU;
};

// One way to choose the order of jobs.
struct Strategy {
  std::vector<std::uint32_t> waves;  // by job; a wave is placed when all jobs of the earlier ones are
  std::size_t considered = 1;        // jobs of a sender that compete, the next ones of its rotation
  bool combine = true;               // whether a source and a pointer change may share an event
};

PhaseSchedule schedule_jobs(const Jobs& jobs, const hw::Machine& machine, const Strategy& strategy);

}  // namespace tw::compiler
