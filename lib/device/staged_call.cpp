// Non-blocking staged calls.
#include "staged_call.hpp"

#include <algorithm>

namespace tutti::device {

std::shared_ptr<StagedBackend::Call> StagedBackend::new_call(const CallSettings& settings,
                                                             std::size_t chunks,
                                                             std::size_t send_bytes,
                                                             std::size_t recv_bytes) const {
  auto call = std::make_shared<Call>();
  call->send_stride = send_bytes;
  call->recv_stride = recv_bytes;
  call->send = PinnedMemory(parts_.context, errors_, chunks * send_bytes);
  call->recv = PinnedMemory(parts_.context, errors_, chunks * recv_bytes);
  call->stream = settings.stream;
  call->deadline = parts_.detector.deadline(settings.timeout);
  call->timeout = settings.timeout;
  return call;
}

void StagedBackend::read_into(const Call& call, const void* from, const StagedPiece& piece,
                              std::size_t chunk) const {
  if (piece.bytes == 0) return;
  errors_.check(cuda().copy_to_host(call.send_area(chunk) + piece.in_area,
                                    device_address(from) + piece.in_buffer, piece.bytes, copies_),
                "copying from the device");
}

void StagedBackend::await_input(const Call& call) const {
  try {
    await_stream(copies_, call.deadline, call.timeout);
  } catch (...) {
    end_copies();
    throw;
  }
}

template <class Start>
std::unique_ptr<Pending> StagedBackend::start_chunks(std::shared_ptr<Call> call, std::size_t chunks,
                                                     Start start) {
  // Recorded first: chunks in flight use its memory, even if a later one can't start.
  started_.push_back(call);
  try {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      call->chunks.push_back(start(*call, chunk));
    }
  } catch (...) {
    call->results.clear();
    throw;
  }
  return std::make_unique<Started>(self_, std::move(call));
}

std::unique_ptr<Pending> StagedBackend::start(const CheckedCollective& call,
                                              const CallSettings& settings) {
  pointers_.require(call, shape_of(call.operation));
  const CurrentContext current(*parts_.context, errors_);
  const auto on_host = begin(settings);
  if (shape_of(call.operation).recv == Extent::none) {
    return start_chunks(new_call(settings, 0, 0, 0), 1,
                        [&](const Call&, std::size_t) { return parts_.host.start(call, on_host); });
  }
  const StagingPlan plan(call, parts_.group.rank, parts_.group.size(), parts_.area_bytes);
  auto started = new_call(settings, plan.chunks(), plan.send_area_bytes(), plan.recv_area_bytes());
  started->output = call.recv;
  for (std::size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    for (std::size_t i = 0; i < plan.send_pieces(); ++i) {
      read_into(*started, plan.input(), plan.send_piece(chunk, i), chunk);
    }
    for (std::size_t i = 0; i < plan.recv_pieces(); ++i) {
      started->expect(plan.recv_piece(chunk, i), chunk);
    }
  }
  await_input(*started);
  parts_.history->begin_collective(signature_of(call, algorithm_id_));
  parts_.history->end();
  return start_chunks(std::move(started), plan.chunks(), [&](const Call& whole, auto chunk) {
    return parts_.host.start(plan.call(chunk, whole.send_area(chunk), whole.recv_area(chunk)),
                             on_host);
  });
}

std::unique_ptr<Pending> StagedBackend::start(const Message& message,
                                              const CallSettings& settings) {
  pointers_.require(message);
  const CurrentContext current(*parts_.context, errors_);
  const auto on_host = begin(settings);
  const MessagePlan plan(message, parts_.area_bytes);
  auto started = new_call(settings, plan.chunks(), plan.send_area_bytes(), plan.recv_area_bytes());
  started->output = message.recv;
  for (std::size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    read_into(*started, message.send, plan.send_piece(chunk), chunk);
    started->expect(plan.recv_piece(chunk), chunk);
  }
  await_input(*started);
  return start_chunks(std::move(started), plan.chunks(), [&](const Call& whole, auto chunk) {
    return parts_.host.start(plan.message(chunk, whole.send_area(chunk), whole.recv_area(chunk)),
                             on_host);
  });
}

/// Returns true when the call has finished, successfully or not.
bool StagedBackend::advance(Call& call, std::chrono::nanoseconds limit) {
  if (call.done) return true;
  try {
    const auto end = Deadline::after(limit);
    for (; call.chunks_done < call.chunks.size(); ++call.chunks_done) {
      if (!call.chunks[call.chunks_done]->wait_for(end.remaining())) return false;
    }
    const CurrentContext current(*parts_.context, errors_);
    for (const auto& piece : call.results) {
      errors_.check(cuda().copy_to_device(device_address(call.output) + piece.in_buffer,
                                          call.recv.data() + piece.in_area, piece.bytes, copies_),
                    "copying to the device");
    }
    await_stream(copies_, call.deadline, call.timeout);
  } catch (const std::exception&) {
    call.error = std::current_exception();
    end_copies();
    drain(call);
  }
  call.done = true;
  call.chunks.clear();
  call.send = PinnedMemory();
  call.recv = PinnedMemory();
  std::erase_if(started_, [&](const auto& other) { return other.get() == &call; });
  return true;
}

/// After an error the other chunks end soon, too; until then they use the call's memory.
void StagedBackend::drain(Call& call) {
  bool over = true;
  for (auto& chunk : call.chunks) {
    try {
      over = chunk->wait_for(leave_limit) && over;
    } catch (const std::exception&) {
      continue;  // finished
    }
  }
  if (!over) abandon(std::make_shared<Call>(std::move(call)));
}

/// Leaks the call: memory that the host path may still use must not be freed.
void StagedBackend::abandon(std::shared_ptr<Call> call) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  static_cast<void>(new std::shared_ptr<Call>(std::move(call)));
}

void StagedBackend::finish_started() {
  while (!started_.empty()) {
    const auto call = started_.front();
    // Each chunk ends at the call's own deadline.
    if (advance(*call, std::chrono::hours(1)) && call->error) std::rethrow_exception(call->error);
  }
}

/// Finishes calls whose handle was dropped; the next call throws their error.
void StagedBackend::finish_dropped() {
  const auto calls = started_;
  for (const auto& call : calls) {
    // Only the two lists own it.
    if (call.use_count() > 2) continue;
    if (advance(*call, std::chrono::nanoseconds(0)) && call->error) {
      std::rethrow_exception(call->error);
    }
  }
}

}  // namespace tutti::device
