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

/// What the progress engine notes of a call.
struct CallProgress {
  MessageTransfer transfer;
  std::optional<std::chrono::steady_clock::time_point> broken_since;
  std::chrono::steady_clock::time_point next_record{};  ///< when to record the awaited peers next
  std::set<int> seen_departed;
  bool has_seen_mismatch = false;
};

/// One call in flight: its work and its progress. Not movable, because links and checker point into
/// it. A task can serve one call after another: it keeps its memory.
struct Task {
  /// The history owns the group and lives as long as the task.
  explicit Task(std::shared_ptr<control::CallHistory> calls) : history(std::move(calls)) {}
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

  /// Copies of blocks to their places, after the call.
  struct Unpacking {
    struct Block {
      std::size_t from;
      std::size_t to;
      std::size_t bytes;
    };
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<Block> blocks;
  };

  /// What the call does: a schedule, messages, or a shared-memory call.
  struct Work {
    std::shared_ptr<const algorithm::Schedule> schedule;
    Memory memory;  ///< of the schedule
    std::optional<Division> division;
    std::optional<Unpacking> unpacking;
    std::optional<Messages> messages;
    std::optional<SharedCall> shared;
    std::optional<PublishedChunks> chunks;  ///< of a schedule that exchanges data in shared memory

    [[nodiscard]] bool waits_in_shared_memory() const { return shared || chunks; }
  };

  /// Drops the earlier call. Fill `work` then, and begin().
  void reset() {
    work = {};
    progress.reset();
    finished.store(false, std::memory_order_relaxed);
    error = nullptr;
  }
  /// The history has begun `call`; nothing may fail until the engine has the task.
  void begin(const control::PastCall& call, std::chrono::nanoseconds timeout, Deadline until) {
    const auto& group = history->group();
    pending = {.group = &group, .begun = call, .timeout = timeout};
    deadline = std::move(until);
    context = {.key = {.communicator = group.id, .sequence = call.sequence},
               .signature = call.call,
               .fingerprint = call.before};
  }

  std::shared_ptr<control::CallHistory> history;
  Work work;
  PendingCall pending;
  Deadline deadline = Deadline::never();
  transport::CallContext context;  ///< of a collective

  /// Set last, by the running thread; from then on only `error` is read.
  std::atomic<bool> finished{false};
  std::exception_ptr error;

  std::optional<CallProgress> progress;  ///< from when the engine takes up the call
  std::shared_ptr<Task> self;            ///< of a non-blocking call whose handle may be dropped

  // Memory that is kept for the next call.
  std::vector<std::byte> scratch;
  std::vector<std::byte> premultiplied;  ///< contribution to a premultiplied sum
  std::vector<std::byte> packed;         ///< displaced blocks of a v-form, without gaps
  std::unique_ptr<Execution> execution;
};

}  // namespace tutti::engine
