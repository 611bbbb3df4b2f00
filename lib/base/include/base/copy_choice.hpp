#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/trials.hpp"
#include "tutti/operation.hpp"

namespace tutti {

/// Which copies of a call or message through shared memory use non-temporal stores.
enum class Streaming : std::uint8_t {
  none,
  out,   ///< copies into the caller's memory, which is not read again soon
  both,  ///< copies into shared memory as well
};

/// Chooses how calls and messages through shared memory copy.
/// Between cores that share a cache, data moves faster through it than through memory; between
/// others several times slower, and on a virtual machine this can change within seconds. So times
/// are measured, per operation, power of two of the block size, and role (root or not): the minimum
/// of the latest calls of each kind counts, and the other kinds are retried occasionally. Each rank
/// decides for itself. Not safe for concurrent use.
class CopyChoice {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Smaller blocks and messages always use ordinary stores.
  static constexpr std::size_t min_bytes = std::size_t{8} << 10;

  /// Calls with equal Kind are compared; `bytes` of a block, at least min_bytes.
  struct Kind {
    Operation operation;
    bool is_root;
    std::size_t bytes;
  };
  /// The choice for the next call.
  [[nodiscard]] Streaming next(const Kind& kind);
  /// Records the time of a call.
  void took(const Kind& kind, Streaming streaming, Duration time);

 private:
  static constexpr std::uint32_t kinds = 3;
  static constexpr std::size_t kept = 4;
  static constexpr std::size_t operations = operation_count;
  static constexpr std::size_t roles = 2;
  static constexpr std::size_t sizes = 14;  ///< the last one: 32 MiB and more

  /// The latest times of one choice. The shortest counts: longer ones include waiting for other
  /// ranks.
  struct Times {
    std::array<std::uint32_t, kept> times{};  ///< ns per MiB
    std::uint32_t next = 0;
    void add(std::uint32_t time);
    [[nodiscard]] std::uint32_t shortest() const;
  };
  struct Case {
    Trials trials;
    std::array<Times, kinds> times;
  };

  [[nodiscard]] Case& of(const Kind& kind);
  /// Empty before the first use, so that set-up doesn't touch them.
  std::vector<Case> cases_;
};

}  // namespace tutti
