#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "tutti/bootstrap.hpp"

/// Opens many connections from outside a job to its ports, in one thread.
namespace tutti::test {

/// A listening socket of a process.
struct Endpoint {
  int rank = -1;
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;
};

/// All TCP ports on which the process listens, from /proc.
[[nodiscard]] std::vector<Endpoint> endpoints_of(pid_t pid, int rank);

/// What a connection sends: immediately if `sends_first`, else after the hello, which it may use.
struct Behavior {
  std::string name;
  bool sends_first = true;
  /// Empty: the connection sends nothing.
  std::function<Bytes(const Bytes& hello)> sends;
};

/// Result of one connection.
struct Outcome {
  std::string endpoint;
  bool connected = false;
  bool closed = false;  ///< closed by the listening process
  std::chrono::steady_clock::duration after{};
  std::size_t received = 0;
};

/// Opens one connection to each of `endpoints` at the same time. Returns when all are closed, or
/// after `limit`.
std::vector<Outcome> connect_all(const std::vector<Endpoint>& endpoints, const Behavior& behavior,
                                 std::chrono::milliseconds limit);

/// Starts a connection without waiting for its completion.
[[nodiscard]] Descriptor start_connect(const Endpoint& endpoint);

[[nodiscard]] long resident_kib(pid_t pid);
[[nodiscard]] std::size_t open_descriptors(pid_t pid);
/// Raises the limit on open descriptors to the hard limit.
void raise_descriptor_limit();

}  // namespace tutti::test
