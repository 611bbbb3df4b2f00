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

  /// A send or receive in progress; `peer` counts ranks of the job. It must outlive its stay.
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

  control::Plane& plane_;
  std::vector<Message> messages_;
};

}  // namespace tutti::engine
