// simulator/system/sram.h: the SRAM of all tiles: one lazily touched mapping, and a bit per word for "written".
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hw/machine/machine.h"

namespace tw::sim {

class Sram {
 public:
  Sram(const hw::SramMap& map, int tiles, bool with_payload, bool checked);
  Sram(const Sram&) = delete;
  Sram& operator=(const Sram&) = delete;
  ~Sram();

  // Host pointer to a byte of a tile; the caller has checked the range. Null in timing-only mode.
  std::byte* at(std::uint32_t tile, std::uint32_t address) {
    return payload_ == nullptr ? nullptr
                               : payload_ + std::size_t{tile} * map_.capacity_bytes() + (address - map_.base_bytes);
  }
  bool mapped() const { return payload_ != nullptr; }
  // Remembers what is written now (the loaded program); forget() goes back to it, before another run.
  void remember() { remembered_ = written_; }
  void forget() { written_ = remembered_; }
  void mark_written(std::uint32_t tile, std::uint32_t address, std::int64_t bytes);
  // First unwritten byte address in the range, or 0 when all is written (or nothing is tracked).
  std::uint32_t first_unwritten(std::uint32_t tile, std::uint32_t address, std::int64_t bytes) const;

 private:
  hw::SramMap map_;
  std::size_t mapped_bytes_ = 0;
  std::byte* payload_ = nullptr;
  std::size_t words_per_tile_ = 0;      // of 64 bits
  std::vector<std::uint64_t> written_;  // a bit per 4 bytes
  std::vector<std::uint64_t> remembered_;
};

}  // namespace tw::sim
