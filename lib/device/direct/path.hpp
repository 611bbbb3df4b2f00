#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/checked_collective.hpp"
#include "base/environment.hpp"
#include "closing.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/setup_exchange.hpp"
#include "kernels.hpp"
#include "limits.hpp"
#include "memory.hpp"
#include "rendezvous/peers.hpp"

namespace tutti::device::direct {

/// Collective calls of one host's ranks by kernels of our own, which store into the memory of the
/// other GPUs: faster than NCCL for small buffers, and with one order of summation.
class DirectPath {
 public:
  struct Parts {
    std::shared_ptr<const Context> context;
    const rendezvous::Peers& peers;
    const control::Group& group;
    std::shared_ptr<ClosingStaging> closing;  ///< takes the staging memory in the end
    DevicePathChoice choice = DevicePathChoice::automatic;
    TuningSource tuning = {};
  };

  /// Collective. Null if some rank can't use it; `reason` says why.
  [[nodiscard]] static std::unique_ptr<DirectPath> open(const Parts& parts, SetupExchange& setup,
                                                        std::string& reason);
  DirectPath(const Parts& parts, SetupExchange& setup);
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;
  ~DirectPath();

  /// Whether this path takes the call: the same on all ranks.
  [[nodiscard]] bool serves(const CheckedCollective& call) const {
    return protocol_of(call).has_value();
  }
  /// By which protocol; none if this path does not take the call.
  [[nodiscard]] std::optional<Protocol> protocol_of(const CheckedCollective& call) const;
  /// Where its limits are from: LimitTable::origin().
  [[nodiscard]] const std::string& limits_origin() const { return limits_.origin(); }
  /// Collective: memory of this rank's device, in a window. As WindowTable::allocate().
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, SetupExchange& setup) {
    return staging_->windows().allocate(bytes, setup);
  }
  /// Queues a call by `protocol`, which is protocol_of(call). The device must be current in the
  /// calling thread.
  [[nodiscard]] CudaResult queue(const CheckedCollective& call, Protocol protocol,
                                 CudaStream stream);
  /// Lets `stream` wait for all calls queued on other streams, outside of graphs: for calls by
  /// other means that must come after them. The device must be current in the calling thread.
  [[nodiscard]] CudaResult follow(CudaStream stream);
  struct Progress {
    bool all_done = false;     ///< all calls queued outside of graphs
    std::uint64_t rounds = 0;  ///< grows with each call that ends, in graphs too
    /// Changes every few milliseconds while a kernel waits for another rank.
    std::uint64_t waits = 0;
  };
  /// As of this call, or of an earlier one if that was empty. Empty if the device does not answer
  /// soon, for instance because its queues are full. It must be current in the calling thread: one
  /// thread, while others may queue calls.
  [[nodiscard]] std::optional<Progress> progress();
  /// Ends all waits of its kernels, whose calls are then without a result. From any thread.
  void abort() noexcept;
  /// True before the first such call ends.
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_.load(); }

 private:
  /// The latest call of a channel, outside of graphs.
  struct Latest {
    std::atomic<std::uint64_t> turn = 0;
    unsigned long long stream = 0;
  };

  /// Whether the buffers that peers would access are in windows: the same on all ranks, if all pass
  /// such memory, or none does.
  [[nodiscard]] bool is_in_windows(const CheckedCollective& call) const;
  void add_places(const CheckedCollective& call, Call& described) const;
  /// Lets `stream` wait for the channels' calls on other streams: the calls of all ranks must run
  /// in one order.
  [[nodiscard]] CudaResult order(Protocol protocol, int channels, Call& call, CudaStream stream);
  [[nodiscard]] CudaResult close();

  std::shared_ptr<const Context> context_;
  control::Group group_;
  DevicePathChoice choice_;
  LimitTable limits_;
  std::shared_ptr<ClosingStaging> closing_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<SharedStaging> staging_;
  std::array<std::array<Latest, max_channels>, protocol_count> latest_{};
  std::uint64_t turn_ = 0;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace tutti::device::direct
