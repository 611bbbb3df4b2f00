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

/// Connections to a job's ports from outside the job, many at once, in one thread.
namespace tutti::test {

/// A socket at which a process listens.
struct Endpoint {
  int rank = -1;
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;
};

/// Every TCP port at which the process listens, from /proc.
[[nodiscard]] std::vector<Endpoint> endpoints_of(pid_t pid, int rank);

/// What a connection sends: at once if `sends_first`, else after the hello, which it may use.
struct Behavior {
  std::string name;
  bool sends_first = true;
  /// Nothing to send: it stays silent.
  std::function<Bytes(const Bytes& hello)> sends;
};

/// What became of one connection.
struct Outcome {
  std::string endpoint;
  bool connected = false;
  bool closed = false;  ///< by the process that listens
  std::chrono::steady_clock::duration after{};
  std::size_t received = 0;
};

/// One connection to each of `endpoints`, all at the same time, until all are closed or `limit` is
/// over.
std::vector<Outcome> connect_all(const std::vector<Endpoint>& endpoints, const Behavior& behavior,
                                 std::chrono::milliseconds limit);

/// Starts a connection and does not wait for it.
[[nodiscard]] Descriptor start_connect(const Endpoint& endpoint);

[[nodiscard]] long resident_kib(pid_t pid);
[[nodiscard]] std::size_t open_descriptors(pid_t pid);
/// As many descriptors as the system lets this process have.
void raise_descriptor_limit();

}  // namespace tutti::test
