// compiler/emit/rows.cpp: exchange rows of a stage: schedule, encode, decode again and compare.
#include <fmt/format.h>

#include "compiler/emit/emit.h"
#include "compiler/exchange/phase.h"
#include "hw/base/check.h"
#include "hw/isa/row.h"

namespace tw::compiler {
namespace {

std::vector<Transfer> resolve(const Stage& stage, const Addresses& addresses) {
  const bool two_sections = !stage.moving_sources;
  std::vector<Transfer> transfers;
  transfers.reserve(stage.transfers.size());
  for (const StageTransfer& from : stage.transfers) {
    // Relocated sends count from the current record, whose address is in OUTGOING_BASE.
    const std::uint32_t base = from.moving ? 0 : addresses.buffer[from.source];
    Transfer transfer{.source = {from.source_tile},
                      .address_bytes = base + from.source_offset_bytes,
                      .words = from.bytes / 4,
                      .destinations = {},
                      .moving = from.moving && two_sections};
    for (const auto& [tile, offset] : from.targets)
      transfer.destinations.push_back({{tile}, addresses.buffer[from.target] + offset});
    transfers.push_back(std::move(transfer));
  }
  return transfers;
}

}  // namespace

Result<StageRows> encode_stage(const Stage& stage, const Addresses& addresses, const hw::Machine& machine) {
  const std::vector<Transfer> transfers = resolve(stage, addresses);
  TW_TRY(const PhaseSchedule schedule, schedule_phase(transfers, machine));
  StageRows rows(static_cast<std::size_t>(machine.tiles));
  for (std::size_t tile = 0; tile < rows.size(); ++tile) {
    const hw::RowSchedule& row = schedule.rows[tile];
    if (row.events == 0) continue;
    auto encoded = hw::encode_row(row, 0);
    if (!encoded) {
      encoded.error().where["tile"] = std::to_string(tile);
      encoded.error().where["operation"] = stage.info.operation;
      encoded.error().where["stage"] = stage.info.what;
      return tl::unexpected(std::move(encoded).error());
    }
    const auto decoded = hw::decode_row(*encoded);
    TW_CHECK(decoded && hw::equivalent(decoded->schedule, row),
             "row of tile {} in {} {} does not decode to its schedule", tile, stage.info.operation, stage.info.what);
    rows[tile] = *std::move(encoded);
  }
  return rows;
}

}  // namespace tw::compiler
