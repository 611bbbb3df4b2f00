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
#include "engine/execution.hpp"
#include "engine/message_transfer.hpp"
#include "engine/shared_call.hpp"
#include "engine/timeout_report.hpp"
#include "transport/request.hpp"
#include "tutti/deadline.hpp"

namespace tutti::engine {

/// One call in flight: its work and its progress. Not movable, because links and checker point into
/// it.
struct Task {
  /// The history owns the group and lives as long as the task.
  explicit Task(std::shared_ptr<control::CallHistory> calls)
      : pending{.group = &calls->group()}, history(std::move(calls)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// The division of an average, after the sum. If `weighs`, the contribution in the buffer is
  /// scaled in place before.
  struct Division {
    std::byte* buffer = nullptr;
    std::size_t count = 0;
    Type type = Type::u8;
    int ranks = 1;
    bool weighs = false;
  };

  PendingCall pending;
  Deadline deadline = Deadline::never();
  std::shared_ptr<control::CallHistory> history;
  algorithm::Schedule schedule;
  Memory memory;
  std::vector<std::byte> scratch;    ///< empty if `memory` uses other scratch memory
  transport::CallContext call;       ///< of a collective
  std::optional<Messages> messages;  ///< if set, `call`, `schedule` and `execution` are unused
  std::uint64_t ticket = 0;          ///< of the call in `history`
  std::optional<Division> division;
  /// A shared-memory call has no schedule and no streams.
  SharedCall* shared = nullptr;
  std::optional<SharedCall> own_shared;  ///< of a non-blocking call; `shared` points to it

  /// Set last, by the running thread; from then on only `error` is read.
  std::atomic<bool> finished{false};
  std::exception_ptr error;

  // Used by the progress engine only.
  std::optional<Execution> execution;
  std::optional<MessageTransfer> exchange;  ///< of a message, which has no execution
  std::optional<std::chrono::steady_clock::time_point> broken_since;
  std::chrono::steady_clock::time_point next_record{};  ///< when to record the awaited peers next
  std::set<int> seen_departed;
  bool has_seen_mismatch = false;
  std::shared_ptr<Task> self;  ///< of a non-blocking call whose handle may be dropped
};

}  // namespace tutti::engine
