// hw/program/program.h: the address-resolved program of all tiles: what a package holds, the simulator executes and
// a card is loaded with. Later representations refer to graph operations by name and stage by index only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hw/base/id.h"
#include "hw/kernel/kernel.h"
#include "hw/machine/machine.h"
#include "hw/program/tensor_layout.h"

namespace tw::hw {

enum class StageKind : std::uint8_t { host_input, host_output, exchange, compute, loop_begin, loop_end };
const char* name_of(StageKind kind);

// One step of the machine: all tiles do it, then (exchange, host) a barrier. Order = program order; the body of a
// Repeat lies between loop_begin and loop_end and is executed `iterations` times.
struct StageInfo {
  StageKind kind = StageKind::compute;
  std::string operation;              // graph operation it belongs to ("blocks/mlp.up")
  std::string what;                   // "gather activations", "gemm", "reduce-scatter", ...
  std::int32_t iterations = 1;        // of the enclosing loop
  std::int64_t estimated_cycles = 0;  // closed form of the plan, one iteration
  std::int64_t words = 0;             // busiest tile, from the plan
};

// Who wrote a stretch of code: words [first_word, first_word + words) of the tile's code.
struct CodeOrigin {
  std::uint32_t first_word = 0, words = 0;
  StageId stage;
};

// A named stretch of SRAM over a span of stages, half-open, in stage numbers. Debug info, heat maps, fault messages.
struct BufferInfo {
  std::string name;  // "x", "blocks/mlp.up weights", "row table", ...
  std::string operation;
  std::uint32_t address_bytes = 0, bytes = 0;
  std::int32_t first_stage = 0, last_stage = 0;
  enum class Use : std::uint8_t { value, operand, parameter, code, table, host, support } use = Use::value;
};

// The catalogue kernel that is executed when the supervisor calls this address. Parameters are in Program::kernels.
struct KernelEntry {
  std::uint32_t address_bytes = 0;
  std::uint32_t kernel = 0;  // index into Program::kernels
};

// Bytes loaded before the start (tables of host packets, constants). Weights are in Program::parameters instead.
struct Segment {
  std::uint32_t address_bytes = 0;
  std::vector<std::byte> bytes;
};

struct TileProgram {
  std::uint32_t code_address_bytes = 0;  // of code[0]; region 0
  std::uint32_t entry_bytes = 0;         // address of the first instruction
  std::vector<std::uint32_t> code;       // supervisor program and exchange rows
  std::vector<KernelEntry> entries;
  std::vector<Segment> segments;
  std::vector<CodeOrigin> origins;
  std::vector<BufferInfo> buffers;
};

// The packed bytes of all parameters in one tile's SRAM: contiguous, loaded before the first call, never written.
// Kept apart, so that a timing-only package omits them.
struct ParameterImage {
  std::uint32_t tile = 0;
  std::uint32_t address_bytes = 0;
  std::uint32_t bytes = 0;
  std::vector<std::byte> data;  // empty in a package without weights
};

// An input or output: host staging buffer of `bytes`, block after block in tile order, each block at offset
// block_offsets[r * column_blocks + c] (64-byte multiples). The runtime packs tensor elements by view and layout.
struct Binding {
  std::string name;
  bool input = true;
  std::vector<std::int64_t> shape;  // of the graph's tensor
  MatrixView view;                  // matrix element -> flat element of that tensor
  TensorLayout layout;
  std::vector<std::uint32_t> block_address_bytes;  // tile address of each block
  std::vector<std::uint64_t> block_offsets;        // in the host buffer of this binding
  std::uint64_t bytes = 0;
  std::uint64_t host_base = 0;  // host address of the staging buffer in the program's host space
};

// A value that can be read back after a stage, for checkpoints: the same description as a binding.
struct Checkpoint {
  std::string operation;  // graph operation whose output it is
  std::string value;
  StageId stage;                    // complete when this stage has ended
  std::vector<std::int64_t> shape;  // of the graph value
  MatrixView view;
  TensorLayout layout;
  std::vector<std::uint32_t> block_address_bytes;
};

// What the plan decided for one operation: for `plan`, JSON, report; and for the quantised reference.
struct PlannedOperation {
  std::string operation, kind, grid, precision;  // "5x72x4", "f8"
  std::int64_t cycles = 0, compute_cycles = 0, exchange_cycles = 0;
  std::int64_t temporary_bytes = 0, resident_bytes = 0;
  std::int32_t repetitions = 1;
  std::int32_t left_scale_exponent = 0, right_scale_exponent = 0;  // F8 operands
  bool left_f8 = false, right_f8 = false;
  // matmul, attention: groups of the inner extent (keys), whose partial sums are rounded to the result's format each.
  // layer_norm: groups of columns, in units of inner_width, whose statistics are combined.
  std::int32_t inner_groups = 1;
  std::int32_t inner_width = 0,
               inner_padded = 0;          // the left operand's column groups: panels start anew in each (0: one)
  std::int32_t inner_tail_share = 1;      // of those groups (hw/program/tensor_layout.h)
  std::int32_t value_scale_exponent = 0;  // attention in F8: of the values
  bool fused_add = false;                 // the add that reads the result takes it before it is rounded
  std::string layout;                     // of the output, for people
};

struct Program {
  std::string model;       // as given: generator spec or ONNX path, for --reference and reports
  std::string model_hash;  // hex hash of the file's bytes; empty for generators
  std::string precision;   // "f8", "f16", "f32"
  std::string tilewright_version;
  std::vector<std::pair<std::string, std::int64_t>> dims;  // --dim bindings used at import
  std::vector<std::string> without_rewrites;               // switched off at import
  std::int64_t batch = 0;                                  // --batch as given; 0: the model's own
  std::int64_t seed = 0;
  Machine machine;
  std::vector<StageInfo> stages;
  std::vector<KernelParams> kernels;       // distinct specialised entries of all tiles
  std::vector<TileProgram> tiles;          // one per machine tile
  std::vector<ParameterImage> parameters;  // by tile; tiles without parameters are absent
  std::vector<Binding> bindings;
  std::vector<Checkpoint> checkpoints;
  std::vector<PlannedOperation> plan;
  bool has_weights = true;
  // Totals recorded by the compiler.
  std::int64_t estimated_cycles = 0;
  std::uint32_t tile_peak_bytes = 0, resident_bytes_max = 0, exchange_table_bytes_max = 0, code_bytes_max = 0;
  std::int32_t tiles_used = 0;
  std::uint32_t peak_tile = 0;
};

}  // namespace tw::hw
