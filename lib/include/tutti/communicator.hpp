#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "tutti/allocation.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/collective.hpp"
#include "tutti/error.hpp"
#include "tutti/export.hpp"
#include "tutti/operations.hpp"
#include "tutti/options.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// What is known of one rank; the same on all ranks.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;  ///< 0, 1, … among the ranks of its host
  int host_index = 0;  ///< hosts are numbered in the order of their lowest rank
  std::string host;    ///< its host's name, for people
  int pid = 0;
  std::string address;      ///< where its peers reach it: "10.0.0.1:40123"
  std::string device;       ///< its GPU ("NVIDIA H100 …, 0000:18:00.0"); empty on the host path
  std::string device_uuid;  ///< of that GPU, or of the slice of it (MIG)
  int cores = 0;            ///< processor cores that the process may use
  double core_quota = 0;    ///< cores' worth of time that its control groups allow; 0: no quota
};

/// The bound on set-up that `options`, or else the environment, ask for. Throws Error{usage}.
[[nodiscard]] TUTTI_EXPORT std::chrono::nanoseconds setup_timeout(const Options& options);

/// Moves data between the ranks of a job. One object a rank; all ranks make the same collective
/// calls in the same order.
///
/// Counts are elements. Buffers belong to the call until it returns. Calls of one communicator come
/// from one thread at a time. Every call throws Error, at the latest when its deadline has passed;
/// none hangs.
class TUTTI_EXPORT Communicator : public Operations<Communicator> {
 public:
  /// Collective over the ranks of `bootstrap`. After it has returned, the bootstrap is not used any
  /// more. Throws Error{timeout, mismatch, usage, system}.
  static Communicator create(Bootstrap& bootstrap, const Options& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Says goodbye, waits up to a second for data that is still on its way, never throws.
  ~Communicator();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// Among the ranks of this host, counted over the whole job.
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  [[nodiscard]] int host_count() const noexcept;
  [[nodiscard]] const RankInfo& info(int rank) const;
  /// How long each phase of set-up took, for people: "peer info 1.2 ms, links 0.8 ms".
  [[nodiscard]] std::string setup_phases() const;
  /// True if buffers in device memory are served, the same on all ranks.
  [[nodiscard]] bool has_device_path() const noexcept;
  /// True if buffers in device memory go through host memory, because NCCL can't serve this job.
  [[nodiscard]] bool is_device_path_staged() const noexcept;
  /// Why there is a device path, or why not: "no rank has a GPU".
  [[nodiscard]] const std::string& device_path_reason() const noexcept;
  /// This rank's device, as an index among those that the process sees; -1 on the host path.
  [[nodiscard]] int device() const noexcept;
  /// Name of the algorithm that the latest collective call used.
  [[nodiscard]] const std::string& latest_algorithm() const noexcept;

  /// `count` zeroed elements that the other ranks of this host can read where they lie: collectives
  /// on them copy less (docs/performance.md). Where this host's ranks share no memory, or there is
  /// none left to share, it is memory like any other. Of this rank alone. Throws std::bad_alloc.
  template <class T>
  [[nodiscard]] Allocation<T> allocate(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    return {allocate_bytes(count * sizeof(T)), count};
  }

  /// Nobody returns before all have come.
  void barrier(const Call& call = {});
  [[nodiscard]] Work barrier_async(const Call& call = {});
  /// A barrier in the order of `stream`.
  void barrier(Stream stream, const Call& call = {});

  /// What the typed calls come to: throws Error{usage} for buffers, counts or ranks that do not
  /// fit the operation. On host memory returns when the call is done on this rank; on device memory
  /// when it is queued.
  void run(const Collective& collective, const Call& call = {});
  void run(const Message& message, const Call& call = {});
  /// The same, but returns at once; calls are matched in the order in which they are started.
  [[nodiscard]] Work start(const Collective& collective, const Call& call = {});
  [[nodiscard]] Work start(const Message& message, const Call& call = {});

  /// Waits until all that is queued on `stream` is done, under the call's deadline; turns what went
  /// wrong there into Error.
  void synchronize(Stream stream, const Call& call = {});

  /// Collective over this communicator. A communicator of the ranks that pass the same `color`,
  /// ordered by `key`, then by rank; none for those that pass no color. Traffic of two
  /// communicators never mixes. A rank's device stays the same.
  [[nodiscard]] std::optional<Communicator> split(std::optional<int> color, int key = 0,
                                                  const Call& call = {});
  /// Collective. A communicator of the same ranks whose calls are matched apart from this one's.
  [[nodiscard]] Communicator duplicate(const Call& call = {});
  /// Collective over `members` alone (ranks of this communicator, each once, this one among them;
  /// the same list on all): they become ranks 0, 1, … in this order.
  [[nodiscard]] Communicator create_group(std::span<const int> members, const Call& call = {});

  /// After Error{peer_lost}: collective over the ranks that are left. They get a communicator of
  /// their own, numbered from 0 in the old order, over new links and without MPI; a rank that dies
  /// meanwhile, or leaves instead of coming, is left out too. This communicator can then only be
  /// destroyed; those that were split off are over, too. Of the whole job's communicator only.
  /// Throws Error{timeout} where a survivor does not come, Error{usage} where no rank was lost.
  [[nodiscard]] Communicator shrink(const Call& call = {});

  /// Collective. The orderly end: all ranks have made the same calls, and all data has arrived;
  /// throws Error{mismatch} otherwise. Afterwards only the destructor is legal.
  void finalize(const Call& call = {});

  /// Ends the job's communication: every other rank's current or next call throws Error{aborted}
  /// with `reason`.
  void abort(const std::string& reason) noexcept;

 private:
  struct TUTTI_HIDDEN State;
  explicit Communicator(std::unique_ptr<State> state);
  [[nodiscard]] std::shared_ptr<void> allocate_bytes(std::size_t bytes);
  Communicator make_group(std::uint32_t id, std::span<const int> members);
  std::unique_ptr<State> state_;
};

}  // namespace tutti
