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

/// Answers probes at listening sockets in its own thread. It sends the token on each connection and
/// reads nothing; the kernel acknowledges what the peers send.
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
  std::deque<Descriptor> connections_;  ///< the latest connections
  Wakeup stop_;
  std::thread thread_;
};

struct ProbeTarget {
  int host;
  rendezvous::SocketAddress address;
  std::string token;  ///< the token that the expected process sends
};

/// Probes all targets, up to 64 at once, with `patience` as limit for each. Sends packets of the
/// maximum segment size to each target that answers. Returns the results in the order of `targets`.
[[nodiscard]] std::vector<ReachFact> try_targets(const std::vector<ProbeTarget>& targets,
                                                 std::chrono::milliseconds patience);

}  // namespace tutti::app::doctor
