#include "stream_order.hpp"

#include <utility>

#include "device/inventory.hpp"

namespace tutti::preload {
namespace {

device::CudaEvent make_event(const device::CudaCalls& cuda) {
  device::CudaEvent event = nullptr;
  const auto result = cuda.create_event(&event, device::event_without_timing);
  if (result == device::cuda_success) return event;
  throw Error(ErrorCode::system, "creating an event failed: " + cuda_error_text(cuda, result));
}

}  // namespace

StreamOrder::StreamOrder(std::shared_ptr<const device::Context> context,
                         device::direct::DirectPath& path)
    : context_(std::move(context)), path_(path) {
  handed_on_ = make_event(cuda());
  sample_ = make_event(cuda());
  in_graph_ = make_event(cuda());
}

StreamOrder::~StreamOrder() {
  for (auto* const event : {handed_on_, sample_, in_graph_}) cuda().destroy_event(event);
}

std::optional<unsigned long long> StreamOrder::capture_of(CudaStream stream) const {
  int status = device::not_capturing;
  unsigned long long id = 0;
  const auto result = cuda().capture_info != nullptr
                          ? cuda().capture_info(stream, &status, &id, nullptr, nullptr, nullptr)
                          : cuda().stream_is_capturing(stream, &status);
  if (result != device::cuda_success || status == device::not_capturing) return std::nullopt;
  return id;
}

device::CudaResult StreamOrder::before(CudaStream stream) {
  capture_ = capture_of(stream);
  if (capture_) {
    // The branches of a graph run at the same time.
    if (graph_capture_ != capture_ || graph_stream_ == stream) return device::cuda_success;
    return cuda().stream_wait_event(stream, in_graph_, 0);
  }
  unsigned long long id = 0;
  auto result = cuda().stream_id(stream, &id);
  if (result != device::cuda_success || latest_stream_ == id) return result;
  if (latest_stream_) {
    result = path_.follow(stream);
    if (result == device::cuda_success && is_recorded_) {
      result = cuda().stream_wait_event(stream, handed_on_, 0);
    }
  }
  latest_stream_ = id;
  return result;
}

void StreamOrder::after_served(CudaStream stream) {
  if (capture_) record_in_graph(stream, *capture_);
}

void StreamOrder::after_handed_on(CudaStream stream) {
  if (const auto capture = capture_of(stream)) return record_in_graph(stream, *capture);
  if (cuda().record_event(handed_on_, stream) == device::cuda_success) is_recorded_ = true;
  if (!has_sample_ && cuda().record_event(sample_, stream) == device::cuda_success) {
    has_sample_ = true;
  }
}

void StreamOrder::record_in_graph(CudaStream stream, unsigned long long capture) {
  if (cuda().record_event(in_graph_, stream) != device::cuda_success) return;
  graph_stream_ = stream;
  graph_capture_ = capture;
}

bool StreamOrder::are_handed_on_complete() const {
  return !is_recorded_ || cuda().query_event(handed_on_) != device::cuda_not_ready;
}

std::uint64_t StreamOrder::handed_on_ended() {
  if (has_sample_ && cuda().query_event(sample_) != device::cuda_not_ready) {
    ++samples_ended_;
    has_sample_ = false;
  }
  return samples_ended_;
}

}  // namespace tutti::preload
