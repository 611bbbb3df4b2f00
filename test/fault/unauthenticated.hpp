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

/// Strangers that connect to a job's ports from outside it, many at once, in one thread.
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

/// What a stranger does: `sends_first` sends at once, else it waits for the hello and may use it.
struct Behavior {
  std::string name;
  bool sends_first = true;
  /// Nothing to send: it stays silent.
  std::function<Bytes(const Bytes& hello)> sends;
};

/// What a stranger got for it.
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

/// A connection to the endpoint without waiting for it to stand.
[[nodiscard]] Descriptor start_connect(const Endpoint& endpoint);

[[nodiscard]] long resident_kib(pid_t pid);
[[nodiscard]] std::size_t open_descriptors(pid_t pid);
/// As many descriptors as the system lets this process have.
void raise_descriptor_limit();

}  // namespace tutti::test
