// How much of a call's time its caller can use: the time of an all-reduce and of computing, one
// after the other and both at once, interleaved.
//
//     scripts/cluster up 2 --rate 1gbit
//     scripts/cluster run -np 2 --map-by node build/test/mpi/overlap 64 5    # MiB, rounds
//
// Prints the medians over the rounds, of the slowest rank, and both-at-once over the sum.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// Arithmetic that stays in registers, as a kernel that is bound by computing does.
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

int run(std::size_t mebibytes, int rounds) {
  auto communicator = tutti::from_mpi(MPI_COMM_WORLD);
  std::vector<float> data((mebibytes << 20) / sizeof(float), 1.0F);
  volatile double sink = 0;
  // Seconds of the slowest rank.
  const auto time = [&](const std::function<void()>& body) {
    communicator.barrier();
    const auto begin = Clock::now();
    body();
    std::vector<double> seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
    communicator.all_reduce(tutti::in_place, seconds, tutti::max);
    return seconds[0];
  };
  const auto reduce = [&] { communicator.all_reduce(tutti::in_place, data, tutti::max); };
  reduce();
  const double communication = time(reduce);
  // As much computing as communication, the same number of steps on all ranks.
  constexpr std::int64_t probe = 20'000'000;
  std::vector<double> probes;
  for (int i = 0; i < 9; ++i) probes.push_back(time([&] { sink = compute(probe); }));
  const double probe_time = median(probes);
  const auto steps =
      static_cast<std::int64_t>(static_cast<double>(probe) * communication / probe_time);

  std::vector<double> alone;
  std::vector<double> computing;
  std::vector<double> both;
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(time(reduce));
    computing.push_back(time([&] { sink = compute(steps); }));
    both.push_back(time([&] {
      auto work = communicator.all_reduce_async(tutti::in_place, data, tutti::max);
      sink = compute(steps);
      work.wait();
    }));
  }
  communicator.finalize();
  if (communicator.rank() == 0) {
    const double sum = median(alone) + median(computing);
    fmt::print(
        "all_reduce of {} MiB on {} ranks: alone {:.0f} ms, computing {:.0f} ms, both at once "
        "{:.0f} ms, {:.2f} of their sum\n",
        mebibytes, communicator.size(), median(alone) * 1e3, median(computing) * 1e3,
        median(both) * 1e3, median(both) / sum);
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
