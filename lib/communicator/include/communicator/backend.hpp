#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/checked_collective.hpp"
#include "communicator/pending.hpp"
#include "tutti/collective.hpp"

namespace tutti {

/// One call's settings, with all defaults filled in. For as long as the call is being begun.
struct CallSettings {
  std::chrono::nanoseconds timeout{};
  std::uint32_t tag = 0;
  /// Empty: the backend chooses; an unknown name is an error.
  std::string_view algorithm = {};
  /// The same, but passed over by operations that do not have it.
  std::string_view preferred = {};
  void* stream = nullptr;  ///< CUDA stream, for buffers in device memory
};

/// Of messages that make groups; users' tags are below.
inline constexpr std::uint32_t internal_tag = UINT32_MAX;

/// The seam between what a user calls and who moves the data: the host path here, the device path
/// in lib/device. Arguments have been checked.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  /// Host: returns when done. Device: when queued.
  virtual void run(const CheckedCollective& call, const CallSettings& settings) = 0;
  virtual void run(const Message& message, const CallSettings& settings) = 0;
  virtual std::unique_ptr<Pending> start(const CheckedCollective& call,
                                         const CallSettings& settings) = 0;
  virtual std::unique_ptr<Pending> start(const Message& message, const CallSettings& settings) = 0;
  /// Messages that do not wait for each other. Here: one started after the other.
  virtual std::unique_ptr<Pending> start_together(std::span<const Message> messages,
                                                  const CallSettings& settings);
  /// Returns when the calls that were started, dropped ones among them, need their buffers no more;
  /// calls that are queued on a stream are the stream's affair.
  virtual void finish_started() {}
  /// Waits until what was queued on the stream is done.
  virtual void synchronize(const CallSettings& settings) = 0;

  /// Collective, of device paths: zeroed memory of this rank's device, which other ranks' kernels
  /// access in place where they can. Null for 0 bytes.
  virtual std::shared_ptr<void> allocate_device(std::size_t bytes, const CallSettings& settings);

  /// Of the latest collective call.
  [[nodiscard]] virtual const std::string& latest_algorithm() const = 0;
};

}  // namespace tutti
