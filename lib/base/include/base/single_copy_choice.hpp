#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/trials.hpp"
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
  static constexpr std::size_t kept = 4;
  std::array<std::uint32_t, kept> times_{};
  std::uint32_t count_ = 0;
};

/// For the collective calls of a communicator inside one host. Each rank decides for itself, from
/// the same times. A call lasts from the moment when its last rank has entered until its last rank
/// is done, since a root returns early from a copy that its readers still wait for.
class SingleCopyChoice {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t operations = 6;
  static constexpr std::size_t trial_calls = 8;
  /// When a rank was in a call of the latest trial. In shared memory, all zero at first.
  struct Posted {
    std::atomic<std::uint32_t> call;   ///< its number among those of the kind, from 1; written last
    std::atomic<std::uint32_t> begun;  ///< in units of 32 ns
    std::atomic<std::uint32_t> ended;
  };
  using Trial = std::array<Posted, trial_calls>;
  using Board = std::array<Trial, operations * single_copy_sizes>;
  struct Kind {
    Operation operation;
    std::size_t bytes;  ///< of a block, at least min_single_copy_bytes
  };

  /// True if the operation moves data without reducing it.
  [[nodiscard]] static bool covers(Operation operation) { return index_of(operation).has_value(); }
  /// The choice for the next call. All ranks of the communicator ask, so that they try a way in the
  /// same calls. `boards` are those of all ranks. The first `untimed_calls`, the same on all ranks,
  /// use shared memory: its first use takes page faults, which say nothing about later calls.
  [[nodiscard]] bool next(const Kind& kind, std::span<Board* const> boards,
                          std::size_t untimed_calls);
  /// Posts the times of this rank's latest call of the kind on its own board.
  void took(const Kind& kind, Time begun, Time ended, Board& own) const;

 private:
  static constexpr std::uint32_t never = UINT32_MAX;
  static constexpr std::uint32_t trials_begun = UINT32_MAX;
  struct Case {
    std::uint32_t untimed = 0;  ///< calls before the first trial, or trials_begun
    Trials trials;
    std::uint32_t judged = never;  ///< first call of the trial that `single` follows from
    std::array<std::size_t, trial_calls> bytes{};  ///< of the calls of the latest trial
    bool single = false;
  };
  [[nodiscard]] static std::optional<std::size_t> index_of(Operation operation);
  [[nodiscard]] static std::size_t case_of(const Kind& kind);
  static void judge(Case& one, std::size_t at, std::span<Board* const> boards);
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
  /// True if the latest offer of this size was read because that is faster.
  [[nodiscard]] bool expects_offer(std::size_t bytes) const {
    return cases_[single_copy_size_class(bytes)].reads;
  }
  /// From the offer, and the receiver's request, to the last byte.
  void took(std::size_t bytes, bool single, std::chrono::nanoseconds time);

 private:
  struct Case {
    Trials trials;
    bool reads = false;
    RecentTimes shared_times;
    RecentTimes single_times;
  };
  std::array<Case, single_copy_sizes> cases_{};
};

}  // namespace tutti
