#pragma once

#include <vector>

#include "control/call_histories.hpp"
#include "control/failure_detector.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// Compares the calls that peers' frames name with this rank's own calls, and reports mismatches.
class CallChecker final : public transport::CallInspector {
 public:
  /// The references must outlive it.
  CallChecker(control::FailureDetector& detector, const control::CallHistories& histories)
      : detector_(detector), histories_(histories) {}

  bool on_peer_call(int peer, const transport::CallContext& theirs) override;
  /// A call of `peer`, a rank of the job, differs from this rank's: the control threads find out
  /// which, and report it.
  void compare_with(int peer, std::uint32_t communicator) {
    histories_.send_latest_to(peer, communicator);
  }

  /// Registers a send or receive in progress until remove_message(own). `peer` is a rank of the
  /// job; `own` must outlive the registration.
  void add_message(int peer, const transport::CallContext& own) {
    messages_.push_back({peer, &own});
  }
  void remove_message(const transport::CallContext& own);

 private:
  struct Message {
    int peer = -1;
    const transport::CallContext* own = nullptr;
  };

  bool check_collective(int peer, const transport::CallContext& theirs);
  bool check_message(int peer, const transport::CallContext& theirs);

  control::FailureDetector& detector_;
  const control::CallHistories& histories_;
  std::vector<Message> messages_;
};

}  // namespace tutti::engine
