#pragma once

#include <functional>
#include <string>

#include "communicator/backend.hpp"
#include "control/group.hpp"
#include "rendezvous/peers.hpp"
#include "tutti/deadline.hpp"
#include "tutti/error.hpp"

namespace tutti::device {

/// A step of set-up that failed on some rank; thrown on all ranks alike. The job can continue with
/// another backend.
class AgreedFailure : public Error {
 public:
  explicit AgreedFailure(const Error& error) : Error(error) {}
};

/// Exchanges the state of set-up between the ranks of a group, over the host path. All calls are
/// collective.
class SetupExchange {
 public:
  SetupExchange(const rendezvous::Peers& peers, const control::Group& group, Backend& host,
                Deadline deadline)
      : peers_(peers), group_(group), host_(host), deadline_(deadline) {}

  [[nodiscard]] Deadline deadline() const { return deadline_; }
  /// Synchronizes the ranks. Returns true if none is still working. Throws AgreedFailure with the
  /// reason of the lowest rank that passes one.
  [[nodiscard]] bool all_done(bool own_done, const std::string& own_failure);
  /// Runs a step that all ranks take. Throws AgreedFailure if it has failed on one.
  void step(const std::function<void()>& action);
  /// Broadcasts rank 0's bytes.
  void broadcast(void* bytes, std::size_t count);
  /// Every rank's block of `block_bytes` to all; `blocks` holds this rank's at its place.
  void all_gather(void* blocks, std::size_t block_bytes);
  /// The exception that all ranks throw for a failure of a rank that all know of.
  [[nodiscard]] AgreedFailure failure_of(int failed_rank, const std::string& reason) const;

 private:
  [[noreturn]] void fail(int failed_rank, const std::string& own_failure);
  [[nodiscard]] CallSettings settings() const;

  const rendezvous::Peers& peers_;
  const control::Group& group_;
  Backend& host_;
  Deadline deadline_;
};

}  // namespace tutti::device
