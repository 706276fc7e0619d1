// hw/machine/machine.h: the description of one machine: geometry, SRAM map, rates, timing constants, kernel prices.
// Read from TOML files (hw/machines/*.toml), each number with its source. Everything numeric about a machine is here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hw/base/id.h"
#include "hw/base/result.h"

namespace tw::hw {

// Byte addresses of one tile's SRAM. Region 0 can be fetched from; region 1 is interleaved by two and cannot.
struct SramMap {
  std::uint32_t base_bytes = 0;                  // first address (ipu21: 0x4c000)
  std::uint32_t region0_bytes = 0;               // executable region, a whole number of elements
  std::uint32_t region1_bytes = 0;               // interleaved region, a whole number of element pairs
  std::uint32_t element_bytes = 0;               // region 0 element, at absolute multiples (0x4000)
  std::uint32_t region1_element_bytes = 0;       // region 1: a pair of elements (0x8000)
  std::uint32_t loader_bytes = 0;                // launch slot of the loader at base_bytes (16)
  std::uint32_t unloadable_top_bytes = 0;        // bytes at the very top that the loader cannot fill (1,104)
  std::uint32_t host_window_base_bytes = 0;      // window for host packets inside region 0 (0x50000)
  std::uint32_t host_window_bytes = 0;           // whole window (0x8000)
  std::uint32_t host_window_incoming_bytes = 0;  // the part that incoming packets may address (0x4000)
  std::uint32_t worker_state_bytes = 0;          // supervisor stack and worker state, reserved in region 0 (1,760)
  std::uint32_t fetch_ahead_bytes = 0;           // look-ahead of instruction fetch past the executed word (64)

  std::uint32_t capacity_bytes() const { return region0_bytes + region1_bytes; }
  std::uint32_t region1_base() const { return base_bytes + region0_bytes; }
  std::uint32_t end() const { return base_bytes + capacity_bytes(); }
  bool contains(std::uint32_t address, std::uint32_t bytes) const {
    return address >= base_bytes && address <= end() && bytes <= end() - address;
  }
  int region_of(std::uint32_t address) const { return address < region1_base() ? 0 : 1; }
  // Number of the element (region 1: element pair) that holds the address: 0, 1, ... from base_bytes upwards.
  int element_of(std::uint32_t address) const {
    if (address < region1_base()) return static_cast<int>((address - base_bytes) / element_bytes);
    return static_cast<int>(region0_bytes / element_bytes + (address - region1_base()) / region1_element_bytes);
  }
  int elements() const {
    return static_cast<int>(region0_bytes / element_bytes + region1_bytes / region1_element_bytes);
  }
};

// Timing of the exchange fabric and of barriers, in cycles (one exchange event is one cycle).
struct FabricTiming {
  int write_latency_cycles = 0;          // from source selection to the first write, row 0 (52)
  int write_latency_per_row_cycles = 0;  // more per physical row of the receiver (2)
  int row_tail_cycles = 0;               // a receiver's row ends this many events after its last write (5)
  int barrier_cycles = 0;                // sync constant, chosen so that an aligned phase costs about 250 in all
  int neutral_mux = 0;                   // source selection that disconnects (0x640)
  int host_mux = 0;                      // source selection of the host (0x600)
  int max_transfer_words = 0;            // 1..4148 words a transfer
  int pair_min_items = 0;                // shortest transfer of double words to a pair, in items (64); 0: no such
  std::uint32_t table_limit_bytes = 0;   // checked limit of exchange rows per tile
};

// Host exchange.
struct HostTiming {
  int sync_cycles = 0;              // host barrier
  int command_dispatch_cycles = 0;  // from receiving a command to dispatching it (73)
  int packet_spacing_cycles = 0;    // tile-to-host payloads occupy at least this many events each (18)
  double bytes_per_second = 0;      // link rate seen by one card
};

// Prices of kernels in cycles: one call on one tile with six workers (docs/fidelity.md). A formula is in
// hw/kernel; its constants are here, so that an architect can change them and the planner and simulator agree.
struct KernelPrices {
  double gemm_call = 0;                                          // 294
  double gemm_panel = 0;                                         // per coefficient panel, weights in region 1 (160)
  double gemm_panel_region0 = 0;                                 // weights in region 0 (191)
  double gemm_row = 0;                                           // per row and panel (4), times row_factor by format
  double gemm_f32_row_factor = 0;                                // F32: rows count 4 times
  double gemm_f32_panel_factor = 0;                              // F32: feed twice
  double reduce_call = 0, reduce_round = 0, reduce_partial = 0;  // 282 + 6*ceil(n/48)*(11 + 2(P-1))
  double merge_round = 0, merge_partial = 0;                     // attention merge: 11 + 4(P-1)
  double gelu_call = 0, gelu_row = 0, gelu_group = 0;            // 222 + rows*(228 + 90*ceil(w/24))
  double cast_call = 0, cast_round = 0;                          // 330 + 24*ceil(n/48)
  double copy_call = 0, copy_word = 0;                           // 246 + 12*ceil(w/6), 8-byte words
  double strided_copy_call = 0, strided_copy_row = 0, strided_copy_word = 0;   // 294 + 6*ceil(r/6)*(2w + 6)
  double statistics_call = 0, statistics_element = 0;                          // 300 + 2.33 an element
  double normalise_call = 0, normalise_element = 0;                            // 300 + 3.78 an element
  double softmax_call = 0, split_softmax_call = 0, split_softmax_element = 0;  // empirical, docs/fidelity.md
  double elementwise_call = 0, elementwise_element = 0;                        // add: 1,368 for 1,152, 2,124 for 2,152
  double transcendental_element = 0;                                           // exp, tanh, erf, ... (guess, from gelu)
};

// Code bytes that kernels and support occupy in region 0.
struct CodeSizes {
  std::uint32_t family_bytes = 0;   // shared workers and supervisor of one kernel family
  std::uint32_t entry_bytes = 0;    // one specialised entry (300)
  std::uint32_t support_bytes = 0;  // runtime support linked into every tile
};

struct Machine {
  std::string name;
  std::string description;
  int tiles = 0;  // a multiple of 64 (16 columns x 2 halves x 2 lanes), at most 1,536
  double clock_hz = 0;
  int workers = 0;                // 6
  int supervisor_cycles = 0;      // issue period of one context (6)
  int f16_panel_inner = 0;        // inner elements of an F16 coefficient panel (16)
  int f8_panel_inner = 0;         // of an F8 panel (32)
  int panel_columns = 0;          // columns of a panel (16)
  double f16_macs_per_cycle = 0;  // per tile (64), for shares of peak
  double f8_macs_per_cycle = 0;   // per tile (128)
  SramMap sram;
  FabricTiming fabric;
  HostTiming host;
  KernelPrices prices;
  CodeSizes code;

  int rows() const { return tiles / 64; }  // physical rows of 64 tiles
};

// Parses and checks the text of a machine file; `file` is for messages.
// Errors (bad_input): unknown key (with the nearest), missing key, wrong type, value out of range, a relation between
// keys that does not hold; each with file, line, key, value and the allowed range, all of them in one message list.
Result<Machine> parse_machine(const std::string& text, const std::string& file);

// A machine by built-in name ("ipu21") or by path of a .toml file. Built-in files are found in
// $TILEWRIGHT_DATA/machines, beside the binary (../share/tilewright/machines, or the source tree's hw/machines for a
// build tree).
Result<Machine> load_machine(const std::string& name_or_path);

struct MachineFile {
  std::string name;
  std::string path;
};
// All built-in machine files that can be found, by name.
std::vector<MachineFile> list_machines();

// The key table as text (for `machine show`): key, value, unit, allowed range, source.
std::string describe(const Machine& machine);

// The machine as a machine file that parse_machine reads back to an equal Machine (stored in packages).
std::string to_toml(const Machine& machine);

}  // namespace tw::hw
