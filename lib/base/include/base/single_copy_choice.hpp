#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tutti/operation.hpp"

/// The choice between two copies through shared memory and the kernel's single copy. Which of them
/// is faster depends on the processor, the size and the load, so both are measured.
namespace tutti {

/// Smaller blocks and messages always go through shared memory.
inline constexpr std::size_t min_single_copy_bytes = std::size_t{16} << 10;
/// Powers of two of the size that are told apart; the last class is 64 MiB and more.
inline constexpr std::size_t single_copy_sizes = 13;
[[nodiscard]] std::size_t single_copy_size_class(std::size_t bytes);

/// The latest times of one way to copy.
class RecentTimes {
 public:
  void add(std::chrono::nanoseconds time, std::size_t bytes);
  /// In ns per MiB; UINT32_MAX without any. Longer times include waiting for other ranks.
  [[nodiscard]] std::uint32_t shortest() const;

 private:
  static constexpr std::size_t kept = 6;  ///< two of each kind in CopyChoice
  std::array<std::uint32_t, kept> times_{};
  std::uint32_t count_ = 0;
};

/// For the collective calls of a communicator inside one host. A rank that publishes data decides
/// for itself, from the times of all ranks: what is short for a root may be long for its readers.
class SingleCopyChoice {
 public:
  /// Where a rank posts its shortest times for the others, in ns per MiB; 0: none. In shared
  /// memory, all zero at first.
  struct Posted {
    std::atomic<std::uint32_t> shared;
    std::atomic<std::uint32_t> single;
  };
  static constexpr std::size_t operations = 6;
  using Board = std::array<Posted, operations * single_copy_sizes>;
  struct Kind {
    Operation operation;
    std::size_t bytes;  ///< of a block, at least min_single_copy_bytes
  };

  /// True if the operation moves data without reducing it.
  [[nodiscard]] static bool covers(Operation operation) { return index_of(operation).has_value(); }
  /// The choice for the next call. All ranks of the communicator ask, so that they try a way in the
  /// same calls. `boards` are those of all ranks.
  [[nodiscard]] bool next(const Kind& kind, std::span<Board* const> boards);
  /// Records the time of a call on this rank, and posts it on its own board.
  void took(const Kind& kind, bool single, std::chrono::nanoseconds time, Board& own);

 private:
  struct Case {
    std::uint32_t calls = 0;
    bool single = false;
    RecentTimes shared_times;
    RecentTimes single_times;
  };
  [[nodiscard]] static std::optional<std::size_t> index_of(Operation operation);
  [[nodiscard]] static std::size_t case_of(const Kind& kind);
  std::array<Case, operations * single_copy_sizes> cases_{};
};

/// For messages from one rank to another: the sender offers its memory, and the receiver decides
/// whether it reads it or lets the sender copy it into shared memory.
class OfferChoice {
 public:
  struct Answer {
    bool reads = false;
    bool pauses = false;  ///< the sender need not offer the next `paused_messages` of this size
  };
  static constexpr std::uint32_t paused_messages = 500;

  [[nodiscard]] Answer next(std::size_t bytes);
  /// From the offer, and the receiver's request, to the last byte.
  void took(std::size_t bytes, bool single, std::chrono::nanoseconds time);

 private:
  struct Case {
    std::uint32_t offers = 0;
    RecentTimes shared_times;
    RecentTimes single_times;
  };
  std::array<Case, single_copy_sizes> cases_{};
};

}  // namespace tutti
