#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::torch_backend {

using Milliseconds = std::chrono::milliseconds;

/// A collective or a message, with options of its own.
struct Request {
  std::variant<Collective, Message> call;
  CallOptions options;
};

/// The latest error of a process group, whichever of its communicators has met it.
class Failures {
 public:
  /// `ranks`: those that the error names, in the numbering of the default process group.
  void note(std::vector<int> ranks) {
    const std::scoped_lock lock(mutex_);
    has_failed_ = true;
    ranks_ = std::move(ranks);
  }
  [[nodiscard]] bool has_failed() const {
    const std::scoped_lock lock(mutex_);
    return has_failed_;
  }
  [[nodiscard]] std::vector<int> ranks() const {
    const std::scoped_lock lock(mutex_);
    return ranks_;
  }

 private:
  mutable std::mutex mutex_;
  bool has_failed_ = false;
  std::vector<int> ranks_;
};

/// A communicator of a process group, used by any thread. Starts of calls exclude each other; a
/// thread that waits for a call excludes nobody.
class Channel {
 public:
  Channel(Communicator communicator, std::string name, std::vector<int> global_ranks,
          std::shared_ptr<Failures> failures)
      : communicator_(std::move(communicator)),
        name_(std::move(name)),
        global_ranks_(std::move(global_ranks)),
        failures_(std::move(failures)) {}

  /// Blocks. Returns the sender's rank of a recv, else -1.
  int run(const Request& request) {
    return guarded([&](Communicator& communicator) {
      if (const auto* message = std::get_if<Message>(&request.call)) {
        return communicator.run(*message, request.options);
      }
      communicator.run(std::get<Collective>(request.call), request.options);
      return -1;
    });
  }
  Work start(const Request& request) {
    return guarded([&](Communicator& communicator) {
      return std::visit([&](const auto& call) { return communicator.start(call, request.options); },
                        request.call);
    });
  }
  /// Several messages at once; none waits for another.
  Work start(const std::vector<Request>& messages) {
    std::vector<Message> together;
    for (const auto& message : messages) together.push_back(std::get<Message>(message.call));
    return guarded([&](Communicator& communicator) {
      return communicator.start(std::span<const Message>(together), messages.front().options);
    });
  }
  /// True if all of `works` are complete; waits up to `limit` for the first that is not. Throws.
  bool wait(std::vector<Work>& works, std::chrono::nanoseconds limit) {
    if (is_closing_) std::this_thread::sleep_for(Milliseconds(1));  // close() goes first
    const std::shared_lock guard(lifetime_);
    for (auto& work : works) {
      try {
        if (!work.wait_for(limit)) return false;
      } catch (const Error& error) {
        rethrow(error);
      }
    }
    return true;
  }
  // For calls on CUDA tensors, whose Work only the thread that starts calls may use.

  /// Throws DistBackendError with the reason if there is none. The same on all ranks.
  void require_device_path(const std::string& what) {
    guarded([&](Communicator& communicator) {
      if (communicator.has_device_path()) return;
      C10_THROW_ERROR(DistBackendError, what +
                                            " can't be made: " + communicator.device_path_reason() +
                                            ": use CPU tensors, or give each rank a GPU");
    });
  }
  [[nodiscard]] bool is_staged() {
    return guarded([](Communicator& communicator) { return communicator.is_device_path_staged(); });
  }
  /// As wait() without waiting.
  bool poll(std::vector<Work>& works) {
    const std::scoped_lock lock(starting_);
    try {
      return std::all_of(works.begin(), works.end(), [](Work& work) { return work.test(); });
    } catch (const Error& error) {
      rethrow(error);
    }
  }
  /// The CUDA stream `stream` continues after the last of `works`; all are on one stream.
  void order(std::vector<Work>& works, void* stream) {
    const std::scoped_lock lock(starting_);
    try {
      if (!works.empty()) works.back().wait(Stream(stream));
    } catch (const Error& error) {
      rethrow(error);
    }
  }
  void discard(std::vector<Work>& works) {
    const std::scoped_lock lock(starting_);
    works.clear();
  }

  /// Every other rank's call throws.
  void abort(const std::string& reason) {
    const std::shared_lock guard(lifetime_);
    if (communicator_) communicator_->abort(reason);
  }
  /// Says goodbye to the other ranks. Calls in flight end, within a second.
  void close() {
    is_closing_ = true;
    const std::scoped_lock starting(starting_);
    const std::unique_lock guard(lifetime_);
    communicator_.reset();
    is_closing_ = false;
  }

  /// As torch's exception.
  [[noreturn]] void rethrow(const Error& error) {
    if (error.code() == ErrorCode::usage) C10_THROW_ERROR(ValueError, describe(error));
    std::vector<int> ranks;
    for (const int rank : error.failed_ranks()) ranks.push_back(global_rank(rank));
    failures_->note(std::move(ranks));
    C10_THROW_ERROR(DistBackendError, describe(error));
  }

 private:
  template <class Function>
  auto guarded(Function function) -> decltype(function(std::declval<Communicator&>())) {
    const std::scoped_lock lock(starting_);
    if (!communicator_) {
      C10_THROW_ERROR(DistBackendError, "process group " + name_ +
                                            " of tutti is closed: make no call after "
                                            "destroy_process_group(), shutdown() or abort()");
    }
    try {
      return function(*communicator_);
    } catch (const Error& error) {
      rethrow(error);
    }
  }

  [[nodiscard]] int global_rank(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return index < global_ranks_.size() ? global_ranks_[index] : rank;
  }

  /// tutti's sentence, and where it was thrown. It numbers the ranks of the group, which need not
  /// be those that the user knows.
  [[nodiscard]] std::string describe(const Error& error) const {
    std::string text = error.sentence() + " [tutti " + tutti::name(error.code());
    if (!error.operation().empty()) {
      text += " in " + error.operation() + ", call " + std::to_string(error.sequence());
    }
    if (error.rank() >= 0) {
      text += ", thrown on rank " + std::to_string(error.rank()) + " at " + error.host();
    }
    text += ", process group " + name_;
    for (const int rank : error.failed_ranks()) {
      if (global_rank(rank) == rank) continue;
      text += ", its rank " + std::to_string(rank) + " is global rank " +
              std::to_string(global_rank(rank));
    }
    return text + "]";
  }

  std::mutex starting_;
  std::shared_mutex lifetime_;
  std::atomic<bool> is_closing_ = false;
  std::optional<Communicator> communicator_;
  std::string name_;
  std::vector<int> global_ranks_;
  std::shared_ptr<Failures> failures_;
};

}  // namespace tutti::torch_backend
