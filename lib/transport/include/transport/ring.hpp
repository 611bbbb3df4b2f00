#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

/// A stream of bytes from one process to another, through a ring buffer in memory that both map.
namespace tutti::transport {

/// Positions of both sides, counted from the first byte ever. Each has a pair of cache lines, since
/// processors prefetch lines in pairs. All zero initially.
struct RingState {
  alignas(128) std::atomic<std::uint64_t> written;
  /// Written by the writer: the ring's length if not all of it could be allocated; else 0.
  std::atomic<std::uint64_t> length;
  alignas(128) std::atomic<std::uint64_t> read;
};

[[nodiscard]] constexpr std::uint64_t next_line(std::uint64_t position) {
  constexpr std::uint64_t line = 64;
  return (position + line - 1) / line * line;
}

/// The writing side. The size of `bytes` is a power of two.
class RingWriter {
 public:
  /// Allocates memory for the first `n` bytes; returns false on failure.
  using Allocate = std::function<bool(std::size_t)>;

  RingWriter(RingState& state, std::span<std::byte> bytes)
      : state_(&state), bytes_(bytes), length_(bytes.size()) {}
  /// Only `allocated` bytes (a power of two) have memory yet; the rest is allocated when the writer
  /// reaches it.
  RingWriter(RingState& state, std::span<std::byte> bytes, std::size_t allocated, Allocate allocate)
      : state_(&state), bytes_(bytes), length_(allocated), allocate_(std::move(allocate)) {}

  /// In the allocated memory.
  [[nodiscard]] bool has_space(std::size_t bytes = 1) {
    return written_ + bytes <= read_ + length_ || written_ + bytes <= refresh_limit();
  }
  /// Continues at the next cache line, as the reader must: a frame within one line needs one fetch.
  void align() { written_ = next_line(written_); }
  /// Copies as much as fits, with non-temporal stores if `streaming`; returns the number of bytes.
  std::size_t write(std::span<const iovec> parts, bool streaming = false);

 private:
  void publish() { state_->written.store(written_, std::memory_order_release); }
  /// Limit of the write position, from the reader's current position.
  std::uint64_t refresh_limit() {
    read_ = state_->read.load(std::memory_order_acquire);
    return read_ + length_;
  }
  void grow(std::size_t bytes);

  RingState* state_;
  std::span<std::byte> bytes_;
  std::size_t
      length_;         ///< allocated bytes; fixed to the ring's length once the writer wraps around
  Allocate allocate_;  ///< null once all is allocated or the allocation has failed
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  ///< cached: reading it takes the cache line from the other core
};

/// The reading side. Nothing that the other process writes can make it read outside the ring.
class RingReader {
 public:
  RingReader(RingState& state, std::span<const std::byte> bytes) : state_(&state), bytes_(bytes) {}

  [[nodiscard]] std::size_t available() const;
  /// True once all memory of the ring has been used.
  [[nodiscard]] bool has_wrapped() const { return read_ >= length(); }
  /// Continues where the writer's align() did.
  void align() { read_ = next_line(read_); }
  /// Prefetches the next line in parallel to the check of the writer's position.
  void prefetch() const { __builtin_prefetch(bytes_.data() + (read_ & (length() - 1))); }
  /// The available bytes up to the end of the memory, contiguous.
  [[nodiscard]] std::span<const std::byte> peek() const;
  /// True if these are the next bytes; at least as many must be available.
  [[nodiscard]] bool starts_with(std::span<const std::byte> bytes) const;
  /// Frees the space for the writer.
  void consume(std::size_t bytes);
  /// Copies out and consumes what is available and fits; returns the number of bytes.
  std::size_t read(std::span<const iovec> parts);

 private:
  /// Read once per operation, after the writer's position: a faulty writer may change it.
  [[nodiscard]] std::size_t length() const;

  RingState* state_;
  std::span<const std::byte> bytes_;
  std::uint64_t read_ = 0;
};

}  // namespace tutti::transport
