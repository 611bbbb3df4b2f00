#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

/// A stream of bytes from one process to another through memory that both map.
namespace tutti::transport {

/// How far each side has come, counted from the first byte ever; on lines of their own, in pairs as
/// processors fetch them. All zero at first.
struct RingState {
  alignas(128) std::atomic<std::uint64_t> written;
  /// The writer's: of how many bytes the ring is, where there was no memory for all of them; else
  /// 0.
  std::atomic<std::uint64_t> length;
  alignas(128) std::atomic<std::uint64_t> read;
};

[[nodiscard]] constexpr std::uint64_t next_line(std::uint64_t position) {
  constexpr std::uint64_t line = 64;
  return (position + line - 1) / line * line;
}

/// The writing side. `bytes` is a power of two long, of some lines.
class RingWriter {
 public:
  /// Takes memory for so many of the bytes, from the first on; false where there is none.
  using TakeMemory = std::function<bool(std::size_t)>;

  RingWriter(RingState& state, std::span<std::byte> bytes)
      : state_(&state), bytes_(bytes), length_(bytes.size()) {}
  /// Only `taken` of them have memory yet, a power of two: the rest as it is come to.
  RingWriter(RingState& state, std::span<std::byte> bytes, std::size_t taken, TakeMemory take)
      : state_(&state), bytes_(bytes), length_(taken), take_(std::move(take)) {}

  /// In the memory that there is.
  [[nodiscard]] bool has_space(std::size_t bytes = 1) {
    return written_ + bytes <= read_ + length_ || written_ + bytes <= limit_seen_anew();
  }
  /// Goes on at the next line, as the reader must: what fits into one comes by one fetch.
  void align() { written_ = next_line(written_); }
  /// Copies as much as fits, past the caches if `streaming`; returns how much.
  std::size_t write(std::span<const iovec> parts, bool streaming = false);

 private:
  void publish() { state_->written.store(written_, std::memory_order_release); }
  /// How far may be written.
  std::uint64_t limit_seen_anew() {
    read_ = state_->read.load(std::memory_order_acquire);
    return read_ + length_;
  }
  void grow(std::size_t bytes);

  RingState* state_;
  std::span<std::byte> bytes_;
  std::size_t length_;  ///< that have memory: the ring, from the second time round
  TakeMemory take_;     ///< until there is memory for all, or no more
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  ///< as last seen: a look takes the line from the other core
};

/// The reading side. What the other process may do to the memory never leads outside of it.
class RingReader {
 public:
  RingReader(RingState& state, std::span<const std::byte> bytes) : state_(&state), bytes_(bytes) {}

  [[nodiscard]] std::size_t available() const;
  /// Goes on where the writer's align() did.
  void align() { read_ = next_line(read_); }
  /// Has the next line on its way while the writer's counter is looked at, and not after it.
  void prefetch() const { __builtin_prefetch(bytes_.data() + (read_ & (length() - 1))); }
  /// What is there without a seam: all of it, or all up to the end of the memory.
  [[nodiscard]] std::span<const std::byte> peek() const;
  /// Whether these bytes are the next, of which there are as many.
  [[nodiscard]] bool starts_with(std::span<const std::byte> bytes) const;
  /// The writer may use the room of so many bytes again.
  void consume(std::size_t bytes);
  /// Copies out and consumes what is there and fits; returns how much.
  std::size_t read(std::span<const iovec> parts);

 private:
  /// To be asked for once, after a look at how far the writer has come: it may change, by a writer
  /// that lies.
  [[nodiscard]] std::size_t length() const;

  RingState* state_;
  std::span<const std::byte> bytes_;
  std::uint64_t read_ = 0;
};

}  // namespace tutti::transport
