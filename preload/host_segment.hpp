#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "identity.hpp"
#include "nccl_call.hpp"
#include "tutti/deadline.hpp"

namespace tutti::preload {

/// Shared memory of the ranks of one NCCL communicator that are on this host: through it they find
/// each other, agree to use the direct path, and see each other's latest calls.
///
/// A rank registers before it calls NCCL's set-up, which returns only when all ranks have called
/// it. So once it has returned, the registrations of all ranks that ever come are there, and every
/// rank of the host sees the same number: nobody waits for a rank of another host, or for one
/// without this library.
class HostSegment {
 public:
  static constexpr int max_ranks = 16;
  static constexpr std::size_t max_block_bytes = 4096;

  /// Registers this process. The segment's name also contains the version: other versions have
  /// another one. Throws Error{system}.
  explicit HostSegment(const Identity& identity);
  HostSegment(const HostSegment&) = delete;
  HostSegment& operator=(const HostSegment&) = delete;
  ~HostSegment();

  /// After NCCL's set-up has returned: all ranks that will ever register.
  [[nodiscard]] int registered() const;
  /// Removes the segment's name. The ranks that have registered keep the memory.
  void remove_name() noexcept;

  /// The ranks of the communicator, all of them registered.
  void set_ranks(int rank, int size);
  /// Collective: every rank's block to all, in order of the ranks. Throws Error{system} if a rank
  /// has refused, and Error{timeout} at the deadline; then nobody uses the direct path.
  [[nodiscard]] std::vector<std::vector<std::byte>> all_gather(const std::vector<std::byte>& own,
                                                               Deadline deadline);
  /// Collective, last: true on all ranks if all have come, false on all if not.
  [[nodiscard]] bool agree(Deadline deadline);
  /// The others wait for this rank no more: nobody uses the direct path.
  void refuse() noexcept;

  struct LatestCall {
    std::uint64_t number = 0;  ///< 0: none
    NcclCall call;             ///< kind, count and type only
  };
  void publish(const NcclCall& call) noexcept;
  /// This rank gives the communicator up in order, or its process ends so.
  void leave() noexcept;
  [[nodiscard]] bool has_left(int rank) const;
  [[nodiscard]] LatestCall latest_of(int rank) const;

 private:
  struct Memory;
  void require_not_refused() const;
  [[nodiscard]] bool has_come(int rank) const;

  std::string path_;
  Memory* memory_ = nullptr;
  int rank_ = -1;
  int size_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace tutti::preload
