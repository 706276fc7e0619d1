// hw/base/file.h: whole files in and out. Writing goes to a temporary beside the target and is renamed at the end,
// so that nothing is ever half written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hw/base/result.h"

namespace tw {

// Reads a whole file. Errors (io): missing, unreadable, a folder, larger than `limit_bytes`.
Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t limit_bytes = std::uint64_t{1} << 40);
Result<std::string> read_text_file(const std::string& path, std::uint64_t limit_bytes = std::uint64_t{1} << 30);

// Reads `bytes` at `offset` of a file into `out`. Errors (io): missing, or the file ends before.
Status read_file_range(const std::string& path, std::uint64_t offset, std::span<std::byte> out);

// Replaces `path` with the bytes, or leaves it as it was. Errors (io): unwritable folder, full disk, ...
Status write_file(const std::string& path, std::span<const std::byte> bytes);
Status write_file(const std::string& path, const std::string& text);

// The same for output made piece by piece: `produce` appends through the sink and may fail.
using ByteSink = std::function<Status(std::span<const std::byte>)>;
Status write_file(const std::string& path, const std::function<Status(const ByteSink&)>& produce);

}  // namespace tw
