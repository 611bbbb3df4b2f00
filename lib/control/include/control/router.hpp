#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "control/message.hpp"

namespace tutti::control {

/// Routes messages over a sparse graph of links: to all ranks by flooding, where each rank forwards
/// a message once; to one rank along the reverse path of its latest message. No I/O, so a test can
/// run many ranks in one thread.
class Router {
 public:
  struct LinkSet {
    std::function<std::vector<int>()> linked;  ///< neighbours with an open link
    std::function<void(int neighbour, const ControlMessage&)> pass;
    std::function<void(const ControlMessage&)> deliver;  ///< a message for this rank
  };

  Router(int rank, int size, LinkSet links);

  void send(ControlMessageKind kind, int target, Bytes body);
  void on_message(int neighbour, const ControlMessage& message);

 private:
  struct Seen {
    std::uint32_t highest = 0;
    std::uint64_t window = 0;  ///< bit i: serial highest - i has been received
    int arrived_from = -1;     ///< neighbour that the latest new message came from
  };
  bool is_new(const ControlMessage& message);
  void forward(const ControlMessage& message, int except);

  int rank_;
  LinkSet links_;
  std::uint32_t serial_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace tutti::control
