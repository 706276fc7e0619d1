// simulator/system/sram.cpp: mapping and written bits of the tiles' memory.
#include "simulator/system/sram.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace tw::sim {
namespace {

constexpr std::uint32_t bytes_per_bit = 4;
constexpr std::uint32_t bits = 64;

// Mask of bits [from, to) of one 64-bit word.
std::uint64_t mask(std::uint32_t from, std::uint32_t to) {
  const std::uint64_t high = to == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return high & ~((std::uint64_t{1} << from) - 1);
}

}  // namespace

Sram::Sram(const hw::SramMap& map, int tiles, bool with_payload, bool checked) : map_(map) {
  if (with_payload) {
    mapped_bytes_ = std::size_t{map.capacity_bytes()} * static_cast<std::size_t>(tiles);
    void* mapping =
        ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping != MAP_FAILED) payload_ = static_cast<std::byte*>(mapping);
  }
  if (checked) {
    words_per_tile_ = (map.capacity_bytes() / bytes_per_bit + bits - 1) / bits;
    written_.assign(words_per_tile_ * static_cast<std::size_t>(tiles), 0);
  }
}

Sram::~Sram() {
  if (payload_ != nullptr) ::munmap(payload_, mapped_bytes_);
}

void Sram::mark_written(std::uint32_t tile, std::uint32_t address, std::int64_t bytes) {
  if (written_.empty() || bytes <= 0) return;
  const std::uint32_t first = (address - map_.base_bytes) / bytes_per_bit;
  const auto last = static_cast<std::uint32_t>((address - map_.base_bytes + bytes + bytes_per_bit - 1) / bytes_per_bit);
  std::uint64_t* words = written_.data() + tile * words_per_tile_;
  for (std::uint32_t bit = first; bit < last; bit = (bit / bits + 1) * bits)
    words[bit / bits] |= mask(bit % bits, std::min(last - bit / bits * bits, bits));
}

std::uint32_t Sram::first_unwritten(std::uint32_t tile, std::uint32_t address, std::int64_t bytes) const {
  if (written_.empty() || bytes <= 0) return 0;
  const std::uint32_t first = (address - map_.base_bytes) / bytes_per_bit;
  const auto last = static_cast<std::uint32_t>((address - map_.base_bytes + bytes + bytes_per_bit - 1) / bytes_per_bit);
  const std::uint64_t* words = written_.data() + tile * words_per_tile_;
  for (std::uint32_t bit = first; bit < last; bit = (bit / bits + 1) * bits) {
    const std::uint64_t wanted = mask(bit % bits, std::min(last - bit / bits * bits, bits));
    const std::uint64_t missing = wanted & ~words[bit / bits];
    if (missing != 0)
      return map_.base_bytes +
             (bit / bits * bits + static_cast<std::uint32_t>(std::countr_zero(missing))) * bytes_per_bit;
  }
  return 0;
}

}  // namespace tw::sim
