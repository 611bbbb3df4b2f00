#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "control/message.hpp"
#include "control/router.hpp"
#include "control/topology.hpp"

namespace tutti::control::test {

/// The control links of a whole job in one thread: messages keep their order on a wire, but not
/// across wires. Messages are encoded as on real links.
class SimulatedNetwork {
 public:
  using OnMessage = std::function<void(int rank, const ControlMessage&)>;
  using OnClosed = std::function<void(int rank, int peer)>;

  SimulatedNetwork(int size, std::uint64_t seed, OnMessage on_message, OnClosed on_closed = {})
      : size_(size),
        random_(seed),
        on_message_(std::move(on_message)),
        on_closed_(std::move(on_closed)) {
    for (int rank = 0; rank < size; ++rank) {
      const auto peers = neighbours(rank, size);
      open_.emplace_back(peers.begin(), peers.end());
      routers_.push_back(std::make_unique<Router>(
          rank, size,
          Router::LinkSet{
              .linked =
                  [this, rank] {
                    const auto& open = open_[index(rank)];
                    return std::vector<int>(open.begin(), open.end());
                  },
              .pass = [this, rank](
                          int to,
                          const ControlMessage& message) { put(rank, to, message.encode()); },
              .deliver = [this,
                          rank](const ControlMessage& message) { on_message_(rank, message); }}));
    }
  }
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool is_dead(int rank) const { return dead_.contains(rank); }
  [[nodiscard]] const std::set<int>& dead() const { return dead_; }
  void send(int from, ControlMessageKind kind, int target, Bytes body) {
    routers_[index(from)]->send(kind, target, std::move(body));
  }

  /// The process ends: a random prefix of its messages arrives on each wire, then the neighbour
  /// sees the link closed.
  void kill(int rank) {
    dead_.insert(rank);
    for (const int peer : neighbours(rank, size_)) {
      wires_[{peer, rank}].clear();
      if (is_dead(peer)) continue;
      auto& wire = wires_[{rank, peer}];
      wire.resize(below(wire.size() + 1));
      wire.emplace_back(std::nullopt);
    }
  }

  /// Messages to a stopped rank stay on their wires.
  void stop(int rank) { stopped_.insert(rank); }
  void resume() { stopped_.clear(); }
  [[nodiscard]] bool is_stopped(int rank) const { return stopped_.contains(rank); }

  /// Number of wires with a message for a running rank.
  [[nodiscard]] std::size_t busy() const {
    std::size_t count = 0;
    for (const auto& [ends, wire] : wires_) count += is_idle(ends.second, wire) ? 0U : 1U;
    return count;
  }
  /// Delivers the first message of the n-th busy wire.
  void arrive(std::size_t n) {
    for (auto& [ends, wire] : wires_) {
      if (is_idle(ends.second, wire) || n-- > 0) continue;
      const auto [from, to] = ends;
      const auto event = std::move(wire.front());
      wire.pop_front();
      if (event) {
        const auto message = ControlMessage::decode(*event, size_);
        if (message) routers_[index(to)]->on_message(from, *message);
      } else {
        open_[index(to)].erase(from);
        if (on_closed_) on_closed_(to, from);
      }
      return;
    }
  }
  void run() {
    while (const auto count = busy()) arrive(below(count));
  }

  [[nodiscard]] std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  using Wire = std::deque<std::optional<Bytes>>;
  [[nodiscard]] bool is_idle(int to, const Wire& wire) const {
    return wire.empty() || is_stopped(to);
  }
  void put(int from, int to, Bytes message) {
    ++sent_;
    if (!is_dead(from) && !is_dead(to)) wires_[{from, to}].emplace_back(std::move(message));
  }

  int size_;
  std::mt19937_64 random_;
  OnMessage on_message_;
  OnClosed on_closed_;
  std::set<int> dead_;
  std::set<int> stopped_;
  std::vector<std::set<int>> open_;  ///< open links of each rank
  std::vector<std::unique_ptr<Router>> routers_;
  /// By sender and receiver; an empty entry closes the link.
  std::map<std::pair<int, int>, Wire> wires_;
  std::uint64_t sent_ = 0;
};

}  // namespace tutti::control::test
