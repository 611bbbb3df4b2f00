#pragma once

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
#include "transport/heap.hpp"

/// Memory that the ranks of one host share: one sealed segment a host, mapped by all of them.
///
/// At its end are the ranks' heaps, and before them channel for the rings of links between any two
/// ranks (LinkMemory), of which a link that is made takes memory. In front:
///
/// It has a few *channels*, each for one communicator, and in each channel every rank of the host
/// has a part that it alone writes: slots by which it tells the others how far it is, and the bytes
/// that it has for them.
namespace tutti::transport {

/// How many rounds of a communicator's calls are on their way at once, at most.
inline constexpr std::size_t slots_in_flight = 32;
/// Of those whose data is shorter than a page: they stay in the first-level cache. Each has a page
/// of its own, since a core that reads fetches ahead to its end, and must not disturb who writes.
inline constexpr std::size_t pages_in_flight = 8;
inline constexpr std::size_t channel_count = 8;
/// Two lines: processors fetch lines in pairs, and a writer must not disturb those who wait for the
/// slot before.
inline constexpr std::size_t slot_bytes = 128;
inline constexpr std::size_t inline_bytes = 104;

/// What a rank has put for one round.
struct alignas(slot_bytes) Slot {
  std::atomic<std::uint64_t> stamp;  ///< written last: the round's number + 1
  std::uint64_t fingerprint;         ///< of the call, and all before it
  std::byte content[inline_bytes];   ///< the data, where it fits in here; of long data, where it is
};
static_assert(sizeof(Slot) == slot_bytes);

struct alignas(slot_bytes) Counter {
  std::atomic<std::uint64_t> value;
};

/// The front of one rank's part of a channel; pages_in_flight pages follow, and a ring of bytes
/// that long rounds take one after the other. All but `slots` count rounds: the number of those
/// that are over.
struct RankRegion {
  Slot slots[slots_in_flight];
  Counter reduced;  ///< the own slice is in the results
  Counter read;     ///< the rank looks no more at what others have put
};

/// By which ranks of the host wake each other.
struct alignas(slot_bytes) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;  ///< threads of this rank that sleep
  /// Not 0: the rank sleeps on its links' sockets, and one of those who see it wakes it.
  std::atomic<std::uint32_t> asleep_on_links;
  std::atomic<std::uint32_t> reaches_heaps;  ///< not 0: what others lend it can read
  /// The latest communicator that the rank has left, for each channel.
  std::atomic<std::uint32_t> left[channel_count];
};

struct alignas(slot_bytes) HostLine {
  std::atomic<std::uint32_t> sleepers;  ///< of all ranks
};

class SharedSegment;

/// One communicator's channel, as one of its members sees it.
class CollectiveChannel {
 public:
  struct Member {
    RankRegion* part = nullptr;
    std::byte* pages = nullptr;
    std::byte* ring = nullptr;
    Doorbell* doorbell = nullptr;
    int local_rank = 0;
    /// Rounds that this member is known to have read.
    std::uint64_t read = 0;
  };
  /// `local_ranks` are the members' places on this host, in the order of their ranks.
  CollectiveChannel(std::shared_ptr<SharedSegment> segment, std::size_t number,
                    std::uint32_t communicator, std::span<const int> local_ranks, int rank);
  CollectiveChannel(const CollectiveChannel&) = delete;
  CollectiveChannel& operator=(const CollectiveChannel&) = delete;
  ~CollectiveChannel();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// What a rank may have for the others in one round; its results are half of that at most.
  [[nodiscard]] std::size_t round_bytes() const { return round_bytes_; }
  [[nodiscard]] Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Member& self() { return member(rank_); }
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] SharedSegment& segment() { return *segment_; }

  /// Whether all members can read what this rank lends them.
  [[nodiscard]] bool all_reach_heaps() const;
  /// What a rank has just written, the others are to see: wakes those that sleep.
  void notify();

  /// The rounds before this one must have been read by all others before the slot, or the page, of
  /// round `number` is written anew.
  [[nodiscard]] static std::uint64_t slot_needs(std::uint64_t number) {
    return number < slots_in_flight ? 0 : number + 1 - slots_in_flight;
  }
  [[nodiscard]] static std::uint64_t page_needs(std::uint64_t number) {
    return number < pages_in_flight ? 0 : number + 1 - pages_in_flight;
  }
  /// Bytes of this rank's ring for one of its rounds.
  struct Place {
    std::size_t offset = 0;
    std::size_t end = 0;
    std::uint64_t lap = 0;     ///< the ring's offset 0, counted from its first byte ever
    std::uint64_t needed = 0;  ///< as slot_needs(), also for what lies there
  };
  /// Where a member says that a round's bytes are, which is checked: a member by mistake must not
  /// make this rank read outside of the ring. Throws Error{system}.
  [[nodiscard]] const std::byte* in_ring(int rank, std::uint64_t offset, std::size_t bytes) const;
  /// The next `bytes` in one piece, for round `number`; the same again until they are taken.
  [[nodiscard]] Place next_place(std::uint64_t number, std::size_t bytes) const;
  void take(std::uint64_t number, const Place& place);
  /// Of a round of this rank's that has been taken and may still be read.
  [[nodiscard]] const Place& place_of(std::uint64_t number) const {
    return taken_[number % slots_in_flight].place;
  }
  /// Takes memory for the whole ring, once. Without it a rank makes do with what a round needs.
  void grow();

  /// Where the next call begins, and how far the calls of this rank have come.
  std::uint64_t next_round = 0;
  std::atomic<std::uint64_t> finished_rounds{0};
  /// For those who combine many parts at once: `size()` times scratch_bytes.
  static constexpr std::size_t scratch_bytes = 4096;
  [[nodiscard]] std::byte* scratch() { return scratch_.get(); }

 private:
  std::shared_ptr<SharedSegment> segment_;
  std::size_t number_;
  std::uint32_t communicator_;
  int rank_;
  std::size_t round_bytes_;
  std::size_t ring_bytes_;  ///< there is memory for
  bool has_grown_ = false;
  std::size_t ring_offset_ = 0;  ///< of what comes next, if it fits
  std::uint64_t lap_ = 0;
  std::size_t whole_ring_bytes_;
  /// Rounds whose bytes may still be read.
  struct Taken {
    std::uint64_t number = UINT64_MAX;
    std::uint64_t begin = 0;  ///< counted as Place::lap
    Place place;
  };
  std::uint64_t oldest_ = 0;  ///< of those that lie where nothing has been put again
  std::array<Taken, slots_in_flight> taken_{};
  std::vector<Member> members_;
  std::unique_ptr<std::byte[]> scratch_;
};

/// The segment as this process maps it.
class SharedSegment {
 public:
  /// Takes the shared file, as make_file() makes it, maps it, and takes memory for this rank's part
  /// of the first channel. Throws Error{system}.
  SharedSegment(Descriptor file, int local_rank, int ranks);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  /// A new file, sealed: bytes_for(ranks), and the heaps; without the heaps, or the links' rings
  /// too, where this process may not make a file so large. Its length tells. Throws Error{system}.
  [[nodiscard]] static Descriptor make_file(int ranks);
  [[nodiscard]] static std::size_t bytes_for(int ranks);
  /// All but the links' rings and the heaps.
  [[nodiscard]] static std::size_t channel_bytes_for(int ranks);

  /// Who is told where memory that would make calls faster is refused later. To be set before there
  /// are channels.
  void set_warning_sink(std::function<void(const std::string&)> tell) { tell_ = std::move(tell); }

  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Heap& heap() { return *heap_; }
  [[nodiscard]] bool has_links() const { return has_links_; }
  /// False in a forked child.
  [[nodiscard]] bool is_owner() const;

  /// Bit r: channel r is free here and every member of its latest communicator has left it. Takes
  /// memory for the channels that are not the whole job's when first asked; without that, none is
  /// free.
  [[nodiscard]] std::uint32_t free_channels();

  /// Wakes the threads of this rank that sleep.
  void wake_self();
  [[nodiscard]] std::atomic<std::uint32_t>& asleep_on_links(int local_rank) const {
    return doorbell(local_rank).asleep_on_links;
  }

 private:
  friend class CollectiveChannel;
  friend class Sleep;
  friend class LinkMemory;
  [[nodiscard]] HostLine& host() const;
  [[nodiscard]] Doorbell& doorbell(int local_rank) const;
  void take_memory(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::size_t channel_offset(std::size_t channel) const;
  void wake(Doorbell& doorbell) const;

  /// For a link that is in use. False where there is none, which is told once.
  [[nodiscard]] bool take_for_link(std::size_t offset, std::size_t bytes);
  /// 0, or the errno of a refusal.
  [[nodiscard]] int try_to_take_memory(std::size_t offset, std::size_t bytes) const noexcept;
  void tell(const std::string& text) const {
    if (tell_) tell_(text);
  }

  enum class Memory : std::uint8_t { not_asked_for, there, refused };
  [[nodiscard]] std::string take_other_channels();

  Descriptor file_;
  std::function<void(const std::string&)> tell_;
  int owner_;  ///< process
  int local_rank_;
  int ranks_;
  std::byte* base_ = nullptr;
  bool has_links_ = false;
  bool has_warned_of_links_ = false;
  std::optional<Heap> heap_;
  struct Use {
    std::uint32_t communicator = 0;
    bool in_use = false;
    bool used = false;
    std::vector<int> members;  ///< local ranks
  };
  std::mutex mutex_;
  std::vector<Use> uses_;
  Memory other_channels_ = Memory::not_asked_for;
};

/// A writer looks for sleepers right after it has written, and does not wait until others see what
/// it wrote: a processor keeps that back for some nanoseconds, a virtual one for hardly more. So a
/// thread that sleeps looks again after this time, and not only before it sleeps.
inline constexpr std::chrono::microseconds longest_unseen{50};

/// A thread that is about to sleep says so by making one, then looks once more for what it waits
/// for, and again after longest_unseen.
class Sleep {
 public:
  explicit Sleep(SharedSegment& segment);
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
  ~Sleep();
  /// Returns when somebody has rung since this was made, or after `limit`.
  void until_notified(std::chrono::nanoseconds limit) const;

 private:
  SharedSegment& segment_;
  std::uint32_t ticket_;
};

}  // namespace tutti::transport
