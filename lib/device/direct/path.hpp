#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/checked_collective.hpp"
#include "base/environment.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/setup_exchange.hpp"
#include "memory.hpp"
#include "rendezvous/peers.hpp"

namespace tutti::device::direct {

/// Collective calls of one host's ranks by kernels of our own, which store into the memory of the
/// other GPUs: faster than NCCL for small buffers, and with one order of summation.
class Path {
 public:
  struct Parts {
    std::shared_ptr<const Context> context;
    const ApiErrors& errors;
    const rendezvous::Peers& peers;
    const control::Group& group;
    DevicePathChoice choice = DevicePathChoice::automatic;
  };

  /// Collective. Null if some rank can't use it; `reason` says why.
  [[nodiscard]] static std::unique_ptr<Path> open(const Parts& parts, SetupExchange& setup,
                                                  std::string& reason);
  Path(const Parts& parts, SetupExchange& setup);
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  /// After a last exchange with the peers, within a limit, unless it was aborted.
  ~Path();

  /// Whether this path takes the call: the same on all ranks.
  [[nodiscard]] bool serves(const CheckedCollective& call) const {
    return protocol_of(call).has_value();
  }
  /// Queues a call that it serves. The device must be current in the calling thread.
  [[nodiscard]] CudaResult queue(const CheckedCollective& call, CudaStream stream);
  /// Ends all waits of its kernels, whose calls are then without a result. From any thread.
  void abort() noexcept;

 private:
  class Kernels;

  /// The latest call of a channel, outside of graphs.
  struct Latest {
    std::uint64_t turn = 0;
    unsigned long long stream = 0;
  };

  [[nodiscard]] std::optional<Protocol> protocol_of(const CheckedCollective& call) const;
  [[nodiscard]] Call describe(const CheckedCollective& call) const;
  [[nodiscard]] CudaResult launch(Protocol protocol, void* kernel, Call call, CudaStream stream);
  /// Lets `stream` wait for the channels' calls on other streams: the calls of all ranks must run
  /// in one order.
  [[nodiscard]] CudaResult order(Protocol protocol, int channels, Call& call, CudaStream stream);
  [[nodiscard]] bool close() noexcept;

  std::shared_ptr<const Context> context_;
  control::Group group_;
  DevicePathChoice choice_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<SharedStaging> staging_;
  CudaStream own_stream_ = nullptr;  ///< for the last exchange
  std::array<std::array<Latest, max_channels>, 2> latest_{};
  std::uint64_t turn_ = 0;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace tutti::device::direct
