#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti::preload {

/// Tells an NCCL communicator from all others, the same on all its ranks: made from NCCL's random
/// unique id.
struct Identity {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  [[nodiscard]] static Identity of(std::span<const std::byte> unique_id);
  /// Of a communicator that the `number`th split makes for `color`.
  [[nodiscard]] Identity child(std::uint64_t number, int color) const;
  /// 32 hexadecimal digits.
  [[nodiscard]] std::string text() const;
};

}  // namespace tutti::preload
