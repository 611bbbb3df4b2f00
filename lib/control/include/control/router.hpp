#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "control/message.hpp"

namespace tutti::control {

/// Brings messages over a graph of links that is not full: to everybody by flooding, each rank
/// passing a message on once; to one rank along the way that its own latest message came. Pure, so
/// that a test can drive many in one thread.
class Router {
 public:
  struct LinkSet {
    std::function<std::vector<int>()> linked;  ///< neighbours with a working link
    std::function<void(int neighbour, const Message&)> pass;
    std::function<void(const Message&)> deliver;  ///< a message for this rank
  };

  Router(int rank, int size, LinkSet links);

  void send(MessageKind kind, int target, Bytes body);
  void on_message(int neighbour, const Message& message);

 private:
  struct Seen {
    std::uint32_t highest = 0;
    std::uint64_t window = 0;  ///< bit i: serial highest - i has been seen
    int came_by = -1;          ///< neighbour that brought the latest new one
  };
  bool is_new(const Message& message);
  void forward(const Message& message, int except);

  int rank_;
  LinkSet links_;
  std::uint32_t serial_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace tutti::control
