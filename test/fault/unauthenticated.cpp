#include "unauthenticated.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const auto target = std::filesystem::read_symlink(entry, error).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// Parses "0100007F:1F90": 32-bit words of the address in host byte order, the port in hexadecimal.
Endpoint parse(const std::string& text, int rank) {
  const auto colon = text.find(':');
  const auto port = static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1), nullptr, 16));
  std::array<std::uint32_t, 4> words{};
  const auto count = colon / 8;
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = static_cast<std::uint32_t>(std::stoul(text.substr(8 * i, 8), nullptr, 16));
  }
  Endpoint endpoint;
  endpoint.rank = rank;
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (count == 1) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    std::memcpy(&address.sin_addr, words.data(), 4);
    std::memcpy(&endpoint.address, &address, sizeof address);
    endpoint.length = sizeof address;
    ::inet_ntop(AF_INET, &address.sin_addr, name.data(), name.size());
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    std::memcpy(&address.sin6_addr, words.data(), 16);
    std::memcpy(&endpoint.address, &address, sizeof address);
    endpoint.length = sizeof address;
    ::inet_ntop(AF_INET6, &address.sin6_addr, name.data(), name.size());
  }
  endpoint.text = fmt::format("rank {} at {} port {}", rank, name.data(), port);
  return endpoint;
}

struct Attempt {
  Descriptor socket;
  Outcome outcome;
  Bytes hello;
  bool has_sent = false;
};

constexpr std::size_t hello_bytes = 40;

void serve(Attempt& attempt, const Behavior& behavior, Clock::time_point begin) {
  const auto close = [&] {
    attempt.outcome.closed = true;
    attempt.outcome.after = Clock::now() - begin;
    attempt.socket.reset();
  };
  const auto send_data = [&] {
    attempt.has_sent = true;
    if (!behavior.sends) return;
    const auto words = behavior.sends(attempt.hello);
    // Drops what does not fit into the socket buffer.
    if (::send(attempt.socket.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      close();
  };
  if (!attempt.outcome.connected) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return close();
    attempt.outcome.connected = true;
    if (behavior.sends_first) send_data();
  }
  while (attempt.socket) {
    std::array<std::byte, 512> buffer;
    const auto got = ::recv(attempt.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close();
    attempt.outcome.received += static_cast<std::size_t>(got);
    attempt.hello.insert(attempt.hello.end(), buffer.begin(), buffer.begin() + got);
    if (!attempt.has_sent && attempt.hello.size() >= hello_bytes) send_data();
  }
}

}  // namespace

std::vector<Endpoint> endpoints_of(pid_t pid, int rank) {
  std::vector<Endpoint> endpoints;
  const auto sockets = sockets_of(pid);
  for (const auto* file : {"tcp", "tcp6"}) {
    std::ifstream table(fmt::format("/proc/{}/net/{}", pid, file));
    std::string line;
    std::getline(table, line);  // skips the heading
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::array<std::string, 10> columns;
      for (auto& column : columns) words >> column;
      const bool listens = columns[3] == "0A";
      if (listens && sockets.contains(columns[9])) endpoints.push_back(parse(columns[1], rank));
    }
  }
  return endpoints;
}

Descriptor start_connect(const Endpoint& endpoint) {
  Descriptor socket(
      ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw std::runtime_error("the test has no descriptor left: raise ulimit -n");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&endpoint.address),
                endpoint.length) != 0 &&
      errno != EINPROGRESS) {
    throw std::runtime_error(fmt::format("nobody listens: {}", endpoint.text));
  }
  return socket;
}

std::vector<Outcome> connect_all(const std::vector<Endpoint>& endpoints, const Behavior& behavior,
                                 std::chrono::milliseconds limit) {
  std::vector<Attempt> attempts;
  const auto begin = Clock::now();
  for (const auto& endpoint : endpoints) {
    attempts.push_back({.socket = start_connect(endpoint), .outcome = {.endpoint = endpoint.text}});
  }
  while (Clock::now() < begin + limit) {
    std::vector<pollfd> waits;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      if (!attempts[i].socket) continue;
      const bool connected = attempts[i].outcome.connected;
      waits.push_back(
          {attempts[i].socket.get(), static_cast<short>(connected ? POLLIN : POLLOUT), 0});
      who.push_back(i);
    }
    if (waits.empty()) break;
    ::poll(waits.data(), waits.size(), 20);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) serve(attempts[who[i]], behavior, begin);
    }
  }
  std::vector<Outcome> outcomes;
  for (auto& attempt : attempts) outcomes.push_back(attempt.outcome);
  return outcomes;
}

long resident_kib(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  std::string word;
  long kib = 0;
  while (file >> word) {
    if (word == "VmRSS:" && file >> kib) return kib;
  }
  throw std::runtime_error(fmt::format("process {} has ended", pid));
}

std::size_t open_descriptors(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid), error);
  return static_cast<std::size_t>(std::distance(files, {}));
}

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tutti::test
