// Where the store is: URLs, MASTER_ADDR and MASTER_PORT.
#include "store/store_address.hpp"

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::store::test {

namespace {

StoreAddress from_url(const std::string& url) {
  return find_store_address(
      {}, {.init = launch::Init::store, .url = url, .is_explicit = true, .source = "--init " + url},
      {});
}

StoreAddress from_master(const EnvironmentMap& environment,
                         const launch::Resolved& resolved = {.rank = 0, .size = 2}) {
  return find_store_address(
      environment, {.init = launch::Init::store, .url = "env://", .source = "torchrun"}, resolved);
}

/// Ranks started by torchrun, whose agent listens at MASTER_PORT.
launch::Resolved by_torchrun(int local_size) {
  launch::Claim claim;
  claim.kind = launch::LauncherKind::elastic;
  return {.rank = 0, .size = 4, .local_size = local_size, .chosen = claim};
}

template <class Find>
std::string refusal_of(Find find) {
  try {
    static_cast<void>(find());
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a URL gives host and port; IPv6 addresses are in brackets") {
  const auto name = from_url("tcp://node1:29500");
  CHECK(name.host == "node1");
  CHECK(name.port == 29500);
  CHECK(name.ports == 1);
  CHECK(name.text() == "node1:29500");
  CHECK(name.source == "--init tcp://node1:29500");
  const auto v6 = from_url("tcp://[fd00::1]:65535");
  CHECK(v6.host == "fd00::1");
  CHECK(v6.port == 65535);
  CHECK(v6.text() == "[fd00::1]:65535");
}

TEST_CASE("an unusable URL is refused with the form that is expected") {
  for (const auto* const url :
       {"tcp://", "tcp://node1", "tcp://node1:", "tcp://:29500", "tcp://node1:0",
        "tcp://node1:65536", "tcp://node1:-1", "tcp://node1:29500x", "tcp://fd00::1:29500"}) {
    INFO(url);
    CHECK(refusal_of([&] { return from_url(url); }) ==
          std::string("--init ") + url +
              " is unusable: give tcp://HOST:PORT, with a port from 1 to 65535 and IPv6 addresses "
              "in brackets");
  }
}

TEST_CASE("env:// takes MASTER_ADDR and MASTER_PORT") {
  const auto address = from_master({{"MASTER_ADDR", "[fd00::1]"}, {"MASTER_PORT", "4711"}});
  CHECK(address.host == "fd00::1");
  CHECK(address.port == 4711);
  CHECK(address.source == "MASTER_ADDR=[fd00::1] MASTER_PORT=4711");
}

TEST_CASE("what env:// lacks is named") {
  const auto starts_with = [](const EnvironmentMap& environment, const std::string& text) {
    return refusal_of([&] { return from_master(environment); }).starts_with(text);
  };
  CHECK(starts_with({}, "MASTER_ADDR and MASTER_PORT are not set: "));
  CHECK(starts_with({{"MASTER_PORT", "1"}}, "MASTER_ADDR is not set: "));
  CHECK(starts_with({{"MASTER_ADDR", "n"}}, "MASTER_PORT is not set: "));
  CHECK(starts_with({{"MASTER_ADDR", "n"}, {"MASTER_PORT", "http"}},
                    "MASTER_PORT=http is not a valid port: "));
}

TEST_CASE("beside torchrun's agent the store takes one of the ports after it") {
  const auto at = [](const std::string& port) {
    return from_master({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", port}}, by_torchrun(2));
  };
  CHECK(at("29500").port == 29501);
  CHECK(at("29500").ports == ports_behind_torch);
  CHECK(at("29500").text() == "node1:29501 to 29516");
  // No port is above 65535.
  CHECK(at("65519").text() == "node1:65520 to 65535");
  CHECK(at("65520").text() == "node1:65504 to 65519");
  CHECK(at("65535").text() == "node1:65519 to 65534");
}

TEST_CASE("ranks of one host meet at loopback, whatever the host's name") {
  const EnvironmentMap environment{{"MASTER_ADDR", "name-of-nothing.invalid"},
                                   {"MASTER_PORT", "29500"}};
  const auto alone = from_master(environment, by_torchrun(4));
  CHECK(alone.on_one_host);
  CHECK(alone.text() == "localhost:29501 to 29516");
  const auto addresses = resolve_addresses(alone, Deadline::never());
  REQUIRE_FALSE(addresses.empty());
  CHECK(is_loopback(addresses));
  CHECK(addresses.front().port() == 29501);
  CHECK_FALSE(from_master(environment, by_torchrun(2)).on_one_host);
}

TEST_CASE("jobs that could use one address are told apart") {
  const EnvironmentMap environment{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  const auto job_with = [&](const std::string& name, const std::string& value) {
    auto changed = environment;
    changed[name] = value;
    return from_master(changed).job;
  };
  const auto job = from_master(environment).job;
  CHECK(job == from_master(environment).job);
  CHECK(job != job_with("MASTER_PORT", "29501"));
  CHECK(job != job_with("TORCHELASTIC_RUN_ID", "7"));
  CHECK(job != job_with("TORCHELASTIC_RESTART_COUNT", "1"));
  // Another name of the same host is the same job.
  CHECK(job == job_with("MASTER_ADDR", "10.0.0.1"));
}

TEST_CASE("a numeric host is taken as it is, with the port") {
  for (const auto* const host : {"127.0.0.1", "::1"}) {
    const StoreAddress store_address{.host = host, .port = 4711};
    CHECK(store_address.is_explicit());
    const auto addresses = resolve_addresses(store_address, Deadline::never());
    REQUIRE(addresses.size() == 1);
    CHECK(addresses[0].host_text() == host);
    CHECK(addresses[0].port() == 4711);
    CHECK(is_loopback(addresses));
  }
  CHECK(StoreAddress{.host = "localhost"}.is_explicit());
  CHECK_FALSE(StoreAddress{.host = "node1"}.is_explicit());
}

TEST_CASE("the wildcard addresses are of both families and not loopback") {
  const auto addresses = wildcard_addresses(4711);
  REQUIRE(addresses.size() == 2);
  CHECK(addresses[0].text() == "0.0.0.0:4711");
  CHECK(addresses[1].text() == "[::]:4711");
  CHECK_FALSE(is_loopback(addresses));
}

}  // namespace tutti::store::test
