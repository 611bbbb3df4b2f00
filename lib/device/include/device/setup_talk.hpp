#pragma once

#include <string>

#include "communicator/backend.hpp"
#include "control/group.hpp"
#include "control/plane.hpp"
#include "tutti/deadline.hpp"
#include "tutti/error.hpp"

namespace tutti::device {

/// A step of set-up that did not work on some rank, thrown on all ranks alike. The job is sound:
/// another path can be taken.
class AgreedFailure : public Error {
 public:
  using Error::Error;
};

/// How the ranks of a group tell each other, over the host path, how set-up goes. All calls are
/// collective.
class SetupTalk {
 public:
  SetupTalk(control::Plane& plane, const control::Group& group, Backend& host, Deadline deadline)
      : plane_(plane), group_(group), host_(host), deadline_(deadline) {}

  [[nodiscard]] Deadline deadline() const { return deadline_; }
  /// Returns when every rank has come, and true if none is still at work. Throws AgreedFailure with
  /// the reason of the lowest rank that passes one.
  [[nodiscard]] bool all_done(bool own_done, const std::string& own_failure);
  /// Rank 0's bytes to all.
  void broadcast(void* bytes, std::size_t count);
  /// What all ranks throw alike where they know of a rank's failure already.
  [[nodiscard]] AgreedFailure failure_of(int failed_rank, const std::string& reason) const;

 private:
  [[noreturn]] void fail(int failed_rank, const std::string& own_failure);
  [[nodiscard]] CallSettings settings() const;

  control::Plane& plane_;
  const control::Group& group_;
  Backend& host_;
  Deadline deadline_;
};

}  // namespace tutti::device
