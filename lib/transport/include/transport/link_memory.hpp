#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/ring.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::transport {

/// The two rings of the link from one rank of a host to another: the data ring, and the reply ring
/// for clear-to-send and credit frames.
class LinkMemory {
 public:
  struct Ring {
    RingState* state = nullptr;
    std::span<std::byte> bytes;
  };

  /// `from` and `to` are local ranks, one of them this rank. The sender allocates the memory before
  /// the receiver touches it. Throws Error{system} without memory.
  LinkMemory(std::shared_ptr<SharedSegment> segment, int from, int to);
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;
  ~LinkMemory();

  /// Bytes for the links between all pairs of `ranks` ranks.
  [[nodiscard]] static std::size_t bytes_for(int ranks);

  /// Initial allocation of the data ring: many links carry only the goodbye at the end of a job.
  static constexpr std::size_t initial_bytes = std::size_t{32} << 10;
  /// Called by the sender when half of `bytes` is allocated: allocates the other half. On failure
  /// warns once and returns false.
  [[nodiscard]] bool grow_data_ring(std::size_t bytes) const;

  /// True if the receiver can read the sender's memory by single copy.
  [[nodiscard]] bool receiver_reads() const { return segment_->single_copy().is_read_by(to_); }
  /// True if this rank, the receiver, reads whatever it can.
  [[nodiscard]] bool always_reads() const { return segment_->single_copy().is_forced(); }
  /// Copies memory of the sender.
  [[nodiscard]] SingleCopy::Result read_sender(std::byte* to, std::uint64_t address,
                                               std::size_t bytes) const {
    return segment_->single_copy().read(from_, to, address, bytes);
  }

  [[nodiscard]] Ring data_ring() const;
  [[nodiscard]] Ring reply_ring() const;
  [[nodiscard]] std::atomic<std::uint32_t>& sender_asleep() const {
    return segment_->sleeps_in_epoll(from_);
  }
  [[nodiscard]] std::atomic<std::uint32_t>& receiver_asleep() const {
    return segment_->sleeps_in_epoll(to_);
  }

 private:
  std::shared_ptr<SharedSegment> segment_;
  int from_;
  int to_;
  std::size_t offset_ = 0;  ///< in the segment's file
  std::byte* base_ = nullptr;
};

}  // namespace tutti::transport
