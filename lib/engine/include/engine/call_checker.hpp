#pragma once

#include <vector>

#include "control/plane.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// Compares the calls that peers' frames name with this rank's own calls, and reports mismatches.
class CallChecker final : public transport::CallInspector {
 public:
  explicit CallChecker(control::Plane& plane) : plane_(plane) {}

  bool on_peer_call(int peer, const transport::CallContext& theirs) override;

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

  control::Plane& plane_;
  std::vector<Message> messages_;
};

}  // namespace tutti::engine
