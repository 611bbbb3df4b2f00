#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "algorithm/schedule.hpp"
#include "engine/published_chunks.hpp"
#include "engine/reduce.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// The input of an average whose contributions are scaled before the sum. If the call is in place,
/// the input is the output buffer, and the region `weighed` of it is scaled in place beforehand,
/// since the call may overwrite it.
struct Contribution {
  Type type = Type::f32;
  double weight = 1;
  bool is_output = false;
  algorithm::Region weighed;
};

/// The memory behind a schedule's buffers, and how elements are combined.
struct Memory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;  ///< the same as `input` in an in-place call
  std::byte* scratch = nullptr;
  std::size_t element_bytes = 1;
  transport::ReduceFunction reduce = nullptr;
  CombineFunction combine = nullptr;
  std::optional<Contribution> contribution;
};

/// A peer, as a rank of the job, that a schedule waits for.
struct Awaited {
  int peer = -1;
  bool receiving = false;
  bool in_shared_memory = false;  ///< a slot or counter of the peer, not data of a link
};

/// Runs one schedule. Keeps a window of consecutive steps in flight; a step starts as soon as no
/// earlier unfinished step of the window touches the same data.
class Execution {
 public:
  static constexpr std::size_t window = 64;

  /// Identifies the call in the streams, and maps the schedule's ranks to ranks of the job.
  struct Names {
    const transport::CallContext& call;
    std::span<const int> world;
  };
  /// `chunks` are those of the schedule, if it has any, and outlive its run.
  Execution(const algorithm::Schedule& schedule, const Memory& memory, const Names& names,
            transport::Links& links, PublishedChunks* chunks = nullptr);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Runs another schedule, of the call that the same names now stand for. The earlier one must be
  /// over; its memory is reused.
  void restart(const algorithm::Schedule& schedule, const Memory& memory,
               PublishedChunks* chunks = nullptr);
  /// Starts and finishes all steps that can proceed. Returns true when the schedule is done.
  bool advance();
  /// True if a step has read or published data in shared memory since the last call.
  [[nodiscard]] bool has_moved_published() { return std::exchange(has_moved_published_, false); }
  /// Appends the peers that it waits for.
  void add_awaited(std::vector<Awaited>& all) const;

 private:
  /// `waiting` for earlier steps of the window; `ready` and not started only if it needs data or
  /// memory that other ranks of the host have yet to publish or release.
  enum class State : std::uint8_t { waiting, ready, started, done };
  struct Slot {
    algorithm::Step step;
    State state = State::waiting;
    std::uint64_t chunk = 0;  ///< of publish, release, read and read_reduce
    transport::SendRequest send;
    transport::RecvRequest recv;
    /// Scaled copy of the contribution that the step reads; kept for later steps.
    std::unique_ptr<std::byte[]> weighed;
    std::size_t weighed_bytes = 0;
  };

  [[nodiscard]] Slot& at(std::size_t i) { return slots_[(first_ + i) % window]; }
  [[nodiscard]] const Slot& at(std::size_t i) const { return slots_[(first_ + i) % window]; }
  static std::size_t window_of(const algorithm::Schedule& schedule);
  bool refill();
  bool reap();
  bool start_ready();
  [[nodiscard]] bool is_ready(std::size_t i) const;
  /// False if a step that exchanges data in shared memory has to wait.
  bool start(Slot& slot);
  void run_local(Slot& slot);
  bool try_publish(Slot& slot);
  bool try_read(Slot& slot);
  [[nodiscard]] int world_of(int peer) const { return world_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] std::byte* writable(algorithm::Buffer buffer) const;
  [[nodiscard]] const std::byte* readable(algorithm::Buffer buffer) const;
  [[nodiscard]] bool is_contribution(algorithm::Buffer buffer) const;
  void weigh_into(std::byte* to, const algorithm::Step& step) const;
  [[nodiscard]] const std::byte* source(Slot& slot);

  algorithm::Cursor cursor_;
  std::size_t max_in_flight_;
  Memory memory_;
  const transport::CallContext* call_;
  std::span<const int> world_;
  transport::Links& links_;
  PublishedChunks* chunks_;
  std::uint64_t opened_chunks_ = 0;  ///< of the steps taken from the schedule
  bool has_moved_published_ = false;
  std::array<Slot, window> slots_;
  std::size_t weighed_bytes_ = 0;  ///< of all slots
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool cursor_at_end_ = false;
  bool may_be_ready_ = false;  ///< steps are new or done: waiting ones may have become ready
};

}  // namespace tutti::engine
