#include "base/reactor.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <span>

#include "base/system_error.hpp"

// In glibc since 2.35; other C libraries lack it.
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define TUTTI_HAS_EPOLL_PWAIT2 1
#endif
#endif

namespace tutti {
namespace {

/// Sub-millisecond timeouts matter while a job starts. Kernels before 5.11 support whole
/// milliseconds only, and some containers block the newer call.
int wait_for_events(int epoll, std::span<epoll_event> events, Reactor::Clock::duration wait) {
  const auto room = static_cast<int>(events.size());
#ifdef TUTTI_HAS_EPOLL_PWAIT2
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wait);
  const timespec limit{
      .tv_sec = static_cast<time_t>(seconds.count()),
      .tv_nsec = static_cast<long>(std::chrono::nanoseconds(wait - seconds).count())};
  const int count = ::epoll_pwait2(epoll, events.data(), room, &limit, nullptr);
  if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
#endif
  // Rounded up: waking early would spin until the timer is due.
  const auto limit_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return ::epoll_wait(epoll, events.data(), room, static_cast<int>(limit_ms));
}

// An event carries its descriptor and the number of the registration. A callback may close a
// descriptor and another may reuse its number, while an event for the closed one is still
// unhandled.
std::uint64_t token_of(int fd, std::uint32_t registration) {
  return std::uint64_t{registration} << 32 | static_cast<std::uint32_t>(fd);
}

}  // namespace

Reactor::Reactor() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw system_error("can't make an epoll instance", errno);
  add(wakeup_.fd(), EPOLLIN, [this](std::uint32_t) { wakeup_.clear(); });
}

void Reactor::control(int operation, int fd, std::uint32_t number, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_of(fd, number);
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    throw system_error("can't watch a descriptor", errno);
  }
}

void Reactor::add(int fd, std::uint32_t events, OnReady on_ready) {
  const auto number = next_registration_++;
  control(EPOLL_CTL_ADD, fd, number, events);
  registrations_[fd] = {number, std::make_shared<OnReady>(std::move(on_ready))};
}

void Reactor::modify(int fd, std::uint32_t events) {
  const auto found = registrations_.find(fd);
  const auto number = found == registrations_.end() ? 0 : found->second.number;
  control(EPOLL_CTL_MOD, fd, number, events);
}

void Reactor::remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  registrations_.erase(fd);
}

Reactor::TimerId Reactor::after(Clock::duration delay, std::function<void()> action) {
  const auto id = next_timer_++;
  timers_.emplace(std::pair(Clock::now() + delay, id), std::move(action));
  return id;
}

void Reactor::cancel(TimerId id) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [&](const auto& timer) { return timer.first.second == id; });
  if (found != timers_.end()) timers_.erase(found);
}

void Reactor::post(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(action));
  }
  wakeup_.signal();
}

void Reactor::stop() {
  post([this] { stopped_ = true; });
}

void Reactor::run() {
  while (run_once(std::chrono::hours(1))) {
  }
}

Reactor::Clock::duration Reactor::wait_time(Clock::duration limit) const {
  auto wait = limit;
  if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.first - Clock::now());
  return std::clamp<Clock::duration>(wait, Clock::duration::zero(), std::chrono::hours(1));
}

bool Reactor::run_once(Clock::duration limit) {
  std::array<epoll_event, 64> events;
  const int count = wait_for_events(epoll_.get(), events, wait_time(limit));
  if (count < 0 && errno != EINTR) throw system_error("waiting for events failed", errno);
  for (int i = 0; i < count && !stopped_; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const int fd = static_cast<int>(event.data.u64 & 0xffffffffU);
    const auto found = registrations_.find(fd);
    // Removed by a callback of this iteration, and perhaps added again as another descriptor.
    if (found == registrations_.end() || event.data.u64 != token_of(fd, found->second.number)) {
      continue;
    }
    const auto on_ready = found->second.on_ready;
    (*on_ready)(event.events);
  }
  run_due_timers();
  run_posted();
  return !stopped_;
}

void Reactor::run_due_timers() {
  while (!stopped_ && !timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
    const auto action = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    action();
  }
}

void Reactor::run_posted() {
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard lock(mutex_);
    actions.swap(posted_);
  }
  for (const auto& action : actions) action();
}

}  // namespace tutti
