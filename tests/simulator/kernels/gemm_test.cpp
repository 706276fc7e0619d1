// tests/simulator/kernels/gemm_test.cpp: products against a scalar loop in the machine's order, bit by bit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "call.h"
#include "simulator/kernels/kernels.h"

namespace tw::test {
namespace {

using hw::CoefficientForm;
using hw::NumberFormat;

hw::KernelParams gemm(NumberFormat format, CoefficientForm form, int rows, int inner, int columns) {
  hw::KernelParams p;
  p.kind = hw::KernelKind::gemm;
  p.format = format;
  p.out_format = format == NumberFormat::f32 ? NumberFormat::f32 : NumberFormat::f16;
  p.coefficient_form = form;
  p.rows = rows;
  p.inner = inner;
  p.columns = columns;
  p.row_stride = rows;
  p.out_row_stride = rows;
  p.coefficient_stride = form == CoefficientForm::row ? columns : inner;
  return p;
}

// Coefficient (k, c) of the three forms.
float coefficient(Call& call, const hw::KernelParams& p, std::int64_t k, std::int64_t c) {
  const std::int64_t g = hw::panel_width(p.format), bytes = hw::bytes_of(p.format);
  std::int64_t index = 0;
  switch (p.coefficient_form) {
    case CoefficientForm::panel: index = c / 16 * 16 * p.inner + k / g * 16 * g + c % 16 * g + k % g; break;
    case CoefficientForm::row: index = k / g * p.coefficient_stride * g + c * g + k % g; break;
    case CoefficientForm::block: index = c / 16 * p.coefficient_stride * 16 + k * 16 + c % 16; break;
  }
  return decode_one(p.format, call.at(4, index * bytes));
}

void expect_product(const hw::KernelParams& p, float deviation = 1.0F) {
  Call call(p);
  call.fill(3, p.format, deviation);
  call.fill(4, p.format, deviation);
  call.run();
  const int g = hw::panel_width(p.format);
  for (int i = 0; i < p.rows; ++i)
    for (int c = 0; c < p.columns; ++c) {
      float accumulator = 0;
      for (int first = 0; first < p.inner; first += g) {
        float sum = 0;
        for (int k = first; k < first + g; ++k)
          sum += call.get(3, p.format, p.row_stride, i, k) * coefficient(call, p, k, c);
        accumulator += sum * std::ldexp(1.0F, p.scale_exponent);
        if (p.format != NumberFormat::f32) accumulator = hw::f16_to_f32(hw::f32_to_f16(accumulator));
      }
      ASSERT_TRUE(same(call.get(2, p.out_format, p.out_row_stride, i, c), accumulator))
          << hw::describe(p) << " row " << i << " column " << c;
    }
}

RC_GTEST_PROP(Gemm, equals_the_scalar_loop, ()) {
  const auto format = *rc::gen::element(NumberFormat::f143, NumberFormat::f16, NumberFormat::f32);
  auto form = *rc::gen::element(CoefficientForm::panel, CoefficientForm::row, CoefficientForm::block);
  if (form == CoefficientForm::block && hw::is_f8(format)) form = CoefficientForm::row;
  hw::KernelParams p = gemm(format, form, *rc::gen::inRange(1, 14), *rc::gen::inRange(1, 4) * hw::panel_width(format),
                            *rc::gen::inRange(1, 4) * 16);
  p.row_stride += *rc::gen::inRange(0, 3);
  p.out_row_stride += *rc::gen::inRange(0, 3);
  p.coefficient_stride += *rc::gen::inRange(0, 3) * (form == CoefficientForm::row ? 16 : 1);
  if (hw::is_f8(format)) p.scale_exponent = *rc::gen::inRange(-8, 5);
  expect_product(p);
}

TEST(Gemm, overflows_to_infinity_in_f16) {
  expect_product(gemm(NumberFormat::f16, CoefficientForm::panel, 5, 32, 16), 300.0F);
}

TEST(Gemm, nan_of_f8_reaches_every_product_of_its_row) {
  const hw::KernelParams p = gemm(NumberFormat::f143, CoefficientForm::panel, 3, 64, 16);
  Call call(p);
  call.fill(3, p.format);
  call.fill(4, p.format);
  *call.element(3, p.format, p.row_stride, 1, 40) = std::byte{0x80};
  call.run();
  for (int c = 0; c < 16; ++c) {
    EXPECT_TRUE(std::isnan(call.get(2, p.out_format, 3, 1, c)));
    EXPECT_FALSE(std::isnan(call.get(2, p.out_format, 3, 0, c)));
  }
}

// What runs here by the processor's features, and what runs where it has none.
RC_GTEST_PROP(Gemm, is_equal_on_every_instruction_set, ()) {
  const std::int64_t rows = *rc::gen::inRange(1, 20), panels = *rc::gen::inRange(1, 4), g = *rc::gen::element(16, 32);
  std::vector<float> left(static_cast<std::size_t>(rows * panels * g)),
      coefficients(static_cast<std::size_t>(panels * g * 16));
  fill_normal(*rc::gen::inRange<std::uint64_t>(0, 100), 0, 0.0F, 20.0F, left);
  fill_normal(*rc::gen::inRange<std::uint64_t>(0, 100), 0, 0.0F, 20.0F, coefficients);
  std::vector<float> fast(static_cast<std::size_t>(rows * 16), 1.0F), portable = fast;
  sim::PanelProduct product{left.data(), coefficients.data(),        fast.data(), rows, panels, g,
                            0.5F,        *rc::gen::arbitrary<bool>()};
  sim::run_product(product);
  product.accumulator = portable.data();
  sim::run_product_portable(product);
  for (std::size_t i = 0; i < fast.size(); ++i) RC_ASSERT(same(fast[i], portable[i]));
}

// 2048 + 1 is not an F16: what is added panel by panel is lost, what one panel sums is not.
TEST(Gemm, rounds_after_every_panel) {
  hw::KernelParams p = gemm(NumberFormat::f16, CoefficientForm::panel, 1, 32, 16);
  Call call(p);
  for (int k = 0; k < 32; ++k) call.set(3, p.format, 1, 0, k, k == 0 ? 2048.0F : k == 16 ? 1.0F : 0.0F);
  for (int index = 0; index < 32 * 16; ++index) encode_one(p.format, 1.0F, call.at(4, index * 2));
  call.run();
  EXPECT_EQ(call.get(2, p.out_format, 1, 0, 0), 2048.0F);
  call.set(3, p.format, 1, 0, 1, 1.0F);
  call.set(3, p.format, 1, 0, 2, 1.0F);
  call.set(3, p.format, 1, 0, 16, 0.0F);
  call.run();
  EXPECT_EQ(call.get(2, p.out_format, 1, 0, 0), 2050.0F);
}

}  // namespace
}  // namespace tw::test
