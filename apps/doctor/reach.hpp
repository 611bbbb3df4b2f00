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

/// Answers at listening sockets, from a thread of its own: whoever connects hears the token, and
/// nothing else ever. What guests send is acknowledged by the kernel, and not read.
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
  std::string token;  ///< what the right one says
};

/// Tries all targets, many at once, for `patience` each at most; results in the order of `targets`.
/// To each that answers the largest packets are sent that the connection allows.
[[nodiscard]] std::vector<ReachFact> try_targets(const std::vector<ProbeTarget>& targets,
                                                 std::chrono::milliseconds patience);

}  // namespace tutti::app::doctor
