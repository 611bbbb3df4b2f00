// Cost of starting many ranks without MPI: time, messages, sockets, memory. Ranks are plain
// processes with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and bootstrap as with --init
// env://.
#include <fmt/format.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/descriptor.hpp"
#include "launch/resolve.hpp"
#include "store/open.hpp"
#include "tally.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using test::Rank;
using namespace std::chrono_literals;

/// Measurements of one rank, and their aggregate over ranks.
struct Cost {
  double setup_ms = 0;  ///< from the start signal to a communicator
  double store_ms = 0;  ///< part of it: until all ranks are connected to the store
  double cpu_ms = 0;    ///< CPU time of set-up, which depends little on load
  double messages = 0;  ///< sent and received by the store during set-up
  double sockets = 0;   ///< after the communicator exists
  double sockets_after_calls = 0;
  double files = 0;  ///< open files at that time
  double resident_mib = 0;
  double own_mib = 0;  ///< private part of it
};
constexpr std::array fields{&Cost::setup_ms, &Cost::store_ms,     &Cost::cpu_ms,
                            &Cost::messages, &Cost::sockets,      &Cost::sockets_after_calls,
                            &Cost::files,    &Cost::resident_mib, &Cost::own_mib};

struct OpenFiles {
  int all = 0;
  int sockets = 0;
};

OpenFiles open_files() {
  OpenFiles result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto name = std::filesystem::read_symlink(entry, error).string();
    if (name.starts_with("/proc/")) continue;  // the directory that is read here
    ++result.all;
    if (name.starts_with("socket:")) ++result.sockets;
  }
  return result;
}

double processor_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

void read_memory(Cost& cost) {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  double kib = 0;
  while (file >> word) {
    if (word == "Rss:" && file >> kib) cost.resident_mib = kib / 1024;
    if (word.starts_with("Private_") && file >> kib) cost.own_mib += kib / 1024;
  }
}

/// Releases all ranks of a job at one moment: a pipe, created before they are forked. Polling a
/// flag would spread their starts over its interval, and the first would be charged for the wait.
class StartSignal {
 public:
  StartSignal() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe for the start signal");
    read_ = Descriptor(ends[0]);
    write_ = Descriptor(ends[1]);
  }
  void give(int ranks) const {
    const std::vector<Moment> moments(static_cast<std::size_t>(ranks),
                                      Clock::now().time_since_epoch().count());
    const auto bytes = moments.size() * sizeof(Moment);
    test::expect(::write(write_.get(), moments.data(), bytes) == static_cast<ssize_t>(bytes),
                 "the start signal can't be written");
  }
  /// Returns when it was given. Called once, by each rank.
  [[nodiscard]] Clock::time_point wait() {
    Moment moment = 0;
    test::expect(::read(read_.get(), &moment, sizeof moment) == sizeof moment,
                 "the start signal can't be read");
    read_.reset();
    write_.reset();
    return Clock::time_point(Clock::duration(moment));
  }

 private:
  using Moment = Clock::duration::rep;
  Descriptor read_;
  Descriptor write_;
};

std::string start(Rank& rank, int port, StartSignal& signal) {
  const EnvironmentMap map{{"RANK", std::to_string(rank.rank())},
                           {"WORLD_SIZE", std::to_string(rank.size())},
                           {"LOCAL_RANK", std::to_string(rank.rank())},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(port)}};
  rank.mark();
  const auto begin = signal.wait();

  Cost cost;
  const double cpu_before = processor_ms();
  const auto since_begin = [begin] { return 1e3 * test::seconds(Clock::now() - begin); };
  Log log(LogLevel::warning, nullptr);
  auto store = store::open(map, {}, launch::choose_init(map, {}), false, log, Deadline::after(60s));
  cost.store_ms = since_begin();
  auto communicator = Communicator::create(*store, {.timeout = 60s});
  cost.setup_ms = since_begin();
  cost.cpu_ms = processor_ms() - cpu_before;
  cost.messages = static_cast<double>(store->messages());
  store.reset();
  cost.sockets = open_files().sockets;

  // Without shared memory, calls open links.
  std::vector<float> data(25'000, 1.0F);
  communicator.broadcast(std::span(data), 0);
  communicator.all_reduce(in_place, std::span(data), sum);
  test::expect(data.back() == static_cast<float>(rank.size()), "the sum is wrong");
  const auto open = open_files();
  cost.sockets_after_calls = open.sockets;
  cost.files = open.all;
  read_memory(cost);
  communicator.finalize();
  std::string text;
  for (const auto field : fields) text += fmt::format("{} ", cost.*field);
  return text;
}

/// A port that is free, below the range of ephemeral ports.
int free_port() {
  std::random_device random;
  for (int i = 0; i < 100; ++i) {
    const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto port = static_cast<std::uint16_t>(20'000 + random() % 10'000);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      return port;
    }
  }
  throw std::runtime_error("no port is free");
}

Cost read(const test::Report& report) {
  std::istringstream words(report.text);
  Cost cost;
  for (const auto field : fields) words >> cost.*field;
  return cost;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One job: its slowest rank, its largest rank, and rank 0.
struct Run {
  Cost largest;
  double root_messages = 0;
};

Run run_once(int size) {
  const int port = free_port();
  StartSignal signal;
  test::Job job(size, [&](Rank& rank) { return start(rank, port, signal); });
  job.await_marks_of_all(1, 60s);
  // A rank marks itself just before it reads the signal.
  std::this_thread::sleep_for(2ms);
  signal.give(size);
  const auto reports = job.finish(60s);
  if (const auto errors = test::errors_of(reports); !errors.empty()) {
    throw std::runtime_error(errors);
  }
  Run run;
  run.root_messages = read(reports[0]).messages;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    auto cost = read(reports[rank]);
    if (rank == 0) cost.messages = 0;
    for (const auto field : fields) {
      run.largest.*field = std::max(run.largest.*field, cost.*field);
    }
  }
  return run;
}

/// Checks limits that do not depend on the machine's load. Empty if they hold.
std::string violated_limit(int size, const Run& run) {
  // In both directions: join and welcome, an all-gather, a broadcast and a barrier.
  const double max_messages = 8.0 * (size - 1);
  // Control links to ranks 1, 2, 4, … away in both directions. Data links of calls with O(log n)
  // rounds, each of which sends and receives.
  const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
  const int max_sockets = 2 * rounds + 4;
  const int max_sockets_later = 6 * rounds + 4;
  if (run.root_messages > max_messages) {
    return fmt::format("{} messages at rank 0, where {} are the most", run.root_messages,
                       max_messages);
  }
  if (run.largest.sockets > max_sockets || run.largest.sockets_after_calls > max_sockets_later) {
    return fmt::format("{} and {} sockets, where {} and {} are the most", run.largest.sockets,
                       run.largest.sockets_after_calls, max_sockets, max_sockets_later);
  }
  return {};
}

}  // namespace

int start(const std::vector<int>& sizes, int runs, bool over_tcp) {
  // Through the environment, as a user does.
  if (over_tcp) ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
  fmt::print("start without MPI, {}, {} runs: medians of each run's largest rank\n",
             over_tcp ? "TUTTI_SHARED_MEMORY=0" : "ranks of one host", runs);
  fmt::print("{:>5}  {:>9} {:>7}  {:>8}  {:>6}  {:>18}  {:>19}  {:>18}  {:>5}  {:>13}\n", "ranks",
             "set-up ms", "worst", "store ms", "CPU ms", "messages at rank 0",
             "at every other rank", "sockets, and later", "files", "own MiB, RSS");
  int wrong = 0;
  for (const int size : sizes) {
    std::vector<Run> all;
    for (int run = 0; run < runs; ++run) {
      all.push_back(run_once(size));
      const auto what = violated_limit(size, all.back());
      if (what.empty()) continue;
      fmt::print("WRONG: {} ranks: {}\n", size, what);
      ++wrong;
    }
    const auto of = [&](auto value) {
      std::vector<double> values;
      for (const auto& run : all) values.push_back(value(run));
      return values;
    };
    const auto largest = [&](double Cost::*field) {
      return median(of([field](const Run& run) { return run.largest.*field; }));
    };
    const auto times = of([](const Run& run) { return run.largest.setup_ms; });
    fmt::print(
        "{:>5}  {:>9.1f} {:>7.1f}  {:>8.1f}  {:>6.2f}  {:>18}  {:>19}  {:>18}  {:>5}  {:>13}\n",
        size, median(times), *std::max_element(times.begin(), times.end()),
        largest(&Cost::store_ms), largest(&Cost::cpu_ms),
        median(of([](const Run& run) { return run.root_messages; })), largest(&Cost::messages),
        fmt::format("{}, {}", largest(&Cost::sockets), largest(&Cost::sockets_after_calls)),
        largest(&Cost::files),
        fmt::format("{:.1f}, {:.1f}", largest(&Cost::own_mib), largest(&Cost::resident_mib)));
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace tutti::soak
