#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/page.hpp"
#include "base/published_bytes.hpp"
#include "base/single_copy_choice.hpp"
#include "transport/heap.hpp"
#include "transport/single_copy.hpp"

/// The shared segment of one host: sealed memory that all its ranks map.
///
/// It holds a few collective channels, each for one communicator. In each channel every rank has a
/// region that it alone writes: slots that publish its progress, and its data. Behind the channels
/// are the rings of links between any two ranks (LinkMemory), allocated when a link is connected,
/// and at the end the ranks' heaps (Heap).
namespace tutti::transport {

/// Maximum chunks of a communicator's calls in flight.
inline constexpr std::size_t slots_in_flight = 32;
/// Chunks in flight whose data uses a page: few, so that they stay in the L1 cache. Each has a page
/// of its own, since the reader's prefetcher runs to the end of a page and must not disturb the
/// writer.
inline constexpr std::size_t pages_in_flight = 8;
inline constexpr std::size_t channel_count = 8;
/// Maximum bytes that a rank contributes to one chunk. The first channel belongs to the whole job.
constexpr std::size_t published_bytes_of(std::size_t channel) {
  return channel == 0 ? max_published_bytes : max_published_bytes_of_others;
}
/// Two cache lines: processors prefetch lines in pairs, and a writer must not disturb readers of
/// the slot before.
inline constexpr std::size_t slot_bytes = 128;
inline constexpr std::size_t inline_bytes = 104;

/// A rank's contribution to one chunk.
struct alignas(slot_bytes) Slot {
  std::atomic<std::uint64_t> stamp;  ///< the chunk's number + 1; written last
  std::uint64_t fingerprint;         ///< of this call and all before it
  std::byte content[inline_bytes];   ///< the data if it fits, else its location
};
static_assert(sizeof(Slot) == slot_bytes);

struct alignas(slot_bytes) Counter {
  std::atomic<std::uint64_t> value;
};

/// The front of a rank's region of a channel. pages_in_flight pages follow, then a ring for longer
/// chunks. `reduced` and `read` count finished chunks.
struct RankRegion {
  Slot slots[slots_in_flight];
  Counter reduced;  ///< this rank's slice is in its results
  Counter read;     ///< this rank has finished reading the others' data
  alignas(slot_bytes) SingleCopyChoice::Board times;
};

/// Wakes a rank of the host.
struct alignas(slot_bytes) Doorbell {
  std::atomic<std::uint32_t> notifications;
  std::atomic<std::uint32_t> sleepers;  ///< sleeping threads of this rank
  /// Not 0: the rank sleeps in epoll. The rank that resets it wakes it by a byte on a socket.
  std::atomic<std::uint32_t> sleeps_in_epoll;
  std::atomic<std::uint32_t> can_read_heaps;  ///< not 0: this rank can read exported memory
  /// For each channel, the latest communicator that the rank has left.
  std::atomic<std::uint32_t> left[channel_count];
  MemoryAccess memory;
};
static_assert(sizeof(Doorbell) == slot_bytes);

struct alignas(slot_bytes) HostLine {
  std::atomic<std::uint32_t> sleepers;  ///< of all ranks
};

class SharedSegment;

/// One communicator's channel, as one of its members sees it.
class CollectiveChannel {
 public:
  struct Member {
    RankRegion* region = nullptr;
    std::byte* pages = nullptr;
    std::byte* ring = nullptr;
    Doorbell* doorbell = nullptr;
    int local_rank = 0;
    /// Chunks that this member is known to have read.
    std::uint64_t read = 0;
  };
  /// `local_ranks` are the members' local ranks, in the order of their ranks.
  CollectiveChannel(std::shared_ptr<SharedSegment> segment, std::size_t number,
                    std::uint32_t communicator, std::span<const int> local_ranks, int rank);
  CollectiveChannel(const CollectiveChannel&) = delete;
  CollectiveChannel& operator=(const CollectiveChannel&) = delete;
  ~CollectiveChannel();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// Maximum bytes that a rank contributes to one chunk; its results are at most half of that.
  [[nodiscard]] std::size_t published_bytes() const { return published_bytes_; }
  /// Bytes of each rank's ring once it has grown.
  [[nodiscard]] std::size_t max_ring_bytes() const { return whole_ring_bytes_; }
  [[nodiscard]] Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Member& self() { return member(rank_); }
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] SharedSegment& segment() { return *segment_; }

  /// True if all members can read exported memory.
  [[nodiscard]] bool all_can_read_heaps() const;
  /// True if all members can read this process's memory by single copy.
  [[nodiscard]] bool is_read_by_all() const;
  /// The times of trials that each member has posted.
  [[nodiscard]] std::span<SingleCopyChoice::Board* const> boards() const { return boards_; }
  /// True once the member has read all chunks below `number`.
  [[nodiscard]] bool has_read(int rank, std::uint64_t number) {
    auto& other = member(rank);
    if (other.read >= number) return true;
    other.read = std::max(other.read, other.region->read.value.load(std::memory_order_acquire));
    return other.read >= number;
  }
  /// True once all other members have.
  [[nodiscard]] bool all_have_read(std::uint64_t number) {
    for (int m = 0; m < size(); ++m)
      if (m != rank_ && !has_read(m, number)) return false;
    return true;
  }
  /// Publishes what this rank has written: wakes the sleeping members.
  void notify();

  /// Number of chunks that all other members must have read before the slot (or page) of chunk
  /// `number` is reused.
  [[nodiscard]] static std::uint64_t reads_before_slot(std::uint64_t number) {
    return number < slots_in_flight ? 0 : number + 1 - slots_in_flight;
  }
  [[nodiscard]] static std::uint64_t reads_before_page(std::uint64_t number) {
    return number < pages_in_flight ? 0 : number + 1 - pages_in_flight;
  }
  /// A span of this rank's ring for one chunk.
  struct RingSpan {
    std::size_t offset = 0;
    std::size_t end = 0;
    std::uint64_t base = 0;  ///< position of the ring's offset 0, counted from its first byte ever
    std::uint64_t reads_before =
        0;  ///< chunks to be read before, as reads_before_slot(), also for the data in the span
  };
  /// Address of a chunk's bytes at the offset that a member published. Checks it: a faulty member
  /// must not make this rank read outside the ring. Throws Error{system}.
  [[nodiscard]] const std::byte* in_ring(int rank, std::uint64_t offset, std::size_t bytes) const;
  /// The next contiguous `bytes` for chunk `number`. Unchanged until they are reserved.
  [[nodiscard]] RingSpan next_span(std::uint64_t number, std::size_t bytes) const;
  void reserve(std::uint64_t number, const RingSpan& span);
  /// The span of a chunk of this rank that is reserved and may still be read.
  [[nodiscard]] const RingSpan& span_of(std::uint64_t number) const {
    return reservations_[number % slots_in_flight].span;
  }
  /// Allocates the whole ring, once. If that fails, the rank keeps the memory for one chunk.
  void grow();

  /// Number of the next call's first chunk, and of the chunks that are finished.
  std::uint64_t next_chunk = 0;
  std::atomic<std::uint64_t> finished_chunks{0};
  /// Scratch memory to combine many parts: `size()` times scratch_bytes.
  static constexpr std::size_t scratch_bytes = 4096;
  [[nodiscard]] std::byte* scratch() { return scratch_.get(); }

 private:
  std::shared_ptr<SharedSegment> segment_;
  std::size_t number_;
  std::uint32_t communicator_;
  int rank_;
  std::size_t published_bytes_;
  std::size_t ring_bytes_;  ///< allocated
  bool has_grown_ = false;
  std::size_t ring_offset_ = 0;  ///< where the next span begins, if it fits
  std::uint64_t base_position_ = 0;
  std::size_t whole_ring_bytes_;
  /// A chunk whose bytes may still be read.
  struct Reservation {
    std::uint64_t number = UINT64_MAX;
    std::uint64_t begin = 0;  ///< counted as RingSpan::base
    RingSpan span;
  };
  std::uint64_t oldest_ = 0;  ///< the oldest chunk whose span has not been reused
  std::array<Reservation, slots_in_flight> reservations_{};
  std::vector<Member> members_;
  std::vector<SingleCopyChoice::Board*> boards_;
  std::unique_ptr<std::byte[]> scratch_;
};

/// The segment as this process maps it.
class SharedSegment {
 public:
  /// Maps a file made by make_file() and allocates this rank's region of the first channel. Throws
  /// Error{system}.
  SharedSegment(Descriptor file, int local_rank, int ranks);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  /// Creates a sealed file of bytes_for(ranks) plus the heaps. If RLIMIT_FSIZE is lower, it has no
  /// heaps, or no link rings either; its length tells which. Throws Error{system}.
  [[nodiscard]] static Descriptor make_file(int ranks);
  [[nodiscard]] static std::size_t bytes_for(int ranks);
  /// Without link rings and heaps.
  [[nodiscard]] static std::size_t channel_bytes_for(int ranks);

  /// Receives a warning when an optional allocation fails later. Set it before there are
  /// channels.
  void set_warning_sink(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }

  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Heap& heap() { return *heap_; }
  [[nodiscard]] SingleCopy& single_copy() { return *single_copy_; }
  [[nodiscard]] bool has_links() const { return has_links_; }
  /// False in a forked child.
  [[nodiscard]] bool is_owner() const;

  /// Bit r: channel r is unused here, and every member of its latest communicator has left it. The
  /// first call allocates all channels but the job's; if that fails, none is free.
  [[nodiscard]] std::uint32_t free_channels();

  /// Wakes this rank's sleeping threads.
  void wake_self();
  [[nodiscard]] std::atomic<std::uint32_t>& sleeps_in_epoll(int local_rank) const {
    return doorbell(local_rank).sleeps_in_epoll;
  }

 private:
  friend class CollectiveChannel;
  friend class Sleep;
  friend class LinkMemory;
  [[nodiscard]] HostLine& host() const;
  [[nodiscard]] Doorbell& doorbell(int local_rank) const;
  void allocate(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::size_t channel_offset(std::size_t channel) const;
  void wake(Doorbell& doorbell) const;

  /// Allocates memory for a link in use. On failure warns once and returns false.
  [[nodiscard]] bool allocate_for_link(std::size_t offset, std::size_t bytes);
  /// Returns 0, or the errno of the failure.
  [[nodiscard]] int try_allocate(std::size_t offset, std::size_t bytes) const noexcept;
  void warn(const std::string& text) const {
    if (warn_) warn_(text);
  }

  enum class Memory : std::uint8_t { not_requested, allocated, refused };
  [[nodiscard]] std::string allocate_other_channels();

  Descriptor file_;
  std::function<void(const std::string&)> warn_;
  int owner_;  ///< process id
  int local_rank_;
  int ranks_;
  std::byte* base_ = nullptr;
  bool has_links_ = false;
  bool has_warned_of_links_ = false;
  std::optional<Heap> heap_;
  std::optional<SingleCopy> single_copy_;
  struct Use {
    std::uint32_t communicator = 0;
    bool in_use = false;
    bool used = false;
    std::vector<int> members;  ///< local ranks
  };
  std::mutex mutex_;
  std::vector<Use> uses_;
  Memory other_channels_ = Memory::not_requested;
};

/// A writer checks for sleepers right after its stores, without a fence, so a sleeper may miss
/// them: a processor delays stores for nanoseconds, a virtual one for hardly longer. A sleeping
/// thread therefore checks again after this time.
inline constexpr std::chrono::microseconds max_store_delay{50};

/// Announces that this thread is about to sleep. Construct it, check the condition once more, and
/// again after max_store_delay.
class Sleep {
 public:
  explicit Sleep(SharedSegment& segment);
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
  ~Sleep();
  /// Returns when a notification has arrived since construction, or after `limit`.
  void until_notified(std::chrono::nanoseconds limit) const;

 private:
  SharedSegment& segment_;
  std::uint32_t ticket_;
};

}  // namespace tutti::transport
