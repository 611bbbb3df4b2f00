#pragma once

#include <string>

#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "device/session.hpp"

namespace tutti::device {

/// Moves buffers in device memory through NCCL: each call is NCCL's own, put on the caller's stream
/// (CallSettings::stream). A call returns when it is queued; synchronize() waits for it under a
/// deadline.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(control::Plane& plane, std::unique_ptr<Session> session);

  [[nodiscard]] const char* name() const override { return "nccl"; }
  void fan_out(void* buffer, std::size_t count, Type type, int root,
               const CallSettings& settings) override;
  void broadcast(void* buffer, std::size_t count, Type type, int root,
                 const CallSettings& settings) override;
  void all_reduce(const void* send, void* recv, std::size_t count, Type type, Operator op,
                  const CallSettings& settings) override;
  void send(const void* buffer, std::size_t count, Type type, int to,
            const CallSettings& settings) override;
  void recv(void* buffer, std::size_t count, Type type, int from,
            const CallSettings& settings) override;
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, Type type,
                 const CallSettings& settings) override;
  void barrier(const CallSettings& settings) override;
  void finalize(const CallSettings& settings) override;
  void synchronize(const CallSettings& settings) override;
  [[nodiscard]] const std::string& latest_algorithm() const override { return algorithm_; }
  [[nodiscard]] const std::string& phases() const { return session_->phases(); }

 private:
  /// Throws the verdict, if there is one, or Error{usage} for settings that NCCL has not.
  void require_usable(const CallSettings& settings) const;
  void begin_collective(const CallSignature& call, const CallSettings& settings);
  void wait_for_stream(const CallSignature& latest, const CallSettings& settings);
  template <class Action>
  void in_group(const char* doing, Action action);
  [[noreturn]] void time_out(const CallSignature& latest, const CallSettings& settings);

  control::Plane& plane_;
  std::unique_ptr<Session> session_;
  std::string algorithm_ = "nccl";
};

}  // namespace tutti::device
