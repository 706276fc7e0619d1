// tests/simulator/kernels/normalise_test.cpp: layer norm in parts, softmax whole and in parts, row reductions.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "call.h"
#include "hw/base/units.h"

namespace tw::test {
namespace {

using hw::NumberFormat;

constexpr float infinity = std::numeric_limits<float>::infinity();

hw::KernelParams block(hw::KernelKind kind, NumberFormat format, int rows, int columns) {
  hw::KernelParams p;
  p.kind = kind;
  p.format = p.out_format = format;
  p.rows = rows;
  p.columns = columns;
  p.row_stride = p.out_row_stride = rows;
  return p;
}

TEST(LayerNormStatistics, sum_and_squares_about_the_local_mean) {
  const hw::KernelParams p = block(hw::KernelKind::layer_norm_statistics, NumberFormat::f16, 6, 37);
  Call call(p);
  call.fill(3, p.format);
  call.run();
  for (int i = 0; i < p.rows; ++i) {
    float sum = 0, squares = 0;
    for (int j = 0; j < p.columns; ++j) sum += call.get(3, p.format, p.row_stride, i, j);
    const float mean = sum / static_cast<float>(p.columns);
    for (int j = 0; j < p.columns; ++j) {
      const float delta = call.get(3, p.format, p.row_stride, i, j) - mean;
      squares += delta * delta;
    }
    EXPECT_TRUE(same(call.pair(2, i).first, sum));
    EXPECT_TRUE(same(call.pair(2, i).second, squares));
  }
}

// Statistics of every group, then apply on each group: together the layer norm of the whole rows.
RC_GTEST_PROP(LayerNorm, parts_make_the_whole, ()) {
  const int rows = *rc::gen::inRange(1, 5), columns = *rc::gen::inRange(1, 100), unit = 16;
  const int groups = *rc::gen::inRange<int>(1, static_cast<int>(ceil_div(columns, unit)) + 1);
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  fill_normal(*rc::gen::inRange<std::uint64_t>(0, 100), 0, 3.0F, 2.0F, x);
  const auto cut = [&](int g) {
    return std::min<int>(columns, unit * static_cast<int>(balanced_cut(g, ceil_div(columns, unit), groups)));
  };
  std::vector<std::pair<float, float>> statistics;
  for (int g = 0; g < groups; ++g) {
    Call call(block(hw::KernelKind::layer_norm_statistics, NumberFormat::f32, rows, cut(g + 1) - cut(g)));
    for (int i = 0; i < rows; ++i)
      for (int j = cut(g); j < cut(g + 1); ++j) call.set(3, NumberFormat::f32, rows, i, j - cut(g), x[i * columns + j]);
    call.run();
    for (int i = 0; i < rows; ++i) statistics.push_back(call.pair(2, i));
  }
  for (int g = 0; g < groups; ++g) {
    hw::KernelParams p = block(hw::KernelKind::layer_norm_apply, NumberFormat::f32, rows, cut(g + 1) - cut(g));
    p.groups = groups;
    p.group = g;
    p.total_columns = columns;
    p.column_unit = unit;
    p.epsilon = 1e-5F;
    p.has_scale = p.has_bias = true;
    Call call(p);
    call.fill(5, p.format);
    call.fill(6, p.format);
    for (std::size_t index = 0; index < statistics.size(); ++index)
      call.set_pair(4, static_cast<std::int64_t>(index), statistics[index].first, statistics[index].second);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < p.columns; ++j) call.set(3, p.format, rows, i, j, x[i * columns + cut(g) + j]);
    call.run();
    for (int i = 0; i < rows; ++i) {
      double mean = 0, variance = 0;
      for (int j = 0; j < columns; ++j) mean += x[i * columns + j];
      mean /= columns;
      for (int j = 0; j < columns; ++j) variance += (x[i * columns + j] - mean) * (x[i * columns + j] - mean);
      variance /= columns;
      for (int j = 0; j < p.columns; ++j) {
        const double expected = (x[i * columns + cut(g) + j] - mean) / std::sqrt(variance + 1e-5) *
                                    decode_one(p.format, call.at(5, j * 4)) +
                                decode_one(p.format, call.at(6, j * 4));
        RC_ASSERT(std::fabs(call.get(2, p.format, rows, i, j) - expected) < 1e-3 * (1 + std::fabs(expected)));
      }
    }
  }
}

TEST(Softmax, rows_sum_to_one_and_pads_are_zero) {
  const hw::KernelParams p = block(hw::KernelKind::softmax, NumberFormat::f32, 3, 21);
  Call call(p);
  call.fill(3, p.format, 30.0F);
  call.run();
  for (int i = 0; i < p.rows; ++i) {
    float maximum = -infinity, sum = 0, total = 0;
    for (int j = 0; j < p.columns; ++j) maximum = std::max(maximum, call.get(3, p.format, 3, i, j));
    for (int j = 0; j < p.columns; ++j) sum += std::exp(call.get(3, p.format, 3, i, j) - maximum);
    for (int j = 0; j < p.columns; ++j) {
      EXPECT_TRUE(same(call.get(2, p.format, 3, i, j), std::exp(call.get(3, p.format, 3, i, j) - maximum) / sum));
      total += call.get(2, p.format, 3, i, j);
    }
    EXPECT_NEAR(total, 1.0F, 1e-5F);
    for (int j = p.columns; j < 32; ++j) EXPECT_EQ(call.get(2, p.format, 3, i, j), 0.0F);
  }
}

TEST(AttentionSoftmax, masks_what_lies_in_the_future) {
  hw::KernelParams p = block(hw::KernelKind::attention_softmax, NumberFormat::f16, 6, 5);
  p.scale = 0.25F;
  p.causal = true;
  p.row_offset = 2;
  p.column_offset = 4;  // keys 4..8, queries 2..7
  Call call(p);
  call.fill(3, p.format, 8.0F);
  call.run();
  for (int i = 0; i < p.rows; ++i) {
    float maximum = -infinity, sum = 0;
    const auto allowed = [&](int j) { return p.column_offset + j <= p.row_offset + i; };
    for (int j = 0; j < p.columns; ++j)
      if (allowed(j)) maximum = std::max(maximum, call.get(3, p.format, p.row_stride, i, j) * p.scale);
    for (int j = 0; j < p.columns; ++j) {
      const float expected =
          allowed(j) ? rounded(p.format, std::exp(call.get(3, p.format, p.row_stride, i, j) * p.scale - maximum))
                     : 0.0F;
      EXPECT_TRUE(same(call.get(2, p.format, p.row_stride, i, j), expected)) << i << ", " << j;
      sum += expected;
    }
    EXPECT_TRUE(same(call.pair(4, i).first, maximum));
    EXPECT_TRUE(same(call.pair(4, i).second, sum));
  }
  EXPECT_EQ(call.pair(4, 0).first, -infinity);
  EXPECT_EQ(call.pair(4, 0).second, 0.0F);
}

// Softmax of split keys and the product with values, merged: the attention over all keys.
RC_GTEST_PROP(AttentionMerge, parts_make_the_whole, ()) {
  const int rows = *rc::gen::inRange(1, 5), width = *rc::gen::inRange(1, 20), parts = *rc::gen::inRange(1, 5),
            own = *rc::gen::inRange(0, parts);
  hw::KernelParams p = block(hw::KernelKind::attention_merge, NumberFormat::f32, rows, width);
  p.partials = parts;
  p.group = own;
  Call call(p);
  call.fill(3, p.format);
  if (parts > 1) call.fill(4, p.format);
  for (int part = 0; part < parts; ++part)
    for (int i = 0; i < rows; ++i) {
      const bool none = part > 0 && (part + i) % 3 == 0;
      call.set_pair(5, part * rows + i, none ? -infinity : static_cast<float>(part - i),
                    none ? 0.0F : 1.0F + static_cast<float>(part));
    }
  call.run();
  const std::int64_t block_bytes = rows * round_up(width, 16) * 4;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < width; ++j) {
      double maximum = -infinity, sum = 0, total = 0;
      for (int part = 0; part < parts; ++part) maximum = std::max<double>(maximum, call.pair(5, part * rows + i).first);
      for (int part = 0; part < parts; ++part) {
        const auto [local, local_sum] = call.pair(5, part * rows + i);
        if (local_sum == 0) continue;
        const std::byte* from =
            part == own ? call.element(3, p.format, rows, i, j)
                        : call.element(4, p.format, rows, i, j) + (part < own ? part : part - 1) * block_bytes;
        sum += std::exp(local - maximum) * local_sum;
        total += std::exp(local - maximum) * decode_one(p.format, from);
      }
      RC_ASSERT(std::fabs(call.get(2, p.format, rows, i, j) - total / sum) < 1e-5 * (1 + std::fabs(total / sum)));
    }
}

TEST(RowReduce, sum_mean_and_maximum) {
  for (const hw::RowReduction reduction : {hw::RowReduction::sum, hw::RowReduction::mean, hw::RowReduction::maximum}) {
    hw::KernelParams p = block(hw::KernelKind::row_reduce, NumberFormat::f16, 4, 19);
    p.reduction = reduction;
    Call call(p);
    call.fill(3, p.format);
    call.run();
    for (int i = 0; i < p.rows; ++i) {
      float sum = 0, maximum = -infinity;
      for (int j = 0; j < p.columns; ++j) {
        sum += call.get(3, p.format, p.row_stride, i, j);
        maximum = std::max(maximum, call.get(3, p.format, p.row_stride, i, j));
      }
      const float expected = reduction == hw::RowReduction::sum    ? sum
                             : reduction == hw::RowReduction::mean ? sum / 19.0F
                                                                   : maximum;
      EXPECT_TRUE(same(call.get(2, p.format, p.out_row_stride, i, 0), rounded(p.format, expected)));
      for (int j = 1; j < 16; ++j) EXPECT_EQ(call.get(2, p.format, p.out_row_stride, i, j), 0.0F);
    }
  }
}

}  // namespace
}  // namespace tw::test
