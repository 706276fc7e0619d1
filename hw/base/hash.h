// hw/base/hash.h: 64-bit content hash (xxHash XXH3), used for checksums and for finding equal things.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tw {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// SHA-256 as hex (libcrypto), for digests that users compare with other tools.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace tw
