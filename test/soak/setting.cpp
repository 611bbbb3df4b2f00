#include "setting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "support/own_kernel.hpp"

namespace tutti::soak {
namespace {

using test::Clock;
using namespace std::chrono_literals;

/// Each of `hosts` gets at least one rank. The others are random, so the ranks of a host need not
/// be consecutive.
std::vector<int> spread(int size, int hosts, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  std::vector<int> host_of(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto count = static_cast<std::size_t>(hosts);
    host_of[static_cast<std::size_t>(order[i])] =
        static_cast<int>(i < count ? i : static_cast<std::size_t>(random() % count));
  }
  return host_of;
}

[[noreturn]] void burn(std::uint64_t seed, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::mt19937_64 random(seed);
  while (true) {
    const auto end = Clock::now() + std::chrono::microseconds(random() % 50000);
    while (Clock::now() < end) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  }
}

}  // namespace

Setting Setting::draw(std::uint64_t seed, int size, const Wanted& wanted) {
  // Draws all values, even if some are fixed: a run can then be repeated with its options.
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15U);
  const bool shared_memory = random() % 2 == 0;
  const int hosts = random() % 2 == 0 ? 1 : 2;
  const bool loaded = random() % 2 == 0;
  const auto max_load = 2 * std::max(1U, std::thread::hardware_concurrency());
  const int load = loaded ? 1 + static_cast<int>(random() % max_load) : 0;
  Setting setting{.seed = seed,
                  .shared_memory = wanted.shared_memory.value_or(shared_memory),
                  .load = wanted.load.value_or(load)};
  std::mt19937_64 places(random());
  setting.host_of = spread(size, std::min(size, wanted.hosts.value_or(hosts)), places);
  return setting;
}

int Setting::hosts() const {
  return 1 + *std::max_element(host_of.begin(), host_of.end());
}

std::string Setting::kind() const {
  return fmt::format("{}, {} host{}{}", shared_memory ? "shared memory" : "TCP", hosts(),
                     hosts() == 1 ? "" : "s", load == 0 ? "" : ", loaded");
}

std::string Setting::options() const {
  return fmt::format("--transport {} --hosts {} --load {}", shared_memory ? "shared" : "tcp",
                     hosts(), load);
}

std::string Setting::hosts_text() const {
  return fmt::format("{}", fmt::join(host_of, " "));
}

void Setting::enter(const test::Rank& rank) const {
  ::setenv("TUTTI_SHARED_MEMORY", shared_memory ? "1" : "0", 1);
  if (hosts() == 1) return;
  const int error = test::pretend_own_kernel(host_of[static_cast<std::size_t>(rank.rank())]);
  test::expect(error == 0, fmt::format("no boot id of its own: {}", std::strerror(error)));
}

Load::Load(int processes, std::uint64_t seed) {
  std::fflush(nullptr);
  const auto parent = ::getpid();
  for (int i = 0; i < processes; ++i) {
    const auto child = ::fork();
    if (child == 0) burn(seed + static_cast<std::uint64_t>(i), parent);
    if (child > 0) children_.push_back(child);
  }
}

Load::~Load() {
  for (const auto child : children_) ::kill(child, SIGKILL);
  for (const auto child : children_) ::waitpid(child, nullptr, 0);
}

void allow_hosts(Wanted& wanted) {
  if (wanted.hosts == 1) return;
  const auto reason = test::why_no_own_kernel();
  if (reason.empty()) return;
  fmt::print("skipped: runs over two hosts: {}\n", reason);
  wanted.hosts = 1;
}

}  // namespace tutti::soak
