#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tutti::bootstrap {

inline constexpr std::size_t hash_bytes = 32;
using Hash = std::array<std::byte, hash_bytes>;

/// SHA-256 (FIPS 180-4).
[[nodiscard]] Hash sha256(std::span<const std::byte> message);

/// HMAC-SHA256 (RFC 2104).
[[nodiscard]] Hash hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// HKDF-SHA256 (RFC 5869): derives a key for the purpose `info` into `out`, at most 255 hashes long
/// (else throws std::length_error).
void hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                 std::span<const std::byte> info, std::span<std::byte> out);

/// Compares in time independent of the position of a difference.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::byte> a,
                                          std::span<const std::byte> b);

}  // namespace tutti::bootstrap
