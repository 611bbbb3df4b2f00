#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "transport/heap.hpp"

/// Memory that the ranks of one host share: one sealed segment a host, mapped by all of them.
///
/// At its end are the ranks' heaps, and before them room for the rings of links between any two
/// ranks (LinkMemory), of which a link that is made takes memory. In front:
///
/// It has a few *rooms*, each for one communicator, and in each room every rank of the host has a
/// part that it alone writes: cells by which it tells the others how far it is, and the bytes that
/// it has for them.
namespace tutti::transport {

/// How many rounds of a communicator's calls are on their way at once; of small ones, whose data is
/// in the cells, more: each change of the process on a core is dear.
inline constexpr std::size_t rounds_in_flight = 8;
inline constexpr std::size_t cells_in_flight = 32;
inline constexpr std::size_t room_count = 8;
/// Two lines: processors fetch lines in pairs, and a writer must not disturb those who wait for the
/// cell before.
inline constexpr std::size_t cell_bytes = 128;
inline constexpr std::size_t inline_bytes = 104;

/// What a rank has put for one round.
struct alignas(cell_bytes) Cell {
  std::atomic<std::uint64_t> stamp;  ///< written last: the round's number + 1
  std::uint64_t fingerprint;         ///< of the call, and all before it
  std::byte content[inline_bytes];   ///< where it fits in here, else in the part's bytes
};
static_assert(sizeof(Cell) == cell_bytes);

struct alignas(cell_bytes) Counter {
  std::atomic<std::uint64_t> value;
};

/// One rank's part of a room. All but `cells` count rounds: the number of those that are over.
struct Part {
  Cell cells[cells_in_flight];
  Counter reduced;  ///< the own slice is in the results
  Counter read;     ///< the rank looks no more at what others have put
};

/// By which ranks of the host wake each other.
struct alignas(cell_bytes) Bell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;  ///< threads of this rank that sleep
  /// Not 0: the rank sleeps on its links' sockets, and one of those who see it wakes it.
  std::atomic<std::uint32_t> asleep_on_links;
  std::atomic<std::uint32_t> reaches_heaps;  ///< not 0: what others lend it can read
  /// The latest communicator that the rank has left, for each room.
  std::atomic<std::uint32_t> left[room_count];
};

struct alignas(cell_bytes) HostLine {
  std::atomic<std::uint32_t> sleepers;  ///< of all ranks
};

class Arena;

/// One communicator's room, as one of its members sees it.
class Room {
 public:
  struct Member {
    Part* part = nullptr;
    std::byte* bytes = nullptr;    ///< rounds_in_flight times round_bytes()
    std::byte* results = nullptr;  ///< half of that
    Bell* bell = nullptr;
    int local_rank = 0;
    /// Rounds that this member is known to have read.
    std::uint64_t read = 0;
  };
  /// `local_ranks` are the members' places on this host, in the order of their ranks.
  Room(std::shared_ptr<Arena> arena, std::size_t number, std::uint32_t communicator,
       std::span<const int> local_ranks, int rank);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] std::size_t round_bytes() const { return round_bytes_; }
  [[nodiscard]] Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Member& self() { return member(rank_); }
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] Arena& arena() { return *arena_; }

  /// Whether all members can read what this rank lends them.
  [[nodiscard]] bool all_reach_heaps() const;
  /// What a rank has just written, the others are to see: wakes those that sleep.
  void ring();

  /// Where the next call begins, and how far the calls of this rank have come.
  std::uint64_t next_round = 0;
  std::atomic<std::uint64_t> finished_rounds{0};
  /// For those who combine many parts at once: `size()` times scratch_bytes.
  static constexpr std::size_t scratch_bytes = 4096;
  [[nodiscard]] std::byte* scratch() { return scratch_.get(); }

 private:
  std::shared_ptr<Arena> arena_;
  std::size_t number_;
  std::uint32_t communicator_;
  int rank_;
  std::size_t round_bytes_;
  std::vector<Member> members_;
  std::unique_ptr<std::byte[]> scratch_;
};

/// The segment as this process maps it.
class Arena {
 public:
  /// Takes the shared file, as make_file() makes it, maps it, and takes memory for this rank's part
  /// of the first room. Throws Error{system}.
  Arena(Descriptor file, int local_rank, int ranks);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// A new file, sealed: bytes_for(ranks), and the heaps; without the heaps, or the links' rings
  /// too, where this process may not make a file so large. Its length tells. Throws Error{system}.
  [[nodiscard]] static Descriptor make_file(int ranks);
  [[nodiscard]] static std::size_t bytes_for(int ranks);
  /// All but the links' rings and the heaps.
  [[nodiscard]] static std::size_t room_bytes_for(int ranks);

  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Heap& heap() { return *heap_; }
  [[nodiscard]] bool has_links() const { return has_links_; }
  /// False in a forked child.
  [[nodiscard]] bool is_owner() const;

  /// Bit r: room r is free here and every member of its latest communicator has left it. Takes
  /// memory for the rooms that are not the whole job's when first asked; without that, none is
  /// free.
  [[nodiscard]] std::uint32_t free_rooms();

  /// Wakes the threads of this rank that sleep.
  void ring_self();
  [[nodiscard]] std::atomic<std::uint32_t>& asleep_on_links(int local_rank) const {
    return bell(local_rank).asleep_on_links;
  }

 private:
  friend class Room;
  friend class Sleep;
  friend class LinkMemory;
  [[nodiscard]] HostLine& host() const;
  [[nodiscard]] Bell& bell(int local_rank) const;
  void take_memory(std::size_t offset, std::size_t bytes) const;
  void wake(Bell& bell) const;

  enum class Memory : std::uint8_t { not_asked_for, there, refused };

  Descriptor file_;
  int owner_;  ///< process
  int local_rank_;
  int ranks_;
  std::byte* base_ = nullptr;
  bool has_links_ = false;
  std::optional<Heap> heap_;
  struct Use {
    std::uint32_t communicator = 0;
    bool in_use = false;
    bool used = false;
    std::vector<int> members;  ///< local ranks
  };
  std::mutex mutex_;
  std::vector<Use> uses_;
  Memory other_rooms_ = Memory::not_asked_for;
};

/// A writer looks for sleepers right after it has written, and does not wait until others see what
/// it wrote: a processor keeps that back for some nanoseconds, a virtual one for hardly more. So a
/// thread that sleeps looks again after this time, and not only before it sleeps.
inline constexpr std::chrono::microseconds longest_unseen{50};

/// A thread that is about to sleep says so by making one, then looks once more for what it waits
/// for, and again after longest_unseen.
class Sleep {
 public:
  explicit Sleep(Arena& arena);
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
  ~Sleep();
  /// Returns when somebody has rung since this was made, or after `limit`.
  void until_rung(std::chrono::nanoseconds limit) const;

 private:
  Arena& arena_;
  std::uint32_t ticket_;
};

}  // namespace tutti::transport
