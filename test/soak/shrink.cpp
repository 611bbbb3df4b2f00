// Kills a rank, and in some runs another one during shrink(). The survivors must continue.
#include <fmt/format.h>

#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "mix.hpp"
#include "tally.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using test::Job;
using test::Rank;
using namespace std::chrono_literals;

constexpr int reduces = 100;

/// Returns the final size and the time until the rank had a communicator again.
std::string run_rank(Rank& rank, const Setting& setting) {
  setting.enter(rank);
  std::optional<Communicator> communicator =
      Communicator::create(rank.bootstrap(), {.timeout = deadline_of_calls});
  rank.mark();
  bool mixed = true;
  Clock::duration longest{};
  while (true) {
    try {
      for (int round = 0; mixed; ++round) mixed_round(*communicator, round);
      for (int round = 0; round < reduces; ++round) reduce_round(*communicator, round);
      communicator->finalize();
      return fmt::format("{} {:.3f}", communicator->size(), 1e3 * test::seconds(longest));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost) throw;
      mixed = false;
      const auto begin = Clock::now();
      communicator = communicator->shrink();
      longest = std::max(longest, Clock::now() - begin);
      rank.mark();
    }
  }
}

}  // namespace

int shrink(Settings settings) {
  allow_hosts(settings.wanted);
  settings.max_milliseconds = 0;  // the limit is for reports, not for shrink()
  Tally tally("shrink", settings);
  for (int i = 0; i < settings.runs; ++i) {
    const auto seed = settings.seed + static_cast<std::uint64_t>(i);
    std::mt19937_64 random(seed);
    const auto choices = settings.max_ranks - settings.min_ranks + 1;
    const int size =
        settings.min_ranks + static_cast<int>(random() % static_cast<unsigned>(choices));
    const int first = static_cast<int>(random() % static_cast<unsigned>(size));
    const bool twice = random() % 3 == 0;
    const int second =
        (first + 1 + static_cast<int>(random() % static_cast<unsigned>(size - 1))) % size;
    const auto delay = std::chrono::microseconds(random() % 200000);
    const auto between = std::chrono::microseconds(random() % 80000);

    const auto setting = Setting::draw(seed, size, settings.wanted);
    tally.begin(setting);
    const Load load(setting.load, seed);
    Job job(size, [&](Rank& rank) { return run_rank(rank, setting); });
    job.await_marks_of_all(1, deadline_of_calls);
    std::this_thread::sleep_for(delay);
    std::set<int> victims{first};
    job.signal(first, SIGKILL);
    if (twice) {
      std::this_thread::sleep_for(between);
      victims.insert(second);
      job.signal(second, SIGKILL);
    }
    const auto reports = job.finish(deadline_of_runs);
    for (int rank = 0; rank < size; ++rank) {
      if (victims.contains(rank)) continue;
      const auto& report = reports[static_cast<std::size_t>(rank)];
      int left = 0;
      double milliseconds = 0;
      if (report.hung) tally.hung();
      const bool told = std::sscanf(report.text.c_str(), "%d %lf", &left, &milliseconds) == 2;
      // A second victim may have lived until the end.
      const int least = size - static_cast<int>(victims.size());
      if (!told || (left != least && !(twice && left == least + 1))) {
        tally.wrong(fmt::format("{} killed, then {} after {} us{}", first, twice ? second : -1,
                                between.count(), test::describe(reports)));
        break;
      }
      tally.reported(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double, std::milli>(milliseconds)));
      tally.destroyed(report.destruction);
    }
  }
  return tally.finish();
}

}  // namespace tutti::soak
