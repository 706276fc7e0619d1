// tests/hw/program/same_program.h: expects two programs to be equal in every field a package keeps.
#pragma once
#include <gtest/gtest.h>

#include <tuple>

#include "hw/program/program.h"

namespace tw::hw {

inline auto fields(const StageInfo& s) {
  return std::tie(s.kind, s.operation, s.what, s.iterations, s.estimated_cycles, s.words);
}
inline auto fields(const KernelEntry& e) { return std::tie(e.address_bytes, e.kernel); }
inline auto fields(const Segment& s) { return std::tie(s.address_bytes, s.bytes); }
inline auto fields(const CodeOrigin& o) { return std::tie(o.first_word, o.words, o.stage); }
inline auto fields(const BufferInfo& b) {
  return std::tie(b.name, b.operation, b.address_bytes, b.bytes, b.first_stage, b.last_stage, b.use);
}
inline auto fields(const ParameterImage& i) { return std::tie(i.tile, i.address_bytes, i.bytes, i.data); }
inline auto fields(const Binding& b) {
  return std::tie(b.name, b.input, b.shape, b.view, b.layout, b.block_address_bytes, b.block_offsets, b.bytes,
                  b.host_base);
}
inline auto fields(const Checkpoint& c) {
  return std::tie(c.operation, c.value, c.stage, c.shape, c.view, c.layout, c.block_address_bytes);
}
inline auto fields(const PlannedOperation& p) {
  return std::tie(p.operation, p.kind, p.grid, p.precision, p.cycles, p.compute_cycles, p.exchange_cycles,
                  p.temporary_bytes, p.resident_bytes, p.repetitions, p.left_scale_exponent, p.right_scale_exponent,
                  p.left_f8, p.right_f8, p.inner_groups, p.inner_width, p.inner_padded, p.inner_tail_share,
                  p.value_scale_exponent, p.fused_add, p.layout);
}
inline auto totals(const Program& p) {
  return std::tie(p.model, p.model_hash, p.precision, p.tilewright_version, p.dims, p.without_rewrites, p.batch, p.seed,
                  p.kernels, p.has_weights, p.estimated_cycles, p.tile_peak_bytes, p.resident_bytes_max,
                  p.exchange_table_bytes_max, p.code_bytes_max, p.tiles_used, p.peak_tile);
}

template <class T>
void expect_same(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(fields(a[i]) == fields(b[i])) << what << " " << i;
}

inline void expect_same(const Program& a, const Program& b) {
  EXPECT_TRUE(totals(a) == totals(b));
  EXPECT_EQ(to_toml(a.machine), to_toml(b.machine));
  expect_same(a.stages, b.stages, "stages");
  expect_same(a.parameters, b.parameters, "parameters");
  expect_same(a.bindings, b.bindings, "bindings");
  expect_same(a.checkpoints, b.checkpoints, "checkpoints");
  expect_same(a.plan, b.plan, "plan");
  ASSERT_EQ(a.tiles.size(), b.tiles.size());
  for (std::size_t i = 0; i < a.tiles.size(); ++i) {
    const TileProgram &x = a.tiles[i], &y = b.tiles[i];
    EXPECT_TRUE(std::tie(x.code_address_bytes, x.entry_bytes, x.code) ==
                std::tie(y.code_address_bytes, y.entry_bytes, y.code))
        << "tile " << i;
    expect_same(x.entries, y.entries, "entries");
    expect_same(x.segments, y.segments, "segments");
    expect_same(x.origins, y.origins, "origins");
    expect_same(x.buffers, y.buffers, "buffers");
  }
}

}  // namespace tw::hw
