// hw/number/number.h: the number formats of the machine and their codecs (docs/fidelity.md).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hw/base/result.h"

namespace tw::hw {

enum class NumberFormat : std::uint8_t {
  f32,   // IEEE binary32
  f16,   // IEEE binary16
  f143,  // FP8, 1/4/3 bits, bias 8, largest 240, NaN 0x80, no infinities (float8_e4m3fnuz)
  f152,  // FP8, 1/5/2 bits, bias 16
};

constexpr bool is_f8(NumberFormat format) { return format == NumberFormat::f143 || format == NumberFormat::f152; }
constexpr int bytes_of(NumberFormat format) {
  return format == NumberFormat::f32 ? 4 : format == NumberFormat::f16 ? 2 : 1;
}
const char* name_of(NumberFormat format);  // "f32", "f16", "f143", "f152"
Result<NumberFormat> format_from(std::string_view name);

// Largest finite value.
constexpr float largest(NumberFormat format) {
  return format == NumberFormat::f143   ? 240.0F
         : format == NumberFormat::f152 ? 57344.0F
         : format == NumberFormat::f16  ? 65504.0F
                                        : 3.402823466e38F;
}

// Scalar codecs. Encoding rounds to nearest, ties to even. F8 saturates at the largest finite value, NaN gives 0x80,
// a negative value that rounds to zero gives +0. F16 follows IEEE (overflow gives infinity).
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float f143_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f143(float value);
float f152_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f152(float value);

// f32 value rounded through F16 and back: the hot function of the AMP's accumulation. Inline and without branches,
// so that loops over it vectorise: adding and subtracting 2^(e + 13) leaves 10 bits behind the leading one.
inline float round_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t exponent = magnitude & 0x7f800000U;
  exponent = exponent < (113U << 23) ? 113U << 23 : exponent;  // below 2^-14 the step stays 2^-24
  exponent = exponent > (143U << 23) ? 143U << 23 : exponent;  // 65,536 and above become infinite below
  const float magic = std::bit_cast<float>(exponent + (13U << 23));
  std::uint32_t rounded = std::bit_cast<std::uint32_t>((std::bit_cast<float>(magnitude) + magic) - magic);
  rounded = rounded > 0x477fe000U && rounded < 0x7f800000U ? 0x7f800000U : rounded;
  return std::bit_cast<float>(rounded | (bits & 0x80000000U));
}

// f32 value rounded through F143 and back, clipped at its largest value.
inline float round_to_f143(float value) { return f143_to_f32(f32_to_f143(value)); }

// Bulk codecs, vectorised where the compiler can. `scale_exponent`: stored = value * 2^-scale_exponent, so
// decoding multiplies by 2^scale_exponent. Used for F8 only (0 elsewhere).
void decode(NumberFormat format, std::span<const std::byte> in, int scale_exponent, std::span<float> out);
void encode(NumberFormat format, std::span<const float> in, int scale_exponent, std::span<std::byte> out);

// The smallest scale exponent in [-16, 15] at which `max_abs` does not clip in `format` (15 when it always does; 0 for
// F32 and F16, which carry none).
int scale_exponent_for(NumberFormat format, float max_abs);

}  // namespace tw::hw
