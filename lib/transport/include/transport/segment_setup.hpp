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

/// How the ranks of one host come to share memory. The first of them makes the segment and hands it
/// to the others by descriptor, over a socket whose name only members of the job can know, to those
/// who prove that they are members. It also decides, so that all ranks of a host share memory or
/// none does.
class SegmentSetup {
 public:
  /// What comes of it: no segment where this rank is alone on its host.
  struct Outcome {
    std::shared_ptr<SharedSegment> segment;
    std::string trouble;  ///< why not; on the deciding rank only
  };
  /// True where there is no more use in waiting.
  using Cancelled = std::function<bool()>;

  /// Opens the socket. In epoch 0 all ranks of the host must have come past here before any calls
  /// finish(). Later, after a loss, they come when they come. finish() waits for them for most of
  /// its deadline. `refuses`: this rank is to do without, on purpose.
  SegmentSetup(const rendezvous::Peers& peers, NoteKey key, bool refuses);
  SegmentSetup(const SegmentSetup&) = delete;
  SegmentSetup& operator=(const SegmentSetup&) = delete;

  /// Collective over this host's ranks. Throws Error{timeout} where the first of them does not
  /// answer.
  [[nodiscard]] Outcome finish(const rendezvous::Peers& peers, Deadline deadline,
                               const Cancelled& cancelled);

 private:
  [[nodiscard]] bool leads() const { return self_ == local_.front(); }
  [[nodiscard]] bool is_after_loss() const { return key_.epoch > 0; }
  Outcome lead(const rendezvous::Peers& peers, Deadline limit, const Cancelled& cancelled);
  Outcome follow(const rendezvous::Peers& peers, Deadline deadline, const Cancelled& cancelled);
  std::string gather(const rendezvous::Peers& peers, Deadline limit, const Cancelled& cancelled);
  void wait_for_any(const std::list<Descriptor>& silent) const;
  [[nodiscard]] std::shared_ptr<SharedSegment> map(Descriptor file) const;

  Descriptor reach_leader(Deadline limit, const Cancelled& cancelled) const;

  NoteKey key_;
  bool refuses_;
  int self_;
  std::vector<int> local_;
  std::string trouble_;
  Descriptor socket_;
  std::vector<Descriptor> followers_;  ///< in the order of local_, without the first
};

}  // namespace tutti::transport
