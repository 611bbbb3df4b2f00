#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "communicator/backend.hpp"
#include "device/context.hpp"

namespace tutti::device {

/// Refuses memory that is not on this rank's device, before NCCL or a kernel fails on it. Queries
/// the driver once per address and caches some, so that a loop over the same buffers costs a
/// comparison.
class PointerCheck {
 public:
  explicit PointerCheck(const Context& context) : context_(context) {}

  /// Throws Error{usage} that names the location of a wrong buffer. Buffers without elements are
  /// not checked.
  void require(const CheckedCollective& call, const Shape& shape) {
    if (call.send != nullptr && has_elements(shape.send, call.count, call.counts)) {
      require(call.send);
    }
    if (call.recv == nullptr) return;
    const auto counts = call.recv_counts.empty() ? call.counts : call.recv_counts;
    if (has_elements(shape.recv, call.count, counts)) require(call.recv);
  }
  void require(const Message& message) {
    if (message.operation != Operation::recv && message.send_count > 0) require(message.send);
    if (message.operation != Operation::send && message.recv_count > 0) require(message.recv);
  }

 private:
  [[nodiscard]] static bool has_elements(Extent extent, std::size_t count,
                                         std::span<const std::size_t> counts) {
    if (extent == Extent::one || counts.empty()) return count > 0;
    return std::any_of(counts.begin(), counts.end(), [](std::size_t one) { return one > 0; });
  }
  void require(const void* buffer) {
    auto& known = known_[slot_of(buffer)];
    if (buffer == known) return;
    ask(buffer);
    known = buffer;
  }

  void ask(const void* buffer) const;
  /// Fibonacci hashing (Knuth): large buffers differ in few bits of their addresses.
  [[nodiscard]] static std::size_t slot_of(const void* buffer) {
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
    return (reinterpret_cast<std::uintptr_t>(buffer) * golden) >> 59;
  }

  const Context& context_;
  std::array<const void*, 32> known_{};
};

}  // namespace tutti::device
