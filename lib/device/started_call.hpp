#pragma once

#include "device_backend.hpp"

namespace tutti::device {

/// A non-blocking call: an event recorded after it.
class DeviceBackend::Started final : public Pending {
 public:
  Started(DeviceBackend& backend, const CallSettings& settings, bool captured)
      : owner_(backend.self_),
        event_(backend.events_, backend.session_->errors()),
        stream_(settings.stream),
        ordinal_(backend.begun_),
        timeout_(settings.timeout),
        deadline_(backend.detector_.deadline(settings.timeout)),
        captured_(captured) {}

  [[nodiscard]] CudaEvent event() const { return event_.handle(); }

  bool wait_for(std::chrono::nanoseconds limit) override {
    auto& backend = owner();
    if (captured_) {
      throw Error(ErrorCode::usage,
                  "this call is part of a captured graph: wait for the stream that the graph runs "
                  "on");
    }
    const auto& context = backend.session_->context();
    const CurrentContext current(context, backend.session_->errors());
    const bool done = backend.wait([&] { return context.cuda().query_event(event()); },
                                   Deadline::after(limit), deadline_, timeout_);
    if (done) backend.finished(stream_, ordinal_);
    return done;
  }

  void order_before(void* stream) override {
    auto& backend = owner();
    const auto& session = *backend.session_;
    const CurrentContext current(session.context(), session.errors());
    session.errors().check(session.context().cuda().stream_wait_event(stream, event(), 0),
                           "ordering a stream after a call");
  }

 private:
  [[nodiscard]] DeviceBackend& owner() const {
    if (*owner_ != nullptr) return **owner_;
    throw Error(ErrorCode::aborted, "the communicator of this call has been destroyed");
  }

  std::shared_ptr<DeviceBackend*> owner_;
  EventPool::Event event_;
  CudaStream stream_;
  std::uint64_t ordinal_;
  std::chrono::nanoseconds timeout_;
  Deadline deadline_;
  bool captured_;
};

}  // namespace tutti::device
