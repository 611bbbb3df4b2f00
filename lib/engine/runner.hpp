#pragma once

#include <set>

#include "control/plane.hpp"
#include "engine/execution.hpp"
#include "transport/links.hpp"
#include "tutti/deadline.hpp"

namespace tutti::engine {

/// Drives an execution in the caller's thread until it is done, the job has failed, or its time is
/// over.
class Runner {
 public:
  Runner(control::Plane& plane, transport::Links& links) : plane_(plane), links_(links) {}

  /// Throws Error; `call` describes the call in it, `timeout` is what the deadline was made of.
  void run(Execution& execution, const CallSignature& call, Deadline deadline,
           std::chrono::nanoseconds timeout);

 private:
  void check_peers(const Execution& execution, const CallSignature& call);
  [[noreturn]] void fail(const control::Finding& finding, const CallSignature& call,
                         std::chrono::milliseconds limit);
  [[noreturn]] void time_out(const Execution& execution, const CallSignature& call,
                             std::chrono::nanoseconds timeout);

  control::Plane& plane_;
  transport::Links& links_;
  std::chrono::steady_clock::time_point broken_since_{};
  bool saw_broken_ = false;
  std::set<int> seen_departed_;
};

}  // namespace tutti::engine
