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
  std::uint32_t format = 0;  // receive format: 0 for words, else of double words in this tile
  bool selects = true;       // its row has the source controls; of a pair only the owner's has
  bool wide() const { return format != 0; }
  std::uint32_t item_words() const { return wide() ? 2 : 1; }
};

// A transfer, or a part of one that was longer than the machine's limit.
struct Job {
  std::uint32_t source = 0;
  std::uint32_t address_words = 0;
  std::int32_t items = 0;  // words, or double words
  std::uint8_t sctl = 0;
  std::uint32_t first = 0, count = 0;  // its receptions
  bool second_section = false;         // after the tile's base write
  bool wide() const { return (sctl & hw::Send::sctl_wide) != 0; }
};

struct Jobs {
  std::vector<Job> jobs;
  std::vector<Reception> receptions;
  std::span<const Reception> of(const Job& job) const { return std::span(receptions).subspan(job.first, job.count); }
};

// Transfers to at most `split_up_to` receivers become one job a receiver. `pairs`: those that can be sent as double
// words to whole physical pairs are.
Jobs jobs_of(std::span<const Transfer> transfers, const hw::Machine& machine, std::size_t split_up_to, bool pairs);

// One tile while rows grow: its sends and its receptions are appended in order, so its three lists stay sorted.
class TileRow {
 public:
  std::int32_t send_end = 0;  // first event at which the bus is free
  // The bus is taken by the other tile of the pair until `event`.
  void lend_bus(std::int32_t event) { send_end = std::max(send_end, event); }

  // The smallest event >= `event` at which a send may start beside this tile's controls.
  std::int32_t send_start(std::int32_t event) const;
  // The smallest control event >= `event` at which `items` items may be received. `self`: the tile is also the sender,
  // so that the controls must fit beside that send, too.
  std::int32_t receive_start(std::int32_t event, std::int32_t items, const Reception& reception, bool self) const;

  void add_send(const hw::Send& send);
  // Writes OUTGOING_BASE at the first slot with room behind all sends so far, once; sends follow behind it.
  void write_base(int base_register);
  void add_reception(std::int32_t event, std::int32_t items, std::uint32_t source, std::uint32_t neutral,
                     const Reception& reception, bool self);
  hw::RowSchedule finish(std::int32_t tail);

  // Whether a source and a pointer change may share an event (sendpicp, which must be aligned).
  bool combine = true;

 private:
  // A reception that is being placed: the events of its source controls (0: none in this row) and its sender's, if own.
  struct Attempt {
    std::int32_t select = 0, end = 0;  // as the pair hears it
    bool selects = true;
    std::int32_t own_send = -2;
    bool has_source_at(std::int32_t event) const { return selects && (event == select || event == end); }
  };
  static Attempt attempt(std::int32_t event, std::int32_t items, const Reception& reception, bool self);
  std::int32_t pointer_event(const Attempt& attempt, const Reception& reception) const;
  std::int32_t format_event(const Attempt& attempt, const Reception& reception, std::int32_t pointer_at) const;
  bool beside_sends(std::int32_t control_event, std::int32_t own_send) const;
  bool may_combine(std::int32_t event, const Attempt& attempt) const;

  hw::RowSchedule row_;
  std::uint32_t pointer_ = no_pointer;  // where the next word would be written
  std::uint32_t format_ = 0;            // receive format after the last control
  std::int32_t write_end_ = 1;          // event after the last write
  std::int32_t own_end_ = 0;            // event after the last thing that this tile's row does
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
