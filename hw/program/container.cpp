#include "hw/program/container.h"

#include <fmt/format.h>
#include <zstd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/parallel.h"

namespace tw::hw {
namespace {

constexpr std::array<char, 8> magic{'T', 'I', 'L', 'E', 'W', 'R', 'T', 1};
constexpr std::size_t header_bytes = 32, entry_bytes = 40, checked_header_bytes = 24;
constexpr std::uint32_t most_sections = 1 << 16;
constexpr std::uint64_t largest_raw_bytes = std::uint64_t{1} << 32;
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

tl::unexpected<Error> corrupt(const std::string& path, const std::string& what, const std::string& section = {}) {
  std::map<std::string, std::string> where{{"file", path}};
  if (!section.empty()) where["section"] = section;
  return fail(ErrorKind::corrupt,
              fmt::format("{}: {}{}", path, section.empty() ? "" : "section \"" + section + "\": ", what), where,
              "the file is damaged or was cut off; compile the model again");
}

std::vector<std::byte> compressed(std::span<const std::byte> raw) {
  std::vector<std::byte> out(ZSTD_compressBound(raw.size()));
  const std::size_t size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), compression_level);
  if (ZSTD_isError(size) || size > raw.size() - raw.size() / 10) return {};
  out.resize(size);
  return out;
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
  // Compressed blocks are kept (they are the smaller ones); the others are written from where they are.
  std::vector<std::vector<std::byte>> packed(raw.size());
  std::vector<Entry> entries(raw.size());
  parallel_for(raw.size(), [&](std::size_t index) {
    packed[index] = compressed(raw[index]);
    const std::span<const std::byte> stored =
        packed[index].empty() ? raw[index] : std::span<const std::byte>(packed[index]);
    entries[index] = {static_cast<std::uint32_t>(kinds[index]),
                      packed[index].empty() ? none : zstd,
                      0,
                      stored.size(),
                      raw[index].size(),
                      hash_bytes(stored)};
  });
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
    for (std::size_t index = 0; index < raw.size(); ++index)
      TW_TRY_STATUS(sink(packed[index].empty() ? raw[index] : std::span<const std::byte>(packed[index])));
    return {};
  }));
  return offset;
}

Result<std::vector<Section>> read_container(const std::string& path, bool with_weights) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error)
    return fail(ErrorKind::io, fmt::format("\"{}\" cannot be read: {}", path, error.message()), {{"file", path}});
  if (file_bytes < header_bytes) return corrupt(path, fmt::format("{} bytes are too few for a package", file_bytes));
  std::vector<std::byte> header(header_bytes);
  TW_TRY_STATUS(read_file_range(path, 0, header));
  if (std::memcmp(header.data(), magic.data(), magic.size() - 1) != 0)
    return corrupt(path, "it is no Tilewright package: its first bytes are not the magic");
  if (get<std::uint8_t>(header, 7) != magic[7])
    return corrupt(path, fmt::format("format version {}; this build reads version {}", get<std::uint8_t>(header, 7),
                                     int{magic[7]}));
  const auto count = get<std::uint32_t>(header, 8);
  if (count == 0 || count > most_sections || header_bytes + entry_bytes * std::uint64_t{count} > file_bytes)
    return corrupt(path, fmt::format("{} sections in {} bytes", count, file_bytes));
  std::vector<std::byte> table(entry_bytes * count);
  TW_TRY_STATUS(read_file_range(path, header_bytes, table));
  if (hash_bytes(table, hash_bytes(std::span(header).first(checked_header_bytes))) != get<std::uint64_t>(header, 24))
    return corrupt(path, "the checksum of its section table is wrong");
  if (get<std::uint64_t>(header, 16) != file_bytes)
    return corrupt(
        path, fmt::format("it was written with {} bytes and has {} now", get<std::uint64_t>(header, 16), file_bytes));

  std::vector<Section> sections(count);
  std::vector<Status> statuses(count);
  std::uint64_t expected = header_bytes + table.size();
  std::vector<Entry> entries(count);
  for (std::uint32_t index = 0; index < count; ++index) {
    entries[index] = get<Entry>(table, index * entry_bytes);
    const Entry& entry = entries[index];
    const bool sound = entry.kind >= 1 && entry.kind <= 3 && entry.compression <= zstd && entry.offset == expected &&
                       entry.stored_bytes <= file_bytes - expected && entry.raw_bytes <= largest_raw_bytes &&
                       (entry.compression == zstd || entry.stored_bytes == entry.raw_bytes);
    if (!sound) return corrupt(path, fmt::format("entry {} of its section table makes no sense", index));
    expected += entry.stored_bytes;
  }
  if (expected != file_bytes)
    return corrupt(path, fmt::format("its sections end at {}, the file at {}", expected, file_bytes));
  parallel_for(count, [&](std::size_t index) {
    const Entry& entry = entries[index];
    sections[index].kind = static_cast<SectionKind>(entry.kind);
    if (sections[index].kind == SectionKind::weights && !with_weights) return;
    const std::string name = name_of(sections[index].kind);
    std::vector<std::byte> stored(entry.stored_bytes);
    statuses[index] = read_file_range(path, entry.offset, stored);
    if (!statuses[index]) return;
    if (hash_bytes(stored) != entry.hash) {
      statuses[index] = corrupt(
          path, fmt::format("the checksum of its {} bytes at offset {} is wrong", entry.stored_bytes, entry.offset),
          name);
    } else if (entry.compression == none) {
      sections[index].raw = std::move(stored);
    } else {
      if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != entry.raw_bytes) {
        statuses[index] = corrupt(path, fmt::format("it does not hold {} bytes", entry.raw_bytes), name);
        return;
      }
      sections[index].raw.resize(entry.raw_bytes);
      const std::size_t size =
          ZSTD_decompress(sections[index].raw.data(), entry.raw_bytes, stored.data(), stored.size());
      if (ZSTD_isError(size) || size != entry.raw_bytes)
        statuses[index] = corrupt(path, fmt::format("it does not decompress to {} bytes", entry.raw_bytes), name);
    }
  });
  for (Status& status : statuses)
    if (!status) return tl::unexpected(std::move(status).error());
  return sections;
}

}  // namespace tw::hw
