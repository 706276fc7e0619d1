#include "hw/program/container.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "hw/base/check.h"
#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/parallel.h"

namespace tw::hw {
namespace {

constexpr std::array<char, 8> magic{'T', 'I', 'L', 'E', 'W', 'R', 'T', 1};
constexpr std::size_t header_bytes = 32, entry_bytes = 40, checked_header_bytes = 24;
constexpr std::uint32_t most_sections = 1 << 16;
constexpr std::uint64_t largest_table_bytes = std::uint64_t{1} << 30;  // FlatBuffers itself ends at 2 GiB
constexpr int compression_level = 1;  // higher levels save little on code and cost seconds
enum Compression : std::uint32_t { none = 0, zstd = 1 };

struct Entry {
  std::uint32_t kind = 0, compression = none;
  std::uint64_t offset = 0, stored_bytes = 0, raw_bytes = 0, hash = 0;
};
static_assert(sizeof(Entry) == entry_bytes);

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

template <class T>
T get(std::span<const std::byte> in, std::size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

tl::unexpected<Error> corrupt(const std::string& path, std::uint64_t offset, const std::string& what,
                              const std::string& section = {}) {
  std::map<std::string, std::string> where{{"file", path}, {"offset", std::to_string(offset)}};
  if (!section.empty()) where["section"] = section;
  return fail(ErrorKind::corrupt,
              fmt::format("{}: {}{}", path, section.empty() ? "" : "section \"" + section + "\": ", what), where,
              "the file is damaged or was cut off; compile the model again");
}

using Bytes = std::span<const std::byte>;

bool saves_a_tenth(std::size_t size, std::size_t raw) { return !ZSTD_isError(size) && size <= raw - raw / 10; }

// Empty when compression does not save a tenth. A long section is judged by a sample from its middle first.
std::vector<std::byte> compressed(Bytes raw) {
  constexpr std::size_t sample_bytes = std::size_t{1} << 17;
  std::vector<std::byte> out;
  const auto compress = [&](Bytes part) {
    out.resize(ZSTD_compressBound(part.size()));
    return ZSTD_compress(out.data(), out.size(), part.data(), part.size(), compression_level);
  };
  if (raw.size() > 2 * sample_bytes) {
    const Bytes sample = raw.subspan(raw.size() / 2, sample_bytes);
    if (!saves_a_tenth(compress(sample), sample.size())) return {};
  }
  const std::size_t size = compress(raw);
  if (!saves_a_tenth(size, raw.size())) return {};
  out.resize(size);
  return out;
}

Entry entry_of(SectionKind kind, Bytes raw, Bytes packed) {
  const Bytes stored = packed.empty() ? raw : packed;
  return {
      static_cast<std::uint32_t>(kind), packed.empty() ? none : zstd, 0, stored.size(), raw.size(), hash_bytes(stored)};
}

// Writes the sections in groups: those of a group are compressed in parallel, and dropped when they are written.
Status write_sections(const ByteSink& sink, const std::vector<Bytes>& raw, const std::vector<Entry>& entries) {
  constexpr std::size_t group_sections = 16;
  for (std::size_t first = 0; first < raw.size(); first += group_sections) {
    const std::size_t count = std::min(group_sections, raw.size() - first);
    std::vector<std::vector<std::byte>> packed(count);
    parallel_for(count, [&](std::size_t i) {
      if (entries[first + i].compression == zstd) packed[i] = compressed(raw[first + i]);
    });
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes stored = entries[first + i].compression == zstd ? Bytes(packed[i]) : raw[first + i];
      TW_CHECK(stored.size() == entries[first + i].stored_bytes,
               "a section was compressed to another size than before");
      TW_TRY_STATUS(sink(stored));
    }
  }
  return {};
}

// Whether an entry of the table can be what a writer made, when its section starts at `expected`.
bool sound(const Entry& entry, std::uint64_t expected, std::uint64_t file_bytes) {
  const bool weights = entry.kind == static_cast<std::uint32_t>(SectionKind::weights);
  return entry.kind >= 1 && entry.kind <= 3 && entry.compression <= zstd && entry.offset == expected &&
         entry.stored_bytes <= file_bytes - expected &&
         entry.raw_bytes <= (weights ? weight_block_bytes : largest_table_bytes) &&
         (entry.compression == zstd || entry.stored_bytes == entry.raw_bytes);
}

// The section's bytes, checked and decompressed.
Result<std::vector<std::byte>> read_section(const std::string& path, const Entry& entry) {
  const std::string name = name_of(static_cast<SectionKind>(entry.kind));
  std::vector<std::byte> stored(entry.stored_bytes);
  TW_TRY_STATUS(read_file_range(path, entry.offset, stored));
  if (hash_bytes(stored) != entry.hash)
    return corrupt(path, entry.offset,
                   fmt::format("the checksum of its {} bytes at offset {} is wrong", entry.stored_bytes, entry.offset),
                   name);
  if (entry.compression == none) return stored;
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != entry.raw_bytes)
    return corrupt(path, entry.offset, fmt::format("it does not hold {} bytes", entry.raw_bytes), name);
  std::vector<std::byte> raw(entry.raw_bytes);
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) || size != entry.raw_bytes)
    return corrupt(path, entry.offset, fmt::format("it does not decompress to {} bytes", entry.raw_bytes), name);
  return raw;
}

// The table of sections, checked against the header and the size of the file.
Result<std::vector<Entry>> read_table(const std::string& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error)
    return fail(ErrorKind::io, fmt::format("\"{}\" cannot be read: {}", path, error.message()), {{"file", path}});
  if (file_bytes < header_bytes) return corrupt(path, 0, fmt::format("{} bytes are too few for a package", file_bytes));
  std::vector<std::byte> header(header_bytes);
  TW_TRY_STATUS(read_file_range(path, 0, header));
  if (std::memcmp(header.data(), magic.data(), magic.size() - 1) != 0)
    return corrupt(path, 0, "it is no Tilewright package: its first bytes are not the magic");
  const auto version = get<std::uint8_t>(header, 7);
  if (version != magic[7])
    return corrupt(path, 7, fmt::format("format version {}; this build reads version {}", version, int{magic[7]}));
  const auto count = get<std::uint32_t>(header, 8);
  if (count == 0 || count > most_sections || header_bytes + entry_bytes * std::uint64_t{count} > file_bytes)
    return corrupt(path, 8, fmt::format("{} sections in {} bytes", count, file_bytes));
  std::vector<std::byte> table(entry_bytes * count);
  TW_TRY_STATUS(read_file_range(path, header_bytes, table));
  if (hash_bytes(table, hash_bytes(std::span(header).first(checked_header_bytes))) != get<std::uint64_t>(header, 24))
    return corrupt(path, 24, "the checksum of its section table is wrong");
  const auto written_bytes = get<std::uint64_t>(header, 16);
  if (written_bytes != file_bytes)
    return corrupt(path, 16, fmt::format("it was written with {} bytes and has {} now", written_bytes, file_bytes));
  std::uint64_t expected = header_bytes + table.size();
  std::vector<Entry> entries;
  for (std::uint32_t index = 0; index < count; ++index) {
    entries.push_back(get<Entry>(table, index * entry_bytes));
    if (!sound(entries.back(), expected, file_bytes))
      return corrupt(path, header_bytes + index * entry_bytes,
                     fmt::format("entry {} of its section table makes no sense", index));
    expected += entries.back().stored_bytes;
  }
  if (expected != file_bytes)
    return corrupt(path, expected, fmt::format("its sections end at {}, the file at {}", expected, file_bytes));
  return entries;
}

}  // namespace

const char* name_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::program: return "program";
    case SectionKind::debug: return "debug";
    case SectionKind::weights: return "weights";
  }
  return "unknown";
}

Result<std::uint64_t> write_container(const std::string& path, const std::vector<std::span<const std::byte>>& raw,
                                      const std::vector<SectionKind>& kinds) {
  std::vector<Entry> entries(raw.size());
  parallel_for(raw.size(),
               [&](std::size_t index) { entries[index] = entry_of(kinds[index], raw[index], compressed(raw[index])); });
  std::uint64_t offset = header_bytes + entry_bytes * entries.size();
  std::vector<std::byte> table;
  for (Entry& entry : entries) {
    entry.offset = offset;
    offset += entry.stored_bytes;
    put(table, entry);
  }
  std::vector<std::byte> header;
  for (const char c : magic) header.push_back(static_cast<std::byte>(c));
  put(header, static_cast<std::uint32_t>(entries.size()));
  put(header, std::uint32_t{0});
  put(header, offset);
  put(header, hash_bytes(table, hash_bytes(header)));
  TW_TRY_STATUS(write_file(path, [&](const ByteSink& sink) -> Status {
    TW_TRY_STATUS(sink(header));
    TW_TRY_STATUS(sink(table));
    return write_sections(sink, raw, entries);
  }));
  return offset;
}

Result<std::vector<Section>> read_container(const std::string& path, bool with_weights) {
  TW_TRY(const std::vector<Entry> entries, read_table(path));
  std::vector<Section> sections(entries.size());
  std::vector<Status> statuses(entries.size());
  parallel_for(entries.size(), [&](std::size_t index) {
    Section& section = sections[index];
    section.kind = static_cast<SectionKind>(entries[index].kind);
    section.offset = entries[index].offset;
    if (section.kind == SectionKind::weights && !with_weights) return;
    Result<std::vector<std::byte>> raw = read_section(path, entries[index]);
    if (raw) {
      section.raw = *std::move(raw);
    } else {
      statuses[index] = tl::unexpected(std::move(raw).error());
    }
  });
  for (Status& status : statuses)
    if (!status) return tl::unexpected(std::move(status).error());
  return sections;
}

}  // namespace tw::hw
