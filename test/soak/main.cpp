// Long randomized runs. scripts/soak builds and starts them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tally.hpp"

int main(int argc, char** argv) {
  CLI::App app("Jobs that lose ranks at random moments, again and again.");
  app.footer("Example: scripts/soak kills --runs 500 --ranks 3-8 --seed 1");
  app.require_subcommand(1);
  tutti::soak::Settings settings;
  std::string ranks = "3-8";
  int status = 0;
  const auto add = [&](const char* name, const char* description, auto body) {
    auto* const mode = app.add_subcommand(name, description);
    mode->add_option("--runs", settings.runs, "jobs, one after the other")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    mode->add_option("--ranks", ranks, "least and most ranks of a job")->capture_default_str();
    mode->add_option("--seed", settings.seed, "of the first run; each further run adds 1")
        ->capture_default_str();
    mode->add_option("--bound", settings.max_milliseconds,
                     "ms until every survivor must know, in runs without load; 0: any time")
        ->capture_default_str();
    mode->add_option("--transport", settings.wanted.shared_memory,
                     "shared or tcp, among the ranks of a host (default: by the seed)")
        ->transform(CLI::Transformer({{"shared", "true"}, {"tcp", "false"}}));
    mode->add_option("--hosts", settings.wanted.hosts,
                     "made-up hosts that the ranks are on (default: 1 or 2, by the seed)")
        ->check(CLI::Range(1, 64));
    mode->add_option("--load", settings.wanted.load,
                     "processes that use the cores beside the job (default: 0 to twice the cores, "
                     "by the seed)")
        ->check(CLI::Range(0, 1024));
    mode->add_flag("--verbose", settings.verbose, "print each run");
    mode->callback([&, body] {
      if (std::sscanf(ranks.c_str(), "%d-%d", &settings.min_ranks, &settings.max_ranks) != 2 ||
          settings.min_ranks < 3 || settings.max_ranks > 64 ||
          settings.min_ranks > settings.max_ranks) {
        throw CLI::ValidationError("--ranks", "give a range such as 3-8, from 3 to 64");
      }
      status = body();
    });
  };
  add("kills", "one random rank is killed, from the info exchange to the goodbye",
      [&] { return kills(settings, 1); });
  add("pairs", "two ranks are killed at once: the same set everywhere",
      [&] { return kills(settings, 2); });
  add("shrink", "a kill, or two, then shrink() and 100 verified all_reduces",
      [&] { return shrink(settings); });
  app.add_subcommand("cost", "what fingerprints and the recorder cost a call")->callback([&] {
    status = tutti::soak::cost();
  });
  app.add_subcommand("encryption", "what TUTTI_ENCRYPT=1 costs a call over TCP")->callback([&] {
    status = tutti::soak::encryption();
  });
  std::size_t connections = 10'000;
  auto* const unauthenticated =
      app.add_subcommand("unauthenticated", "invalid connections of eight kinds to a running job");
  unauthenticated
      ->add_option("--connections", connections, "at a running job, and again at a rendezvous")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  unauthenticated->callback([&] { status = tutti::soak::unauthenticated(connections); });
  std::vector<int> sizes{4, 16, 64, 256};
  int starts = 5;
  bool over_tcp = false;
  auto* const start = app.add_subcommand("start", "what starting many ranks without MPI costs");
  start->add_option("--ranks", sizes, "numbers of ranks, such as 64,128")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  start->add_option("--runs", starts, "jobs of each number")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  start->add_flag("--tcp", over_tcp, "the ranks share no memory, so that calls make links");
  start->callback([&] { status = tutti::soak::start(sizes, starts, over_tcp); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
  return status;
}
