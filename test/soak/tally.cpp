#include "tally.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tutti::soak {
namespace {

/// Median, 99th percentile and maximum, as the last cells of a row.
std::string spread(std::vector<double> times) {
  if (times.empty()) return "– | – | – |";
  std::sort(times.begin(), times.end());
  // the smallest time that is not below this percentage of all
  const auto at = [&](std::size_t percent) {
    return times[(percent * times.size() + 99) / 100 - 1];
  };
  return fmt::format("{:.1f} | {:.1f} | {:.1f} |", at(50), at(99), times.back());
}

}  // namespace

Tally::Tally(std::string name, const Settings& settings)
    : name_(std::move(name)), settings_(settings) {
  fmt::print("{}: {} runs, {} to {} ranks, seed {}\n", name_, settings_.runs, settings_.min_ranks,
             settings_.max_ranks, settings_.seed);
  std::fflush(stdout);
}

void Tally::begin(const Setting& setting) {
  end_run();
  setting_ = setting;
  row_ = &rows_[setting.kind()];
  ++row_->runs;
}

void Tally::end_run() {
  if (row_ == nullptr || latest_ < 0) return;
  row_->times.push_back(latest_);
  const double bound = settings_.max_milliseconds * test::time_factor();
  if (bound > 0 && setting_.load == 0 && latest_ > bound) {
    ++late_;
    fmt::print("too late: {:.1f} ms, the bound is {:.0f} ms ({})\n", latest_, bound, repeats());
  }
  if (latest_ >= worst_) {
    worst_ = latest_;
    repeats_worst_ = repeats();
  }
  latest_ = -1;
}

std::string Tally::repeats() const {
  return fmt::format("scripts/soak {} --runs 1 --seed {} --ranks {}-{} {}", name_, setting_.seed,
                     setting_.host_of.size(), setting_.host_of.size(), setting_.options());
}

void Tally::reported(test::Clock::duration after) {
  ++reported_;
  latest_ = std::max(latest_, test::seconds(after) * 1e3);
}

void Tally::destroyed(test::Clock::duration time) {
  worst_destruction_ = std::max(worst_destruction_, test::seconds(time) * 1e3);
}

void Tally::wrong(const std::string& what) {
  ++row_->wrong;
  fmt::print("WRONG ({}), hosts of the ranks {}: {}\n", repeats(), setting_.hosts_text(), what);
  std::fflush(stdout);
}

int Tally::finish() {
  end_run();
  fmt::print(
      "\n| setting | runs | hangs | wrong | median ms | 99 % ms | worst ms |\n"
      "|---|---|---|---|---|---|---|\n");
  Row all;
  for (const auto& [kind, row] : rows_) {
    fmt::print("| {} | {} | {} | {} | {}\n", kind, row.runs, row.hangs, row.wrong,
               spread(row.times));
    all.runs += row.runs;
    all.hangs += row.hangs;
    all.wrong += row.wrong;
    all.times.insert(all.times.end(), row.times.begin(), row.times.end());
  }
  fmt::print("| all | {} | {} | {} | {}\n\n", all.runs, all.hangs, all.wrong, spread(all.times));
  fmt::print("{} hangs, {} wrong; {} survivors reported the loss, {} had finished before\n",
             all.hangs, all.wrong, reported_, unreported_);
  fmt::print("worst: {:.1f} ms ({}); longest destructor: {:.1f} ms\n", worst_, repeats_worst_,
             worst_destruction_);
  if (late_ > 0) fmt::print("too late: {} runs\n", late_);
  return all.hangs == 0 && all.wrong == 0 && late_ == 0 ? 0 : 1;
}

}  // namespace tutti::soak
