#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "base/call_signature.hpp"
#include "base/wait_policy.hpp"
#include "communicator/backend.hpp"
#include "control/failure_detector.hpp"
#include "control/group.hpp"
#include "engine/shared_call.hpp"
#include "transport/shared_segment.hpp"

namespace tutti {

/// How the calls of a communicator go whose ranks share memory. A call that blocks goes by itself,
/// without the progress engine, as long as its ranks come at about the same time.
class SharedPath {
 public:
  /// As the algorithm of a call.
  static constexpr std::string_view name = "shared";

  SharedPath(const control::FailureDetector& detector,
             std::shared_ptr<transport::SharedSegment> segment, std::size_t channel,
             const control::Group& group, WaitPolicy waits);

  /// What calls with the same arguments have in common.
  struct Prepared {
    CheckedCollective call;
    CallSignature signature;
    engine::SharedArguments arguments;
    engine::SharedCall::Plan plan;
    /// In all that arguments and plan are made of: `in_place` shows in the buffers, and v-forms are
    /// not shared.
    [[nodiscard]] bool fits(const CheckedCollective& other) const;
  };
  /// Valid until the next call: most programs repeat theirs, so the latest of each operation is
  /// remembered. Throws as require_reducible().
  [[nodiscard]] Prepared& prepare(const CheckedCollective& call) {
    auto& latest = latest_[static_cast<std::size_t>(call.operation)];
    if (!latest.fits(call)) latest = prepare_anew(call);
    return latest;
  }
  [[nodiscard]] engine::SharedCall begin(Prepared& prepared, std::uint64_t fingerprint);
  /// True when the call is done. False where it must wait for long, or where an earlier one is not
  /// done: then the progress engine has to take it.
  [[nodiscard]] bool run(engine::SharedCall& call) const;

  /// After a failure: see transport::SingleCopy::revoke().
  void abandon_memory() { channel_.segment().single_copy().revoke(); }

 private:
  [[nodiscard]] Prepared prepare_anew(const CheckedCollective& call) const;

  const control::FailureDetector& detector_;
  transport::CollectiveChannel channel_;
  engine::CopyChoices copies_;
  WaitPolicy waits_;
  std::array<Prepared, operation_count> latest_{};  ///< by operation
};

}  // namespace tutti
