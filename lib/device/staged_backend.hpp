#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "backoff.hpp"
#include "communicator/backend.hpp"
#include "control/call_history.hpp"
#include "control/failure_detector.hpp"
#include "device/staging_plan.hpp"
#include "event_pool.hpp"
#include "pinned_memory.hpp"
#include "pointer_check.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// Moves buffers in device memory without NCCL: copies them to page-locked host memory, through the
/// host path, and back, in the order of the caller's stream. A blocking call waits for its stream
/// first and is done when it returns; large calls run in chunks, so that copies and the host path
/// overlap. A non-blocking call has page-locked memory for all its chunks.
class StagedBackend final : public Backend {
 public:
  struct Parts {
    control::FailureDetector& detector;
    std::shared_ptr<control::CallHistory> history;
    std::shared_ptr<const Context> context;
    control::Group group;
    Backend& host;
    std::function<void()> on_first_call;            ///< may be empty
    std::size_t area_bytes = std::size_t{4} << 20;  ///< of each of the four staging areas
  };
  explicit StagedBackend(Parts parts);
  /// Waits up to 2 s for non-blocking calls.
  ~StagedBackend() override;

  [[nodiscard]] const char* name() const override { return "staged"; }
  void run(const CheckedCollective& call, const CallSettings& settings) override;
  void run(const Message& message, const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const CheckedCollective& call,
                                 const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const Message& message, const CallSettings& settings) override;
  void finish_started() override;
  void synchronize(const CallSettings& settings) override;
  std::shared_ptr<void> allocate_device(std::size_t bytes, const CallSettings& settings) override;
  [[nodiscard]] const std::string& latest_algorithm() const override {
    return parts_.host.latest_algorithm();
  }

 private:
  struct Slot {
    PinnedMemory send;
    PinnedMemory recv;
    std::unique_ptr<EventPool::Event> read;  ///< the input has been copied
  };
  struct Call;
  class Started;

  [[nodiscard]] CallSettings begin(const CallSettings& settings);
  void reserve(Slot& slot, std::size_t send_bytes, std::size_t recv_bytes);
  void read(Slot& slot, const void* from, const StagedPiece& piece);
  void write(const Slot& slot, void* to, const StagedPiece& piece);
  void read_chunk(const StagingPlan& plan, std::size_t chunk);
  void write_chunk(const StagingPlan& plan, std::size_t chunk, void* to);
  void mark_read(Slot& slot);
  void run_chunks(const StagingPlan& plan, void* output, const CallSettings& settings,
                  Deadline deadline);
  void run_chunks(const MessagePlan& plan, const Message& message, const CallSettings& settings,
                  Deadline deadline);
  void await(const Slot& slot, Deadline deadline, std::chrono::nanoseconds timeout) const;
  void await_stream(CudaStream stream, Deadline deadline, std::chrono::nanoseconds timeout) const;
  void end_copies() const noexcept;
  template <class Look>
  void wait(Look look, Deadline deadline, const char* doing,
            std::chrono::nanoseconds timeout) const;
  void finish_dropped();
  bool advance(Call& call, std::chrono::nanoseconds limit);
  [[nodiscard]] std::shared_ptr<Call> new_call(const CallSettings& settings, std::size_t chunks,
                                               std::size_t send_bytes,
                                               std::size_t recv_bytes) const;
  void read_into(const Call& call, const void* from, const StagedPiece& piece,
                 std::size_t chunk) const;
  void await_input(const Call& call) const;
  template <class Start>
  std::unique_ptr<Pending> start_chunks(std::shared_ptr<Call> call, std::size_t chunks,
                                        Start start);
  static void drain(Call& call);
  static void abandon(std::shared_ptr<Call> call);

  [[nodiscard]] const CudaCalls& cuda() const { return parts_.context->cuda(); }
  [[nodiscard]] Slot& slot_of(std::size_t chunk) { return slots_[chunk % slots_.size()]; }

  Parts parts_;
  ApiErrors errors_;
  PointerCheck pointers_;
  std::shared_ptr<EventPool> events_;
  CudaStream copies_ = nullptr;
  std::array<Slot, 2> slots_;
  std::list<std::shared_ptr<Call>> started_;
  std::shared_ptr<StagedBackend*> self_;  ///< null once the backend is destroyed
  std::uint8_t algorithm_id_;
};

}  // namespace tutti::device
