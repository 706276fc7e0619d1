// tests/runtime/session/pack_test.cpp: tensors into staging buffers and back, against element-by-element placement.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <cstring>

#include "hw/base/random.h"
#include "hw/base/units.h"
#include "runtime/session/session.h"

namespace tw::runtime {
namespace {

// A binding of a (rows x columns) tensor in any blocks; the view may be transposed.
hw::Binding any_binding() {
  hw::Binding binding;
  binding.name = "x";
  binding.layout.format = *rc::gen::element(hw::NumberFormat::f16, hw::NumberFormat::f32, hw::NumberFormat::f143);
  binding.layout.scale_exponent = binding.layout.format == hw::NumberFormat::f143 ? *rc::gen::inRange(-4, 3) : 0;
  const int b = binding.layout.panel(), groups = *rc::gen::inRange(1, 4), width = *rc::gen::inRange(1, 50);
  const std::int64_t rows = *rc::gen::inRange(1, 30), columns = std::int64_t{groups} * width;
  binding.layout.groups = {groups, width, static_cast<std::int32_t>(round_up(width, b))};
  const bool transposed = *rc::gen::arbitrary<bool>();
  binding.shape = transposed ? std::vector<std::int64_t>{columns, rows} : std::vector<std::int64_t>{rows, columns};
  binding.view = transposed ? hw::MatrixView{{{rows, 1}}, {{columns, rows}}, 0} : hw::plain_view(rows, columns);
  binding.layout.row_cuts = hw::balanced_cuts(rows, *rc::gen::inRange(1, 6), 1, true);
  binding.layout.column_cuts = hw::balanced_cuts(binding.layout.groups.stored(), *rc::gen::inRange(1, 5), b, false);
  for (int r = 0; r < binding.layout.row_blocks(); ++r)
    for (int c = 0; c < binding.layout.column_blocks(); ++c) {
      binding.block_offsets.push_back(binding.bytes);
      binding.bytes += static_cast<std::uint64_t>(round_up(binding.layout.block_bytes(r, c), 64));
    }
  return binding;
}

Tensor any_tensor(const hw::Binding& binding) {
  Tensor tensor{binding.shape, {}};
  tensor.data.resize(static_cast<std::size_t>(compiler::elements_of(binding.shape)));
  fill_normal(5, 0, 0.0F, 1.0F, tensor.data);
  return tensor;
}

// What one number becomes when it is stored in a format.
float rounded(const hw::TensorLayout& layout, float value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(hw::bytes_of(layout.format)));
  std::vector<float> out(1);
  hw::encode(layout.format, std::vector<float>{value}, layout.scale_exponent, bytes);
  hw::decode(layout.format, bytes, layout.scale_exponent, out);
  return out[0];
}

RC_GTEST_PROP(Pack, EveryElementLiesWhereItsLayoutSays, ()) {
  const hw::Binding binding = any_binding();
  const Tensor tensor = any_tensor(binding);
  const std::vector<std::byte> staging = pack(binding, tensor);
  RC_ASSERT(staging.size() == binding.bytes);
  const hw::TensorLayout& layout = binding.layout;
  for (std::int64_t i = 0; i < layout.rows(); ++i)
    for (std::int64_t j = 0; j < layout.groups.stored(); ++j) {
      const int r = layout.row_block_of(i), c = layout.column_block_of(j);
      const std::uint64_t at = binding.block_offsets[static_cast<std::size_t>(r * layout.column_blocks() + c)] +
                               static_cast<std::uint64_t>(layout.offset_of(r, c, i, j));
      std::vector<float> value(1);
      hw::decode(layout.format, std::span(staging).subspan(at, static_cast<std::size_t>(hw::bytes_of(layout.format))),
                 layout.scale_exponent, value);
      const std::int64_t column = layout.groups.column_of(j);
      RC_ASSERT(
          value[0] ==
          (column < 0 ? 0.0F : rounded(layout, tensor.data[static_cast<std::size_t>(binding.view.at(i, column))])));
    }
}

RC_GTEST_PROP(Pack, UnpackGivesTheRoundedTensor, ()) {
  const hw::Binding binding = any_binding();
  const Tensor tensor = any_tensor(binding);
  const Tensor back = unpack(binding, pack(binding, tensor));
  RC_ASSERT(back.shape == tensor.shape);
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    RC_ASSERT(back.data[i] == rounded(binding.layout, tensor.data[i]));
}

}  // namespace
}  // namespace tw::runtime
