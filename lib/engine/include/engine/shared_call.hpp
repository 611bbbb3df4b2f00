#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/copy_choice.hpp"
#include "base/single_copy_choice.hpp"
#include "engine/reduce.hpp"
#include "transport/call_chunks.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti::engine {

/// Size of a cache line in bytes. Parts of a buffer that different ranks write are aligned to it,
/// against false sharing.
inline constexpr std::size_t line = 64;

/// A collective call on one rank, with what its operator and its place in the history come to. Each
/// call copies it.
struct SharedArguments {
  Operation operation = Operation::none;
  Type type = Type::u8;
  int root = -1;                     ///< of rooted operations
  std::size_t count = 0;             ///< as CheckedCollective::count
  const std::byte* input = nullptr;  ///< the same as `output` if the operation has one buffer
  std::byte* output = nullptr;
  std::size_t element_bytes = 1;
  transport::ReduceFunction reduce = nullptr;
  /// For 16-bit floats, whose contributions must be combined in one pass; else null.
  CombineFunction combine = nullptr;
  bool divides = false;           ///< divide the sum by the number of ranks
  std::uint64_t fingerprint = 0;  ///< of this call and all before it
};

/// How the calls of a communicator copy.
struct CopyChoices {
  CopyChoice stores;
  SingleCopyChoice single;
  /// Latest buffer that was found to be readable by other processes.
  const std::byte* readable = nullptr;
  std::size_t readable_bytes = 0;
};

/// True if the operation has a shared-memory implementation.
[[nodiscard]] constexpr bool shareable(Operation operation) noexcept {
  switch (operation) {
    case Operation::barrier:
    case Operation::broadcast:
    case Operation::fan_out:
    case Operation::all_reduce:
    case Operation::scan:
    case Operation::exclusive_scan:
    case Operation::reduce:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return true;
    default:
      return false;
  }
}

/// A collective call among the ranks of one host, through a collective channel of their shared
/// segment. It has up to three stages, which work chunk by chunk:
///
/// | put copies this rank's data into its region of the channel and stamps the chunk's slot |
/// combine reduces this rank's slice of all contributions, in rank order, once all have put | get
/// copies this rank's results out of the other ranks' regions
///
/// Zero-copy buffers are not put: the slot holds their location in the rank's heap. By single copy
/// neither are others: the slot holds their address, and the other ranks read them there.
///
/// Up to 104 bytes are inlined in the slot, less than a page uses one of the region's pages, more
/// goes through the ring. A chunk moves up to CollectiveChannel::published_bytes() a rank. As many
/// chunks as fit into the ring are in flight, so ranks need not advance in lockstep.
///
/// Calls of one channel run one after the other: a call runs once `may_run()`.
class SharedCall {
 public:
  enum class Progress : std::uint8_t { blocked, moved, done };

  enum class Put : std::uint8_t { nothing, signal, whole, blocks, slices };
  enum class Combine : std::uint8_t { nothing, await, whole, prefix, block, slice };
  enum class Get : std::uint8_t { nothing, root_whole, root_block, all_whole, all_blocks, slices };
  /// Where a chunk's data is placed; the same on all ranks.
  enum class Where : std::uint8_t { slot, page, ring };

  /// How a call moves its data.
  struct Plan {
    Put put = Put::nothing;
    Combine combine = Combine::nothing;
    Get get = Get::nothing;
    Where where = Where::ring;
    std::size_t unit_bytes = 0;
    std::size_t input_bytes = 0;  ///< a unit, or one unit for each rank
    std::size_t width = 0;        ///< bytes of the unit that a chunk moves
    std::size_t stride = 0;       ///< between blocks in a chunk's data
    std::uint64_t chunks = 0;
  };
  [[nodiscard]] static Plan plan(const transport::CollectiveChannel& channel,
                                 const SharedArguments& arguments);

  /// Reserves the channel's next chunks. `plan` must be made from arguments that agree in
  /// operation, root, count and type.
  SharedCall(transport::CollectiveChannel& channel, const SharedArguments& arguments,
             const Plan& plan, CopyChoices& copies);

  /// True once all earlier calls of the channel are over. One without elements has no chunks.
  [[nodiscard]] bool may_run() const { return chunks_.may_run(); }
  /// Does all work that is possible without waiting, up to a bounded number of chunks.
  [[nodiscard]] Progress advance();
  /// A member whose slot names another call, or -1.
  [[nodiscard]] int mismatched_member() const { return chunks_.mismatched_member(); }
  /// True if the call waits for this member now.
  [[nodiscard]] bool awaits(int member);
  /// True if the call has read exported memory of other ranks. They reuse that memory once the job
  /// has failed, so the data read may be invalid then.
  [[nodiscard]] bool has_read_exported() const { return has_read_exported_; }

 private:
  [[nodiscard]] bool is_root() const { return arguments_.root == channel_->rank(); }
  [[nodiscard]] int next(int member) const {
    return member + 1 == channel_->size() ? 0 : member + 1;
  }
  /// Offset of a chunk in the unit, in bytes.
  [[nodiscard]] std::size_t begin_of(std::uint64_t chunk) const { return chunk * plan_.width; }
  [[nodiscard]] std::size_t length_of(std::uint64_t chunk) const;
  /// A member's slice of a chunk of `length` bytes.
  struct Slice {
    std::size_t begin;
    std::size_t length;
  };
  [[nodiscard]] Slice slice_of(int member, std::size_t length) const;
  struct ChunkBytes {
    std::size_t data = 0;
    std::size_t result = 0;
  };
  [[nodiscard]] std::byte* short_buffer(int member, std::uint64_t chunk) const;
  [[nodiscard]] ChunkBytes bytes_of(std::uint64_t chunk) const;
  [[nodiscard]] std::uint64_t reads_before_put() const;
  [[nodiscard]] std::byte* own_result(std::uint64_t chunk) const;
  /// A member's contribution to a chunk; with blocks, one block for each rank.
  struct Contribution {
    const std::byte* bytes;
    std::size_t stride;  ///< from block to block
  };
  [[nodiscard]] Contribution contribution(int member, std::uint64_t chunk) const;
  [[nodiscard]] const std::byte* result(int member, std::uint64_t chunk, const Slice& slice) const;
  void choose_export();
  void choose_single_copy();
  [[nodiscard]] bool overwrites_input() const;
  [[nodiscard]] bool is_input_readable() const;
  [[nodiscard]] bool reads_exported(int member) const;
  [[nodiscard]] bool exports() const {
    return exported_input_ || exported_output_ || publishes_address_;
  }
  [[nodiscard]] bool is_over();

  [[nodiscard]] bool all_have_put(std::uint64_t chunk);
  [[nodiscard]] bool try_put();
  [[nodiscard]] bool try_combine();
  [[nodiscard]] bool try_get();
  [[nodiscard]] bool get_from(int member);
  [[nodiscard]] bool get_by_single_copy(int member, std::byte* to, std::uint64_t from);
  void put_content(std::uint64_t chunk, std::byte* to) const;
  void copy_own_block() const;
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void copy_out(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void finish_streaming_copies() const;
  /// A piece of a chunk that all ranks contribute to: `offset` in block `block`.
  struct Piece {
    std::uint64_t chunk;
    std::size_t block;
    std::size_t offset;
    std::size_t length;
  };
  void combine_parts(std::byte* to, std::byte* second, const std::byte* own,
                     const Piece& all) const;
  [[nodiscard]] int combined_parts() const;
  void combine_piece(std::byte* to, const std::byte* own, const Piece& piece) const;
  void publish_read(std::uint64_t chunks);
  void notify();
  [[nodiscard]] Progress move_chunks();
  [[nodiscard]] bool chooses_copies() const;
  void begin();
  void finish();

  transport::CollectiveChannel* channel_;
  SharedArguments arguments_;
  CopyChoices* copies_;
  Plan plan_;
  transport::CallChunks chunks_;
  bool begun_ = false;
  bool done_ = false;
  bool notify_is_due_ = false;
  // Offset in this rank's heap if the buffer is zero-copy. The other ranks read it there, so the
  // call ends when they have.
  std::optional<std::uint64_t> exported_input_;
  std::optional<std::uint64_t> exported_output_;
  mutable bool has_read_exported_ = false;
  // The same for other buffers, which the other ranks read by single copy.
  bool publishes_address_ = false;
  bool expects_addresses_ = false;  ///< of a rank that only reads
  bool has_read_addresses_ = false;
  Streaming streaming_ = Streaming::none;
  std::chrono::steady_clock::time_point begun_at_{};
  // Number of this call's chunks that have passed each stage.
  std::uint64_t put_chunks_ = 0;
  std::uint64_t combined_chunks_ = 0;
  std::uint64_t got_chunks_ = 0;
  int member_ = 0;    ///< the next member to get from
  int put_seen_ = 0;  ///< members below this have put the chunk to be combined
};

}  // namespace tutti::engine
