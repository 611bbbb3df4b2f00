#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/call_chunks.hpp"

namespace tutti::engine {

/// A schedule's chunks in a collective channel: what each rank of the host publishes, and what the
/// others read. The chunks of a call follow those of the calls before on the same channel.
class PublishedChunks {
 public:
  /// Reserves `chunks` chunks of the channel. `member_of_rank[r]` is the channel's member of rank r
  /// of the communicator, or -1 on another host; it must outlive this object. `fingerprint` is that
  /// of this call and all before it.
  PublishedChunks(transport::CollectiveChannel& channel, std::span<const int> member_of_rank,
                  std::uint64_t fingerprint, std::uint64_t chunks);

  /// True once all earlier calls of the channel are over on this rank.
  [[nodiscard]] bool may_run() const { return chunks_.may_run(); }
  /// Memory for the `bytes` that this rank publishes in `chunk`; null while its peers still read
  /// earlier chunks. `begin` is the offset of the first byte in this rank's buffer. Fill it, then
  /// call publish(). Throws Error{system} for more bytes than a chunk holds.
  [[nodiscard]] std::byte* try_open(std::uint64_t chunk, std::size_t begin, std::size_t bytes);
  void publish(std::uint64_t chunk);
  /// What `rank` has published in `chunk`: `bytes` from offset `begin` in its buffer; null until it
  /// has. Throws Error{system} if it has published other bytes.
  [[nodiscard]] const std::byte* find(int rank, std::uint64_t chunk, std::size_t begin,
                                      std::size_t bytes);
  /// This rank has read all that it needs of the chunks up to `chunk`.
  void release(std::uint64_t chunk);
  /// All chunks are released.
  void finish() { chunks_.finish(); }

  /// A rank whose slot names another call, or -1.
  [[nodiscard]] int mismatched_rank() const { return mismatched_; }
  /// True if the latest try_open() waits for `rank`.
  [[nodiscard]] bool delays_opening(int rank);

 private:
  [[nodiscard]] int member_of(int rank) const {
    return member_of_rank_[static_cast<std::size_t>(rank)];
  }

  transport::CollectiveChannel* channel_;
  transport::CallChunks chunks_;
  std::span<const int> member_of_rank_;
  std::uint64_t reads_before_ = 0;  ///< chunks to be read before the latest try_open() succeeds
  int mismatched_ = -1;
};

}  // namespace tutti::engine
