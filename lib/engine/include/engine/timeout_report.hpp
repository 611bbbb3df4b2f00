#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/failure_detector.hpp"
#include "control/status_exchange.hpp"
#include "engine/execution.hpp"

namespace tutti::engine {

/// A call in progress, as its history has begun it.
struct PendingCall {
  const control::Group* group = nullptr;
  control::PastCall begun;
  std::chrono::nanoseconds timeout{};
};

/// With the ranks' numbers in its communicator.
[[nodiscard]] std::string describe(const PendingCall& call);

/// The state of all ranks at the deadline.
struct Answers {
  std::map<int, control::Status> statuses;  ///< of the other ranks that have answered
  std::vector<control::UnacknowledgedData> own_unacknowledged;
  std::set<int> departed;
};

/// Determines the cause of a timeout, in this order: a deadlock of ranks that wait for each other;
/// data lost between ranks that both answer; ranks that do not answer or are behind; ranks whose
/// data has not arrived (`awaited`).
[[nodiscard]] control::FailureReport diagnose_timeout(const rendezvous::Peers& peers,
                                                      const PendingCall& pending,
                                                      const std::vector<Awaited>& awaited,
                                                      const Answers& answers);

/// Queries all ranks, then diagnoses.
[[nodiscard]] control::FailureReport make_timeout_report(const control::FailureDetector& detector,
                                                         control::StatusExchange& statuses,
                                                         const PendingCall& pending,
                                                         const std::vector<Awaited>& awaited);

}  // namespace tutti::engine
