#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "transport/shared_segment.hpp"

namespace tutti::transport {

/// The chunks of one call in a collective channel, as one member sees them. They follow those of
/// the calls before, and are counted from 0 here. Calls of a channel run one after the other.
class CallChunks {
 public:
  /// Reserves the next `count` chunks. `fingerprint` is that of the call and all before it.
  CallChunks(CollectiveChannel& channel, std::uint64_t count, std::uint64_t fingerprint)
      : channel_(&channel), first_(channel.next_chunk), count_(count), fingerprint_(fingerprint) {
    channel.next_chunk += count;
  }

  /// True once all earlier calls of the channel are over on this rank. Later calls do not wait for
  /// one without chunks.
  [[nodiscard]] bool may_run() const {
    return channel_->finished_chunks.load(std::memory_order_acquire) >= first_;
  }
  /// The call is over. May be called again, also after the end of later calls.
  void finish() {
    const auto end = number(count_);
    if (channel_->finished_chunks.load(std::memory_order_relaxed) < end) {
      channel_->finished_chunks.store(end, std::memory_order_release);
    }
  }

  /// A chunk's number in the channel.
  [[nodiscard]] std::uint64_t number(std::uint64_t chunk) const { return first_ + chunk; }
  [[nodiscard]] Slot& slot(int member, std::uint64_t chunk) const {
    return channel_->member(member).region->slots[number(chunk) % slots_in_flight];
  }
  [[nodiscard]] Slot& own_slot(std::uint64_t chunk) const { return slot(channel_->rank(), chunk); }

  /// Publishes this rank's slot, whose content is complete. Wakes nobody.
  void publish(std::uint64_t chunk) {
    auto& own = own_slot(chunk);
    own.fingerprint = fingerprint_;
    own.stamp.store(number(chunk) + 1, std::memory_order_release);
  }
  /// True once the member has published its slot. False also if that names another call.
  [[nodiscard]] bool has_published(int member, std::uint64_t chunk) {
    const auto& theirs = slot(member, chunk);
    const auto stamp = theirs.stamp.load(std::memory_order_acquire);
    if (stamp < number(chunk) + 1) return false;
    if (stamp > number(chunk) + 1 || theirs.fingerprint != fingerprint_) {
      mismatched_ = member;
      return false;
    }
    // A rank that has entered this call has finished reading all earlier ones.
    auto& owner = channel_->member(member);
    owner.read = std::max(owner.read, first_);
    return true;
  }
  /// A member whose slot names another call, or -1.
  [[nodiscard]] int mismatched_member() const { return mismatched_; }

  /// This rank has read what it needs of the first `chunks` chunks. Wakes nobody.
  void release(std::uint64_t chunks) {
    channel_->self().region->read.value.store(number(chunks), std::memory_order_release);
  }
  /// True once the member has released all chunks.
  [[nodiscard]] bool has_released_all(int member) const {
    return channel_->has_read(member, number(count_));
  }

 private:
  CollectiveChannel* channel_;
  std::uint64_t first_;
  std::uint64_t count_;
  std::uint64_t fingerprint_;
  int mismatched_ = -1;
};

}  // namespace tutti::transport
