// Cost of encrypted links: two communicators of one job, plain and encrypted, alternate over TCP.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>

#include "tally.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using test::Rank;
using namespace std::chrono_literals;

double at(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

double microseconds_a_call(Communicator& communicator, std::vector<float>& data, int calls) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) communicator.all_reduce(in_place, std::span(data), max);
  return 1e6 * test::seconds(Clock::now() - begin) / calls;
}

std::string measure(Rank& rank) {
  ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
  auto& plain = rank.communicator();
  ::setenv("TUTTI_ENCRYPT", "1", 1);
  auto& encrypted = rank.communicator();
  std::string text;
  for (const auto& [count, calls] :
       {std::pair<std::size_t, int>{1, 500}, {16U << 10, 100}, {256U << 10, 20}, {16U << 20, 1}}) {
    std::vector<float> data(count, 1);
    std::vector<double> without;
    std::vector<double> with;
    std::vector<double> ratios;
    for (int round = 0; round < 16; ++round) {
      const auto one = microseconds_a_call(plain, data, calls);
      const auto other = microseconds_a_call(encrypted, data, calls);
      if (round == 0) continue;  // opens connections
      without.push_back(one);
      with.push_back(other);
      ratios.push_back(other / one);
    }
    text += fmt::format(
        "all_reduce of {} B, 2 ranks, TCP: {:.1f} us plain, {:.1f} us encrypted; in turns {:.2f} "
        "times the time ({:.2f} to {:.2f})\n",
        4 * count, at(without, 0.5), at(with, 0.5), at(ratios, 0.5), at(ratios, 0.25),
        at(ratios, 0.75));
  }
  encrypted.finalize();
  plain.finalize();
  return text;
}

}  // namespace

int encryption() {
  const auto reports = test::run_ranks(2, measure, 120s);
  const auto errors = test::errors_of(reports);
  fmt::print("{}", errors.empty() ? reports[0].text : errors + "\n");
  return errors.empty() ? 0 : 1;
}

}  // namespace tutti::soak
