#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "compatibility.hpp"
#include "completer.hpp"

namespace tutti::torch_backend {

/// For the work of one call in a batch.
template <class AnyCall>
void require_ended_batch(const AnyCall& call) {
  TORCH_CHECK(
      !call.is_open,
      "this call is part of a batch that has not ended: wait for the batch, or begin another "
      "if an exception has ended it");
}

/// What torch's calls return.
class TuttiWork final : public c10d::Work {
 public:
  TuttiWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
            std::uint64_t sequence, std::shared_ptr<Call> call,
            std::shared_ptr<Completer> completer)
      : Work(rank, type, title, std::move(inputs)),
        sequence_(sequence),
        call_(std::move(call)),
        completer_(std::move(completer)) {}
  ~TuttiWork() override {
    if (!call_->is_open && !call_->is_done()) completer_->add(call_);
    end_record();
  }
  TuttiWork(const TuttiWork&) = delete;
  TuttiWork& operator=(const TuttiWork&) = delete;

  /// For a call that has ended.
  void complete() {
    call_->complete();
    end_record();
  }
  /// For the profiler.
  void end_record() {
    if (auto end = std::exchange(recordFunctionEndCallback_, nullptr)) end();
  }

  bool isCompleted() override { return call_->wait(std::chrono::nanoseconds(0)); }
  bool isSuccess() const override { return call_->is_done() && !call_->error(); }
  std::exception_ptr exception() const override { return call_->error(); }
  int sourceRank() const override {
    TORCH_CHECK(call_->source >= 0,
                "sourceRank() may only be called on work of a receive, after it is complete");
    return call_->source;
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
    require_ended_batch(*call_);
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
    require_ended_batch(*call_);
    bool is_new = false;
    auto result = call_->future(is_new);
    if (is_new) completer_->add(call_);
    return result;
  }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  std::uint64_t sequence_;
  std::shared_ptr<Call> call_;
  std::shared_ptr<Completer> completer_;
};

}  // namespace tutti::torch_backend
