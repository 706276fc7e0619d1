// compiler/lower/builder.h: what every kind of step lowers with: buffers with lifetimes, stages, gathers, parameters.
// Internal to lower.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/layout/gather.h"
#include "compiler/lower/lowered.h"
#include "compiler/lower/weight_homes.h"
#include "compiler/plan/plan.h"
#include "hw/machine/machine.h"

namespace tw::compiler {

// One operand block that a group of tiles gathers from a stored value.
struct GatherItem {
  std::int32_t stored = -1;
  hw::MatrixView view;  // operand matrix -> flat element of the stored value
  hw::ColumnGroups groups;
  OperandBlock block;
  std::vector<std::uint32_t> tiles;  // all want this block
  std::optional<Piece> piece;
};

class Builder {
 public:
  Builder(const Graph& graph, const Plan& plan, const hw::Machine& machine);

  const Graph& graph;
  const Plan& plan;
  const hw::Machine& machine;
  Lowered out;

  // Stages. Buffers named in a stage are live in it: touch() is called by the functions that use them.
  std::int32_t add_stage(hw::StageKind kind, const std::string& operation, const std::string& what);
  std::int32_t last_stage() const { return static_cast<std::int32_t>(out.stages.size()) - 1; }
  void begin_loop(std::int32_t repeat);
  void end_loop();
  std::int32_t current_repeat() const { return repeat_; }

  // Buffers. A buffer is alive from the first to the last stage that touches it (through the whole loop when it was
  // alive before the loop began).
  BufferId add_buffer(const std::string& name, const std::string& operation, hw::BufferInfo::Use use,
                      RegionSet regions = RegionSet::any);
  void reserve(BufferId buffer, std::uint32_t tile, std::int64_t bytes);
  void touch(BufferId buffer);
  void separate(BufferId a, BufferId b) { out.separate.emplace_back(a, b); }

  // Where block (r, c) of a stored value starts, on its tile.
  Place place_of(std::int32_t stored);
  void set_place(std::int32_t stored, Place place) { places_[stored] = place; }
  // The buffer of a result: one block a tile.
  BufferId add_result(std::int32_t stored, const std::string& operation, RegionSet regions = RegionSet::any);

  // Kernel calls of the last stage (compute).
  void call(std::uint32_t tile, const hw::KernelParams& params, std::initializer_list<std::pair<int, Place>> operands);

  // Parameters: room for `bytes` in the record of the enclosing Repeat (iterated) or among the static ones.
  Place reserve_parameter(bool iterated, std::int64_t bytes);
  // Where the weights of a matmul live; their pool is reserved with the first of its matmuls.
  WeightHomes::Home weight_home(const Step& step);
  PackJob pack_job(PackKind kind, const Operand& operand, hw::NumberFormat format) const;

  // The transfers that gather operand blocks into `target` (bytes reserved here), for an exchange stage of the caller.
  // What no run covers is filled first; with `zero_rows`, pad rows up to the row stride, too. Runs that are not whole
  // words go through F32 in stages of their own; then nothing is left to the caller.
  std::vector<StageTransfer> gather_transfers(const std::vector<GatherItem>& items, BufferId target,
                                              const std::string& operation, const std::string& what,
                                              bool zero_rows = false);
  // The same with its own exchange stage.
  void gather(const std::vector<GatherItem>& items, BufferId target, const std::string& operation,
              const std::string& what, bool zero_rows = false);
  // One exchange stage of raw transfers: none when there are none.
  void exchange(std::vector<StageTransfer> transfers, const std::string& operation, const std::string& what);

 private:
  std::int32_t intern(const hw::KernelParams& params);
  std::vector<StageTransfer> word_transfers(const std::vector<GatherItem>& items,
                                            const std::vector<std::vector<Run>>& runs, BufferId target);
  void gather_through_f32(const std::vector<GatherItem>& items, const std::vector<std::vector<Run>>& runs,
                          BufferId target, const std::string& operation, const std::string& what);
  void fill(const std::vector<GatherItem>& items, BufferId target, const std::string& operation);
  void fill_pad_rows(const std::vector<GatherItem>& items, BufferId target, const std::string& operation);

  WeightHomes homes_;
  std::map<std::int32_t, Place> places_;
  std::map<std::string, std::vector<std::int32_t>> kernel_index_;  // description -> candidates
  std::int32_t repeat_ = -1;
  std::int32_t loop_begin_ = -1;
  std::set<BufferId> loop_live_;
};

// Bytes of an operand block's buffer.
std::int64_t operand_bytes(const OperandBlock& block, hw::NumberFormat format);
// A view that only reads whole rows of a stored value.
hw::MatrixView whole_matrix(const Stored& stored);

void lower_matmul(Builder& builder, const Step& step);
void lower_batched_matmul(Builder& builder, const Step& step);
void lower_attention(Builder& builder, const Step& step);
void lower_layer_norm(Builder& builder, const Step& step);
void lower_local(Builder& builder, const Step& step);  // gelu, unary, binary, softmax, reduce, carry
void lower_cast(Builder& builder, const Step& step);
void lower_relayout(Builder& builder, const Step& step);
Status lower_input(Builder& builder, const Step& step, std::uint32_t& window_bytes);
void lower_output(Builder& builder, const Step& step);

}  // namespace tw::compiler
