// Thousands of unauthenticated connections of eight kinds, to the ports of a running job and to the
// port where ranks without MPI connect. The job's data must stay correct and its memory constant.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "fault/loops.hpp"
#include "fault/unauthenticated.hpp"
#include "rendezvous/handshake.hpp"
#include "support/sanitized.hpp"
#include "support/secret.hpp"
#include "tally.hpp"
#include "tutti/environment.hpp"

namespace tutti::soak {
namespace {

using namespace test;

constexpr int size = 3;
constexpr std::size_t max_at_once = 40;  // per port; below the limit of pending connections
// Sanitizers keep freed memory.
constexpr long max_growth_kib = test::is_sanitized ? 16384 : 1024;

Bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

Bytes random_bytes(std::size_t count) {
  Bytes bytes(count);
  bootstrap::draw_random(bytes);
  return bytes;
}

/// A proof with a secret that is not the job's.
Bytes wrong_proof(const Bytes& hello_read, std::size_t length) {
  rendezvous::Hello hello{};
  std::copy_n(hello_read.begin(), std::min(hello_read.size(), hello.size()), hello.begin());
  rendezvous::Nonce nonce{};
  bootstrap::draw_random(nonce);
  const rendezvous::Membership self{.secret = known_secret(), .epoch = 0, .rank = 1, .size = size};
  const auto made = rendezvous::make_proof(self, 0, rendezvous::LinkKind::data, hello, nonce);
  const auto* const proof = std::get_if<rendezvous::Proof>(&made);
  if (proof == nullptr) return {};
  return {proof->begin(), proof->begin() + static_cast<std::ptrdiff_t>(length)};
}

std::vector<Behavior> eight_kinds() {
  return {
      {"random bytes", true, [](const Bytes&) { return random_bytes(300); }},
      {"much nonsense", true, [](const Bytes&) { return random_bytes(std::size_t{1} << 16); }},
      {"HTTP", true, [](const Bytes&) { return bytes_of("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); }},
      {"TLS", true,
       [](const Bytes&) {
         auto hello = bytes_of({"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", 11});
         hello.resize(205, std::byte{7});
         return hello;
       }},
      {"its own hello thrice", false,
       [](const Bytes& hello) {
         auto words = hello;
         words.insert(words.end(), hello.begin(), hello.end());
         words.insert(words.end(), hello.begin(), hello.end());
         return words;
       }},
      {"a proof of another job", false,
       [](const Bytes& hello) { return wrong_proof(hello, rendezvous::proof_bytes); }},
      {"half a proof, then silence", false,
       [](const Bytes& hello) { return wrong_proof(hello, rendezvous::proof_bytes / 2); }},
      {"silence", true, {}},
  };
}

/// Opens unauthenticated connections, some at a time to each endpoint, of alternating kinds.
class BadConnections {
 public:
  BadConnections(const std::vector<Endpoint>& endpoints, std::size_t connections)
      : kinds_(eight_kinds()), left_(connections) {
    // Few enough that each kind is used.
    const auto at_once =
        std::clamp<std::size_t>(connections / (kinds_.size() * endpoints.size()), 1, max_at_once);
    for (const auto& endpoint : endpoints) endpoints_.insert(endpoints_.end(), at_once, endpoint);
  }

  /// Opens the next connections. Returns false if there have been enough.
  bool connect_next() {
    if (left_ == 0) return false;
    const auto outcomes =
        connect_all(endpoints_, kinds_[round_++ % kinds_.size()], 5s * time_factor());
    made_ += outcomes.size();
    left_ -= std::min(left_, outcomes.size());
    for (const auto& outcome : outcomes) {
      const bool is_dropped =
          outcome.connected && outcome.closed && outcome.received <= rendezvous::hello_bytes;
      if (!is_dropped) ++not_dropped_;
    }
    return true;
  }

  /// Returns true if all were dropped.
  bool report(const std::string& where) const {
    fmt::print("{}: {} bad connections of {} kinds, {} not dropped\n", where, made_, kinds_.size(),
               not_dropped_);
    return not_dropped_ == 0;
  }

 private:
  std::vector<Behavior> kinds_;
  std::vector<Endpoint> endpoints_;
  std::size_t left_;
  std::size_t round_ = 0;
  std::size_t made_ = 0;
  std::size_t not_dropped_ = 0;
};

/// Rate of a job's calls, with and without connections, alternating.
class Paces {
 public:
  explicit Paces(Job& job) : job_(job) {}

  template <class Action>
  double pace(Action action) {
    const auto begin = Clock::now();
    const auto before = job_.marks(0);
    action();
    return static_cast<double>(job_.marks(0) - before) / seconds(Clock::now() - begin);
  }
  void add(double beside, double alone) {
    if (alone > 0) ratios_.push_back(beside / alone);
    beside_ += beside;
    alone_ += alone;
  }
  void report() {
    if (ratios_.empty()) {
      fmt::print("throughput: the job did no all_reduce alone\n");
      return;
    }
    std::sort(ratios_.begin(), ratios_.end());
    const auto at = [this](double part) {
      return ratios_[static_cast<std::size_t>(part * static_cast<double>(ratios_.size() - 1))];
    };
    const auto count = static_cast<double>(ratios_.size());
    fmt::print(
        "throughput: {:.0f} all_reduces a second alone, {:.0f} meanwhile; in turns, {} pairs: "
        "{:.2f} times ({:.2f} to {:.2f})\n",
        alone_ / count, beside_ / count, ratios_.size(), at(0.5), at(0.25), at(0.75));
  }

 private:
  Job& job_;
  std::vector<double> ratios_;
  double beside_ = 0;
  double alone_ = 0;
};

/// Returns true if the job was not affected.
bool at_a_running_job(std::size_t connections) {
  Job job(size, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 60s});
    const int rounds = reduce_until_released(rank, communicator, 1000);
    communicator.finalize();
    return fmt::format("{} verified rounds", rounds);
  });
  job.await_marks_of_all(100);
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < size; ++rank) {
    for (auto& endpoint : endpoints_of(job.pid(rank), rank))
      endpoints.push_back(std::move(endpoint));
  }
  if (endpoints.empty()) throw std::runtime_error("nobody listens");
  connect_all(endpoints, eight_kinds()[0], 5s);  // excludes first allocations from the measurement
  std::vector<long> resident;
  for (int rank = 0; rank < size; ++rank) resident.push_back(resident_kib(job.pid(rank)));

  BadConnections bad_connections(endpoints, connections);
  Paces paces(job);
  while (true) {
    bool more = true;
    const auto begin = Clock::now();
    const auto beside = paces.pace([&] { more = bad_connections.connect_next(); });
    if (!more) break;
    const auto time = std::max<Clock::duration>(Clock::now() - begin, 100ms);
    paces.add(beside, paces.pace([&] { std::this_thread::sleep_for(time); }));
  }
  long growth = 0;
  for (int rank = 0; rank < size; ++rank) {
    growth =
        std::max(growth, resident_kib(job.pid(rank)) - resident[static_cast<std::size_t>(rank)]);
  }
  job.release();
  const auto reports = job.finish(60s);
  const auto wrong = errors_of(reports);
  const bool all_dropped = bad_connections.report(
      fmt::format("at the {} ports of a running job of {} ranks", endpoints.size(), size));
  fmt::print("memory: {} KiB more at most, in any rank\n", growth);
  paces.report();
  fmt::print("data: {}\n", wrong.empty() ? reports[0].text : wrong);
  return wrong.empty() && all_dropped && growth <= max_growth_kib;
}

int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no port of loopback is free");
  }
  return ntohs(address.sin_port);
}

/// Unauthenticated connections arrive while rank 0 waits for the other ranks; then the others
/// start.
bool at_the_rendezvous_port(std::size_t connections) {
  const int port = free_port();
  Job job(size, [port](Rank& rank) -> std::string {
    ::setenv("TUTTI_INIT", fmt::format("tcp://127.0.0.1:{}", port).c_str(), 1);
    ::setenv("TUTTI_RANK", std::to_string(rank.rank()).c_str(), 1);
    ::setenv("TUTTI_SIZE", std::to_string(size).c_str(), 1);
    ::setenv("TUTTI_SECRET", "the secret of the soak: 0123456789abcdef0123456789", 1);
    rank.mark();
    if (rank.rank() != 0) rank.wait_for_release();
    auto communicator = from_environment({.timeout = 300s});
    std::vector<float> data(1000);
    reduce_and_check(rank, communicator, data);
    communicator.finalize();
    return "a verified all_reduce";
  });
  job.await_marks_of_all(1);
  std::vector<Endpoint> endpoints;
  for (const auto limit = Clock::now() + 20s; endpoints.empty() && Clock::now() < limit;) {
    std::this_thread::sleep_for(10ms);
    endpoints = endpoints_of(job.pid(0), 0);
  }
  if (endpoints.empty()) throw std::runtime_error("rank 0 does not listen");
  connect_all(endpoints, eight_kinds()[0], 5s);
  const long before = resident_kib(job.pid(0));
  BadConnections bad_connections(endpoints, connections);
  while (bad_connections.connect_next()) {
  }
  const long growth = resident_kib(job.pid(0)) - before;
  job.release();
  const auto reports = job.finish(60s);
  const auto wrong = errors_of(reports);
  const bool all_dropped =
      bad_connections.report("where a job without MPI meets, before its ranks come");
  fmt::print("memory: {} KiB more\ndata: {}\n", growth, wrong.empty() ? reports[0].text : wrong);
  return wrong.empty() && all_dropped && growth <= max_growth_kib;
}

}  // namespace

int unauthenticated(std::size_t connections) {
  raise_descriptor_limit();
  const bool running = at_a_running_job(connections);
  const bool exchanged = at_the_rendezvous_port(connections);
  return running && exchanged ? 0 : 1;
}

}  // namespace tutti::soak
