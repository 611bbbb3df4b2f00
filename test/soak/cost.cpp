// Cost of fingerprints and the recorder per call: alone, and in an all_reduce.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "control/call_history.hpp"
#include "tally.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using test::Rank;
using namespace std::chrono_literals;

double nanoseconds_a_call(bool exact) {
  control::CallHistory history(control::Group::whole_job(0, 1), exact);
  constexpr int calls = 1'000'000;
  const CallSignature call{Operation::all_reduce, Type::f32, Operator::sum, -1, 1};
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) history.end(history.begin_collective(call).ticket);
  return 1e9 * test::seconds(Clock::now() - begin) / calls;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double reduce_microseconds(Communicator& communicator, std::vector<float>& data, int calls) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    communicator.all_reduce(in_place, std::span(data), sum);
    times.push_back(1e6 * test::seconds(Clock::now() - begin));
  }
  return median(times);
}

/// Two communicators of one job alternate; one of them records exact times.
std::string measure(Rank& rank) {
  auto& plain = rank.communicator();
  const auto folder = std::filesystem::temp_directory_path() / "tutti-cost";
  ::setenv("TUTTI_RECORD", folder.c_str(), 1);
  auto& recorded = rank.communicator();
  std::string text;
  for (const auto& [count, calls] : {std::pair<std::size_t, int>{1, 2000}, {16U << 20, 5}}) {
    std::vector<float> data(count);
    std::vector<double> without;
    std::vector<double> with;
    for (int round = 0; round < 9; ++round) {
      without.push_back(reduce_microseconds(plain, data, calls));
      with.push_back(reduce_microseconds(recorded, data, calls));
    }
    text += fmt::format("all_reduce of {} B, 2 ranks: {:.2f} us, with TUTTI_RECORD {:.2f} us\n",
                        4 * count, median(without), median(with));
  }
  recorded.finalize();
  plain.finalize();
  return text;
}

}  // namespace

int cost() {
  fmt::print("fingerprint and recorder: {:.1f} ns a call, with TUTTI_RECORD {:.1f} ns\n",
             nanoseconds_a_call(false), nanoseconds_a_call(true));
  const auto reports = test::run_ranks(2, measure, 120s);
  const auto errors = test::errors_of(reports);
  fmt::print("{}", errors.empty() ? reports[0].text : errors + "\n");
  return errors.empty() ? 0 : 1;
}

}  // namespace tutti::soak
