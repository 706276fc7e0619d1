// tests/simulator/kernels/call.h: one kernel call on host buffers, with guards around what it may write.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "hw/base/random.h"
#include "hw/kernel/kernel.h"
#include "simulator/kernels/execute.h"

namespace tw::test {

inline float decode_one(hw::NumberFormat format, const std::byte* at) {
  float value = 0;
  hw::decode(format, {at, static_cast<std::size_t>(hw::bytes_of(format))}, 0, {&value, 1});
  return value;
}

inline void encode_one(hw::NumberFormat format, float value, std::byte* at) {
  hw::encode(format, {&value, 1}, 0, {at, static_cast<std::size_t>(hw::bytes_of(format))});
}

inline float rounded(hw::NumberFormat format, float value) {
  std::byte bytes[4];
  encode_one(format, value, bytes);
  return decode_one(format, bytes);
}

// Buffers of all operands of one call. Every buffer is filled with 0xcd and ends with a guard.
class Call {
 public:
  explicit Call(const hw::KernelParams& params) : params_(params) {
    const Status status = hw::check(params);
    EXPECT_TRUE(status) << (status ? "" : status.error().message);
    for (const hw::Operand& operand : hw::operands(params)) {
      std::vector<std::byte>& buffer = memory_[operand.register_number];
      bytes_[operand.register_number] = static_cast<std::size_t>(operand.bytes);
      buffer.assign(static_cast<std::size_t>(operand.bytes) + guard_bytes, std::byte{0xcd});
      pointers_[operand.register_number] = buffer.data();
      written_[operand.register_number] = operand.written;
    }
  }

  std::byte* at(int r, std::int64_t byte = 0) { return pointers_[r] + byte; }

  // Element (i, j) of a panel tensor in register r.
  std::byte* element(int r, hw::NumberFormat format, std::int64_t stride, std::int64_t i, std::int64_t j) {
    const std::int64_t b = hw::panel_width(format);
    return at(r, ((j / b * stride + i) * b + j % b) * hw::bytes_of(format));
  }
  float get(int r, hw::NumberFormat format, std::int64_t stride, std::int64_t i, std::int64_t j) {
    return decode_one(format, element(r, format, stride, i, j));
  }
  void set(int r, hw::NumberFormat format, std::int64_t stride, std::int64_t i, std::int64_t j, float value) {
    encode_one(format, value, element(r, format, stride, i, j));
  }
  // Fills the whole operand with random values of a format; deterministic by register.
  void fill(int r, hw::NumberFormat format, float deviation = 1.0F) {
    std::vector<float> values(bytes_[r] / static_cast<std::size_t>(hw::bytes_of(format)));
    fill_normal(stream_seed(7, "operand") + static_cast<std::uint64_t>(r), 0, 0.0F, deviation, values);
    hw::encode(format, values, 0, {at(r), values.size() * static_cast<std::size_t>(hw::bytes_of(format))});
  }
  void set_pair(int r, std::int64_t index, float first, float second) {
    const float pair[2] = {first, second};
    std::memcpy(at(r, index * 8), pair, 8);
  }
  std::pair<float, float> pair(int r, std::int64_t index) {
    float values[2];
    std::memcpy(values, at(r, index * 8), 8);
    return {values[0], values[1]};
  }

  // Executes the call; inputs and guards must be as before.
  void run() {
    const auto before = memory_;
    sim::execute(params_, pointers_);
    for (const auto& [r, buffer] : memory_) {
      const std::size_t first = written_[r] ? bytes_[r] : 0;
      EXPECT_TRUE(std::equal(buffer.begin() + static_cast<std::ptrdiff_t>(first), buffer.end(),
                             before.at(r).begin() + static_cast<std::ptrdiff_t>(first)))
          << "register " << r << " was written where it may not be";
    }
  }

 private:
  static constexpr std::size_t guard_bytes = 256;
  hw::KernelParams params_;
  std::map<int, std::vector<std::byte>> memory_;
  std::map<int, std::size_t> bytes_;
  std::map<int, bool> written_;
  sim::OperandPointers pointers_{};
};

// Equal to the bit, all NaN alike.
inline ::testing::AssertionResult same(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return ::testing::AssertionSuccess();
  if (std::memcmp(&a, &b, sizeof a) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << a << " is not " << b;
}

}  // namespace tw::test
