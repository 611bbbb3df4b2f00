#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace tutti {

/// Zero-initialised pages for secrets, excluded from core dumps, locked in memory if the limit
/// (ulimit -l) allows, and wiped by the destructor. Throws Error{system} if there is no memory.
class SecretMemory {
 public:
  explicit SecretMemory(std::size_t bytes);
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;
  ~SecretMemory();

  [[nodiscard]] std::span<std::byte> bytes() { return {start_, bytes_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {start_, bytes_}; }
  /// Gives up ownership: the memory stays mapped for the life of the process.
  std::byte* release() { return std::exchange(start_, nullptr); }

 private:
  std::byte* start_ = nullptr;
  std::size_t bytes_;
  std::size_t mapped_bytes_;
};

}  // namespace tutti
