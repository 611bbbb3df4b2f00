#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti::transport {

/// Memory of the program's own that its rank lends to calls: a zone of the host's segment for each
/// rank, out of which that rank takes and gives back pieces. A zone is address space, reserved by
/// all ranks; only pieces in use are memory, and only they can be touched.
class Heap {
 public:
  /// The zones begin at `begin` of the file, one after the other; with `zone_bytes` of 0, or where
  /// this process has no or limited address space, there are none.
  Heap(int file, std::size_t begin, std::size_t zone_bytes, int local_rank, int ranks);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  /// Whether this process can reach the zones.
  [[nodiscard]] bool is_reachable() const { return base_ != nullptr; }

  /// Zeroed memory, on a page; null where there is none.
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void give_back(std::byte* piece);

  /// How peers are told of memory, where all of it is in the own zone.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const std::byte* memory,
                                                       std::size_t bytes) const;
  /// Where this process has what a peer told of, to be read. Throws Error{system} where that is no
  /// such memory.
  [[nodiscard]] const std::byte* address_of(int local_rank, std::uint64_t offset,
                                            std::size_t bytes);

 private:
  /// It only grows, so a look at both ends needs no lock.
  struct Range {
    std::atomic<std::size_t> begin{SIZE_MAX};
    std::atomic<std::size_t> end{0};
  };

  [[nodiscard]] std::size_t in_file(std::size_t offset) const;
  [[nodiscard]] bool punch(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] bool is_open(int local_rank, std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] bool open(int local_rank, std::size_t offset, std::size_t bytes);

  int file_;
  int owner_;  ///< process
  std::size_t begin_;
  std::size_t zone_bytes_;
  int local_rank_;
  int ranks_;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  std::vector<Range> opened_;                 ///< of each rank's zone, what can be touched
  std::map<std::size_t, std::size_t> free_;   ///< offset → bytes
  std::map<std::size_t, std::size_t> taken_;  ///< the same
};

}  // namespace tutti::transport
