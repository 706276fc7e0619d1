// simulator/system/exchange.cpp: one internal exchange phase of the simulated machine: resolves it and moves its bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hw/base/parallel.h"
#include "simulator/system/world.h"

namespace tw::sim {

std::int64_t World::exchange_phase(std::int64_t latest, std::int32_t stage) {
  std::vector<Participant> participants(tiles_.size());
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    const TileState& state = tiles_[tile];
    if (state.row == nullptr) continue;
    participants[tile] = {state.row, state.outgoing_base, state.incoming_base, state.row_pc, state.outgoing_base};
    if (const hw::BaseWrite& write = state.row->schedule.base_write; write.present())
      participants[tile].second_base = state.m[write.base_register];
  }
  const ResolvedPhase& phase = phase_of(participants);
  result_.phases += 1;
  StageResult& record = result_.stages[stage];
  std::int64_t busiest = 0;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    result_.tile_words_in[tile] += phase.words_in[tile];
    result_.tile_words_out[tile] += phase.words_out[tile];
    record.words += phase.words_in[tile];
    busiest = std::max<std::int64_t>({busiest, phase.words_in[tile], phase.words_out[tile]});
  }
  record.busiest_words += busiest;
  check_phase(phase, participants);
  if (!options_.timing_only) phase.ordered ? move_in_order(phase) : move(phase);
  return latest + program_.machine.fabric.barrier_cycles;
}

const ResolvedPhase& World::phase_of(const std::vector<Participant>& participants) {
  std::vector<std::uint32_t> rows, bases;
  rows.reserve(participants.size());
  bases.reserve(participants.size() * 3);
  for (const Participant& participant : participants) {
    rows.push_back(participant.pc);
    bases.push_back(participant.outgoing_base);
    bases.push_back(participant.incoming_base);
    bases.push_back(participant.second_base);
  }
  auto [found, added] = phases_.try_emplace(std::move(rows));
  auto& [resolved_bases, phase] = found->second;
  if (added || resolved_bases != bases) {
    resolved_bases.clear();  // stays unequal when resolving ends in a fault
    phase = resolve_phase(participants, program_.machine);
    resolved_bases = std::move(bases);
  }
  return phase;
}

void World::check_phase(const ResolvedPhase& phase, const std::vector<Participant>& participants) const {
  for (const Move& move : phase.moves) {
    if (overlaps_code(move.target_tile, move.target_address, move.bytes))
      throw FaultError{FaultKind::out_of_range,
                       fmt::format("words from tile {} are written to {:#x}, over the program", move.source_tile,
                                   move.target_address),
                       move.target_tile, participants[move.target_tile].pc, move.write_event};
    if (phase.ordered) continue;  // what is sent may have arrived in this phase: checked as words move
    if (const std::uint32_t hole = sram_.first_unwritten(move.source_tile, move.source_address, move.bytes); hole != 0)
      throw FaultError{
          FaultKind::unwritten_read,
          fmt::format("a send of {} bytes at {:#x}: {:#x} was never written", move.bytes, move.source_address, hole),
          move.source_tile, participants[move.source_tile].pc, move.read_event};
  }
}

// No byte is both sent and received into: moves are independent of each other.
void World::move(const ResolvedPhase& phase) {
  parallel_for(tiles_.size(), [&](std::size_t tile) {
    for (std::uint32_t index = phase.first_move[tile]; index < phase.first_move[tile + 1]; ++index) {
      const Move& move = phase.moves[index];
      std::memcpy(sram_.at(move.target_tile, move.target_address), sram_.at(move.source_tile, move.source_address),
                  move.bytes);
      sram_.mark_written(move.target_tile, move.target_address, move.bytes);
    }
  });
}

// Word by word in order of events: a word is read when it leaves and written when it arrives.
void World::move_in_order(const ResolvedPhase& phase) {
  struct Action {
    std::int32_t event;
    bool write;
    std::uint32_t move, word;
  };
  std::vector<Action> actions;
  std::vector<std::vector<std::uint32_t>> flying(phase.moves.size());
  for (std::uint32_t index = 0; index < phase.moves.size(); ++index) {
    const Move& move = phase.moves[index];
    flying[index].resize(move.bytes / 4);
    for (std::uint32_t word = 0; word < move.bytes / 4; ++word) {
      const auto item = static_cast<std::int32_t>(word / (move.item_bytes / 4));
      actions.push_back({move.read_event + item, false, index, word});
      actions.push_back({move.write_event + item, true, index, word});
    }
  }
  std::sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    return std::tie(a.event, a.write, a.move, a.word) < std::tie(b.event, b.write, b.move, b.word);
  });
  for (const Action& action : actions) {
    const Move& move = phase.moves[action.move];
    const std::uint32_t source = move.source_address + action.word * 4, target = move.target_address + action.word * 4;
    if (action.write) {
      store_word(move.target_tile, target, flying[action.move][action.word]);
    } else {
      if (sram_.first_unwritten(move.source_tile, source, 4) != 0)
        throw FaultError{FaultKind::unwritten_read, fmt::format("a send reads {:#x}, which was never written", source),
                         move.source_tile, tiles_[move.source_tile].row_pc, action.event};
      flying[action.move][action.word] = word_at(move.source_tile, source);
    }
  }
}

}  // namespace tw::sim
