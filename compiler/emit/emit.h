// compiler/emit/emit.h: from lowered stages to a Program: SRAM addresses, exchange rows, supervisor code, parameters.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/lower/lowered.h"
#include "compiler/place/problem.h"
#include "hw/base/progress.h"
#include "hw/base/result.h"
#include "hw/machine/machine.h"
#include "hw/program/program.h"

namespace tw::compiler {

// Where everything lies: one address for each buffer, the same on every tile that has it.
struct Addresses {
  std::vector<std::uint32_t> buffer;   // by BufferId
  std::uint32_t code = 0;              // kernels, supervisor program and rows of every tile start here
  std::uint32_t code_limit_bytes = 0;  // room for them
  std::uint32_t packets = 0;           // host packet headers
  std::uint32_t support = 0;
};

// The placement problem of the stages, with room for `code_bytes` and `packet_bytes` a tile. Requests 0..buffers-1 are
// the buffers; code, packets and support follow.
PlacementProblem placement_problem(const Lowered& lowered, const hw::Machine& machine, std::uint32_t code_bytes,
                                   std::uint32_t packet_bytes);
Addresses addresses_of(const Lowered& lowered, const PlacementResult& placed, const hw::Machine& machine,
                       std::uint32_t code_bytes);

// Exchange rows of one stage, by tile; inactive tiles have an empty one.
using StageRows = std::vector<std::vector<std::uint32_t>>;
// Schedules, encodes, decodes again and compares. Errors (unsupported): a row that cannot be encoded.
Result<StageRows> encode_stage(const Stage& stage, const Addresses& addresses, const hw::Machine& machine);

// Bytes that kernels (families and specialised entries) take on a tile, and the entry address of each kernel there.
struct KernelArea {
  std::vector<hw::KernelEntry> entries;  // addresses from the start of the code area
  std::uint32_t bytes = 0;
};
KernelArea kernel_area(const Lowered& lowered, const std::vector<std::int32_t>& kernels, const hw::Machine& machine);

// Host packets of a binding's block on one tile: headers (two words each) and the payload they announce.
struct HostPacket {
  std::uint32_t word0 = 0, word1 = 0;
  std::uint32_t payload_address_bytes = 0, payload_bytes = 0;  // tile to host only
};
std::vector<HostPacket> host_packets(const hw::Binding& binding, int block, std::uint32_t block_address,
                                     const hw::Machine& machine);

// Everything that the code generator of one tile needs.
struct TileCode {
  hw::TileProgram program;
  std::uint32_t table_bytes = 0;  // exchange rows
  std::uint32_t used_bytes = 0;   // kernels, program and rows
};
TileCode generate_tile(std::uint32_t tile, const Lowered& lowered, const Addresses& addresses,
                       const std::vector<hw::Binding>& bindings, const std::vector<StageRows>& rows,
                       const hw::Machine& machine);

// Packed parameter bytes of all tiles. Errors: io (external data).
Status pack_parameters(const Graph& graph, const Lowered& lowered, const Addresses& addresses,
                       const hw::Machine& machine, std::vector<hw::ParameterImage>& images, bool with_data,
                       const Progress& progress);

}  // namespace tw::compiler
