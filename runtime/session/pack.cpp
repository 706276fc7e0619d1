// runtime/session/pack.cpp: tensors into the blocks of a binding's staging buffer and back.
#include <fmt/format.h>

#include "hw/base/check.h"
#include "hw/base/parallel.h"
#include "runtime/session/session.h"

namespace tw::runtime {
namespace {

// Calls visit(tensor element, block element) for every real element of block (r, c).
template <class Visit>
void for_each_element(const hw::Binding& binding, int r, int c, Visit visit) {
  const hw::TensorLayout& layout = binding.layout;
  const std::int64_t b = layout.panel(), rows = layout.block_rows(r);
  for (std::int64_t j = 0; j < layout.block_columns(c); ++j) {
    const std::int64_t column = layout.groups.column_of(layout.column_cuts[c] + j);
    if (column < 0) continue;
    for (std::int64_t i = 0; i < rows; ++i)
      visit(binding.view.at(layout.row_cuts[r] + i, column), (j / b * rows + i) * b + j % b);
  }
}

template <class Visit>
void for_each_block(const hw::Binding& binding, Visit visit) {
  const int columns = binding.layout.column_blocks();
  parallel_for(static_cast<std::size_t>(binding.layout.blocks()), [&](std::size_t block) {
    const int r = static_cast<int>(block) / columns, c = static_cast<int>(block) % columns;
    const auto bytes = static_cast<std::size_t>(binding.layout.block_bytes(r, c));
    if (bytes > 0) visit(r, c, binding.block_offsets[block], bytes);
  });
}

}  // namespace

std::vector<std::byte> pack(const hw::Binding& binding, const Tensor& tensor) {
  TW_CHECK(tensor.shape == binding.shape, "tensor {} has another shape than its binding", binding.name);
  std::vector<std::byte> staging(binding.bytes);
  for_each_block(binding, [&](int r, int c, std::uint64_t offset, std::size_t bytes) {
    std::vector<float> block(bytes / static_cast<std::size_t>(hw::bytes_of(binding.layout.format)), 0.0F);
    for_each_element(binding, r, c, [&](std::int64_t from, std::int64_t to) { block[to] = tensor.data[from]; });
    hw::encode(binding.layout.format, block, binding.layout.scale_exponent, std::span(staging).subspan(offset, bytes));
  });
  return staging;
}

Tensor unpack(const hw::Binding& binding, const std::vector<std::byte>& staging) {
  Tensor tensor{binding.shape, {}};
  tensor.data.assign(static_cast<std::size_t>(compiler::elements_of(binding.shape)), 0.0F);
  for_each_block(binding, [&](int r, int c, std::uint64_t offset, std::size_t bytes) {
    std::vector<float> block(bytes / static_cast<std::size_t>(hw::bytes_of(binding.layout.format)));
    hw::decode(binding.layout.format, std::span(staging).subspan(offset, bytes), binding.layout.scale_exponent, block);
    for_each_element(binding, r, c, [&](std::int64_t to, std::int64_t from) { tensor.data[to] = block[from]; });
  });
  return tensor;
}

}  // namespace tw::runtime
