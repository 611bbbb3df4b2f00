#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "algorithm/schedule.hpp"
#include "control/call_history.hpp"
#include "engine/exchange.hpp"
#include "engine/execution.hpp"
#include "engine/shared_call.hpp"
#include "engine/timeout_report.hpp"
#include "transport/request.hpp"
#include "tutti/deadline.hpp"

namespace tutti::engine {

/// One call in flight: what to do, and how far it has come. It stays where it is, since links and
/// checker point into it.
struct Task {
  /// The history has the group, and lives as long as this.
  explicit Task(std::shared_ptr<control::CallHistory> calls)
      : late{.group = &calls->group()}, history(std::move(calls)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// An average's division, which follows the sum. Where `weighs`, the buffer holds a contribution
  /// that is weighed there before.
  struct Division {
    std::byte* buffer = nullptr;
    std::size_t count = 0;
    Type type = Type::u8;
    int ranks = 1;
    bool weighs = false;
  };

  LateCall late;
  Deadline deadline = Deadline::never();
  std::shared_ptr<control::CallHistory> history;
  algorithm::Schedule schedule;
  Memory memory;
  std::vector<std::byte> scratch;    ///< empty where `memory` has the scratch of somebody else
  transport::CallContext call;       ///< of a collective
  std::optional<Messages> messages;  ///< then there is no `call`, schedule or execution
  std::uint64_t ticket = 0;          ///< of the call in `history`
  std::optional<Division> division;
  /// A call through shared memory has no schedule and no streams.
  SharedCall* shared = nullptr;
  std::optional<SharedCall> own_shared;  ///< of a call that was started; `shared` points to it

  /// Set last, by the thread that drives; then nothing but `error` is looked at.
  std::atomic<bool> finished{false};
  std::exception_ptr error;

  // The progress_engine's.
  std::optional<Execution> execution;
  std::optional<Exchange> exchange;  ///< of a message, which has no execution
  std::optional<std::chrono::steady_clock::time_point> broken_since;
  std::chrono::steady_clock::time_point next_note{};  ///< of whom it waits for
  std::set<int> seen_departed;
  bool has_seen_mismatch = false;
  std::shared_ptr<Task> self;  ///< of a call that was started and may be dropped
};

}  // namespace tutti::engine
