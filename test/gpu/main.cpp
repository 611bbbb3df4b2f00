// Checks of the device path on a machine with GPUs; ranks are forked: gpu_check RANKS CHECK…;
// `gpu_check 2 all` runs all checks. Prints one line per check. Exit status 1 if one fails.
// scripts/gpu-test builds and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "batch.hpp"
#include "cases.hpp"
#include "graph.hpp"
#include "kernels_on_one.hpp"
#include "setup_times.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::gpu_test {
namespace {

using namespace std::chrono_literals;
using test::expect;
using test::Rank;
using test::Report;

const Options on_nccl{.timeout = 60s, .backend = BackendChoice::nccl};

void require(const std::string& wrong) {
  expect(wrong.empty(), wrong);
}

void run_cases(Communicator& communicator, device::DeviceMemory& memory,
               const std::vector<Case>& cases) {
  std::uint64_t seed = 1;
  for (const auto& one : cases) require(check(communicator, memory, one, ++seed));
}

std::vector<int> ends(const Communicator& communicator) {
  return communicator.size() == 1 ? std::vector{0} : std::vector{0, communicator.size() - 1};
}

/// Every operation, type and operator, alternating with host buffers on the same communicator.
std::string operations(Rank& rank) {
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory memory(communicator.device());
  run_cases(communicator, memory, operation_cases({0, 1, 1023, 300000}, ends(communicator)));
  std::vector<double> values(1000, rank.rank() + 1);
  communicator.all_reduce(in_place, std::span(values), sum);
  expect(values.back() == rank.size() * (rank.size() + 1) / 2, "host memory: wrong sum");
  run_cases(communicator, memory, arithmetic_cases(1000, true));
  require(check_messages(communicator, memory, {0, 1, 4097, 1000000}));
  communicator.barrier({.stream = memory.stream()});
  communicator.synchronize(memory.stream());
  communicator.finalize();
  return "done";
}

/// A small set, for compute-sanitizer.
std::string memcheck(Rank& rank) {
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory memory(communicator.device());
  run_cases(communicator, memory, operation_cases({1, 333}, {0}));
  require(check_messages(communicator, memory, {1, 1000}));
  communicator.finalize();
  return "done";
}

std::string graph(Rank& rank) {
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory memory(communicator.device());
  require(check_graph(communicator, memory));
  communicator.finalize();
  return "done";
}

/// TUTTI_TEST_CALLS, if it is set.
int calls_of_test(int by_default) {
  const char* const wanted = std::getenv("TUTTI_TEST_CALLS");
  return wanted == nullptr ? by_default : std::atoi(wanted);
}

/// Random calls, on two streams, with random delays, while one rank is ahead or another, on memory
/// of all kinds: one by one, then many in a row. TUTTI_TEST_CALLS is their number.
std::string direct(Rank& rank) {
  ::setenv("TUTTI_DEVICE_PATH", "direct", 1);
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory first(communicator.device());
  device::DeviceMemory second(communicator.device());
  const int calls = calls_of_test(2000);
  std::mt19937_64 common(2026);
  std::mt19937_64 own(static_cast<std::uint64_t>(rank.rank()));
  // Simulated devices have no kernels for 16-bit floats.
  const int types = std::getenv("FAKE_NCCL_SEGMENT") != nullptr ? 6 : 10;
  constexpr std::size_t large = std::size_t{6} << 20;
  constexpr std::size_t small = std::size_t{64} << 10;
  constexpr int one_by_one = 500;
  require(check_allocations(communicator, first));
  int calls_in_windows = 0;
  for (int i = 0; i < std::min(calls, one_by_one); ++i) {
    auto one = random_direct_case(common, communicator.size(), types, large);
    one.in_windows = common() % 2 == 0;
    // Ranks find each other's buffers, wherever they are.
    if (one.in_windows) one.offset = own() % 20;
    if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
    require(check(communicator, common() % 2 == 0 ? first : second, one, common()));
    const auto& algorithm = communicator.latest_algorithm();
    expect(one.count == 0 || algorithm.starts_with("direct"),
           one.text() + " was taken by " + algorithm);
    if (algorithm == "direct-windows") ++calls_in_windows;
  }
  expect(calls_in_windows > std::min(calls, one_by_one) / 50, "few calls were in windows");
  for (int left = calls - one_by_one; left > 0;) {
    std::vector<Case> cases;
    for (; left > 0 && cases.size() < 200; --left) {
      const auto most = common() % 100 == 0 ? large : small;
      cases.push_back(random_direct_case(common, communicator.size(), types, most));
    }
    require(check_batch(communicator, first, second, cases, common() % 2 == 0, common(), own));
  }
  for (int i = 0; i < 5; ++i) require(check_burst(communicator, first, second, 100));
  communicator.finalize();
  return "done";
}

std::string groups(Rank& rank) {
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory memory(communicator.device());
  auto copy = communicator.duplicate();
  auto part = communicator.split(rank.rank() / 2);
  for (auto* const one : {&copy, &*part, &communicator}) {
    run_cases(*one, memory, operation_cases({1, 5000}, ends(*one)));
  }
  return "done";
}

std::string works(Rank& rank) {
  auto& communicator = rank.communicator(on_nccl);
  device::DeviceMemory memory(communicator.device());
  device::DeviceMemory other(communicator.device());
  const std::size_t count = std::size_t{1} << 20;
  DeviceBuffer buffer(memory, count * 4);
  const device_span<float> values(reinterpret_cast<float*>(buffer.data()), count);
  // The first call connects the ranks, and blocks inside NCCL.
  communicator.all_reduce(in_place, values, sum, {.stream = memory.stream()});
  communicator.synchronize(memory.stream());
  communicator.barrier();
  if (rank.rank() == 0) std::this_thread::sleep_for(300ms);
  auto work = communicator.start_all_reduce(in_place, values, sum, {.stream = memory.stream()});
  if (rank.rank() != 0 && rank.size() > 1) expect(!work.test(), "done before all have come");
  work.wait(Stream(other.stream()));
  communicator.synchronize(other.stream());
  expect(work.test(), "the stream did not wait");
  for (int i = 0; i < 20; ++i) {
    communicator.start_all_reduce(in_place, values, max, {.stream = memory.stream()}).wait();
  }
  communicator.finalize();
  return "done";
}

/// All ranks use the first device.
std::string staged(Rank& rank) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  auto& communicator = rank.communicator({.timeout = 60s});
  expect(communicator.has_device_path(), communicator.device_path_reason());
  device::DeviceMemory memory(communicator.device());
  run_cases(communicator, memory, operation_cases({0, 1, 1023, 700000}, ends(communicator)));
  require(check_messages(communicator, memory, {0, 1, 2000000}));
  communicator.finalize();
  return communicator.device_path_reason();
}

/// Ranks make different calls, which block.
std::string mismatch(Rank& rank) {
  auto& communicator = rank.communicator({.timeout = 20s, .backend = BackendChoice::nccl});
  device::DeviceMemory memory(communicator.device());
  const std::size_t count = 5040;  // divisible by the number of ranks up to 10
  DeviceBuffer buffer(memory, count * 4);
  const device_span<float> values(reinterpret_cast<float*>(buffer.data()), count);
  const Stream stream(memory.stream());
  communicator.all_reduce(in_place, values, sum, {.stream = stream});
  communicator.synchronize(stream);
  if (rank.rank() == 1) {
    communicator.reduce_scatter(in_place, values, sum, {.stream = stream});
  } else {
    communicator.all_reduce(in_place, values, sum, {.stream = stream});
  }
  communicator.synchronize(stream);
  communicator.finalize();
  return "nothing was thrown";
}

/// The last rank does not make the first call, in which NCCL connects the ranks.
std::string away(Rank& rank) {
  auto& communicator = rank.communicator({.timeout = 3s, .backend = BackendChoice::nccl});
  device::DeviceMemory memory(communicator.device());
  DeviceBuffer buffer(memory, 4096);
  if (rank.rank() + 1 == rank.size()) {
    std::this_thread::sleep_for(8s);
    return "away";
  }
  const auto start = std::chrono::steady_clock::now();
  const device_span<float> values(reinterpret_cast<float*>(buffer.data()), 1024);
  try {
    communicator.all_reduce(in_place, values, sum, {.stream = memory.stream()});
    communicator.synchronize(memory.stream());
  } catch (const Error& error) {
    const auto took = std::chrono::steady_clock::now() - start;
    expect(took < 5s, fmt::format("the error came after {:.1f} s", test::seconds(took)));
    return error.sentence();
  }
  return "nothing was thrown";
}

/// NCCL's initialisation fails on one rank: all ranks use the staged path.
std::string no_setup(Rank& rank) {
  if (rank.rank() == 1) {
    ::setenv("NCCL_NET", "no such network", 1);
    ::setenv("FAKE_NCCL_INIT_RESULT", "5", 1);  // for the fake libraries
  }
  auto& communicator = rank.communicator({.timeout = 10s});
  expect(communicator.has_device_path(), communicator.device_path_reason());
  device::DeviceMemory memory(communicator.device());
  run_cases(communicator, memory, operation_cases({1000}, {0}));
  communicator.finalize();
  return communicator.device_path_reason();
}

std::string loop_until_killed(Rank& rank) {
  auto& communicator = rank.communicator({.timeout = 30s, .backend = BackendChoice::nccl});
  device::DeviceMemory memory(communicator.device());
  DeviceBuffer buffer(memory, std::size_t{16} << 20);
  const device_span<float> values(reinterpret_cast<float*>(buffer.data()), buffer.bytes() / 4);
  while (true) {
    communicator.all_reduce(in_place, values, max, {.stream = memory.stream()});
    communicator.synchronize(memory.stream());
    rank.mark();
  }
}

/// The kernels of several ranks together on one GPU. A call takes 45 ms, since the whole window of
/// each rank is compared on the host, so there are fewer than elsewhere.
std::string kernels(Rank&) {
  const bool simulated = std::getenv("FAKE_NCCL_SEGMENT") != nullptr;
  constexpr int most_calls = 500;
  const auto calls = std::min(calls_of_test(simulated ? 100 : 200), most_calls);
  require(check_kernels_on_one_gpu(calls, simulated ? 6 : 10, 2026));
  return "done";
}

using Judge = std::string (*)(const std::vector<Report>&);

/// Empty if every rank except `silent` threw this code, with these words.
std::string judge_failure(const std::vector<Report>& reports, ErrorCode code,
                          const std::string& words, int silent) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (static_cast<int>(rank) == silent) continue;
    const auto& failure = reports[rank].failure;
    if (!failure || failure->code != code || failure->sentence.find(words) == std::string::npos) {
      return test::describe(reports);
    }
  }
  return {};
}

std::string judge_away(const std::vector<Report>& reports) {
  const auto who = fmt::format("rank {} (", reports.size() - 1);
  for (std::size_t rank = 0; rank + 1 < reports.size(); ++rank) {
    if (reports[rank].text.find(who) == std::string::npos) return test::describe(reports);
  }
  return {};
}

std::string judge_mismatch(const std::vector<Report>& reports) {
  return judge_failure(reports, ErrorCode::mismatch, "reduce_scatter of", -1);
}

std::string check_killed(int ranks) {
  test::Job job(ranks, loop_until_killed);
  job.await_marks_of_all(10, 60s);
  const auto killed = job.signal(1, SIGKILL);
  const auto reports = job.finish(60s);
  const auto wrong = judge_failure(reports, ErrorCode::peer_lost, "rank 1", 1);
  if (!wrong.empty()) return wrong;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const auto took = reports[rank].ended - killed;
    if (rank != 1 && took > 5s) {
      return fmt::format("rank {} heard of it after {:.1f} s", rank, test::seconds(took));
    }
  }
  return {};
}

struct Check {
  const char* name;
  int min_ranks;
  std::string (*body)(Rank&);
  Judge judge;
};

constexpr std::array<Check, 10> checks{{
    {"operations", 1, operations, test::errors_of},
    {"direct", 2, direct, test::errors_of},
    {"graph", 1, graph, test::errors_of},
    {"groups", 2, groups, test::errors_of},
    {"works", 1, works, test::errors_of},
    {"staged", 2, staged, test::errors_of},
    {"mismatch", 2, mismatch, judge_mismatch},
    {"away", 2, away, judge_away},
    {"no-setup", 2, no_setup, test::errors_of},
    {"memcheck", 1, memcheck, test::errors_of},
}};

/// Returns true if the check passed.
bool perform(const std::string& name, int ranks, const std::string& wrong, double seconds) {
  fmt::print("{} {} on {} rank{} ({:.1f} s){}{}\n", wrong.empty() ? "passed" : "FAILED", name,
             ranks, ranks == 1 ? "" : "s", seconds, wrong.empty() ? "" : ": ", wrong);
  std::fflush(stdout);
  return wrong.empty();
}

bool run(const std::string& wanted, int ranks) {
  bool well = true;
  const auto timed = [&](const std::string& name, const auto& action) {
    const auto start = std::chrono::steady_clock::now();
    std::string wrong;
    try {
      wrong = action();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    well = perform(name, ranks, wrong, test::seconds(std::chrono::steady_clock::now() - start)) &&
           well;
  };
  for (const auto& check : checks) {
    const bool in_all = wanted == "all" && std::string(check.name) != "memcheck";
    if ((!in_all && wanted != check.name) || ranks < check.min_ranks) continue;
    timed(check.name, [&] { return check.judge(test::run_ranks(ranks, check.body, 180s)); });
  }
  if ((wanted == "all" || wanted == "killed") && ranks >= 2) {
    timed("killed", [&] { return check_killed(ranks); });
  }
  if ((wanted == "all" || wanted == "kernels") && ranks == 1) {
    timed("kernels", [&] { return test::errors_of(test::run_ranks(1, kernels, 180s)); });
  }
  if (wanted == "setup-times") timed("setup-times", [&] { return print_setup_times(ranks); });
  return well;
}

}  // namespace
}  // namespace tutti::gpu_test

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr,
               "gpu_check RANKS all|operations|direct|graph|groups|works|staged|mismatch|away|"
               "no-setup|killed|memcheck|kernels|setup-times …\n");
    return 2;
  }
  bool well = true;
  for (int i = 2; i < argc; ++i) well = tutti::gpu_test::run(argv[i], std::atoi(argv[1])) && well;
  return well ? 0 : 1;
}
