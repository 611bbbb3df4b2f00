#include "setup_times.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/device_memory.hpp"
#include "device/library.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::gpu_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::Rank;

/// ncclConfig_t of NCCL 2.18. Later versions accept it by its version field.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};
using InitWithConfig = int (*)(device::NcclComm*, int, device::NcclUniqueId, int, Config*);
using Split = int (*)(device::NcclComm, int, int, device::NcclComm*, Config*);

template <class Function>
Function symbol(const device::Library<device::NcclCalls>& nccl, const char* name) {
  void* const address = ::dlsym(nccl.handle.get(), name);
  test::expect(address != nullptr, fmt::format("NCCL has no {}", name));
  return reinterpret_cast<Function>(address);
}

void check(int result, const char* doing) {
  test::expect(result == 0, fmt::format("{}: {}", doing, result));
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

device::NcclUniqueId share_id(Rank& rank, const device::NcclCalls& nccl) {
  device::NcclUniqueId id{};
  if (rank.rank() == 0) check(nccl.get_unique_id(&id), "making the id");
  Bytes bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  const auto shared = rank.bootstrap().broadcast(bytes, 0, Deadline::after(30s));
  std::memcpy(&id, shared.data(), sizeof id);
  return id;
}

void await(const device::NcclCalls& nccl, device::NcclComm comm) {
  int state = device::nccl_in_progress;
  while (state == device::nccl_in_progress) {
    check(nccl.get_async_error(comm, &state), "asking for the state");
    if (state == device::nccl_in_progress) std::this_thread::sleep_for(100us);
  }
  check(state, "set-up");
}

/// A first small all-reduce: NCCL connects the ranks.
double first_call(device::DeviceMemory& memory, const device::NcclCalls& nccl,
                  device::NcclComm comm, const device::CudaCalls& cuda) {
  void* const value = memory.allocate(4);
  const auto start = Clock::now();
  check(nccl.all_reduce(value, value, 1, 7, 0, comm, memory.stream()), "all_reduce");
  check(cuda.synchronize_stream(memory.stream()), "waiting");
  const double time = milliseconds_since(start);
  memory.free(value);
  return time;
}

std::string measure_plain(Rank& rank, bool split) {
  const auto cuda = device::load_cuda();
  const auto nccl = device::load_nccl();
  test::expect(nccl.usable(), nccl.missing);
  const auto begin = Clock::now();
  int devices = 0;
  check(cuda.calls.init(0), "starting CUDA");
  check(cuda.calls.device_count(&devices), "counting devices");
  device::DeviceMemory memory(devices == 1 ? 0 : rank.rank());
  const double context = milliseconds_since(begin);
  const auto id = share_id(rank, nccl.calls);
  rank.bootstrap().barrier(Deadline::after(30s));
  const auto start = Clock::now();
  device::NcclComm comm = nullptr;
  device::NcclComm first = nullptr;
  if (!split) {
    check(nccl.calls.init_rank(&comm, rank.size(), id, rank.rank()), "ncclCommInitRank");
  } else {
    Config config{.blocking = 0};
    const int result = symbol<InitWithConfig>(nccl, "ncclCommInitRankConfig")(
        &first, rank.size(), id, rank.rank(), &config);
    if (result != device::nccl_in_progress) check(result, "ncclCommInitRankConfig");
    await(nccl.calls, first);
    Config blocking{.blocking = 1, .split_share = 1};
    const int again = symbol<Split>(nccl, "ncclCommSplit")(first, 0, rank.rank(), &comm, &blocking);
    if (again != device::nccl_in_progress) check(again, "ncclCommSplit");
    await(nccl.calls, first);
    await(nccl.calls, comm);
  }
  const double init = milliseconds_since(start);
  const double call = first_call(memory, nccl.calls, comm, cuda.calls);
  return fmt::format(
      "{:.1f} ms to a communicator: context {:.1f} ms, NCCL {:.1f} ms; first all-reduce {:.1f} ms",
      context + init, context, init, call);
}

std::string measure_ours(Rank& rank) {
  const auto start = Clock::now();
  auto& communicator = rank.communicator({.timeout = 60s, .backend = BackendChoice::nccl});
  const double made = milliseconds_since(start);
  device::DeviceMemory memory(communicator.device());
  auto* const value = static_cast<float*>(memory.allocate(4));
  const auto before = Clock::now();
  communicator.all_reduce(in_place, device_span<float>(value, 1), sum, {.stream = memory.stream()});
  communicator.synchronize(memory.stream());
  const auto text = fmt::format("{:.1f} ms to a communicator: {}; first all-reduce {:.1f} ms", made,
                                communicator.setup_phases(), milliseconds_since(before));
  memory.free(value);
  return text;
}

/// The maximum of the numbers at the start of the ranks' texts.
double slowest(const std::vector<test::Report>& reports) {
  double most = 0;
  for (const auto& report : reports) most = std::max(most, std::stod(report.text));
  return most;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

std::string print_setup_times(int ranks) {
  struct Way {
    const char* name;
    test::Body body;
    std::vector<double> times;
  };
  std::vector<Way> ways{{"plain NCCL", [](Rank& rank) { return measure_plain(rank, false); }, {}},
                        {"tutti", measure_ours, {}},
                        {"plain NCCL, non-blocking and split",
                         [](Rank& rank) { return measure_plain(rank, true); },
                         {}}};
  // The first round loads libraries and is not counted. Pairs alternate in order.
  constexpr int rounds = 13;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto& [name, body, times] = ways[round % 2 == 0 ? i : 1 - i];
      const auto reports = test::run_ranks(ranks, body, 60s);
      const auto errors = test::errors_of(reports);
      fmt::print("  set-up {}, {}: {}\n", round, name, errors.empty() ? reports[0].text : errors);
      if (!errors.empty()) return fmt::format("{}: {}", name, errors);
      if (round > 0) times.push_back(slowest(reports));
    }
  }
  const auto split = test::run_ranks(ranks, ways[2].body, 60s);
  fmt::print("  set-up, {}: {}\n", ways[2].name,
             test::errors_of(split).empty() ? split[0].text : test::errors_of(split));
  std::vector<double> more;
  for (std::size_t i = 0; i < ways[0].times.size(); ++i) {
    more.push_back(ways[1].times[i] - ways[0].times[i]);
  }
  fmt::print(
      "set-up of {} ranks, slowest rank, median of {} pairs: plain NCCL {:.1f} ms, tutti {:.1f} "
      "ms; "
      "tutti's more by {:.1f} ms (quartiles {:.1f} and {:.1f})\n",
      ranks, more.size(), quantile(ways[0].times, 0.5), quantile(ways[1].times, 0.5),
      quantile(more, 0.5), quantile(more, 0.25), quantile(more, 0.75));
  return {};
}

}  // namespace tutti::gpu_test
