#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "staged_backend.hpp"

namespace tutti::device {

/// How long a failed call waits for copies in flight before it leaks their memory. A copy takes
/// milliseconds, but half a second of each stop of the process counts (RunningClock).
inline constexpr std::chrono::seconds leave_limit{2};

/// A non-blocking call: page-locked memory for all its chunks, and its progress. Its chunks are
/// those of the blocking call, since other ranks may have made that.
struct StagedBackend::Call {
  PinnedMemory send;
  PinnedMemory recv;
  std::size_t send_stride = 0;  ///< bytes between the areas of successive chunks
  std::size_t recv_stride = 0;
  std::vector<std::unique_ptr<Pending>> chunks;
  std::size_t chunks_done = 0;
  void* output = nullptr;            ///< in device memory
  std::vector<StagedPiece> results;  ///< pieces of `recv` to copy there
  CudaStream stream = nullptr;
  Deadline deadline = Deadline::never();
  std::chrono::nanoseconds timeout{};
  bool done = false;
  std::exception_ptr error;

  [[nodiscard]] std::byte* send_area(std::size_t chunk) const {
    return send.data() + chunk * send_stride;
  }
  [[nodiscard]] std::byte* recv_area(std::size_t chunk) const {
    return recv.data() + chunk * recv_stride;
  }
  void expect(StagedPiece piece, std::size_t chunk) {
    if (piece.bytes == 0) return;
    piece.in_area += chunk * recv_stride;
    results.push_back(piece);
  }
};

/// The caller's handle.
class StagedBackend::Started final : public Pending {
 public:
  Started(std::shared_ptr<StagedBackend*> owner, std::shared_ptr<Call> call)
      : owner_(std::move(owner)), call_(std::move(call)) {}

  bool wait_for(std::chrono::nanoseconds limit) override {
    if (*owner_ == nullptr && !call_->done) {
      throw Error(ErrorCode::aborted, "the communicator of this call has been destroyed");
    }
    const bool done = call_->done || (*owner_)->advance(*call_, limit);
    if (done && call_->error) std::rethrow_exception(call_->error);
    return done;
  }
  /// The host writes staged data, so this waits.
  void order_before(void*) override {
    while (!wait_for(std::chrono::hours(1))) {
    }
  }

 private:
  std::shared_ptr<StagedBackend*> owner_;
  std::shared_ptr<Call> call_;
};

}  // namespace tutti::device
