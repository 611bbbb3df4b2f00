#include "control/status_exchange.hpp"

#include "wait_while_running.hpp"

namespace tutti::control {

std::map<int, Status> StatusExchange::ask(std::uint32_t communicator,
                                          std::chrono::milliseconds limit) {
  const std::lock_guard alone(query_mutex_);
  {
    const std::lock_guard lock(mutex_);
    answers_.clear();
    communicator_ = communicator;
  }
  send_request_(communicator);
  std::unique_lock lock(mutex_);
  const auto size = static_cast<std::size_t>(detector_.peers().size());
  wait_while_running(changed_, lock, limit, *detector_.clock(), [&] {
    return answers_.size() + detector_.departed_count() + 1 >= size || detector_.job_failed();
  });
  return answers_;
}

Status StatusExchange::own(std::uint32_t communicator) const {
  return {.activity = histories_.activity_seen_from(communicator),
          .unacknowledged = data_sockets_.unacknowledged()};
}

void StatusExchange::on_status(int origin, std::uint32_t communicator, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (communicator != communicator_) return;  // a late answer to an earlier query
  answers_[origin] = status;
  changed_.notify_all();
}

void StatusExchange::on_change() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace tutti::control
