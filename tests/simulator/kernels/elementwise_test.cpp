// tests/simulator/kernels/elementwise_test.cpp: reduce, gelu, unary, binary, cast, fill and copy, element by element.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "call.h"
#include "hw/base/units.h"

namespace tw::test {
namespace {

using hw::NumberFormat;

hw::KernelParams block(hw::KernelKind kind, NumberFormat format, int rows, int columns) {
  hw::KernelParams p;
  p.kind = kind;
  p.format = p.out_format = format;
  p.rows = rows;
  p.columns = columns;
  p.row_stride = p.out_row_stride = rows;
  return p;
}

// Elements behind the valid columns of a panel tensor are zero.
void expect_zero_pads(Call& call, const hw::KernelParams& p, NumberFormat format, std::int64_t columns) {
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = columns; j < round_up(columns, hw::panel_width(format)); ++j)
      EXPECT_EQ(call.get(2, format, p.out_row_stride, i, j), 0.0F) << "pad " << i << ", " << j;
}

RC_GTEST_PROP(Reduce, sums_in_the_documented_order, ()) {
  const auto format = *rc::gen::element(NumberFormat::f16, NumberFormat::f32);
  hw::KernelParams p = block(hw::KernelKind::reduce, format, *rc::gen::inRange(1, 9), *rc::gen::inRange(1, 40));
  p.partials = *rc::gen::inRange(1, 5);
  p.has_bias = *rc::gen::arbitrary<bool>();
  p.has_residual = *rc::gen::arbitrary<bool>();
  p.row_stride += *rc::gen::inRange(0, 3);
  p.out_row_stride += *rc::gen::inRange(0, 3);
  Call call(p);
  call.fill(3, format);
  if (p.partials > 1) call.fill(4, format);
  if (p.has_bias) call.fill(5, format);
  if (p.has_residual) call.fill(6, format);
  call.run();
  const std::int64_t stored = round_up(p.columns, 16), block_bytes = p.rows * stored * hw::bytes_of(format);
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float sum = call.get(3, format, p.row_stride, i, j);
      for (int part = 0; part + 1 < p.partials; ++part)
        sum += decode_one(format, call.element(4, format, p.rows, i, j) + part * block_bytes);
      if (p.has_bias) sum += decode_one(format, call.at(5, j * hw::bytes_of(format)));
      if (p.has_residual) sum += call.get(6, format, p.out_row_stride, i, j);
      RC_ASSERT(same(call.get(2, format, p.out_row_stride, i, j), rounded(format, sum)));
    }
}

TEST(Gelu, both_forms_are_near_the_exact_function) {
  for (const bool tanh_form : {true, false})
    for (const NumberFormat format : {NumberFormat::f16, NumberFormat::f32}) {
      hw::KernelParams p;
      p.kind = hw::KernelKind::gelu;
      p.format = p.out_format = format;
      p.elements = 400;
      p.gelu_tanh = tanh_form;
      Call call(p);
      for (int i = 0; i < p.elements; ++i)
        encode_one(format, static_cast<float>(i - 200) / 20.0F, call.at(3, i * hw::bytes_of(format)));
      call.run();
      for (int i = 0; i < p.elements; ++i) {
        const double x = decode_one(format, call.at(3, i * hw::bytes_of(format)));
        const double exact = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        // The tanh form differs from the exact one by at most 5e-4; F16 has 11 bits.
        EXPECT_NEAR(decode_one(format, call.at(2, i * hw::bytes_of(format))), exact,
                    (tanh_form ? 1e-3 : 1e-6) + (format == NumberFormat::f16 ? std::fabs(exact) / 1024 : 0.0))
            << x;
      }
    }
}

TEST(Unary, every_function_and_its_pads) {
  using F = hw::UnaryFunction;
  const std::vector<std::pair<F, float (*)(float)>> functions{
      {F::relu, [](float x) { return x > 0 ? x : 0.0F; }},
      {F::tanh, [](float x) { return std::tanh(x); }},
      {F::sigmoid, [](float x) { return 1.0F / (1.0F + std::exp(-x)); }},
      {F::exp, [](float x) { return std::exp(x); }},
      {F::sqrt, [](float x) { return std::sqrt(x); }},
      {F::erf, [](float x) { return std::erf(x); }},
      {F::negate, [](float x) { return -x; }},
      {F::absolute, [](float x) { return std::fabs(x); }},
      {F::reciprocal, [](float x) { return 1.0F / x; }},
      {F::log, [](float x) { return std::log(x); }},
      {F::identity, [](float x) { return x; }}};
  for (const auto& [function, expected] : functions) {
    hw::KernelParams p = block(hw::KernelKind::unary, NumberFormat::f16, 5, 21);
    p.unary = function;
    Call call(p);
    call.fill(3, p.format);
    call.run();
    for (int i = 0; i < p.rows; ++i)
      for (int j = 0; j < p.columns; ++j)
        EXPECT_TRUE(same(call.get(2, p.format, p.out_row_stride, i, j),
                         rounded(p.format, expected(call.get(3, p.format, p.row_stride, i, j)))))
            << static_cast<int>(function);
    expect_zero_pads(call, p, p.format, p.columns);
  }
}

TEST(Binary, every_function_in_three_forms) {
  using F = hw::BinaryFunction;
  const std::vector<std::pair<F, float (*)(float, float)>> functions{
      {F::add, [](float a, float b) { return a + b; }},
      {F::subtract, [](float a, float b) { return a - b; }},
      {F::multiply, [](float a, float b) { return a * b; }},
      {F::divide, [](float a, float b) { return a / b; }},
      {F::power, [](float a, float b) { return std::pow(a, b); }},
      {F::maximum, [](float a, float b) { return std::max(a, b); }},
      {F::minimum, [](float a, float b) { return std::min(a, b); }}};
  for (const auto& [function, expected] : functions)
    for (int form = 0; form < 3; ++form) {
      hw::KernelParams p = block(hw::KernelKind::binary, NumberFormat::f16, 4, 18);
      p.binary = function;
      p.has_scalar = form > 0;
      p.scalar_first = form == 2;
      p.scalar = 1.5F;
      Call call(p);
      call.fill(3, p.format);
      if (!p.has_scalar) call.fill(4, p.format);
      call.run();
      for (int i = 0; i < p.rows; ++i)
        for (int j = 0; j < p.columns; ++j) {
          const float a = call.get(3, p.format, p.row_stride, i, j);
          const float b = p.has_scalar ? p.scalar : call.get(4, p.format, p.row_stride, i, j);
          EXPECT_TRUE(same(call.get(2, p.format, p.out_row_stride, i, j),
                           rounded(p.format, p.scalar_first ? expected(b, a) : expected(a, b))))
              << static_cast<int>(function) << " form " << form;
        }
      expect_zero_pads(call, p, p.format, p.columns);
    }
}

RC_GTEST_PROP(Cast, rescales_and_changes_the_panels, ()) {
  hw::KernelParams p =
      block(hw::KernelKind::cast, NumberFormat::f16, *rc::gen::inRange(1, 7), *rc::gen::inRange(1, 70));
  p.out_format = NumberFormat::f143;
  if (*rc::gen::arbitrary<bool>()) std::swap(p.format, p.out_format);
  p.scale_exponent = *rc::gen::inRange(-6, 4);
  p.row_stride += *rc::gen::inRange(0, 3);
  p.out_row_stride += *rc::gen::inRange(0, 3);
  Call call(p);
  call.fill(3, p.format, 4.0F);
  call.run();
  const bool to_f8 = hw::is_f8(p.out_format);
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.columns; ++j) {
      const float stored = call.get(3, p.format, p.row_stride, i, j);
      const float expected = rounded(p.out_format, std::ldexp(stored, to_f8 ? -p.scale_exponent : p.scale_exponent));
      RC_ASSERT(same(call.get(2, p.out_format, p.out_row_stride, i, j), expected));
    }
  expect_zero_pads(call, p, p.out_format, p.columns);
}

TEST(Fill, zeroes_runs_and_nothing_between) {
  hw::KernelParams p;
  p.kind = hw::KernelKind::fill;
  p.rows = 3;
  p.elements = 16;
  p.row_stride = 40;
  Call call(p);
  call.run();
  for (int byte = 0; byte < 2 * 40 + 16; ++byte)
    EXPECT_EQ(*call.at(2, byte), byte % 40 < 16 ? std::byte{0} : std::byte{0xcd}) << byte;
}

TEST(Copy, moves_runs_between_strides) {
  hw::KernelParams p;
  p.kind = hw::KernelKind::copy;
  p.rows = 4;
  p.elements = 24;
  p.row_stride = 32;
  p.out_row_stride = 48;
  Call call(p);
  call.fill(3, NumberFormat::f16);
  call.run();
  for (int run = 0; run < p.rows; ++run)
    for (int byte = 0; byte < (run + 1 < p.rows ? 48 : 24); ++byte)
      EXPECT_EQ(*call.at(2, run * 48 + byte), byte < 24 ? *call.at(3, run * 32 + byte) : std::byte{0xcd});
}

}  // namespace
}  // namespace tw::test
