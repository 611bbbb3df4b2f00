// Measures overlap: the time of an all-reduce and of a computation, sequential and concurrent,
// interleaved.
//
//     scripts/cluster up 2 --rate 1gbit
//     scripts/cluster run -np 2 --map-by node build/test/mpi/overlap 64 5    # MiB, rounds
//
// Prints medians over the rounds, of the slowest rank, and concurrent time over the sum. On two
// ranks it measures the same for MPI_Iallreduce and for plain blocking sockets, with one thread per
// direction and without a reduction. The latter is the kernel's share, which can't overlap if the
// ranks compute on all cores.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// Arithmetic in registers, like a compute-bound kernel.
double compute(std::int64_t steps) {
  double a = 1.0;
  double b = 0.5;
  for (std::int64_t i = 0; i < steps; ++i) {
    a = a * 0.999999 + b;
    b = b * 1.000001 - 0.25 * a;
  }
  return a + b;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Transfers in both directions of one connection between two ranks.
class PlainExchange {
 public:
  explicit PlainExchange(int rank) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rank == 0) {
      address.sin_addr = own_address();
      require(::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0, "bind");
      require(::listen(listener, 1) == 0, "listen");
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    }
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      socket_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      ::close(listener);
    } else {
      socket_ = listener;
      require(::connect(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0, "connect");
    }
    require(socket_ >= 0, "accept");
  }
  PlainExchange(const PlainExchange&) = delete;
  PlainExchange& operator=(const PlainExchange&) = delete;
  ~PlainExchange() { ::close(socket_); }

  void start(std::span<const float> send, std::span<float> recv) {
    threads_.emplace_back([this, bytes = std::as_bytes(send)]() mutable {
      while (!bytes.empty()) {
        const auto done = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (done <= 0) return;
        bytes = bytes.subspan(static_cast<std::size_t>(done));
      }
    });
    threads_.emplace_back([this, bytes = std::as_writable_bytes(recv)]() mutable {
      while (!bytes.empty()) {
        const auto most = std::min<std::size_t>(bytes.size(), std::size_t{1} << 20);
        const auto done = ::recv(socket_, bytes.data(), most, MSG_WAITALL);
        if (done <= 0) return;
        bytes = bytes.subspan(static_cast<std::size_t>(done));
      }
    });
  }
  void wait() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  static void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
  }
  static in_addr own_address() {
    ifaddrs* list = nullptr;
    require(::getifaddrs(&list) == 0, "getifaddrs");
    in_addr found{htonl(INADDR_LOOPBACK)};
    for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
      if ((entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
      found = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    }
    ::freeifaddrs(list);
    return found;
  }

  int socket_ = -1;
  std::vector<std::thread> threads_;
};

/// A communication to overlap with the computation.
struct Way {
  std::string name;
  std::function<void()> start;
  std::function<void()> wait;
  std::vector<double> alone;
  std::vector<double> both;
};

int run(std::size_t mebibytes, int rounds) {
  auto communicator = tutti::from_mpi(MPI_COMM_WORLD);
  std::vector<float> data((mebibytes << 20) / sizeof(float), 1.0F);
  auto received = data;
  volatile double sink = 0;
  // Time of the slowest rank in seconds.
  const auto time = [&](const std::function<void()>& body) {
    communicator.barrier();
    const auto begin = Clock::now();
    body();
    std::vector<double> seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
    communicator.all_reduce(tutti::in_place, seconds, tutti::max);
    return seconds[0];
  };
  std::optional<tutti::Work> work;
  MPI_Request request = MPI_REQUEST_NULL;
  std::optional<PlainExchange> plain;
  std::vector<Way> ways;
  ways.push_back({"start_all_reduce",
                  [&] { work = communicator.start_all_reduce(tutti::in_place, data, tutti::max); },
                  [&] { work->wait(); },
                  {},
                  {}});
  if (communicator.size() == 2) {
    plain.emplace(communicator.rank());
    ways.push_back(
        {"plain sockets", [&] { plain->start(data, received); }, [&] { plain->wait(); }, {}, {}});
  }
  ways.push_back({"MPI_Iallreduce",
                  [&] {
                    MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()),
                                   MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD, &request);
                  },
                  [&] { MPI_Wait(&request, MPI_STATUS_IGNORE); },
                  {},
                  {}});
  const auto alone = [&](const Way& way) {
    return time([&] {
      way.start();
      way.wait();
    });
  };
  static_cast<void>(alone(ways[0]));
  const double communication = alone(ways[0]);
  // As much computation as communication; the same number of steps on all ranks.
  constexpr std::int64_t probe = 20'000'000;
  std::vector<double> probes;
  for (int i = 0; i < 9; ++i) probes.push_back(time([&] { sink = compute(probe); }));
  const double probe_time = median(probes);
  const auto steps =
      static_cast<std::int64_t>(static_cast<double>(probe) * communication / probe_time);

  std::vector<double> computing;
  for (int round = 0; round < rounds; ++round) {
    computing.push_back(time([&] { sink = compute(steps); }));
    for (auto& way : ways) {
      way.alone.push_back(alone(way));
      way.both.push_back(time([&] {
        way.start();
        sink = compute(steps);
        way.wait();
      }));
    }
  }
  communicator.finalize();
  for (const auto& way : ways) {
    if (communicator.rank() != 0) break;
    fmt::print(
        "{} of {} MiB on {} ranks: alone {:.0f} ms, computing {:.0f} ms, both at once {:.0f} ms, "
        "{:.2f} of their sum\n",
        way.name, mebibytes, communicator.size(), median(way.alone) * 1e3, median(computing) * 1e3,
        median(way.both) * 1e3, median(way.both) / (median(way.alone) + median(computing)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  try {
    const auto mebibytes = static_cast<std::size_t>(argc > 1 ? std::atol(argv[1]) : 64);
    status = run(mebibytes, argc > 2 ? std::atoi(argv[2]) : 5);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
