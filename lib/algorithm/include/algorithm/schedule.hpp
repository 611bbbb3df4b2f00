#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A collective algorithm is a pure function that returns a Schedule: what one rank does, as plain
/// data.
///
/// A schedule reads as a sequential program. Whoever runs it may keep a window of consecutive steps
/// in flight and finish them in any order that respects the data: a step waits only for those
/// earlier steps in the window whose region it overwrites or reads after a write. Steps to the same
/// peer in the same direction stay in order: they form one stream of bytes, so that a sender's
/// pieces need not match a receiver's.
///
/// A send is complete when its receiver has taken it; nothing may rely on a send being buffered on
/// the way.
namespace tutti::algorithm {

enum class StepKind : std::uint8_t {
  send,         ///< `from`[region] to `peer`
  recv,         ///< `to`[region] = what `peer` sends
  recv_reduce,  ///< `to`[region] = `from`[from_region] ⊕ what `peer` sends
  copy,         ///< `to`[region] = `from`[from_region]
  reduce,       ///< `to`[region] = `to`[region] ⊕ `from`[from_region]
  /// `to`[region] = part 0 ⊕ part 1 ⊕ … ⊕ part `parts` - 1, combined in this order, all at once:
  /// a type that is accumulated in a wider one is rounded at the end, once. Part k is the
  /// region.length() elements of `from` that begin at from_region.begin + k·`stride`. There are as
  /// many parts as ranks, and part k is what rank k contributes. `region` does not overlap
  /// `from_region`.
  combine,
  // Inside a host, through shared memory or single-copy reads.
  publish,      ///< tell the host's ranks that slot `offset` is ready
  await,        ///< wait until `peer` has published slot `offset`
  read_from,    ///< `to`[region] = `peer`'s `from`[region]
  reduce_from,  ///< `to`[region] = `to`[region] ⊕ `peer`'s `from`[region]
};

/// Which memory a step means. In an in-place call `input` and `output` are the same memory, and a
/// schedule for it names only `output`. `input` is never written.
enum class Buffer : std::uint8_t { input, output, scratch };

/// Offsets and lengths count elements of the call's type.
struct Region {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t length() const noexcept { return end - begin; }
  [[nodiscard]] bool empty() const noexcept { return end <= begin; }
  [[nodiscard]] bool overlaps(const Region& other) const noexcept {
    return begin < other.end && other.begin < end;
  }
};

/// What a step writes of `to` is `region`; what it reads of `from` is `from_region`. Of publish and
/// await, `region.begin` is the slot.
struct Step {
  StepKind kind = StepKind::copy;
  int peer = -1;
  Buffer to = Buffer::output;
  Buffer from = Buffer::output;
  Region region;
  /// As long as `region`, and the same as `region` for send, read_from and reduce_from. Of combine:
  /// all from the first element of part 0 to the last of the last part.
  Region from_region;
  int parts = 0;            ///< combine
  std::int64_t stride = 0;  ///< combine: from the begin of one part to that of the next
};

/// Whether a step of this kind reads `from`[from_region] of the own memory.
[[nodiscard]] bool reads_from(StepKind kind) noexcept;
/// Whether it writes `to`[region]; reduce and reduce_from also read it.
[[nodiscard]] bool writes_to(StepKind kind) noexcept;

/// start + pass·`pass` + i·outer + j·inner, for iteration (i, j) of a loop nest in one pass.
struct Affine {
  std::int64_t start = 0;
  std::int64_t outer = 0;
  std::int64_t inner = 0;
  std::int64_t pass = 0;

  [[nodiscard]] std::int64_t at(std::int64_t i, std::int64_t j, std::int64_t k) const noexcept {
    return start + i * outer + j * inner + k * pass;
  }
  friend bool operator==(const Affine&, const Affine&) = default;
  friend Affine operator-(const Affine& a, const Affine& b) noexcept {
    return {a.start - b.start, a.outer - b.outer, a.inner - b.inner, a.pass - b.pass};
  }
};

/// A step whose region moves with the loop: [offset, min(offset + length, end)). An empty region
/// makes no step; sender and receiver clip alike, so an empty piece is left out on both sides.
struct StepPattern {
  StepKind kind = StepKind::copy;
  int peer = -1;
  Buffer to = Buffer::output;
  Buffer from = Buffer::output;
  Affine offset;
  std::int64_t length = 0;
  Affine end;
  Affine from_shift;        ///< `from` offset minus `to` offset, where the two differ
  int peer_step = 0;        ///< iteration (i, j) has peer + i·peer_step
  int parts = 0;            ///< combine
  std::int64_t stride = 0;  ///< combine
};

/// for i in 0..outer_count: for j in 0..inner_count: all steps, in order.
struct Loop {
  std::int64_t outer_count = 1;
  std::int64_t inner_count = 1;
  std::vector<StepPattern> steps;
};

struct Schedule {
  std::string algorithm;              ///< name as `TUTTI_ALGORITHM` and the documentation spell it
  std::vector<Loop> loops;            ///< executed one after the other
  std::int64_t scratch_elements = 0;  ///< size of Buffer::scratch
  /// All loops are executed so many times, each time on the next segment of the data.
  std::int64_t passes = 1;
  /// Of consecutive steps, so many are in flight at most; 0: as many as whoever runs it can. All
  /// ranks of a call have the same.
  int window = 0;
};

/// Walks through a schedule, one step at a time, in constant memory.
class Cursor {
 public:
  explicit Cursor(const Schedule& schedule) : schedule_(&schedule) {}

  /// The next step with a region that is not empty (publish and await always count); false at the
  /// end.
  bool next(Step& step);

 private:
  bool next_of_pass(Step& step);

  const Schedule* schedule_;
  std::int64_t pass_ = 0;
  std::size_t loop_ = 0;
  std::int64_t outer_ = 0;
  std::int64_t inner_ = 0;
  std::size_t pattern_ = 0;
};

/// One line for people: "send output[0, 4096) to rank 3".
[[nodiscard]] std::string describe(const Step& step);

/// What an algorithm may look at: nothing but what all ranks know alike, and the own rank.
struct Problem {
  int rank = 0;
  int size = 1;
  int root = 0;            ///< rooted operations
  std::int64_t count = 0;  ///< elements, in the sense of the operation's documentation
  std::int64_t chunk = 1;  ///< elements moved at once where an algorithm pipelines; at least 1
  /// Input and output are the same memory. Of all_gather, gather, reduce_scatter and scatter: the
  /// own block lies at its place within the larger buffer.
  bool in_place = true;
  /// v-forms: elements of each rank's block, in the order of ranks, without gaps. Of gather_v and
  /// scatter_v only at the root; elsewhere empty, and `count` is the own block. all_to_all_v: of
  /// what goes to each rank. Otherwise empty: all blocks have `count` elements.
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> recv_counts;  ///< all_to_all_v: of what comes from each rank
  std::vector<int> host;  ///< host[r]: index of the host of rank r; empty: all on one host
};

}  // namespace tutti::algorithm
