// runtime/session/archive.cpp: NPZ archives: the members of a ZIP file that are stored as they are.
#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "hw/base/file.h"
#include "runtime/session/arrays.h"

namespace tw::runtime {
namespace {

constexpr std::uint64_t largest_file_bytes = std::uint64_t{1} << 34;
// Signatures and sizes of the ZIP format (APPNOTE 6.3.10, sections 4.3.7, 4.3.12, 4.3.16).
constexpr std::uint32_t local_signature = 0x04034b50, member_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr std::size_t local_bytes = 30, member_bytes = 46, end_bytes = 22, longest_comment = 65535;

using Bytes = std::span<const std::byte>;

template <class T>
T number(Bytes bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

tl::unexpected<Error> bad(const std::string& path, const std::string& what) {
  return fail(ErrorKind::bad_input, fmt::format("\"{}\": {}", path, what), {{"file", path}},
              "write it with numpy.savez (not savez_compressed)");
}

std::optional<std::size_t> end_of_members(Bytes bytes) {
  if (bytes.size() < end_bytes) return {};
  const std::size_t last = bytes.size() - end_bytes;
  for (std::size_t back = 0; back <= std::min(longest_comment, last); ++back)
    if (number<std::uint32_t>(bytes, last - back) == end_signature) return last - back;
  return {};
}

struct Member {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t stored_bytes = 0, offset = 0;
};

// The bytes of a stored member: its local header repeats the lengths of name and extra field.
Result<Bytes> data_of(const std::string& path, Bytes bytes, const Member& member) {
  if (member.method != 0)
    return bad(path, fmt::format("member \"{}\" is compressed (method {}); only stored members are read", member.name,
                                 member.method));
  if (member.offset > bytes.size() || bytes.size() - member.offset < local_bytes ||
      number<std::uint32_t>(bytes, member.offset) != local_signature)
    return bad(path, fmt::format("member \"{}\" does not start at {}", member.name, member.offset));
  const std::uint64_t start = std::uint64_t{member.offset} + local_bytes +
                              number<std::uint16_t>(bytes, member.offset + 26) +
                              number<std::uint16_t>(bytes, member.offset + 28);
  if (start > bytes.size() || member.stored_bytes > bytes.size() - start)
    return bad(path, fmt::format("member \"{}\" of {} bytes leaves the file", member.name, member.stored_bytes));
  return bytes.subspan(start, member.stored_bytes);
}

}  // namespace

Result<std::map<std::string, Tensor>> read_npz(const std::string& path) {
  TW_TRY(const std::vector<std::byte> file, read_file(path, largest_file_bytes));
  const Bytes bytes(file);
  const std::optional<std::size_t> end = end_of_members(bytes);
  if (!end) return bad(path, "it is no .npz archive: the end of its directory is missing");
  const auto count = number<std::uint16_t>(bytes, *end + 10);
  std::size_t at = number<std::uint32_t>(bytes, *end + 16);
  std::map<std::string, Tensor> arrays;
  for (int index = 0; index < count; ++index) {
    if (at > *end || *end - at < member_bytes || number<std::uint32_t>(bytes, at) != member_signature)
      return bad(path, fmt::format("entry {} of its directory is damaged", index));
    const std::size_t name_bytes = number<std::uint16_t>(bytes, at + 28);
    const std::size_t all =
        member_bytes + name_bytes + number<std::uint16_t>(bytes, at + 30) + number<std::uint16_t>(bytes, at + 32);
    if (*end - at < all) return bad(path, fmt::format("entry {} of its directory leaves it", index));
    Member member{std::string(reinterpret_cast<const char*>(bytes.data()) + at + member_bytes, name_bytes),
                  number<std::uint16_t>(bytes, at + 10), number<std::uint32_t>(bytes, at + 20),
                  number<std::uint32_t>(bytes, at + 42)};
    TW_TRY(const Bytes data, data_of(path, bytes, member));
    TW_TRY(Tensor tensor, parse_npy(path + ":" + member.name, data));
    if (member.name.ends_with(".npy")) member.name.resize(member.name.size() - 4);
    arrays[member.name] = std::move(tensor);
    at += all;
  }
  return arrays;
}

}  // namespace tw::runtime
