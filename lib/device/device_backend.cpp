#include "device_backend.hpp"

#include <fmt/format.h>

#include "allocation.hpp"
#include "backoff.hpp"
#include "base/error_builder.hpp"
#include "device/inventory.hpp"
#include "device/nccl_numbers.hpp"
#include "engine/timeout_report.hpp"
#include "started_call.hpp"

namespace tutti::device {
namespace {

/// For kernels to end after an abort.
constexpr std::chrono::milliseconds end_limit{100};

void require_settings(const CallSettings& settings) {
  if (settings.tag == 0 && settings.algorithm.empty()) return;
  throw Error(ErrorCode::usage,
              "calls on device memory accept no tag and no algorithm: NCCL matches by order and "
              "chooses the algorithm");
}

}  // namespace

DeviceBackend::DeviceBackend(Parts parts)
    : detector_(parts.detector),
      statuses_(parts.statuses),
      history_(std::move(parts.history)),
      host_(parts.host),
      session_(std::move(parts.session)),
      direct_(std::move(parts.direct)),
      nccl_(session_->nccl(), {.comm = session_->comm(),
                               .rank = session_->group().rank,
                               .size = session_->group().size(),
                               .token = session_->token()}),
      pointers_(session_->context()),
      self_(std::make_shared<DeviceBackend*>(this)),
      nccl_id_(algorithm_id("nccl")),
      direct_id_(algorithm_id("direct")),
      windows_id_(algorithm_id("direct-windows")),
      watchdog_({.failed = [this] { return detector_.job_failed(); },
                 .on_timeout =
                     [this](std::chrono::nanoseconds timeout) {
                       static_cast<void>(detector_.report_and_wait(make_timeout_report(timeout)));
                     },
                 .abort = [this] { abort(); },
                 .on_stuck =
                     [this, notify = std::move(parts.stuck)] {
                       if (notify) notify(agreed_failure());
                     }},
                session_->take_watchdog_thread()) {
  // The pool keeps the context alive as long as there are events.
  events_ = std::make_shared<EventPool>(session_->shared_context());
}

DeviceBackend::~DeviceBackend() {
  *self_ = nullptr;
  if (direct_ && detector_.job_failed()) direct_->abort();
}

void DeviceBackend::abort() noexcept {
  if (direct_) direct_->abort();
  session_->abort();
}

Error DeviceBackend::agreed_failure() const {
  const auto activity = history_->activity();
  return ErrorBuilder(detector_.agreed_error())
      .in(control::describe(activity.call, history_->group()), activity.sequence)
      .error();
}

void DeviceBackend::require_arithmetic(const CheckedCollective& call) const {
  if (!supported(Path::device, call.operation, call.type, call.op)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{} of {} by {} is not available on device memory, because NCCL has no "
                    "such reduction: use host memory (a std::span)",
                    tutti::name(call.operation), tutti::name(call.type), tutti::name(call.op)));
  }
  if (!is_8_bit_float(call.type)) return;
  if (session_->version() < nccl_version_of_8_bit_floats) {
    throw Error(ErrorCode::usage,
                fmt::format("{} of {} needs NCCL {} or later, and this is {}: install a later one, "
                            "or convert to f16",
                            tutti::name(call.operation), tutti::name(call.type),
                            nccl_version_text(nccl_version_of_8_bit_floats),
                            nccl_version_text(session_->version())));
  }
  const int major = session_->context().compute_major();
  if (major != 0 && major < compute_major_of_8_bit_floats) {
    throw Error(ErrorCode::usage,
                fmt::format("{} of {} needs a device of compute capability {}.0 or later, and this "
                            "one has {}: convert to f16",
                            tutti::name(call.operation), tutti::name(call.type),
                            compute_major_of_8_bit_floats, major));
  }
}

template <class Begin, class Action>
void DeviceBackend::queue(std::string_view doing, const CallSettings& settings, Begin begin,
                          Action action) {
  if (detector_.job_failed()) throw agreed_failure();
  NcclResult result = nccl_success;
  {
    // NCCL makes the communicator's device current if necessary, and restores the caller's.
    const NcclWatchdog::ActiveCall active(watchdog_, settings.timeout);
    if (!active.may_call()) throw agreed_failure();
    begin();
    note_queued(settings.stream);
    result = action();
  }
  if (result == nccl_success || result == nccl_in_progress) return;
  if (detector_.job_failed()) throw agreed_failure();
  session_->fail(result, std::string(doing));
}

template <class Action>
void DeviceBackend::queue_collective(const CallSignature& call, const CallSettings& settings,
                                     Action action) {
  const auto begin = [&] {
    history_->begin_collective(call);
    ++begun_;
  };
  queue(tutti::name(call.operation), settings, begin, action);
}

void DeviceBackend::run(const CheckedCollective& call, const CallSettings& settings) {
  const auto& shape = shape_of(call.operation);
  require_settings(settings);
  if (shape.reduces) require_arithmetic(call);
  pointers_.require(call, shape);
  if (direct_) {
    if (const auto protocol = direct_->protocol_of(call)) {
      return run_direct(call, *protocol, settings);
    }
  }
  algorithm_ = "nccl";
  if (call.in_place && call.operation == Operation::all_to_all) {
    return all_to_all_in_place(call, settings);
  }
  queue_collective(signature_of(call, nccl_id_), settings,
                   [&] { return nccl_.collective(call, settings.stream); });
}

void DeviceBackend::run_direct(const CheckedCollective& call, direct::Protocol protocol,
                               const CallSettings& settings) {
  const bool in_windows = protocol == direct::Protocol::windows;
  algorithm_ = in_windows ? "direct-windows" : "direct";
  const CurrentContext current(session_->context(), session_->errors());
  CudaResult result = cuda_success;
  queue_collective(signature_of(call, in_windows ? windows_id_ : direct_id_), settings, [&] {
    result = direct_->queue(call, protocol, settings.stream);
    return nccl_success;
  });
  session_->errors().check(result, "queuing a call of the direct path");
}

/// One call reads and overwrites every block, so it reads from a copy.
void DeviceBackend::all_to_all_in_place(const CheckedCollective& call,
                                        const CallSettings& settings) {
  const auto& session = *session_;
  const auto& cuda = session.context().cuda();
  if (cuda.allocate_async == nullptr || cuda.free_async == nullptr) {
    throw Error(ErrorCode::usage,
                "all_to_all in place on device memory needs a driver of CUDA 11.2 or later: pass a "
                "receive buffer of its own");
  }
  const auto bytes =
      call.count * size_of(call.type) * static_cast<std::size_t>(session.group().size());
  DeviceAddress copy = 0;
  auto apart = call;
  apart.in_place = false;
  const CurrentContext current(session.context(), session.errors());
  if (bytes > 0) {
    session.errors().check(cuda.allocate_async(&copy, bytes, settings.stream),
                           "allocating memory for all_to_all in place");
    session.errors().check(cuda.copy_on_device(copy, reinterpret_cast<DeviceAddress>(call.send),
                                               bytes, settings.stream),
                           "copying for all_to_all in place");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA returns a number
    apart.send = reinterpret_cast<const void*>(copy);
  }
  queue_collective(signature_of(call, nccl_id_), settings, [&] {
    const auto result = nccl_.collective(apart, settings.stream);
    if (copy != 0) cuda.free_async(copy, settings.stream);
    return result;
  });
}

void DeviceBackend::run(const Message& message, const CallSettings& settings) {
  require_settings(settings);
  pointers_.require(message);
  queue(
      tutti::name(message.operation), settings, [&] { begin_message(message); },
      [&] { return nccl_.message(message, settings.stream); });
}

void DeviceBackend::begin_message(const Message& message) {
  if (message.operation == Operation::send_recv) {
    latest_sender_.store(message.from, std::memory_order_relaxed);
  }
  history_->begin_other(signature_of(message));
  ++begun_;
}

std::unique_ptr<Pending> DeviceBackend::start_together(std::span<const Message> messages,
                                                       const CallSettings& settings) {
  require_settings(settings);
  for (const auto& message : messages) pointers_.require(message);
  queue(
      "messages that are started together", settings,
      [&] {
        for (const auto& message : messages) begin_message(message);
      },
      [&] { return nccl_.messages(messages, settings.stream); });
  return record(settings);
}

std::unique_ptr<Pending> DeviceBackend::start(const CheckedCollective& call,
                                              const CallSettings& settings) {
  run(call, settings);
  return record(settings);
}

std::unique_ptr<Pending> DeviceBackend::start(const Message& message,
                                              const CallSettings& settings) {
  run(message, settings);
  return record(settings);
}

std::unique_ptr<Pending> DeviceBackend::record(const CallSettings& settings) {
  const auto& session = *session_;
  const CurrentContext current(session.context(), session.errors());
  auto started = std::make_unique<Started>(*this, settings, is_capturing(settings.stream));
  session.errors().check(session.context().cuda().record_event(started->event(), settings.stream),
                         "recording an event");
  return started;
}

std::shared_ptr<void> DeviceBackend::allocate_device(std::size_t bytes,
                                                     const CallSettings& settings) {
  require_settings(settings);
  const CurrentContext current(session_->context(), session_->errors());
  return allocate_together({.detector = detector_,
                            .group = session_->group(),
                            .context = session_->shared_context(),
                            .host = host_,
                            .direct = direct_.get()},
                           bytes, settings.timeout);
}

bool DeviceBackend::is_capturing(CudaStream stream) const {
  int status = not_capturing;
  const auto result = session_->context().cuda().stream_is_capturing(stream, &status);
  return result == cuda_success && status != not_capturing;
}

void DeviceBackend::synchronize(const CallSettings& settings) {
  require_settings(settings);
  const auto& context = session_->context();
  const CurrentContext current(context, session_->errors());
  if (is_capturing(settings.stream)) {
    throw Error(ErrorCode::usage,
                "a stream can't be waited for while it is captured: end the capture, and launch "
                "the graph");
  }
  const auto ordinal = begun_;
  const auto deadline = detector_.deadline(settings.timeout);
  const auto ticket = history_->begin_other(history_->activity().call).ticket;
  static_cast<void>(wait([&] { return context.cuda().query_stream(settings.stream); },
                         Deadline::never(), deadline, settings.timeout));
  history_->end(ticket);
  finished(settings.stream, ordinal);
}

template <class Look>
bool DeviceBackend::wait(Look look, Deadline limit, Deadline deadline,
                         std::chrono::nanoseconds timeout) {
  try {
    for (const Backoff backoff;; backoff.pause()) {
      const auto result = look();
      // Work that has been aborted is over, too, without a result.
      if (result == cuda_success && is_aborted()) throw agreed_failure();
      if (result == cuda_success) return true;
      if (result != cuda_not_ready) session_->errors().check(result, "work on the stream");
      if (detector_.job_failed()) throw agreed_failure();
      session_->check_async();
      if (deadline.expired()) {
        throw detector_.report_and_wait(make_timeout_report(timeout));
      }
      if (limit.expired()) return false;
    }
  } catch (...) {
    // Kernels may wait for a lost rank. They end now, and then use the program's buffers no more.
    abort();
    const auto end = Deadline::after(end_limit);
    for (const Backoff backoff; look() == cuda_not_ready && !end.expired();) backoff.pause();
    throw;
  }
}

void DeviceBackend::note_queued(CudaStream stream) {
  for (auto& queue : queues_) {
    if (queue.stream != stream) continue;
    queue.latest = begun_;
    return;
  }
  queues_.push_back({stream, begun_});
}

void DeviceBackend::finished(CudaStream stream, std::uint64_t ordinal) {
  std::erase_if(queues_, [&](const Queue& queue) {
    return queue.stream == stream && queue.latest <= ordinal;
  });
  // Calls on another stream may be in progress.
  if (!queues_.empty()) return;
  for (; finished_ < begun_; ++finished_) history_->end();
  watchdog_.set_idle();
}

control::FailureReport DeviceBackend::make_timeout_report(std::chrono::nanoseconds timeout) const {
  const auto activity = history_->activity();
  const auto& group = session_->group();
  std::vector<engine::Awaited> awaited;
  const auto operation = activity.call.operation;
  if (operation == Operation::send || operation == Operation::send_recv) {
    awaited.push_back({group.world_of(activity.call.root), false});
  }
  if (operation == Operation::recv) awaited.push_back({group.world_of(activity.call.root), true});
  const int sender = latest_sender_.load(std::memory_order_relaxed);
  if (operation == Operation::send_recv && sender >= 0) {
    awaited.push_back({group.world_of(sender), true});
  }
  return engine::make_timeout_report(
      detector_, statuses_,
      {.group = &group,
       .begun = {.sequence = activity.sequence, .call = activity.call},
       .timeout = timeout},
      awaited);
}

}  // namespace tutti::device
