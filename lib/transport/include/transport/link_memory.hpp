#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/ring.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::transport {

/// The two rings of the link from one rank of a host to another, as this process maps them: `forth`
/// for what is sent, `back` for the receiver's answers.
class LinkMemory {
 public:
  struct Ring {
    RingState* state = nullptr;
    std::span<std::byte> bytes;
  };

  /// `from` and `to` are places on this host, one of them the own one. The sender takes the memory,
  /// and no other rank touches it before that. Throws Error{system} where there is none.
  LinkMemory(std::shared_ptr<SharedSegment> segment, int from, int to);
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;
  ~LinkMemory();

  /// Of all links between so many ranks.
  [[nodiscard]] static std::size_t bytes_for(int ranks);

  /// Of `forth` only so much has memory at first: jobs say a goodbye over links that they need for
  /// nothing else.
  static constexpr std::size_t first_bytes = std::size_t{32} << 10;
  /// By the sender: memory for so many bytes in all, half of which have it. False where there is
  /// none, which is told.
  [[nodiscard]] bool take_forth(std::size_t bytes) const;

  [[nodiscard]] Ring forth() const;
  [[nodiscard]] Ring back() const;
  [[nodiscard]] std::atomic<std::uint32_t>& sender_asleep() const {
    return segment_->asleep_on_links(from_);
  }
  [[nodiscard]] std::atomic<std::uint32_t>& receiver_asleep() const {
    return segment_->asleep_on_links(to_);
  }

 private:
  std::shared_ptr<SharedSegment> segment_;
  int from_;
  int to_;
  std::size_t offset_ = 0;  ///< in the segment's file
  std::byte* base_ = nullptr;
};

}  // namespace tutti::transport
