#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/handshake.hpp"
#include "support/fork_ranks.hpp"

/// A relay on the path between ranks.
namespace tutti::test {

/// A bootstrap that routes all connections through the relay: it replaces each rank's port in the
/// peer info by the relay's port for that rank. The rank reports its real port to the parent.
class RelayBootstrap final : public Bootstrap {
 public:
  RelayBootstrap(Rank& rank, std::vector<std::uint16_t> ports)
      : rank_(rank), ports_(std::move(ports)) {}
  [[nodiscard]] int rank() const override { return rank_.rank(); }
  [[nodiscard]] int size() const override { return rank_.size(); }
  [[nodiscard]] std::string source() const override { return "a detour"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override;
  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override {
    return rank_.bootstrap().broadcast(from_root, root, deadline);
  }
  void barrier(Deadline deadline) override { rank_.bootstrap().barrier(deadline); }

 private:
  Rank& rank_;
  std::vector<std::uint16_t> ports_;
};

/// Listens on one port per rank. start() creates a thread; it must be joined before the test forks
/// again.
class Relay {
 public:
  /// Reads, and may change, data from the initiator of a connection. `position` is the offset of
  /// `bytes` in its stream.
  using Modify = std::function<void(rendezvous::LinkKind kind, std::size_t position,
                                    std::vector<std::byte>& bytes)>;

  explicit Relay(int ranks);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  [[nodiscard]] const std::vector<std::uint16_t>& ports() const { return ports_; }
  void start(Job& job, Modify modify);
  void stop();
  /// Number of forwarded connections.
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Direction {
    Descriptor from, to;
    std::vector<std::byte> start;  ///< first bytes from the initiator, which contain the link kind
    std::size_t position = 0;
  };
  void run(Job& job);
  bool forward(Direction& direction);

  std::vector<Descriptor> listeners_;
  std::vector<std::uint16_t> ports_;
  Modify modify_;
  std::atomic<bool> is_over_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace tutti::test
