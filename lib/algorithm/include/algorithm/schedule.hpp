#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A collective algorithm is a pure function that returns a Schedule: the steps of one rank, as
/// plain data.
///
/// A schedule reads as a sequential program. Its executor may keep a window of consecutive steps in
/// flight and finish them in any order that respects data dependencies: a step waits only for
/// earlier steps in the window whose region it overwrites or reads after a write. Steps to the same
/// peer in the same direction stay in order and form one stream of bytes, so that a sender's pieces
/// need not match a receiver's.
///
/// A send is complete when its receiver has consumed it; no schedule may rely on buffering in
/// between.
///
/// Ranks of one host also exchange data through shared memory, in chunks: `publish` opens this
/// rank's next chunk and makes data readable for the host's ranks, `read` and `read_reduce` take
/// data that a peer has published in the chunk of the same number, and `release` closes the chunk.
/// All ranks of a host have the same number of chunks. A published region may be overwritten as
/// soon as the publish is complete. A publish may wait until the peers have released all
/// earlier chunks; no schedule may rely on more than one chunk in flight.
namespace tutti::algorithm {

enum class StepKind : std::uint8_t {
  send,         ///< `from`[region] to `peer`
  recv,         ///< `to`[region] = data from `peer`
  recv_reduce,  ///< `to`[region] = `from`[from_region] ⊕ data from `peer`
  copy,         ///< `to`[region] = `from`[from_region]
  reduce,       ///< `to`[region] = `to`[region] ⊕ `from`[from_region]
  /// `to`[region] = part 0 ⊕ part 1 ⊕ … ⊕ part `parts` - 1, combined in this order in one pass: a
  /// type that is accumulated in a wider one is rounded once. Part k is the contribution of rank k,
  /// the region.length() elements of `from` that begin at from_region.begin + k·`stride`. `region`
  /// and `from_region` do not overlap.
  combine,
  publish,  ///< makes `from`[region], which may be empty, readable for the host's ranks
  read,     ///< `to`[region] = what `peer` has published of its elements remote, remote + 1, …
  read_reduce,  ///< `to`[region] = `from`[from_region] ⊕ what `peer` has published, as in read
  release,      ///< this rank reads no more of what has been published in its current chunk
};

/// The buffer of a step. In an in-place call `input` and `output` are the same memory, and its
/// schedule names only `output`. `input` is never written.
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

/// Writes `region` of `to`; reads `from_region` of `from`.
struct Step {
  StepKind kind = StepKind::copy;
  int peer = -1;
  Buffer to = Buffer::output;
  Buffer from = Buffer::output;
  Region region;
  /// As long as `region`, and equal to it for send. For combine: from the first element of part 0
  /// to the last of the last part.
  Region from_region;
  int parts = 0;            ///< combine
  std::int64_t stride = 0;  ///< combine: distance between the begins of two parts
  /// read, read_reduce: index of the first element in the buffer that the peer publishes from.
  std::int64_t remote = 0;
};

/// True if a step of this kind reads `from`[from_region].
[[nodiscard]] bool reads_from(StepKind kind) noexcept;
/// True if it writes `to`[region]; reduce also reads it.
[[nodiscard]] bool writes_to(StepKind kind) noexcept;
/// True for read and read_reduce.
[[nodiscard]] bool reads_published(StepKind kind) noexcept;
/// True if a step of kind `later` waits for the end of each earlier one of kind `earlier`: chunks
/// are opened in order, and closed in order, after their reads.
[[nodiscard]] bool keeps_chunks_in_order(StepKind earlier, StepKind later) noexcept;

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
/// makes no step; sender and receiver clip alike, so both omit an empty piece. A region that begins
/// below 0 is empty. Only publish and release are steps in any case.
struct StepPattern {
  StepKind kind = StepKind::copy;
  int peer = -1;
  Buffer to = Buffer::output;
  Buffer from = Buffer::output;
  Affine offset;
  std::int64_t length = 0;
  Affine end;
  Affine from_shift;        ///< `from` offset minus `to` offset
  int peer_step = 0;        ///< the peer of iteration (i, j) is peer + i·peer_step
  int parts = 0;            ///< combine
  std::int64_t stride = 0;  ///< combine
  Affine remote_shift;      ///< read, read_reduce: `remote` minus `to` offset
};

/// for i in 0..outer_count: for j in 0..inner_count: all steps, in order.
struct Loop {
  std::int64_t outer_count = 1;
  std::int64_t inner_count = 1;
  std::vector<StepPattern> steps;
};

struct Schedule {
  std::string algorithm;              ///< name in `TUTTI_ALGORITHM` and the documentation
  std::vector<Loop> loops;            ///< executed one after the other
  std::int64_t scratch_elements = 0;  ///< size of Buffer::scratch
  /// Number of times that all loops are executed, each time on the next segment of the data.
  std::int64_t passes = 1;
  /// What published_chunks() says of it; set by make().
  std::int64_t published_chunks = 0;
  /// Maximum of consecutive steps in flight; 0: the executor's maximum. The same on all ranks of a
  /// call.
  int window = 0;
};

/// Iterates over the steps of a schedule in constant memory.
class Cursor {
 public:
  explicit Cursor(const Schedule& schedule) : schedule_(&schedule) {}

  /// Returns the next step with a non-empty region; false at the end.
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

/// Number of chunks that a rank publishes, in all passes of the schedule.
[[nodiscard]] std::int64_t published_chunks(const Schedule& schedule) noexcept;

/// One line of text: "send output[0, 4096) to rank 3".
[[nodiscard]] std::string describe(const Step& step);

/// Arguments of an algorithm: the same on all ranks, except `rank` and where noted.
struct ScheduleArguments {
  int rank = 0;
  int size = 1;
  int root = 0;            ///< rooted operations
  std::int64_t count = 0;  ///< elements, as the operation's documentation defines them
  std::int64_t chunk = 1;  ///< elements per step in pipelined algorithms; at least 1
  /// Input and output are the same memory. For all_gather, gather, reduce_scatter and scatter: this
  /// rank's block is at its position in the larger buffer.
  bool in_place = true;
  /// v-forms: elements of each rank's block, in rank order, without gaps. For gather_v and
  /// scatter_v only at the root; elsewhere empty, and `count` is this rank's block. For
  /// all_to_all_v: elements sent to each rank. Otherwise empty: all blocks have `count` elements.
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> recv_counts;  ///< all_to_all_v: elements received from each rank
  std::vector<int> host;  ///< host[r]: index of the host of rank r; empty: all on one host
  /// Maximum elements that a rank may publish in one chunk; at least 1.
  std::int64_t max_published = std::int64_t{1} << 40;
  /// The ranks of this rank's host share memory: they exchange data in chunks instead of messages.
  /// May differ between hosts.
  bool shares_memory = false;
};

}  // namespace tutti::algorithm
