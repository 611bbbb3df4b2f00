#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace tutti {

/// Whole pages for secrets: zero at first, left out of core files, kept from swap where the limit
/// of locked memory (ulimit -l) allows, wiped at the end. Throws Error{system} where there is no
/// memory.
class SecretMemory {
 public:
  explicit SecretMemory(std::size_t bytes);
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;
  ~SecretMemory();

  [[nodiscard]] std::span<std::byte> bytes() { return {start_, bytes_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {start_, bytes_}; }
  /// Leaves the memory to the process, for as long as that lives.
  std::byte* release() { return std::exchange(start_, nullptr); }

 private:
  std::byte* start_ = nullptr;
  std::size_t bytes_;
  std::size_t mapped_bytes_;
};

}  // namespace tutti
