// Kills one or two ranks at a random time between the exchange of peer info and the goodbye.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "mix.hpp"
#include "tally.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using test::Job;
using test::Rank;
using namespace std::chrono_literals;

constexpr int rounds = 5;
constexpr const char* at_the_end = "at the end";

std::string run_rank(Rank& rank, const Setting& setting) {
  setting.enter(rank);
  rank.bootstrap().after = [&](int exchange) {
    if (exchange == 3) rank.mark();
  };
  auto& communicator = rank.communicator({.timeout = deadline_of_calls});
  for (int round = 0; round < rounds; ++round) mixed_round(communicator, round);
  rank.say(at_the_end);
  communicator.finalize();
  return "done";
}

/// Waits without sleeping during the first milliseconds, which set-up takes.
void await_peer_infos(const Job& job, int rank) {
  const auto limit = Clock::now() + deadline_of_calls;
  while (job.marks(rank) == 0 && Clock::now() < limit) std::this_thread::sleep_for(50us);
}

/// Duration of a run from the exchange of peer info on, without a kill. Measured once per setting.
class Durations {
 public:
  Clock::duration of(const Setting& setting) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    const int load = setting.load == 0 ? 0 : setting.load <= cores ? 1 : 2;
    const auto key =
        std::tuple(setting.host_of.size(), setting.shared_memory, setting.hosts(), load);
    if (!durations_.contains(key)) durations_[key] = measure(setting);
    return durations_[key];
  }

 private:
  static Clock::duration measure(const Setting& setting) {
    Job job(static_cast<int>(setting.host_of.size()),
            [&](Rank& rank) { return run_rank(rank, setting); });
    await_peer_infos(job, 0);
    const auto start = Clock::now();
    const auto errors = test::errors_of(job.finish(deadline_of_runs));
    if (!errors.empty()) {
      throw std::runtime_error(
          fmt::format("without any kill, seed {} {}: {}", setting.seed, setting.options(), errors));
    }
    return Clock::now() - start;
  }

  std::map<std::tuple<std::size_t, bool, int, int>, Clock::duration> durations_;
};

std::chrono::microseconds kill_delay(std::mt19937_64& random, Clock::duration duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  const auto uniform = [&](std::int64_t min, std::int64_t max) {
    return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(
        std::max<std::int64_t>(min, 0), std::max<std::int64_t>(max, 1))(random));
  };
  switch (random() % 5) {
    case 0:
      return uniform(0, 5000);  // in set-up
    case 1:
      return uniform(whole - 10000, whole + 2000);  // near the end
    default:
      return uniform(0, whole);
  }
}

struct Run {
  std::uint64_t seed = 0;
  int size = 0;
  std::set<int> victims;
  /// A victim had almost finished: others may have finished before its death.
  bool may_be_over = false;
  Clock::time_point since;
};

/// The lowest rank that the agreed report does not name speaks for the job. If it is killed right
/// after the agreement, nobody does: its own death is what the launcher reports.
int expected_speakers(const Run& run, const std::vector<int>& agreed) {
  int speaker = 0;
  while (std::find(agreed.begin(), agreed.end(), speaker) != agreed.end()) ++speaker;
  return run.victims.contains(speaker) ? 0 : 1;
}

void judge(const Run& run, const std::vector<test::Report>& reports, Tally& tally) {
  std::set<std::vector<int>> reports_of_loss;
  int speakers = 0;
  int unreported = 0;
  for (int rank = 0; rank < run.size; ++rank) {
    if (run.victims.contains(rank)) continue;
    const auto& report = reports[static_cast<std::size_t>(rank)];
    if (report.hung) tally.hung();
    if (report.hung || !report.finished || !report.other_error.empty()) {
      tally.wrong(fmt::format("rank {}{}", rank, test::describe(reports)));
      return;
    }
    tally.destroyed(report.destruction);
    if (!report.failure) {
      tally.unreported();
      ++unreported;
      continue;
    }
    tally.reported(report.ended - run.since);
    const auto& failed_ranks = report.failure->failed_ranks;
    const bool right = report.failure->code == ErrorCode::peer_lost && !failed_ranks.empty() &&
                       std::all_of(failed_ranks.begin(), failed_ranks.end(), [&](int failed_rank) {
                         return run.victims.contains(failed_rank);
                       });
    if (!right) {
      tally.wrong(fmt::format("rank {}{}", rank, test::describe(reports)));
      return;
    }
    reports_of_loss.insert(failed_ranks);
    speakers += report.failure->speaks ? 1 : 0;
  }
  if (unreported > 0 && !run.may_be_over) {
    tally.wrong("a survivor did not report the loss" + test::describe(reports));
  } else if (reports_of_loss.size() > 1) {
    tally.wrong("survivors differ" + test::describe(reports));
  } else if (unreported == 0 && speakers != expected_speakers(run, *reports_of_loss.begin())) {
    tally.wrong(fmt::format("{} speakers{}", speakers, test::describe(reports)));
  }
}

}  // namespace

int kills(Settings settings, int victims) {
  allow_hosts(settings.wanted);
  Tally tally(victims == 1 ? "kills" : "pairs", settings);
  Durations durations;
  for (int i = 0; i < settings.runs; ++i) {
    Run run{.seed = settings.seed + static_cast<std::uint64_t>(i)};
    std::mt19937_64 random(run.seed);
    const auto choices = settings.max_ranks - settings.min_ranks + 1;
    run.size = settings.min_ranks + static_cast<int>(random() % static_cast<unsigned>(choices));
    std::vector<int> order;
    while (static_cast<int>(run.victims.size()) < victims) {
      const int victim = static_cast<int>(random() % static_cast<unsigned>(run.size));
      if (run.victims.insert(victim).second) order.push_back(victim);
    }
    const auto setting = Setting::draw(run.seed, run.size, settings.wanted);
    tally.begin(setting);
    const Load load(setting.load, run.seed);
    const auto duration = durations.of(setting);
    const auto delay = kill_delay(random, duration);
    const auto between = std::chrono::microseconds(random() % 2000);

    Job job(run.size, [&](Rank& rank) { return run_rank(rank, setting); });
    for (const int victim : order) await_peer_infos(job, victim);
    std::this_thread::sleep_for(delay);
    run.since = Clock::now();
    for (const int victim : order) {
      if (victim != order.front()) std::this_thread::sleep_for(between);
      job.signal(victim, SIGKILL);
      run.may_be_over |= job.said(victim) == at_the_end;
    }
    const auto reports = job.finish(deadline_of_runs);
    judge(run, reports, tally);
    if (settings.verbose) {
      fmt::print("seed {}: {} ranks, {}, hosts {}; {} killed after {:.1f} ms of {:.1f} ms{}\n",
                 run.seed, run.size, setting.options(), setting.hosts_text(), order,
                 1e3 * test::seconds(delay), 1e3 * test::seconds(duration),
                 test::describe(reports));
      for (std::size_t rank = 0; rank < reports.size(); ++rank) {
        if (run.victims.contains(static_cast<int>(rank))) continue;
        fmt::print("rank {} ended after {:.1f} ms\n", rank,
                   1e3 * test::seconds(reports[rank].ended - run.since));
      }
    }
  }
  return tally.finish();
}

}  // namespace tutti::soak
