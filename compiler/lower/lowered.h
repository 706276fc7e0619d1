// compiler/lower/lowered.h: the plan expanded into stages of all tiles, with symbolic buffers: what placement gives
// addresses to, exchange schedules and emission encodes.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/place/problem.h"
#include "hw/kernel/kernel.h"
#include "hw/program/program.h"

namespace tw::compiler {

using BufferId = std::int32_t;

// A buffer that lies at the same address on every tile that has it (tiles are placed alike: one placement class).
struct Buffer {
  std::string name, operation;
  hw::BufferInfo::Use use = hw::BufferInfo::Use::value;
  std::vector<std::uint32_t> bytes;              // by tile; 0 where it does not exist
  std::int32_t first_stage = 0, last_stage = 0;  // half-open
  RegionSet regions = RegionSet::any;
  std::int32_t fixed_address = -1;
  std::uint32_t max_bytes() const;
};

// An operand of a call or the end of a transfer: an offset in a buffer. `moving`: the buffer is the parameter record of
// a Repeat and the offset counts from the current iteration's record.
struct Place {
  BufferId buffer = -1;
  std::uint32_t offset_bytes = 0;
  bool moving = false;
};

struct StageTransfer {
  std::uint32_t source_tile = 0;
  std::uint32_t source_offset_bytes = 0;
  std::uint32_t bytes = 0;                                       // a multiple of 4
  std::vector<std::pair<std::uint32_t, std::uint32_t>> targets;  // tile, offset in the target buffer
  BufferId source = -1, target = -1;
  bool moving = false;  // the source is in the current record of a Repeat (OUTGOING_BASE relocates it)
};

struct StageCall {
  std::uint32_t tile = 0;
  std::int32_t kernel = 0;            // index into Lowered::kernels
  std::array<Place, 10> registers{};  // by register number, buffer -1 where unused
};

struct Stage {
  hw::StageInfo info;
  std::vector<StageTransfer> transfers;  // exchange
  bool moving_sources = false;           // all of them: rows start with the record's base, one section is enough
  std::vector<StageCall> calls;          // compute
  std::int32_t binding = -1;             // host stages
  std::int32_t repeat = -1;              // loop stages: which Repeat
};

// One packed piece of a parameter on one tile: which elements, in which order.
struct PackTarget {
  std::uint32_t tile = 0;
  std::uint32_t offset_bytes = 0;                 // in the parameter buffer (of one record)
  std::int64_t row_begin = 0, row_end = 0;        // weights: panels [begin, end) of the block in block order
  std::int64_t column_begin = 0, column_end = 0;  // stored columns
  std::int64_t inner_begin = 0, inner_end = 0;    // weights: stored inner elements of the block
};

enum class PackKind : std::uint8_t {
  weights,  // AMP micro-panels [columns / 16][inner / g][16][g]
  vector,   // [column_end - column_begin] values of one row
  tensor,   // a panel tensor of rows x stored columns
};

struct PackJob {
  PackKind kind = PackKind::tensor;
  std::vector<ValueId> values;    // one, or one per iteration
  std::int32_t repeat = -1;       // whose records; -1: the static parameters
  hw::MatrixView view;            // rows x columns look at each value (weights: inner x columns)
  hw::ColumnGroups groups;        // of the stored columns
  hw::ColumnGroups inner_groups;  // weights: of the stored inner elements
  hw::NumberFormat format = hw::NumberFormat::f16;
  std::int32_t scale_exponent = 0;
  std::vector<PackTarget> targets;
};

struct LoweredRepeat {
  std::int32_t count = 1;
  std::int32_t begin_stage = 0, end_stage = 0;
  std::uint32_t record_bytes = 0;  // stride from iteration to iteration
  BufferId records = -1;
};

struct LoweredBinding {
  hw::Binding binding;  // without addresses
  BufferId buffer = -1;
};

struct LoweredCheckpoint {
  hw::Checkpoint checkpoint;  // without addresses
  BufferId buffer = -1;
};

struct Lowered {
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
  std::vector<hw::KernelParams> kernels;
  std::vector<LoweredRepeat> repeats;
  std::vector<PackJob> packs;
  std::vector<LoweredBinding> bindings;
  std::vector<LoweredCheckpoint> checkpoints;
  std::vector<std::pair<BufferId, BufferId>> separate;  // must not share an SRAM element
  BufferId parameters = -1;                             // static parameters
  std::uint32_t parameter_bytes = 0;
};

}  // namespace tw::compiler
