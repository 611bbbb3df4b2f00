#pragma once

#include <vector>

#include "control/plane.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// Holds what peers' frames say of their calls against this rank's own, and reports what does not
/// fit.
class CallChecker final : public transport::CallInspector {
 public:
  explicit CallChecker(control::Plane& plane) : plane_(plane) {}

  bool on_peer_call(int peer, const transport::CallContext& theirs) override;

  /// The sends and receives in progress; they must outlive the call.
  void set_messages(std::vector<const transport::CallContext*> messages) {
    messages_ = std::move(messages);
  }

 private:
  bool check_collective(int peer, const transport::CallContext& theirs);
  bool check_message(int peer, const transport::CallContext& theirs);

  control::Plane& plane_;
  std::vector<const transport::CallContext*> messages_;
};

}  // namespace tutti::engine
