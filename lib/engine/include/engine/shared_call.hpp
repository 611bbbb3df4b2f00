#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/copy_choice.hpp"
#include "engine/reduce.hpp"
#include "transport/shared_segment.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti::engine {

/// Bytes of a cache line: parts of a buffer that different ranks write begin on one of their own.
inline constexpr std::size_t line = 64;

/// What a call through shared memory does on one rank; `input` and `output` as in
/// CheckedCollective.
struct SharedProblem {
  Operation operation = Operation::barrier;
  int root = -1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t count = 0;  ///< elements of the whole buffer, or of one block
  std::size_t element_bytes = 1;
  Type type = Type::u8;
  transport::ReduceFunction reduce = nullptr;
  /// Where all contributions must be combined at once: 16-bit floats.
  CombineFunction combine = nullptr;
  bool divides = false;           ///< by the number of ranks, after the sum
  std::uint64_t fingerprint = 0;  ///< of the call, and all before it
};

/// Whether an operation can go through shared memory.
[[nodiscard]] bool shareable(Operation operation) noexcept;

/// A collective call among ranks of one host, by way of a channel in their shared memory.
///
///     put      each rank copies what others need of its data into its part of the channel, round
///     by
///              round, and stamps the round's slot
///     combine  once all have put a round, a rank combines its slice of all contributions, in the
///              order of ranks
///     get      a rank copies what it is due out of the others' parts
///
/// Data that lies in a rank's heap is not put: the slot says where it is.
///
/// An operation has some of the three. A round moves CollectiveChannel::round_bytes() of a rank's
/// at most, by its ring; as many rounds as fit there are on their way, so that ranks need not keep
/// step. Data of a few bytes travels in the slot itself, of less than a page in one of the part's
/// pages.
///
/// Calls of one channel come one after the other: it runs when `may_run()`.
class SharedCall {
 public:
  enum class Progress : std::uint8_t { blocked, moved, done };

  enum class Put : std::uint8_t { nothing, signal, whole, blocks, slices };
  enum class Combine : std::uint8_t { nothing, await, whole, block, slice };
  enum class Get : std::uint8_t { nothing, root_whole, root_block, all_whole, all_blocks, slices };
  /// Where the data of a round goes: the same on all ranks.
  enum class Where : std::uint8_t { slot, page, ring };

  /// How the data of a call moves.
  struct Plan {
    Put put = Put::nothing;
    Combine combine = Combine::nothing;
    Get get = Get::nothing;
    Where where = Where::ring;
    std::size_t unit_bytes = 0;
    std::size_t input_bytes = 0;  ///< what a rank has for the others: a unit, or one for each rank
    std::size_t width = 0;        ///< of the unit, that a round moves
    std::size_t stride = 0;       ///< between blocks in a round's data
    std::uint64_t rounds = 0;
  };
  [[nodiscard]] static Plan plan(const transport::CollectiveChannel& channel,
                                 const SharedProblem& problem);

  /// Takes the channel's next rounds. `plan` is that of a problem with the same operation, root,
  /// count and type.
  SharedCall(transport::CollectiveChannel& channel, const SharedProblem& problem, const Plan& plan,
             CopyChoice& copies);

  /// A call without rounds (of no elements) waits for those before it only, and others don't wait
  /// for it.
  [[nodiscard]] bool may_run() const {
    return channel_->finished_rounds.load(std::memory_order_acquire) >= first_;
  }
  /// Does what can be done now without waiting, for a while at most.
  [[nodiscard]] Progress advance();
  /// A member whose call is another one, as far as has been seen; else -1.
  [[nodiscard]] int mismatched_member() const { return mismatched_; }
  /// Members that the call waits for now.
  [[nodiscard]] std::vector<int> awaited();
  /// Whether it has read what others lent it, which is theirs again once they have a verdict.
  [[nodiscard]] bool has_read_exported() const { return has_read_exported_; }

 private:
  [[nodiscard]] bool is_root() const { return problem_.root == channel_->rank(); }
  [[nodiscard]] int next(int member) const {
    return member + 1 == channel_->size() ? 0 : member + 1;
  }
  /// Bytes of the unit that a round moves.
  [[nodiscard]] std::size_t begin_of(std::uint64_t round) const { return round * plan_.width; }
  [[nodiscard]] std::size_t length_of(std::uint64_t round) const;
  /// A member's slice of a round of `length` bytes.
  struct Slice {
    std::size_t begin;
    std::size_t length;
  };
  [[nodiscard]] Slice slice_of(int member, std::size_t length) const;
  [[nodiscard]] transport::Slot& slot(int member, std::uint64_t round) const;
  struct RoundBytes {
    std::size_t data = 0;
    std::size_t result = 0;
  };
  [[nodiscard]] std::byte* short_place(int member, std::uint64_t round) const;
  [[nodiscard]] RoundBytes bytes_of(std::uint64_t round) const;
  [[nodiscard]] std::uint64_t put_needs() const;
  [[nodiscard]] std::byte* own_result(std::uint64_t round) const;
  /// What a member has for the others in a round: a block each where there are blocks.
  struct Contribution {
    const std::byte* bytes;
    std::size_t stride;  ///< from block to block
  };
  [[nodiscard]] Contribution contribution(int member, std::uint64_t round) const;
  [[nodiscard]] const std::byte* result(int member, std::uint64_t round, const Slice& slice) const;
  void choose_export();
  [[nodiscard]] bool reads_exported(int member) const;
  [[nodiscard]] bool exports() const { return exported_input_ || exported_output_; }
  [[nodiscard]] bool has_read_all(transport::CollectiveChannel::Member& member) const;
  [[nodiscard]] bool is_over();

  [[nodiscard]] bool has_put(int member, std::uint64_t round);
  [[nodiscard]] bool all_have_put(std::uint64_t round);
  [[nodiscard]] bool all_have_read(std::uint64_t number);
  [[nodiscard]] bool try_put();
  [[nodiscard]] bool try_combine();
  [[nodiscard]] bool try_get();
  [[nodiscard]] bool get_from(int member);
  void put_content(std::uint64_t round, std::byte* to) const;
  void copy_own_block() const;
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void copy_out(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void finish_copies() const;
  /// A piece of a round that all contribute to: `offset` in block `block`.
  struct Piece {
    std::uint64_t round;
    std::size_t block;
    std::size_t offset;
    std::size_t length;
  };
  void combine_parts(std::byte* to, std::byte* second, const std::byte* own,
                     const Piece& all) const;
  void combine_piece(std::byte* to, const std::byte* own, const Piece& piece) const;
  void say_read(std::uint64_t rounds);
  void notify();
  [[nodiscard]] Progress move_rounds();
  [[nodiscard]] bool chooses_copies() const;
  void begin();
  void finish();

  transport::CollectiveChannel* channel_;
  SharedProblem problem_;
  CopyChoice* copies_;
  Plan plan_;
  bool begun_ = false;
  bool done_ = false;
  bool notify_is_due_ = false;
  // Where what this rank has is in its heap, the others read it there. Such a call ends when they
  // have.
  std::optional<std::uint64_t> exported_input_;
  std::optional<std::uint64_t> exported_output_;
  mutable bool has_read_exported_ = false;
  Streaming streaming_ = Streaming::none;
  std::chrono::steady_clock::time_point begun_at_{};
  std::uint64_t first_ = 0;
  // Rounds of this call that are through each stage.
  std::uint64_t put_rounds_ = 0;
  std::uint64_t combined_rounds_ = 0;
  std::uint64_t got_rounds_ = 0;
  int member_ = 0;    ///< next to be got from
  int put_seen_ = 0;  ///< members before this have put the round to be combined
  int mismatched_ = -1;
};

}  // namespace tutti::engine
