#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compatibility.hpp"
#include "device_channel.hpp"
#include "device_watcher.hpp"

namespace tutti::torch_backend {

/// Where a process group's communicators come from.
struct Membership {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  std::string name;
  std::vector<int> global_ranks;  ///< empty: those of the group
};

/// Collective over `members`, within the timeout of `options`. `what` is for errors. Throws
/// DistBackendError, ValueError.
std::shared_ptr<Channel> connect(const Membership& members, const Options& options,
                                 const std::string& what, std::shared_ptr<Failures> failures);

/// What a process group has for CUDA tensors: a communicator of all ranks, made by the first
/// collective or batch of messages, and one for each pair of ranks that exchange messages, made by
/// the first of these. So a message has no order with collectives, and waits for no third rank.
///
/// With connect_eagerly() the first is made with the group, and takes the messages, too. All is as
/// in torch's NCCL backend.
class DevicePath {
 public:
  DevicePath(Membership members, std::shared_ptr<Failures> failures);
  DevicePath(const DevicePath&) = delete;
  DevicePath& operator=(const DevicePath&) = delete;
  ~DevicePath() = default;  // after close() or abandon()

  /// Collective. Throws DistBackendError, ValueError.
  void connect_eagerly(c10::Device device, Milliseconds timeout);
  /// Collective over the group at its first call.
  std::shared_ptr<DeviceChannel> all_ranks(c10::Device device, Milliseconds timeout);
  struct Pair {
    std::shared_ptr<DeviceChannel> channel;
    int peer = 0;  ///< the other rank's number there
  };
  /// For messages; collective over the two ranks at its first call.
  Pair with(int peer, c10::Device device, Milliseconds timeout);

  [[nodiscard]] DeviceWatcher& watcher() { return watcher_; }
  /// Every other rank's call throws.
  void abort(const std::string& reason);
  /// Says goodbye to the other ranks. Calls that have not ended are lost.
  void close();
  /// In a forked child.
  void abandon() { watcher_.abandon(); }

 private:
  /// What one communicator's first call makes, or its failure. It can't be tried again, since the
  /// store has the keys of that attempt.
  struct Attempt {
    std::shared_ptr<DeviceChannel> channel;
    std::exception_ptr failure;
    [[nodiscard]] bool is_made() const { return channel != nullptr || failure != nullptr; }
    [[nodiscard]] const std::shared_ptr<DeviceChannel>& get() const;
  };
  /// With connecting_ held.
  const std::shared_ptr<DeviceChannel>& make(Attempt& attempt, const Membership& members,
                                             const std::string& what, Milliseconds timeout);
  void require(c10::Device device);
  /// Before a lock is taken: it may need the GIL.
  [[nodiscard]] bool is_capturing(c10::Device device);
  std::vector<std::shared_ptr<DeviceChannel>> channels();

  Membership members_;
  std::shared_ptr<Failures> failures_;
  std::shared_ptr<Driver> driver_;
  std::shared_ptr<StreamHandles> handles_ = std::make_shared<StreamHandles>();
  DeviceWatcher watcher_;
  std::mutex connecting_;  ///< held while a communicator is made
  std::mutex mutex_;       ///< protects the members below
  std::optional<c10::Device> device_;
  bool is_eager_ = false;
  bool is_closed_ = false;
  Attempt all_;
  std::map<int, Attempt> pairs_;  ///< by the other rank of the group
};

}  // namespace tutti::torch_backend
