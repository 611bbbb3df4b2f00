#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "channel.hpp"
#include "device_streams.hpp"

namespace tutti::torch_backend {

/// A communicator for CUDA tensors, with the stream of its asynchronous calls.
class DeviceChannel {
 public:
  /// Where a call is queued.
  struct Place {
    c10::Stream stream;
    c10::Stream issuer;  ///< the stream that was current then
    void* handle = nullptr;
    bool is_captured = false;  ///< part of a CUDA graph: it does not run yet
  };

  DeviceChannel(std::shared_ptr<Channel> channel, c10::Device device,
                std::shared_ptr<StreamHandles> handles, std::shared_ptr<Driver> driver)
      : channel_(std::move(channel)),
        handles_(std::move(handles)),
        driver_(std::move(driver)),
        is_staged_(channel_->is_staged()),
        stream_(new_stream(device)),
        ready_(device.type()) {}

  [[nodiscard]] c10::Device device() const { return stream_.device(); }
  /// True: buffers are staged through host memory, and a call ends when a thread waits for it.
  [[nodiscard]] bool is_staged() const { return is_staged_; }
  [[nodiscard]] const std::shared_ptr<Channel>& channel() const { return channel_; }

  /// Held while a call is queued, so that all of it is in one piece on its stream.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// A call that the caller waits for is queued on its current stream. Others are queued on the
  /// communicator's, behind what is on the current stream now.
  Place place(bool is_async) {
    const auto current = current_stream(device());
    auto* const current_handle = handles_->of(current);
    const bool is_captured = driver_->is_capturing(current_handle);
    if (!is_async) return {current, current, current_handle, is_captured};
    return {stream_, current, handles_->of(stream_), is_captured};
  }
  /// What is queued on `place` from now on runs after what is on the current stream now.
  void follow(const Place& place) {
    if (place.stream == place.issuer) return;
    ready_.record(place.issuer);
    ready_.block(place.stream);
  }

  bool poll(std::vector<Work>& works) { return channel_->poll(works); }
  /// What is queued from now on on the CUDA stream `stream` runs after `works`.
  void order(std::vector<Work>& works, void* stream) { channel_->order(works, stream); }
  [[nodiscard]] void* handle_of(const c10::Stream& stream) { return handles_->of(stream); }
  void discard(std::vector<Work>& works) { channel_->discard(works); }

 private:
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<StreamHandles> handles_;
  std::shared_ptr<Driver> driver_;
  bool is_staged_;
  std::mutex mutex_;
  c10::Stream stream_;
  c10::Event ready_;
};

}  // namespace tutti::torch_backend
