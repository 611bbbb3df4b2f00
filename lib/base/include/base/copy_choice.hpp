#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tutti/operation.hpp"

namespace tutti {

/// Which copies of a call through shared memory, or of a message through a ring in it, go past the
/// caches of the processor.
enum class Streaming : std::uint8_t {
  none,
  out,   ///< into the caller's memory, which is not read again soon
  both,  ///< into shared memory, too
};

/// How calls and messages through shared memory copy.
///
/// Caches carry data between cores that share one faster than memory, between others several times
/// slower; and on a virtual machine that changes from second to second. So it is measured: for
/// each operation, power of two of a block's size, and whether this rank is the root, the best of
/// the latest few calls of each kind counts, and now and then the other kinds are tried again. Each
/// rank decides for itself. For one thread at a time.
class CopyChoice {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Calls with smaller blocks, and shorter messages, always go through the caches.
  static constexpr std::size_t min_bytes = std::size_t{8} << 10;

  /// What calls are compared by; `bytes` of a block, at least min_bytes.
  struct Kind {
    Operation operation;
    bool is_root;
    std::size_t bytes;
  };
  /// For the next call.
  [[nodiscard]] Streaming next(const Kind& kind);
  /// What a call took.
  void took(const Kind& kind, Streaming streaming, Duration time);

 private:
  static constexpr std::size_t kinds = 3;
  static constexpr std::size_t kept = 4;
  static constexpr std::size_t operations = operation_count;
  static constexpr std::size_t roles = 2;
  static constexpr std::size_t sizes = 14;  ///< the last from 32 MiB on

  /// The latest times of one kind. The shortest counts: what is longer waited for others.
  struct Times {
    std::array<std::uint32_t, kept> times{};  ///< of a mebibyte, in ns
    std::uint32_t next = 0;
    void add(std::uint32_t time);
    [[nodiscard]] std::uint32_t shortest() const;
  };
  struct Case {
    std::uint32_t calls = 0;
    std::array<Times, kinds> times;
  };

  [[nodiscard]] Case& of(const Kind& kind);
  std::array<Case, operations * roles * sizes> cases_{};
};

}  // namespace tutti
