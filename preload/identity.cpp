#include "identity.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace tutti::preload {
namespace {

/// FNV-1a with a start of its own. The ids are random, so nothing stronger is needed.
std::uint64_t hash(std::uint64_t start, std::span<const std::byte> bytes) {
  constexpr std::uint64_t prime = 0x100000001B3U;
  for (const auto byte : bytes) start = (start ^ static_cast<std::uint64_t>(byte)) * prime;
  return start;
}

}  // namespace

Identity Identity::of(std::span<const std::byte> unique_id) {
  return {hash(0xCBF29CE484222325U, unique_id), hash(0x9E3779B97F4A7C15U, unique_id)};
}

Identity Identity::child(std::uint64_t number, int color) const {
  const std::array parts{high, low, number, static_cast<std::uint64_t>(color) + 1};
  return of(std::as_bytes(std::span(parts)));
}

std::string Identity::text() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace tutti::preload
