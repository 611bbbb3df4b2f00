#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "doctor/facts.hpp"
#include "rendezvous/listener.hpp"

namespace tutti::app::doctor {

/// Answers probes at listening sockets, in its own thread: sends the token to each connection, and
/// nothing else. The kernel acknowledges what the peers send; it is never read.
class ProbeServer {
 public:
  ProbeServer(std::vector<rendezvous::Listener> listeners, std::string token);
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  ~ProbeServer();

 private:
  void answer();

  std::vector<rendezvous::Listener> listeners_;
  std::string token_;
  std::deque<Descriptor> connections_;  ///< the latest
  Wakeup stop_;
  std::thread thread_;
};

struct ProbeTarget {
  int host;
  rendezvous::SocketAddress address;
  std::string token;  ///< what the expected process sends
};

/// Tries all targets, many at once, for `patience` each at most; results in the order of `targets`.
/// Sends packets of the largest size that the connection allows to each target that answers.
[[nodiscard]] std::vector<ReachFact> try_targets(const std::vector<ProbeTarget>& targets,
                                                 std::chrono::milliseconds patience);

}  // namespace tutti::app::doctor
