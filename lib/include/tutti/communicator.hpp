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
#include "tutti/operations_v.hpp"
#include "tutti/options.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// Properties of a rank; the same on all ranks.
struct RankInfo {
  int rank = 0;             ///< in this communicator
  int local_rank = 0;       ///< 0, 1, … among the ranks of its host
  int host_index = 0;       ///< hosts are numbered in the order of their lowest rank
  std::string host;         ///< host name, for display
  int pid = 0;              ///< process id
  std::string address;      ///< address on which it listens: "10.0.0.1:40123"
  std::string device;       ///< its GPU ("NVIDIA H100 …, 0000:18:00.0"); empty on the host path
  std::string device_uuid;  ///< of that GPU, or of the slice of it (MIG)
  int cores = 0;            ///< processor cores that the process may use
  double core_quota = 0;    ///< CPU quota of its control groups, in cores; 0: no quota
};

/// Timeout of set-up: Options::timeout, else TUTTI_TIMEOUT, else 60 s. Throws Error{usage}.
[[nodiscard]] TUTTI_EXPORT std::chrono::nanoseconds setup_timeout(const Options& options);

/// Moves data between the ranks of a job. Each rank has one object; all ranks make the same
/// collective calls in the same order, from one thread at a time.
///
/// Operations and OperationsV have the typed calls. Every call ends at its deadline at the latest,
/// and then throws Error.
class TUTTI_EXPORT Communicator : public Operations<Communicator>,
                                  public OperationsV<Communicator> {
 public:
  /// Collective over the ranks of `bootstrap`, which is not used afterwards. Throws Error{timeout,
  /// mismatch, peer_lost, usage, system}.
  static Communicator create(Bootstrap& bootstrap, const Options& options = {});

  /// The moved-from communicator can only be destroyed or assigned to.
  Communicator(Communicator&&) noexcept;
  /// Destroys the current communicator first.
  Communicator& operator=(Communicator&&) noexcept;
  /// Notifies the other ranks that this rank leaves. Waits up to 1 s for calls in flight. Never
  /// throws.
  ~Communicator();

  /// Rank of this process, from 0.
  [[nodiscard]] int rank() const noexcept;
  /// Number of ranks of the communicator.
  [[nodiscard]] int size() const noexcept;
  /// Local rank in the whole job, also on a sub-communicator.
  [[nodiscard]] int local_rank() const noexcept;
  /// Number of ranks of the whole job on this host.
  [[nodiscard]] int local_size() const noexcept;
  /// Number of hosts of the communicator's ranks.
  [[nodiscard]] int host_count() const noexcept;
  /// Properties of a rank of the communicator. Throws Error{usage} for an invalid rank.
  [[nodiscard]] const RankInfo& info(int rank) const;
  /// Duration of each phase of set-up, for display: "peer info 1.2 ms, links 0.8 ms".
  [[nodiscard]] std::string setup_phases() const;
  /// True if calls accept buffers in device memory; the same on all ranks.
  [[nodiscard]] bool has_device_path() const noexcept;
  /// True if buffers in device memory are staged through host memory, because NCCL can't be used.
  [[nodiscard]] bool is_device_path_staged() const noexcept;
  /// Why there is a device path, or why not: "no rank has a GPU".
  [[nodiscard]] const std::string& device_path_reason() const noexcept;
  /// This rank's device, as an index among those that the process sees; -1 on the host path.
  [[nodiscard]] int device() const noexcept;
  /// Name of the algorithm that the latest collective call used.
  [[nodiscard]] const std::string& latest_algorithm() const noexcept;

  /// Allocates `count` zeroed elements in shared memory, which the other ranks of this host read
  /// directly (docs/semantics.md, zero-copy buffers). Ordinary memory if the host's ranks do not
  /// share memory, or none is left. Local. Throws std::bad_alloc.
  template <class T>
  [[nodiscard]] Allocation<T> allocate(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    return {allocate_bytes(count * sizeof(T)), count};
  }

  /// Collective: `count` is the same on all ranks. Allocates `count` zeroed elements in the memory
  /// of this rank's device. On one host calls of some size on such memory copy nothing on the way:
  /// all ranks pass it, or none does (docs/semantics.md, device memory that peers access in place).
  /// Memory that all ranks have dropped is used for the next allocation, and freed with the
  /// communicator. Throws Error{usage} without a device path, Error{mismatch} if counts differ,
  /// Error{system} if a device has too little memory.
  template <class T>
  [[nodiscard]] DeviceAllocation<T> allocate_device(std::size_t count,
                                                    const CallOptions& options = {}) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    return {allocate_device_bytes(count * sizeof(T), options), count};
  }

  /// Collective. Blocks until every rank has entered. With CallOptions::stream it is enqueued
  /// there: later work on that stream runs when the streams of all ranks have reached their
  /// barrier.
  void barrier(const CallOptions& options = {});
  /// Non-blocking barrier(): complete when every rank has started its own.
  [[nodiscard]] Work start_barrier(const CallOptions& options = {});

  /// Type-erased form of the typed collectives, with their semantics and errors. Error{usage} for
  /// the operations none, split, finalize and messages.
  void run(const Collective& collective, const CallOptions& options = {});
  /// Type-erased form of send(), recv() and send_recv(). Returns the sender's rank; -1 for a send.
  int run(const Message& message, const CallOptions& options = {});
  /// Non-blocking run(). Calls are matched in the order in which they are started.
  [[nodiscard]] Work start(const Collective& collective, const CallOptions& options = {});
  /// Non-blocking run().
  [[nodiscard]] Work start(const Message& message, const CallOptions& options = {});
  /// Non-blocking run() of several messages, none of which waits for another: ranks may exchange
  /// data in any order. All buffers are in the same memory; on device memory the messages are one
  /// group of NCCL's. Work::source() of the whole is -1.
  [[nodiscard]] Work start(std::span<const Message> messages, const CallOptions& options = {});

  /// Waits until all work on `stream` is done, up to CallOptions::timeout. Throws the Error of
  /// calls that failed there; Error{usage} without a device path.
  void synchronize(Stream stream, const CallOptions& options = {});

  /// Collective over this communicator, as MPI_Comm_split. Makes a communicator of the ranks that
  /// pass the same `color`, ordered by `key`, then by rank; none for a rank without a color. A rank
  /// keeps its device.
  [[nodiscard]] std::optional<Communicator> split(std::optional<int> color, int key = 0,
                                                  const CallOptions& options = {});
  /// Collective, as MPI_Comm_dup. Makes a communicator of the same ranks, whose calls are matched
  /// separately.
  [[nodiscard]] Communicator duplicate(const CallOptions& options = {});
  /// Collective over `members` only, as MPI_Comm_create_group. `members` are ranks of this
  /// communicator, each once, this one among them, the same list on all; they become ranks 0, 1, …
  /// in this order.
  [[nodiscard]] Communicator create_group(std::span<const int> members,
                                          const CallOptions& options = {});

  /// After Error{peer_lost}: collective over the surviving ranks of the job, which get a new
  /// communicator without MPI, renumbered from 0 in their old order. A rank that dies meanwhile, or
  /// destroys its communicator instead, is left out too. This communicator, which must be that of
  /// the whole job, can then only be destroyed; its sub-communicators are unusable. Throws
  /// Error{timeout} if a survivor does not call it, Error{usage} if no rank was lost.
  [[nodiscard]] Communicator shrink(const CallOptions& options = {});

  /// Collective. Checks that all ranks have made the same calls and that all messages were
  /// received; otherwise throws Error{mismatch}. Afterwards the communicator can only be destroyed.
  void finalize(const CallOptions& options = {});

  /// Ends the job's communication: the current or next call of every other rank throws
  /// Error{aborted} with `reason`.
  void abort(const std::string& reason) noexcept;

 private:
  struct TUTTI_HIDDEN State;
  explicit Communicator(std::unique_ptr<State> state);
  [[nodiscard]] std::shared_ptr<void> allocate_bytes(std::size_t bytes);
  [[nodiscard]] std::shared_ptr<void> allocate_device_bytes(std::size_t bytes,
                                                            const CallOptions& options);
  Communicator make_group(std::uint32_t id, std::span<const int> members);
  std::unique_ptr<State> state_;
};

}  // namespace tutti
