#include "tutti/work.hpp"

#include <algorithm>
#include <exception>

#include "communicator/pending.hpp"

namespace tutti {

Work::Work() noexcept = default;
Work::Work(std::unique_ptr<Pending> pending) noexcept : pending_(std::move(pending)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() {
  while (!wait_for(std::chrono::hours(1))) {
  }
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (!pending_) return true;
  bool done = true;
  try {
    done = pending_->wait_for(limit);
  } catch (...) {
    pending_.reset();
    throw;
  }
  if (!done) return false;
  source_ = pending_->source();
  pending_.reset();
  return true;
}

bool Work::test() {
  return wait_for(std::chrono::nanoseconds(0));
}

void Work::wait(Stream stream) {
  if (pending_) pending_->order_before(stream.handle);
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (auto& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::size_t wait_any(std::span<Work> works) {
  using std::chrono::nanoseconds;
  constexpr nanoseconds shortest = std::chrono::microseconds(5);
  constexpr nanoseconds longest = std::chrono::milliseconds(1);
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    auto active = works.end();
    for (auto work = works.begin(); work != works.end(); ++work) {
      if (!work->is_active()) continue;
      if (work->test()) return static_cast<std::size_t>(work - works.begin());
      if (active == works.end()) active = work;
    }
    if (active == works.end()) return works.size();
    // Whoever waits for one call moves all of them, but does not see that another one is done. A
    // look at all costs little next to what has been waited already.
    const nanoseconds waited = std::chrono::steady_clock::now() - start;
    if (active->wait_for(std::clamp(waited / 8, shortest, longest))) {
      return static_cast<std::size_t>(active - works.begin());
    }
  }
}

}  // namespace tutti
