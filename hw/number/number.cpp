// hw/number/number.cpp: scalar and bulk codecs. Everything in loops is branch free, so that compilers vectorise it.
#include "hw/number/number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "hw/base/check.h"

namespace tw::hw {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// condition ? a : b by masks: compilers turn ?: on results of float arithmetic into branches, which stop vectorisation.
std::uint32_t select(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

// An 8-bit format without infinities and without negative zero; 0x80 is NaN.
struct F8Shape {
  int mantissa_bits;
  int bias;
};
constexpr F8Shape shape_143{3, 8};
constexpr F8Shape shape_152{2, 16};

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

constexpr float decode_f8(F8Shape shape, std::uint32_t code) {
  if (code == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const auto mantissa = static_cast<float>(code & ((1U << shape.mantissa_bits) - 1));
  const int exponent = static_cast<int>((code & 0x7f) >> shape.mantissa_bits);
  const float step = power_of_two((exponent == 0 ? 1 : exponent) - shape.bias - shape.mantissa_bits);
  const float leading = exponent == 0 ? 0.0F : static_cast<float>(1U << shape.mantissa_bits);
  return (code & 0x80 ? -1.0F : 1.0F) * (leading + mantissa) * step;
}

constexpr std::array<float, 256> table_of(F8Shape shape) {
  std::array<float, 256> table{};
  for (std::uint32_t code = 0; code < 256; ++code) table[code] = decode_f8(shape, code);
  return table;
}
constexpr std::array<float, 256> table_143 = table_of(shape_143);
constexpr std::array<float, 256> table_152 = table_of(shape_152);

// Rounds as round_to_f16 does, then moves the fields. 2^(23 - mantissa_bits) times the leading power makes the adder
// round.
template <F8Shape shape, NumberFormat format>
std::uint8_t encode_f8(float value) {
  constexpr std::uint32_t lowest = static_cast<std::uint32_t>(127 + 1 - shape.bias) << 23;  // smallest normal
  constexpr std::uint32_t highest = std::bit_cast<std::uint32_t>(largest(format));
  constexpr std::uint32_t magic_shift = static_cast<std::uint32_t>(23 - shape.mantissa_bits) << 23;
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t clipped = magnitude > highest ? highest : magnitude;
  const std::uint32_t exponent = clipped & 0x7f800000U;
  const float magic = std::bit_cast<float>((exponent < lowest ? lowest : exponent) + magic_shift);
  const float rounded = (std::bit_cast<float>(clipped) + magic) - magic;
  constexpr std::uint32_t drop = 23 - shape.mantissa_bits;
  const std::uint32_t normal = (bits_of(rounded) - lowest + (1U << 23)) >> drop;
  constexpr float denormal_magic = std::bit_cast<float>(lowest + magic_shift);
  const std::uint32_t denormal = bits_of(rounded + denormal_magic) - bits_of(denormal_magic);
  const std::uint32_t code = select(bits_of(rounded) < lowest, denormal, normal);
  const std::uint32_t sign = select(code == 0, 0, (bits >> 24) & 0x80U);
  return static_cast<std::uint8_t>(select(magnitude > 0x7f800000U, 0x80U, code | sign));
}

template <class Convert>
void encode_f8_all(std::span<const float> in, int scale_exponent, std::span<std::byte> out, Convert convert) {
  const float scale = power_of_two(-scale_exponent);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<std::byte>(convert(in[i] * scale));
}

void decode_f8_all(const std::array<float, 256>& table, std::span<const std::byte> in, int scale_exponent,
                   std::span<float> out) {
  const float scale = power_of_two(scale_exponent);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = table[static_cast<std::uint8_t>(in[i])] * scale;
}

void decode_f16_all(std::span<const std::byte> in, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, in.data() + 2 * i, 2);
    out[i] = f16_to_f32(bits);
  }
}

void encode_f16_all(std::span<const float> in, std::span<std::byte> out) {
  std::array<std::uint16_t, 512> block;  // converted here, because stores through memcpy are not vectorised
  for (std::size_t done = 0; done < in.size(); done += block.size()) {
    const std::size_t count = std::min(block.size(), in.size() - done);
    for (std::size_t i = 0; i < count; ++i) block[i] = f32_to_f16(in[done + i]);
    std::memcpy(out.data() + 2 * done, block.data(), 2 * count);
  }
}

}  // namespace

const char* name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::f32: return "f32";
    case NumberFormat::f16: return "f16";
    case NumberFormat::f143: return "f143";
    case NumberFormat::f152: return "f152";
  }
  return "unknown";
}

Result<NumberFormat> format_from(std::string_view name) {
  for (const NumberFormat format : {NumberFormat::f32, NumberFormat::f16, NumberFormat::f143, NumberFormat::f152})
    if (name == name_of(format)) return format;
  return fail(ErrorKind::bad_input,
              fmt::format("unknown number format \"{}\"; allowed are f32, f16, f143, f152", name));
}

float f16_to_f32(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const std::uint32_t exponent = magnitude & (31U << 23);
  const std::uint32_t normal = magnitude + (112U << 23);
  const std::uint32_t special = magnitude + (224U << 23);
  constexpr float smallest_normal = 0x1.0p-14F;
  const std::uint32_t denormal = bits_of(std::bit_cast<float>(magnitude + (113U << 23)) - smallest_normal);
  const std::uint32_t bits = select(exponent == 0, denormal, select(exponent == (31U << 23), special, normal));
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t rounded = bits_of(round_to_f16(value));
  const std::uint32_t magnitude = rounded & 0x7fffffffU;
  const std::uint32_t normal = (magnitude >> 13) - (112U << 10);
  const std::uint32_t denormal = bits_of(std::bit_cast<float>(magnitude) + 0.5F) - bits_of(0.5F);  // steps of 2^-24
  const std::uint32_t special = select(magnitude > 0x7f800000U, 0x7e00U, 0x7c00U);
  const std::uint32_t bits =
      select(magnitude < (113U << 23), denormal, select(magnitude >= 0x7f800000U, special, normal));
  return static_cast<std::uint16_t>(bits | (rounded >> 16 & 0x8000U));
}

float f143_to_f32(std::uint8_t bits) { return table_143[bits]; }
std::uint8_t f32_to_f143(float value) { return encode_f8<shape_143, NumberFormat::f143>(value); }
float f152_to_f32(std::uint8_t bits) { return table_152[bits]; }
std::uint8_t f32_to_f152(float value) { return encode_f8<shape_152, NumberFormat::f152>(value); }

void decode(NumberFormat format, std::span<const std::byte> in, int scale_exponent, std::span<float> out) {
  TW_CHECK(in.size() == out.size() * static_cast<std::size_t>(bytes_of(format)), "{} bytes of {} for {} values",
           in.size(), name_of(format), out.size());
  switch (format) {
    case NumberFormat::f32:
      if (!out.empty()) std::memcpy(out.data(), in.data(), in.size());
      break;
    case NumberFormat::f16: decode_f16_all(in, out); break;
    case NumberFormat::f143: decode_f8_all(table_143, in, scale_exponent, out); break;
    case NumberFormat::f152: decode_f8_all(table_152, in, scale_exponent, out); break;
  }
}

void encode(NumberFormat format, std::span<const float> in, int scale_exponent, std::span<std::byte> out) {
  TW_CHECK(out.size() == in.size() * static_cast<std::size_t>(bytes_of(format)), "{} values for {} bytes of {}",
           in.size(), out.size(), name_of(format));
  switch (format) {
    case NumberFormat::f32:
      if (!in.empty()) std::memcpy(out.data(), in.data(), out.size());
      break;
    case NumberFormat::f16: encode_f16_all(in, out); break;
    case NumberFormat::f143: encode_f8_all(in, scale_exponent, out, encode_f8<shape_143, NumberFormat::f143>); break;
    case NumberFormat::f152: encode_f8_all(in, scale_exponent, out, encode_f8<shape_152, NumberFormat::f152>); break;
  }
}

int scale_exponent_for(NumberFormat format, float max_abs) {
  if (!is_f8(format)) return 0;
  int exponent = -16;
  while (exponent < 15 && !(max_abs <= largest(format) * power_of_two(exponent))) ++exponent;
  return exponent;
}

}  // namespace tw::hw
