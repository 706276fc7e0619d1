// hw/program/container.h: the outer form of a package: a checked table of sections. Internal to hw/program.
//
// Offset 0: magic "TILEWRT" and version byte; u32 section count; u32 reserved (0); u64 file size; u64 XXH3 of these 24
// bytes and of the table. Then the table, 40 bytes a section: u32 kind, u32 compression, u64 offset, u64 stored bytes,
// u64 raw bytes, u64 XXH3 of the stored bytes. Then the sections, one after the other, to the end of the file.
// All numbers little endian. Every byte of the file is covered by one checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hw/base/result.h"

namespace tw::hw {

enum class SectionKind : std::uint32_t { program = 1, debug = 2, weights = 3 };
const char* name_of(SectionKind kind);

// A section of weights holds at most this many bytes: the unit of reading in parallel.
inline constexpr std::uint64_t weight_block_bytes = std::uint64_t{16} << 20;

struct Section {
  SectionKind kind = SectionKind::program;
  std::uint64_t offset = 0;  // in the file
  std::vector<std::byte> raw;
};

// Writes the sections (compressed by zstd where that saves a tenth, judged by a sample) and returns the file's size.
// Compressed weights are made twice, once to know their size and once to write them: they are never all in memory.
Result<std::uint64_t> write_container(const std::string& path, const std::vector<std::span<const std::byte>>& raw,
                                      const std::vector<SectionKind>& kinds);

// Reads and checks all sections; those of kind weights only when asked for.
Result<std::vector<Section>> read_container(const std::string& path, bool with_weights);

}  // namespace tw::hw
