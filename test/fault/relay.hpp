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

/// Somebody on the path between ranks.
namespace tutti::test {

/// A bootstrap that makes every rank reach every other through the relay: a rank's infos show the
/// relay's port for it. The rank tells the parent where it really listens.
class DetouredBootstrap final : public Bootstrap {
 public:
  DetouredBootstrap(Rank& rank, std::vector<std::uint16_t> ports)
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

/// Listens once for each rank. After start(), in a thread: joined before the test forks again.
class Relay {
 public:
  /// Sees, and may change, what the initiator of a connection sends, from its `position`th byte on.
  using Meddle = std::function<void(rendezvous::LinkKind kind, std::size_t position,
                                    std::vector<std::byte>& bytes)>;

  explicit Relay(int ranks);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  [[nodiscard]] const std::vector<std::uint16_t>& ports() const { return ports_; }
  void start(Job& job, Meddle meddle);
  void stop();
  /// Connections that it has carried.
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Way {
    Descriptor from, to;
    std::vector<std::byte> start;  ///< of what the initiator said: it names the kind of link
    std::size_t position = 0;
  };
  void run(Job& job);
  bool carry(Way& way);

  std::vector<Descriptor> listeners_;
  std::vector<std::uint16_t> ports_;
  Meddle meddle_;
  std::atomic<bool> is_over_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace tutti::test
