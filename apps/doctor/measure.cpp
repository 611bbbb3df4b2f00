#include "doctor/measure.hpp"

#include <algorithm>
#include <chrono>

namespace tutti::app::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int round_trips = 200;
constexpr int streams = 4;
constexpr std::size_t stream_bytes = std::size_t{8} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs on both ranks of a pair; `leads` on one of them. Returns latency in µs and bandwidth to the
/// peer in Gbit/s.
std::pair<double, double> measure_pair(Communicator& communicator, int peer, bool leads) {
  std::int32_t word = 0;
  const std::span<std::int32_t> small(&word, 1);
  std::vector<double> times;
  for (int i = 0; i < round_trips; ++i) {
    const auto start = Clock::now();
    if (leads) communicator.send(small, peer);
    communicator.recv(small, peer);
    if (!leads) communicator.send(small, peer);
    times.push_back(seconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + round_trips / 2, times.end());
  const auto latency = times[round_trips / 2] / 2 * 1e6;

  std::vector<std::uint8_t> data(stream_bytes);
  double bandwidth = 0;
  for (const bool here_first : {leads, !leads}) {
    const auto start = Clock::now();
    for (int i = 0; i < streams; ++i) {
      if (here_first) {
        communicator.send(std::span<const std::uint8_t>(data), peer);
      } else {
        communicator.recv(std::span<std::uint8_t>(data), peer);
      }
    }
    // The reply of the other rank confirms that all data has arrived.
    if (here_first) {
      communicator.recv(small, peer);
      bandwidth = streams * stream_bytes * 8 / seconds_since(start) / 1e9;
    } else {
      communicator.send(small, peer);
    }
  }
  return {latency, bandwidth};
}

}  // namespace

Matrix measure(Communicator& communicator, const JobFacts& job) {
  const auto hosts = job.hosts();
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto own = static_cast<std::size_t>(job.places[rank].host_index);
  const bool leads_host = job.leaders[own] == rank;
  std::vector<double> row(2 * hosts, -1);

  // A round-robin tournament: each round pairs every host with another. With an odd number, one
  // host is idle.
  const auto seats = hosts + hosts % 2;
  for (std::size_t round = 0; round + 1 < seats; ++round) {
    communicator.barrier();
    if (!leads_host) continue;
    const auto wheel = seats - 1;
    std::size_t peer = 0;
    if (own == seats - 1) {
      // The fixed seat plays against the host at its turn of the wheel.
      for (std::size_t i = 0; i < wheel; ++i) {
        if (2 * i % wheel == round % wheel) peer = i;
      }
    } else {
      peer = (round + wheel - own % wheel) % wheel;
      if (peer == own) peer = seats - 1;
    }
    if (peer >= hosts || peer == own) continue;
    const auto [latency, bandwidth] =
        measure_pair(communicator, static_cast<int>(job.leaders[peer]), own < peer);
    row[peer] = latency;
    row[hosts + peer] = bandwidth;
  }
  communicator.barrier();
  // Inside hosts: the two lowest ranks.
  const auto& here = job.ranks_of[own];
  if (here.size() > 1 && (rank == here[0] || rank == here[1])) {
    const auto peer = here[rank == here[0] ? 1 : 0];
    const auto [latency, bandwidth] =
        measure_pair(communicator, static_cast<int>(peer), rank == here[0]);
    row[own] = latency;
    row[hosts + own] = bandwidth;
  }
  communicator.barrier();

  std::vector<double> all(communicator.rank() == 0 ? row.size() * job.facts.size() : 0);
  communicator.gather(std::span<const double>(row), std::span<double>(all), 0);
  Matrix matrix;
  if (communicator.rank() != 0) return matrix;
  for (std::size_t host = 0; host < hosts; ++host) {
    const auto begin = all.begin() + static_cast<long>(job.leaders[host] * row.size());
    const auto middle = begin + static_cast<long>(hosts);
    matrix.latency_us.emplace_back(begin, middle);
    matrix.bandwidth_gbit.emplace_back(middle, middle + static_cast<long>(hosts));
  }
  return matrix;
}

}  // namespace tutti::app::doctor
