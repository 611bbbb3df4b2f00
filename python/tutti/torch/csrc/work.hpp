#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/communicator.hpp"

/// Calls in flight, and who completes them.
namespace tutti::torch_backend {

using Milliseconds = std::chrono::milliseconds;

/// A collective or a message, with options of its own.
struct Request {
  std::variant<Collective, Message> call;
  CallOptions options;
};

/// The communicator of a process group, used by any thread. Starts of calls exclude each other; a
/// thread that waits for a call excludes nobody.
class Channel {
 public:
  Channel(Communicator communicator, std::string name, std::vector<int> global_ranks)
      : communicator_(std::move(communicator)),
        name_(std::move(name)),
        global_ranks_(std::move(global_ranks)) {}

  /// Blocks.
  void run(const Request& request) {
    guarded([&](Communicator& communicator) {
      std::visit([&](const auto& call) { communicator.run(call, request.options); }, request.call);
    });
  }
  Work start(const Request& request) {
    return guarded([&](Communicator& communicator) {
      return std::visit([&](const auto& call) { return communicator.start(call, request.options); },
                        request.call);
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

  /// Of the latest error, in the numbering of the default process group.
  std::vector<int> failed_ranks() {
    const std::scoped_lock lock(error_mutex_);
    return failed_ranks_;
  }
  bool has_failed() {
    const std::scoped_lock lock(error_mutex_);
    return has_failed_;
  }

  /// As torch's exception.
  [[noreturn]] void rethrow(const Error& error) {
    if (error.code() == ErrorCode::usage) C10_THROW_ERROR(ValueError, describe(error));
    {
      const std::scoped_lock lock(error_mutex_);
      has_failed_ = true;
      failed_ranks_.clear();
      for (const int rank : error.failed_ranks()) failed_ranks_.push_back(global_rank(rank));
    }
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
  std::mutex error_mutex_;
  bool has_failed_ = false;
  std::vector<int> failed_ranks_;
};

/// One call of torch's interface: one or several of tutti's, and what is to be done after them.
/// Keeps the tensors until then.
class Call {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  explicit Call(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // Before the call is shared with another thread.
  std::vector<Work> works;
  std::vector<at::Tensor> outputs;                ///< the future's value
  std::vector<at::Tensor> kept;                   ///< what the calls read and write
  std::vector<std::function<void()>> last_steps;  ///< such as copies to the user's tensors

  /// Runs the last steps; for a call that has blocked, or failed.
  void complete(std::exception_ptr error = nullptr) {
    Future future;
    {
      std::unique_lock lock(mutex_);
      finish(lock, std::move(error));
      future = future_;
    }
    mark(future);
  }

  /// True when the call is complete, successful or not; waits up to `limit`.
  bool wait(std::chrono::nanoseconds limit) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    while (!is_done_) {
      const auto left = limit - (Clock::now() - begin);
      if (is_waited_for_) {
        if (left.count() <= 0) return false;
        changed_.wait_for(lock, left, [&] { return is_done_ || !is_waited_for_; });
        continue;
      }
      is_waited_for_ = true;
      lock.unlock();
      bool has_ended = true;
      std::exception_ptr error;
      try {
        // In slices, so that the process group can be closed meanwhile.
        has_ended = channel_->wait(works, std::clamp<std::chrono::nanoseconds>(
                                              left, std::chrono::nanoseconds(0), Milliseconds(50)));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      is_waited_for_ = false;
      if (!has_ended) {
        changed_.notify_all();
        if (Clock::now() - begin >= limit) return false;
        continue;
      }
      finish(lock, std::move(error));
      const auto future = future_;
      lock.unlock();
      mark(future);
      return true;
    }
    return true;
  }

  [[nodiscard]] bool is_done() {
    const std::scoped_lock lock(mutex_);
    return is_done_;
  }
  [[nodiscard]] std::exception_ptr error() {
    const std::scoped_lock lock(mutex_);
    return error_;
  }
  /// Complete when the call is. `is_new` says that somebody has to see to that.
  Future future(bool& is_new) {
    Future result;
    bool is_done = false;
    {
      const std::scoped_lock lock(mutex_);
      is_new = !future_ && !is_done_;
      is_done = is_done_ && !future_;
      if (!future_) {
        future_ =
            c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      }
      result = future_;
    }
    if (is_done) mark(result);
    return result;
  }

 private:
  /// The last steps need the GIL of no Python object: tensors only.
  void finish(std::unique_lock<std::mutex>&, std::exception_ptr error) {
    if (!error) {
      try {
        for (const auto& step : last_steps) step();
      } catch (...) {
        error = std::current_exception();
      }
    }
    error_ = std::move(error);
    last_steps.clear();
    kept.clear();
    works.clear();
    is_done_ = true;
    changed_.notify_all();
  }
  /// Without locks: callbacks run here.
  void mark(const Future& future) {
    if (!future || future->completed()) return;
    if (error_) {
      future->setErrorIfNeeded(error_);
    } else {
      future->markCompleted(c10::IValue(outputs));
    }
  }

  std::shared_ptr<Channel> channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  bool is_waited_for_ = false;
  std::exception_ptr error_;
  Future future_;
};

/// A thread that completes calls for which nobody waits: those with a future, and those whose Work
/// the program has dropped. Begins with the first of them.
class Completer : public std::enable_shared_from_this<Completer> {
 public:
  Completer() = default;
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  ~Completer() = default;  // the thread keeps it until stop()

  void add(std::shared_ptr<Call> call) {
    const std::scoped_lock lock(mutex_);
    incoming_.push_back(std::move(call));
    if (stopped_) return;
    if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->run(); });
    changed_.notify_all();
  }
  /// Afterwards only complete_rest() completes calls.
  void stop() {
    std::thread ending;
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
      ending = std::move(thread_);
    }
    if (!ending.joinable()) return;
    // A future's callback on this thread may have dropped the last reference to the process group.
    if (ending.get_id() == std::this_thread::get_id()) {
      ending.detach();
    } else {
      ending.join();
    }
  }
  /// In a forked child, which does not have the thread.
  void abandon() {
    if (thread_.joinable()) thread_.detach();
  }
  /// Of the communicator that is closed: the calls have ended.
  void complete_rest() {
    std::vector<std::shared_ptr<Call>> rest;
    {
      const std::scoped_lock lock(mutex_);
      rest.swap(incoming_);
    }
    for (const auto& call : rest) call->wait(Milliseconds(100));
  }

 private:
  void run() {
    std::vector<std::shared_ptr<Call>> calls;
    auto progressed = std::chrono::steady_clock::now();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (calls.empty()) changed_.wait(lock, [&] { return stopped_ || !incoming_.empty(); });
        if (stopped_) {
          incoming_.insert(incoming_.begin(), calls.begin(), calls.end());
          return;
        }
        if (!incoming_.empty()) progressed = std::chrono::steady_clock::now();
        calls.insert(calls.end(), incoming_.begin(), incoming_.end());
        incoming_.clear();
      }
      // Who waits for one call advances all of them, but sees only its own end.
      const auto before = calls.size();
      std::erase_if(calls,
                    [](const auto& call) { return call->wait(std::chrono::nanoseconds(0)); });
      if (calls.size() != before) progressed = std::chrono::steady_clock::now();
      if (calls.empty()) continue;
      const std::chrono::nanoseconds idle = std::chrono::steady_clock::now() - progressed;
      calls.front()->wait(std::clamp<std::chrono::nanoseconds>(
          idle / 8, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Call>> incoming_;
  bool stopped_ = false;
  std::thread thread_;
};

/// What torch's calls return.
class TuttiWork final : public c10d::Work {
 public:
  TuttiWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
            std::uint64_t sequence, int source, std::shared_ptr<Call> call,
            std::shared_ptr<Completer> completer)
      : Work(rank, type, title, std::move(inputs)),
        sequence_(sequence),
        source_(source),
        call_(std::move(call)),
        completer_(std::move(completer)) {}
  ~TuttiWork() override {
    if (!call_->is_done()) completer_->add(call_);
    end_record();
  }
  TuttiWork(const TuttiWork&) = delete;
  TuttiWork& operator=(const TuttiWork&) = delete;

  /// For the profiler.
  void end_record() {
    if (auto end = std::exchange(recordFunctionEndCallback_, nullptr)) end();
  }

  bool isCompleted() override { return call_->wait(std::chrono::nanoseconds(0)); }
  bool isSuccess() const override { return call_->is_done() && !call_->error(); }
  std::exception_ptr exception() const override { return call_->error(); }
  int sourceRank() const override {
    TORCH_CHECK(source_ >= 0, "sourceRank() may only be called on work of a receive");
    return source_;
  }
  std::vector<at::Tensor> result() override {
    TORCH_CHECK(
        isCompleted(),
        "Work needs to be completed before calling result(). Should call wait() before result().");
    return call_->outputs;
  }
  void synchronize() override { wait(kNoTimeout); }
  /// Advances the call in the caller's thread. The call itself ends at its own timeout.
  bool wait(std::chrono::milliseconds timeout) override {
    const bool is_bounded = timeout != kNoTimeout && timeout != c10d::kUnsetTimeout;
    if (is_bounded) {
      if (!call_->wait(timeout)) C10_THROW_ERROR(DistBackendError, "Operation timed out!");
    } else {
      while (!call_->wait(std::chrono::hours(1))) {
      }
    }
    end_record();
    if (const auto error = call_->error()) std::rethrow_exception(error);
    return true;
  }
  void abort() override {
    TORCH_CHECK(false, "tutti can't abort a single call: abort() of the process group ends all");
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    bool is_new = false;
    auto result = call_->future(is_new);
    if (is_new) completer_->add(call_);
    return result;
  }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  std::uint64_t sequence_;
  int source_;
  std::shared_ptr<Call> call_;
  std::shared_ptr<Completer> completer_;
};

}  // namespace tutti::torch_backend
