// An NCCL program that checks its results: nccl_check RANKS CHECK…, one process and one device for
// each rank. It knows nothing of tutti's preload, so it runs with and without it (LD_PRELOAD).
// Prints a line for each check. Exit status 1 if one fails. It is a function, since a program may
// also load NCCL with a plugin, as Python does.
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "checks.hpp"
#include "timing.hpp"

namespace tutti::preload_test {
namespace {

struct Check {
  const char* name;
  std::string (*body)(Rank&);
};
constexpr std::array<Check, 13> checks{{{"calls", calls},
                                        {"random", random_calls},
                                        {"order", order},
                                        {"groups", groups},
                                        {"split", split},
                                        {"graph", graph},
                                        {"branches", branches},
                                        {"nonblocking", nonblocking},
                                        {"mixed", mixed},
                                        {"late", late},
                                        {"abort", abort_call},
                                        {"leave", leave},
                                        {"leave-after-graph", leave_after_graph}}};

bool perform(const std::string& name, int ranks) {
  const auto start = test::Clock::now();
  const std::chrono::seconds limit(name == "random" ? 150 : 60);
  std::string wrong = "there is no such check";
  try {
    if (name == "killed") wrong = check_killed(ranks, false);
    if (name == "killed-in-graph") wrong = check_killed(ranks, true);
    for (const auto& check : checks) {
      if (name == check.name) wrong = test::errors_of(test::run_ranks(ranks, check.body, limit));
    }
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  fmt::print("{} {} on {} ranks ({:.1f} s){}{}\n", wrong.empty() ? "passed" : "FAILED", name, ranks,
             test::seconds(test::Clock::now() - start), wrong.empty() ? "" : ": ", wrong);
  std::fflush(stdout);
  return wrong.empty();
}

}  // namespace
}  // namespace tutti::preload_test

extern "C" __attribute__((visibility("default"))) int nccl_check(int argc, char** argv) {
  using namespace tutti::preload_test;
  if (argc < 3) {
    fmt::print(stderr,
               "nccl_check RANKS "
               "calls|random|order|groups|split|graph|branches|nonblocking|mixed|late|abort|leave|"
               "leave-after-graph|killed|killed-in-graph|time …\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  bool well = true;
  for (int i = 2; i < argc; ++i) {
    well = (std::string(argv[i]) == "time" ? print_times(ranks) : perform(argv[i], ranks)) && well;
  }
  return well ? 0 : 1;
}
