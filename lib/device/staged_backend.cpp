#include "staged_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocation.hpp"
#include "device/inventory.hpp"
#include "staged_call.hpp"

namespace tutti::device {
namespace {

const std::byte* at(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

CallSettings with_time_left(CallSettings settings, Deadline deadline) {
  settings.timeout =
      std::max<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::milliseconds(1));
  return settings;
}

}  // namespace

StagedBackend::StagedBackend(Parts parts)
    : parts_(std::move(parts)),
      errors_(parts_.detector, parts_.context->cuda()),
      pointers_(*parts_.context),
      events_(std::make_shared<EventPool>(parts_.context)),
      self_(std::make_shared<StagedBackend*>(this)),
      algorithm_id_(algorithm_id(name())) {
  const CurrentContext current(*parts_.context, errors_);
  errors_.check(cuda().create_stream(&copies_, non_blocking_stream), "creating a stream");
}

StagedBackend::~StagedBackend() {
  try {
    const auto limit = Deadline::after(leave_limit);
    while (!started_.empty()) {
      const auto call = started_.front();
      if (!advance(*call, limit.remaining())) break;
    }
  } catch (const std::exception&) {
    // The calls themselves have reported it.
  }
  *self_ = nullptr;
  cuda().destroy_stream(copies_);
  for (auto& call : started_) abandon(std::move(call));
}

/// Common begin of calls: waits for the stream's earlier work. Returns the host path's settings.
CallSettings StagedBackend::begin(const CallSettings& settings) {
  if (const auto notify = std::exchange(parts_.on_first_call, nullptr)) notify();
  finish_dropped();
  if (parts_.detector.job_failed()) throw parts_.detector.agreed_error();
  int status = not_capturing;
  const auto result = cuda().stream_is_capturing(settings.stream, &status);
  if (result == cuda_success && status != not_capturing) {
    throw Error(ErrorCode::usage,
                "a call that is staged through host memory can't be captured in a graph");
  }
  await_stream(settings.stream, parts_.detector.deadline(settings.timeout), settings.timeout);
  auto on_host = settings;
  on_host.stream = nullptr;
  return on_host;
}

template <class Look>
void StagedBackend::wait(Look look, Deadline deadline, const char* doing,
                         std::chrono::nanoseconds timeout) const {
  for (const Backoff backoff;; backoff.pause()) {
    const auto result = look();
    if (result == cuda_success) return;
    if (result != cuda_not_ready) errors_.check(result, doing);
    if (parts_.detector.job_failed()) throw parts_.detector.agreed_error();
    if (!deadline.expired()) continue;
    const auto& peers = parts_.detector.peers();
    throw parts_.detector.report_and_wait(
        {.code = ErrorCode::timeout,
         .failed_ranks = {peers.rank()},
         .sentence = fmt::format("{}: {} timed out after {:g} s", peers.describe(peers.rank()),
                                 doing, std::chrono::duration<double>(timeout).count()),
         .origin = peers.rank()});
  }
}

/// After an error copies may be in flight; the caller may free the buffers once the call has
/// thrown. By the running clock: else a copy would outlive a call after the process was stopped.
void StagedBackend::end_copies() const noexcept {
  const auto limit = Deadline::after(leave_limit, parts_.detector.clock());
  for (const Backoff backoff; cuda().query_stream(copies_) == cuda_not_ready && !limit.expired();) {
    backoff.pause();
  }
}

void StagedBackend::await_stream(CudaStream stream, Deadline deadline,
                                 std::chrono::nanoseconds timeout) const {
  wait([&] { return cuda().query_stream(stream); }, deadline, "earlier work on the stream",
       timeout);
}

void StagedBackend::await(const Slot& slot, Deadline deadline,
                          std::chrono::nanoseconds timeout) const {
  wait([&] { return cuda().query_event(slot.read->handle()); }, deadline,
       "a copy from the device to host memory", timeout);
}

void StagedBackend::reserve(Slot& slot, std::size_t send_bytes, std::size_t recv_bytes) {
  const auto make_space = [&](PinnedMemory& area, std::size_t bytes) {
    if (area.bytes() >= bytes) return;
    area = PinnedMemory();
    area = PinnedMemory(parts_.context, errors_, std::max(bytes, parts_.area_bytes));
  };
  make_space(slot.send, send_bytes);
  make_space(slot.recv, recv_bytes);
}

void StagedBackend::read(Slot& slot, const void* from, const StagedPiece& piece) {
  if (piece.bytes == 0) return;
  errors_.check(
      cuda().copy_to_host(slot.send.data() + piece.in_area,
                          device_address(at(from, piece.in_buffer)), piece.bytes, copies_),
      "copying from the device");
}

void StagedBackend::write(const Slot& slot, void* to, const StagedPiece& piece) {
  if (piece.bytes == 0) return;
  errors_.check(cuda().copy_to_device(device_address(at(to, piece.in_buffer)),
                                      slot.recv.data() + piece.in_area, piece.bytes, copies_),
                "copying to the device");
}

void StagedBackend::mark_read(Slot& slot) {
  if (!slot.read) slot.read = std::make_unique<EventPool::Event>(events_, errors_);
  errors_.check(cuda().record_event(slot.read->handle(), copies_), "recording an event");
}

void StagedBackend::read_chunk(const StagingPlan& plan, std::size_t chunk) {
  auto& slot = slot_of(chunk);
  for (std::size_t i = 0; i < plan.send_pieces(); ++i) {
    read(slot, plan.input(), plan.send_piece(chunk, i));
  }
  mark_read(slot);
}

void StagedBackend::write_chunk(const StagingPlan& plan, std::size_t chunk, void* to) {
  for (std::size_t i = 0; i < plan.recv_pieces(); ++i) {
    write(slot_of(chunk), to, plan.recv_piece(chunk, i));
  }
}

void StagedBackend::run(const CheckedCollective& call, const CallSettings& settings) {
  pointers_.require(call, shape_of(call.operation));
  const CurrentContext current(*parts_.context, errors_);
  const auto deadline = parts_.detector.deadline(settings.timeout);
  const auto on_host = begin(settings);
  if (shape_of(call.operation).recv == Extent::none) return parts_.host.run(call, on_host);
  const StagingPlan plan(call, parts_.group.rank, parts_.group.size(), parts_.area_bytes);
  for (std::size_t i = 0; i < std::min(plan.chunks(), slots_.size()); ++i) {
    reserve(slots_[i], plan.send_area_bytes(), plan.recv_area_bytes());
  }
  // Records the whole call, so that a mismatch is reported as the user's call.
  parts_.history->begin_collective(signature_of(call, algorithm_id_));
  try {
    run_chunks(plan, call.recv, on_host, deadline);
  } catch (...) {
    end_copies();
    parts_.history->end();
    throw;
  }
  parts_.history->end();
}

/// While the host path runs one chunk, the device reads the next and writes the previous one.
void StagedBackend::run_chunks(const StagingPlan& plan, void* output, const CallSettings& settings,
                               Deadline deadline) {
  read_chunk(plan, 0);
  for (std::size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    // All copies share one stream: this one waits for the result in its slot.
    if (chunk + 1 < plan.chunks()) read_chunk(plan, chunk + 1);
    auto& slot = slot_of(chunk);
    await(slot, deadline, settings.timeout);
    parts_.host.run(plan.call(chunk, slot.send.data(), slot.recv.data()),
                    with_time_left(settings, deadline));
    write_chunk(plan, chunk, output);
  }
  await_stream(copies_, deadline, settings.timeout);
}

void StagedBackend::run(const Message& message, const CallSettings& settings) {
  pointers_.require(message);
  const CurrentContext current(*parts_.context, errors_);
  const auto deadline = parts_.detector.deadline(settings.timeout);
  const auto on_host = begin(settings);
  const MessagePlan plan(message, parts_.area_bytes);
  for (std::size_t i = 0; i < std::min(plan.chunks(), slots_.size()); ++i) {
    reserve(slots_[i], plan.send_area_bytes(), plan.recv_area_bytes());
  }
  try {
    run_chunks(plan, message, on_host, deadline);
  } catch (...) {
    end_copies();
    throw;
  }
}

void StagedBackend::run_chunks(const MessagePlan& plan, const Message& message,
                               const CallSettings& settings, Deadline deadline) {
  const auto read_chunk = [&](std::size_t chunk) {
    if (chunk >= plan.chunks()) return;
    read(slot_of(chunk), message.send, plan.send_piece(chunk));
    mark_read(slot_of(chunk));
  };
  read_chunk(0);
  for (std::size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    read_chunk(chunk + 1);
    auto& slot = slot_of(chunk);
    await(slot, deadline, settings.timeout);
    parts_.host.run(plan.message(chunk, slot.send.data(), slot.recv.data()),
                    with_time_left(settings, deadline));
    write(slot, message.recv, plan.recv_piece(chunk));
  }
  await_stream(copies_, deadline, settings.timeout);
}

std::shared_ptr<void> StagedBackend::allocate_device(std::size_t bytes,
                                                     const CallSettings& settings) {
  const CurrentContext current(*parts_.context, errors_);
  return allocate_together({.detector = parts_.detector,
                            .group = parts_.group,
                            .context = parts_.context,
                            .host = parts_.host},
                           bytes, settings.timeout);
}

void StagedBackend::synchronize(const CallSettings& settings) {
  const CurrentContext current(*parts_.context, errors_);
  const auto deadline = parts_.detector.deadline(settings.timeout);
  static_cast<void>(begin(settings));
  const auto calls = started_;
  for (const auto& call : calls) {
    if (call->stream != settings.stream) continue;
    while (!advance(*call, deadline.remaining())) {
    }
    if (call->error) std::rethrow_exception(call->error);
  }
}

}  // namespace tutti::device
