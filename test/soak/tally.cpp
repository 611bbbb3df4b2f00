#include "tally.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tutti::soak {
namespace {

std::string spread(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  return fmt::format("median {:.1f} ms, 99 % within {:.1f} ms, worst {:.1f} ms", at(0.5), at(0.99),
                     times.back());
}

}  // namespace

Tally::Tally(std::string name, Settings settings)
    : name_(std::move(name)), settings_(std::move(settings)) {
  fmt::print("{}: {} runs, {} to {} ranks, seed {}\n", name_, settings_.runs, settings_.least_ranks,
             settings_.most_ranks, settings_.seed);
  std::fflush(stdout);
}

void Tally::told(std::uint64_t seed, test::Clock::duration after) {
  times_.push_back(test::seconds(after) * 1e3);
  if (times_.back() < worst_) return;
  worst_ = times_.back();
  seed_of_worst_ = seed;
}

void Tally::destroyed(test::Clock::duration time) {
  worst_destruction_ = std::max(worst_destruction_, test::seconds(time) * 1e3);
}

void Tally::wrong(std::uint64_t seed, int ranks, const std::string& what) {
  ++wrong_;
  fmt::print("WRONG ({} --runs 1 --ranks {}-{} --seed {}): {}\n", name_, ranks, ranks, seed, what);
  std::fflush(stdout);
}

int Tally::finish() {
  fmt::print("{} hangs, {} wrong; {} survivors were told, {} had nothing to be told\n", hangs_,
             wrong_, times_.size() + recoveries_.size(), untold_);
  if (!times_.empty()) fmt::print("time to know: {} (seed {})\n", spread(times_), seed_of_worst_);
  if (!recoveries_.empty()) fmt::print("time to shrink: {}\n", spread(recoveries_));
  fmt::print("longest destructor: {:.1f} ms\n", worst_destruction_);
  const double bound = settings_.most_milliseconds * test::patience();
  const bool is_late = bound > 0 && worst_ > bound;
  if (is_late) fmt::print("too late: the bound is {:.0f} ms\n", bound);
  return hangs_ == 0 && wrong_ == 0 && !is_late ? 0 : 1;
}

}  // namespace tutti::soak
