#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/types.hpp"

namespace tutti {

/// One call's settings, with all defaults filled in.
struct CallSettings {
  std::chrono::nanoseconds timeout{};
  std::uint32_t tag = 0;
  std::string algorithm;   ///< empty: the backend chooses; an unknown name is an error
  std::string preferred;   ///< the same, but passed over by operations that do not have it
  void* stream = nullptr;  ///< CUDA stream, for buffers in device memory
};

/// The seam between what a user calls and who moves the data: the host path here, the device path
/// in lib/device. Arguments have been checked. Counts are elements; `send` and `recv` are equal in
/// an in-place call.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  virtual void fan_out(void* buffer, std::size_t count, Type type, int root,
                       const CallSettings& settings) = 0;
  virtual void broadcast(void* buffer, std::size_t count, Type type, int root,
                         const CallSettings& settings) = 0;
  virtual void all_reduce(const void* send, void* recv, std::size_t count, Type type, Operator op,
                          const CallSettings& settings) = 0;
  virtual void send(const void* buffer, std::size_t count, Type type, int to,
                    const CallSettings& settings) = 0;
  virtual void recv(void* buffer, std::size_t count, Type type, int from,
                    const CallSettings& settings) = 0;
  virtual void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                         std::size_t recv_count, int from, Type type,
                         const CallSettings& settings) = 0;
  virtual void barrier(const CallSettings& settings) = 0;
  virtual void finalize(const CallSettings& settings) = 0;
  /// Waits until what was queued on the stream is done.
  virtual void synchronize(const CallSettings& settings) = 0;

  /// Of the latest collective call.
  [[nodiscard]] virtual const std::string& latest_algorithm() const = 0;
};

}  // namespace tutti
