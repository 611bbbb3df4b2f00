#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

/// A stream of bytes from one process to another through memory that both map.
namespace tutti::transport {

/// How far each side has come, counted from the first byte ever; on lines of their own, in pairs as
/// processors fetch them. All zero at first.
struct RingState {
  alignas(128) std::atomic<std::uint64_t> written;
  alignas(128) std::atomic<std::uint64_t> read;
};

/// The writing side. `bytes` is a power of two long.
class RingWriter {
 public:
  RingWriter(RingState& state, std::span<std::byte> bytes) : state_(&state), bytes_(bytes) {}

  [[nodiscard]] bool has_room() const {
    return written_ - state_->read.load(std::memory_order_acquire) < bytes_.size();
  }
  /// Copies as much as fits, past the caches if `streaming`; returns how much.
  std::size_t write(std::span<const iovec> parts, bool streaming = false);

 private:
  void publish() { state_->written.store(written_, std::memory_order_release); }

  RingState* state_;
  std::span<std::byte> bytes_;
  std::uint64_t written_ = 0;
};

/// The reading side. What the other process may do to the memory never leads outside of it.
class RingReader {
 public:
  RingReader(RingState& state, std::span<const std::byte> bytes) : state_(&state), bytes_(bytes) {}

  [[nodiscard]] std::size_t available() const;
  /// What is there without a seam: all of it, or all up to the end of the memory.
  [[nodiscard]] std::span<const std::byte> peek() const;
  /// The writer may use the room of so many bytes again.
  void consume(std::size_t bytes);
  /// Copies out and consumes what is there and fits; returns how much.
  std::size_t read(std::span<const iovec> parts);

 private:
  RingState* state_;
  std::span<const std::byte> bytes_;
  std::uint64_t read_ = 0;
};

}  // namespace tutti::transport
