#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/peers.hpp"
#include "transport/descriptor_passing.hpp"
#include "transport/shared_segment.hpp"
#include "tutti/deadline.hpp"

namespace tutti::transport {

/// Sets up the shared segment of a host's ranks. The leader (the first rank of the host) creates
/// the segment and passes its descriptor over a socket whose name is derived from the job's secret,
/// to ranks that prove membership. The leader decides, so that all ranks of a host share memory or
/// none does.
class SegmentSetup {
 public:
  /// `segment` is null for a rank that is alone on its host.
  struct Outcome {
    std::shared_ptr<SharedSegment> segment;
    std::string failure;  ///< why there is none; on the leader only
  };
  /// Returns true to stop waiting.
  using Cancelled = std::function<bool()>;

  /// Opens the socket. In epoch 0 all ranks of the host must have constructed theirs before any
  /// calls finish(). After a loss they may arrive at any time; finish() waits for them for most of
  /// its deadline. `refuses`: injected fault, this rank refuses shared memory.
  SegmentSetup(const rendezvous::Peers& peers, NoteKey key, SingleCopyUse single_copy,
               bool refuses = false);
  SegmentSetup(const SegmentSetup&) = delete;
  SegmentSetup& operator=(const SegmentSetup&) = delete;

  /// Collective over this host's ranks. Throws Error{timeout} if the leader does not answer.
  [[nodiscard]] Outcome finish(const rendezvous::Peers& peers, Deadline deadline,
                               const Cancelled& cancelled);

 private:
  [[nodiscard]] bool is_leader() const { return self_ == local_.front(); }
  [[nodiscard]] bool is_after_loss() const { return key_.epoch > 0; }
  Outcome lead(const rendezvous::Peers& peers, Deadline limit, const Cancelled& cancelled);
  Outcome follow(const rendezvous::Peers& peers, Deadline deadline, const Cancelled& cancelled);
  std::string gather(const rendezvous::Peers& peers, Deadline limit, const Cancelled& cancelled);
  void wait_for_any(const std::list<Descriptor>& unauthenticated) const;
  [[nodiscard]] std::shared_ptr<SharedSegment> map(Descriptor file) const;

  Descriptor reach_leader(Deadline limit, const Cancelled& cancelled) const;

  NoteKey key_;
  SingleCopyUse single_copy_;
  bool refuses_;
  int self_;
  std::vector<int> local_;
  std::string failure_;
  Descriptor socket_;
  std::vector<Descriptor> followers_;  ///< in the order of local_, without the leader
};

}  // namespace tutti::transport
