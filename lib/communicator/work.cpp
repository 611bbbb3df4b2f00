#include "tutti/work.hpp"

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
  if (done) pending_.reset();
  return done;
}

bool Work::test() {
  return wait_for(std::chrono::nanoseconds(0));
}

void Work::wait(Stream stream) {
  if (pending_) pending_->order_before(stream.handle);
}

}  // namespace tutti
