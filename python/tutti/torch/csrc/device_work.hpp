#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "compatibility.hpp"
#include "device_call.hpp"
#include "work.hpp"

namespace tutti::torch_backend {

/// What torch's calls on CUDA tensors return. wait() makes the caller's current stream wait; the
/// host continues.
class DeviceWork final : public c10d::Work {
 public:
  /// `blocks_host`: wait() also blocks the host until the call is over.
  DeviceWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
             std::uint64_t sequence, std::shared_ptr<DeviceCall> call, bool blocks_host)
      : Work(rank, type, title, std::move(inputs)),
        sequence_(sequence),
        call_(std::move(call)),
        blocks_host_(blocks_host) {}
  ~DeviceWork() override { end_record(); }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  /// For the profiler.
  void end_record() {
    if (auto end = std::exchange(recordFunctionEndCallback_, nullptr)) end();
  }

  bool isCompleted() override { return call_->poll(); }
  bool isSuccess() const override { return call_->poll() && !call_->error(); }
  std::exception_ptr exception() const override { return call_->error(); }
  int sourceRank() const override {
    TORCH_CHECK(call_->source >= 0, "sourceRank() may only be called on work of a receive");
    return call_->source;
  }
  std::vector<at::Tensor> result() override { return call_->outputs; }
  void synchronize() override {
    require_ended_batch(*call_);
    call_->order();
  }
  /// With a timeout it blocks the host until the call is over, as with torch's NCCL backend.
  bool wait(std::chrono::milliseconds timeout) override {
    synchronize();
    const bool is_bounded = timeout != kNoTimeout && timeout != c10d::kUnsetTimeout;
    if ((is_bounded || blocks_host_) && !call_->place().is_captured) {
      if (!call_->wait(is_bounded ? timeout : DeviceCall::kWithoutLimit)) {
        C10_THROW_ERROR(DistBackendError, "Operation timed out!");
      }
      if (const auto error = call_->error()) std::rethrow_exception(error);
    }
    end_record();
    return true;
  }
  void abort() override {
    TORCH_CHECK(false, "tutti can't abort a single call: abort() of the process group ends all");
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    require_ended_batch(*call_);
    if (!call_->channel().is_staged() || PyGILState_Check() == 0) return call_->future();
    // It waits for the call, and torch has not released the GIL.
    const pybind11::gil_scoped_release released;
    return call_->future();
  }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  std::uint64_t sequence_;
  std::shared_ptr<DeviceCall> call_;
  bool blocks_host_;
};

}  // namespace tutti::torch_backend
