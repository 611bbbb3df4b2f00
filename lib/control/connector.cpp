#include "control/connector.hpp"

namespace tutti::control {

std::vector<DataConnection> Connector::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(connections_, {});
}

void Connector::deliver(DataConnection connection) {
  const std::lock_guard lock(mutex_);
  connections_.push_back(std::move(connection));
  wakeup_.signal();
}

}  // namespace tutti::control
