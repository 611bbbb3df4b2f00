#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti::transport {

/// Exported memory of allocate(): each rank has a heap in the host's shared segment and allocates
/// from it; the other ranks of the host map it read-only. A heap reserves address space; only
/// allocated pieces use memory, and only they are accessible.
class Heap {
 public:
  /// The heaps follow one another from `begin` in the file. There are none if `heap_bytes` is 0 or
  /// the process has limited address space.
  Heap(int file, std::size_t begin, std::size_t heap_bytes, int local_rank, int ranks);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  /// True if this process can map the heaps.
  [[nodiscard]] bool is_reachable() const { return base_ != nullptr; }

  /// Returns zeroed, page-aligned memory, or null.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  void release(std::byte* piece);

  /// The offset that peers use for this memory, if all of it is in this rank's heap.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const std::byte* memory,
                                                       std::size_t bytes) const;
  /// Maps a peer's exported memory for reading and returns its address. Throws Error{system} if the
  /// range is outside the peer's heap.
  [[nodiscard]] const std::byte* address_of(int local_rank, std::uint64_t offset,
                                            std::size_t bytes);

 private:
  /// It only grows, so readers of both ends need no lock.
  struct Range {
    std::atomic<std::size_t> begin{SIZE_MAX};
    std::atomic<std::size_t> end{0};
  };

  [[nodiscard]] std::size_t file_offset(std::size_t offset) const;
  [[nodiscard]] bool discard(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] bool is_accessible(int local_rank, std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] bool make_accessible(int local_rank, std::size_t offset, std::size_t bytes);

  int file_;
  int owner_;  ///< process id
  std::size_t begin_;
  std::size_t heap_bytes_;
  int local_rank_;
  int ranks_;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  std::vector<Range> accessible_;                 ///< the accessible range of each rank's heap
  std::map<std::size_t, std::size_t> free_;       ///< offset → bytes
  std::map<std::size_t, std::size_t> allocated_;  ///< offset → bytes
};

}  // namespace tutti::transport
