// Data connections handed from the control thread to the links.
#include "control/connector.hpp"

#include <poll.h>

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

bool is_readable(const Wakeup& wakeup) {
  pollfd poll{wakeup.fd(), POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

DataConnection failed_connection(int peer, const std::string& failure) {
  DataConnection result{.connection = {}, .dialed_here = true, .failure = failure};
  result.connection.peer = peer;
  return result;
}

}  // namespace

TEST_CASE("a request for a connection goes to the control thread with its deadline") {
  const Wakeup wakeup;
  int asked = -1;
  bool is_never = false;
  Connector connector(wakeup, [&](int peer, const Deadline& deadline) {
    asked = peer;
    is_never = deadline.is_never();
  });
  connector.request(3, Deadline::never());
  CHECK(asked == 3);
  CHECK(is_never);
  CHECK(connector.take().empty());
  CHECK_FALSE(is_readable(wakeup));
}

TEST_CASE("delivered connections wake the links, and are taken once and in order") {
  const Wakeup wakeup;
  Connector connector(wakeup, [](int, const Deadline&) {});
  connector.deliver(failed_connection(2, "no answer"));
  CHECK(is_readable(wakeup));
  connector.deliver(failed_connection(0, "refused"));
  const auto taken = connector.take();
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].connection.peer == 2);
  CHECK(taken[0].failure == "no answer");
  CHECK(taken[0].dialed_here);
  CHECK_FALSE(taken[0].connection.socket);
  CHECK(taken[1].connection.peer == 0);
  CHECK(connector.take().empty());
}

}  // namespace tutti::control::test
