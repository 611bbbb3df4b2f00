// Variables set by users.
#include "base/environment.hpp"

#include <vector>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {

using namespace std::chrono_literals;

TEST_CASE("durations are parsed, malformed ones rejected") {
  struct Row {
    std::string_view text;
    std::optional<std::chrono::nanoseconds> expected;
  };
  const std::vector<Row> table{
      {"60", 60s},
      {"60s", 60s},
      {"500ms", 500ms},
      {"5us", 5us},
      {"5ns", 5ns},
      {"2m", 2min},
      {"1h", 1h},
      {"1.5", 1500ms},
      {"0.25s", 250ms},
      {".5s", 500ms},
      {"0", 0ns},
      {"8784h", 8784h},  // a year
      {"8785h", std::nullopt},
      {"1e9", std::nullopt},
      {"1e9s", std::nullopt},
      {"1000000000", std::nullopt},
      {"99999999999999999999999999999999999999999s", std::nullopt},
      {"-1", std::nullopt},
      {"-1s", std::nullopt},
      {"+1", std::nullopt},
      {"x", std::nullopt},
      {"", std::nullopt},
      {" ", std::nullopt},
      {"s", std::nullopt},
      {"5 s", std::nullopt},
      {" 5s", std::nullopt},
      {"5s ", std::nullopt},
      {"5S", std::nullopt},
      {"5sec", std::nullopt},
      {"5s5ms", std::nullopt},
      {"1,5s", std::nullopt},
      {"0x10", std::nullopt},
      {"inf", std::nullopt},
      {"nan", std::nullopt},
      {"infinity", std::nullopt},
  };
  for (const auto& row : table) {
    INFO("\"" << row.text << "\"");
    CHECK(parse_duration(row.text) == row.expected);
  }
}

TEST_CASE("whole units of time are parsed exactly") {
  for (int i = 1; i <= 2000; ++i) {
    INFO(i);
    const auto number = std::to_string(i);
    REQUIRE(parse_duration(number + "ns") == std::chrono::nanoseconds(i));
    REQUIRE(parse_duration(number + "us") == std::chrono::microseconds(i));
    REQUIRE(parse_duration(number + "ms") == std::chrono::milliseconds(i));
    REQUIRE(parse_duration(number + "s") == std::chrono::seconds(i));
    REQUIRE(parse_duration(number + "m") == std::chrono::minutes(i));
  }
}

TEST_CASE("sizes are parsed, malformed ones rejected") {
  struct Row {
    std::string_view text;
    std::optional<std::size_t> expected;
  };
  const std::vector<Row> table{
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"4KiB", 4096},
      {"4K", 4096},
      {"1.5MiB", 1572864},
      {"2M", 2097152},
      {"2GiB", 2147483648},
      {"1G", 1073741824},
      {"0.5", 1},  // rounded up to one byte
      {"9007199254740992", 9007199254740992},
      {"9007199254740994", std::nullopt},
      {"99999999999999999999", std::nullopt},
      {"9999999999GiB", std::nullopt},
      {"-1", std::nullopt},
      {"-4KiB", std::nullopt},
      {"1e3", std::nullopt},
      {"x", std::nullopt},
      {"", std::nullopt},
      {"KiB", std::nullopt},
      {"4 KiB", std::nullopt},
      {"4kib", std::nullopt},
      {"4TiB", std::nullopt},
      {"inf", std::nullopt},
      {"nan", std::nullopt},
  };
  for (const auto& row : table) {
    INFO("\"" << row.text << "\"");
    CHECK(parse_size(row.text) == row.expected);
  }
}

TEST_CASE("an empty environment gives the defaults") {
  const auto environment = Environment::from({});
  CHECK(environment.timeout == 60s);
  CHECK(environment.log_level == LogLevel::warning);
  CHECK(environment.host_id.empty());
  CHECK(environment.socket_ifname.empty());
  CHECK(environment.socket_ifname_source.empty());
  CHECK(environment.keepalive == 15s);
  CHECK(environment.algorithm.empty());
  CHECK(environment.chunk_bytes == 0);
  CHECK(environment.eager_bytes == 16384);
  CHECK(environment.far_eager_bytes == 65536);
  CHECK(environment.congestion.empty());
}

TEST_CASE("every variable is read") {
  const auto environment = Environment::from({{"TUTTI_TIMEOUT", "500ms"},
                                              {"TUTTI_LOG", "debug"},
                                              {"TUTTI_HOST_ID", "node-a"},
                                              {"TUTTI_SOCKET_IFNAME", "^docker0"},
                                              {"TUTTI_SOCKET_FAMILY", "6"},
                                              {"TUTTI_PORT_RANGE", "40000-40015"},
                                              {"TUTTI_KEEPALIVE", "1m"},
                                              {"TUTTI_ALGORITHM", "ring"},
                                              {"TUTTI_CHUNK", "4KiB"},
                                              {"TUTTI_EAGER", "0"},
                                              {"TUTTI_CONGESTION", "cubic"}});
  CHECK(environment.timeout == 500ms);
  CHECK(environment.log_level == LogLevel::debug);
  CHECK(environment.host_id == "node-a");
  CHECK(environment.socket_ifname == "^docker0");
  CHECK(environment.socket_family == SocketFamily::v6);
  CHECK(environment.port_range.text() == "40000-40015");
  CHECK(environment.keepalive == 60s);
  CHECK(environment.algorithm == "ring");
  CHECK(environment.chunk_bytes == 4096);
  CHECK(environment.eager_bytes == 0);
  CHECK(environment.far_eager_bytes == 0);
  CHECK(environment.congestion == "cubic");
}

TEST_CASE("every log level is read") {
  CHECK(Environment::from({{"TUTTI_LOG", "quiet"}}).log_level == LogLevel::quiet);
  CHECK(Environment::from({{"TUTTI_LOG", "warning"}}).log_level == LogLevel::warning);
  CHECK(Environment::from({{"TUTTI_LOG", "info"}}).log_level == LogLevel::info);
}

TEST_CASE("the backend cpu has the names that other libraries and earlier versions gave it") {
  CHECK(parse_backend("auto") == BackendChoice::automatic);
  CHECK(parse_backend("nccl") == BackendChoice::nccl);
  for (const auto* name : {"cpu", "host", "gloo", "tcp"}) {
    INFO(name);
    CHECK(parse_backend(name) == BackendChoice::host);
    CHECK(Environment::from({{"TUTTI_BACKEND", name}}).backend == BackendChoice::host);
  }
  for (const auto* name : {"", "device", "automatic", "HOST", "mpi"}) {
    INFO(name);
    CHECK(!parse_backend(name));
  }
}

TEST_CASE("a backend is compared and told by one name, whatever its synonym") {
  const auto told = [](const char* name) {
    return Environment::from({{"TUTTI_BACKEND", name}}).agreed_settings().at("TUTTI_BACKEND");
  };
  CHECK(told("cpu") == "cpu");
  CHECK(told("host") == "cpu");
  CHECK(told("nccl") == "nccl");
  CHECK(told("auto") == "auto");
}

TEST_CASE("an empty variable is as good as none") {
  const auto environment =
      Environment::from({{"TUTTI_TIMEOUT", ""}, {"TUTTI_CHUNK", ""}, {"TUTTI_LOG", ""}});
  CHECK(environment.timeout == 60s);
  CHECK(environment.chunk_bytes == 0);
  CHECK(environment.log_level == LogLevel::warning);
}

TEST_CASE("the most specific variable for interfaces wins, and its name is kept") {
  EnvironmentMap map{{"GLOO_SOCKET_IFNAME", "g"}};
  CHECK(Environment::from(map).socket_ifname == "g");
  CHECK(Environment::from(map).socket_ifname_source == "GLOO_SOCKET_IFNAME");
  map["NCCL_SOCKET_IFNAME"] = "n";
  CHECK(Environment::from(map).socket_ifname == "n");
  CHECK(Environment::from(map).socket_ifname_source == "NCCL_SOCKET_IFNAME");
  map["TUTTI_SOCKET_IFNAME"] = "t";
  CHECK(Environment::from(map).socket_ifname == "t");
  CHECK(Environment::from(map).socket_ifname_source == "TUTTI_SOCKET_IFNAME");
  map["TUTTI_SOCKET_IFNAME"] = "";
  CHECK(Environment::from(map).socket_ifname == "n");
}

TEST_CASE("an invalid value is an error with variable and value") {
  struct Row {
    std::string variable;
    std::vector<std::string> values;
  };
  const std::vector<Row> table{
      {"TUTTI_TIMEOUT", {"1e9", "-1", "x", "0", "0s", "0.1ns", "999999999999"}},
      {"TUTTI_LOG", {"loud", "Info", "2", "debug "}},
      {"TUTTI_SOCKET_FAMILY", {"0", "ipv4", "46", "4 ", "Any"}},
      {"TUTTI_PORT_RANGE",
       {"0", "x", "40000-", "-40015", "40015-40000", "0-10", "1-65536", "40000-40015-5",
        "40000 - 40015"}},
      {"TUTTI_KEEPALIVE", {"0", "999ms", "25h", "x", "-5s"}},
      {"TUTTI_CHUNK", {"0", "63", "1.1GiB", "x", "-1", "1e6"}},
      {"TUTTI_EAGER", {"1.1MiB", "x", "-1", "99999999999999999999"}},
  };
  for (const auto& row : table) {
    for (const auto& value : row.values) {
      INFO(row.variable << "=" << value);
      try {
        (void)Environment::from({{row.variable, value}});
        FAIL("no error");
      } catch (const Error& error) {
        INFO(error.what());
        CHECK(error.code() == ErrorCode::usage);
        CHECK(error.sentence().find(row.variable + "=" + value) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a host identity that is too long is reported by its length") {
  try {
    (void)Environment::from({{"TUTTI_HOST_ID", std::string(256, 'h')}});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(error.sentence() == "TUTTI_HOST_ID has 256 characters: set at most 255");
  }
}

TEST_CASE("the limits themselves are valid") {
  CHECK_NOTHROW(Environment::from({{"TUTTI_CHUNK", "64"}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_CHUNK", "1GiB"}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_EAGER", "1MiB"}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_KEEPALIVE", "1s"}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_PORT_RANGE", "1-65535"}}));
  CHECK(Environment::from({{"TUTTI_PORT_RANGE", "40000"}}).port_range.text() == "40000-40000");
  CHECK(Environment::from({{"TUTTI_SOCKET_FAMILY", "any"}}).socket_family == SocketFamily::any);
  CHECK_NOTHROW(Environment::from({{"TUTTI_KEEPALIVE", "24h"}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_HOST_ID", std::string(255, 'h')}}));
  CHECK_NOTHROW(Environment::from({{"TUTTI_TIMEOUT", "1ns"}}));
}

TEST_CASE("settings that must be equal on all ranks are listed by variable") {
  const auto settings = Environment::from({{"TUTTI_CHUNK", "4KiB"}}).agreed_settings();
  CHECK(settings.at("TUTTI_CHUNK") == "4096");
  CHECK(settings.at("TUTTI_EAGER") == "16384, 65536 between hosts");
  CHECK(Environment::from({{"TUTTI_EAGER", "16KiB"}}).agreed_settings().at("TUTTI_EAGER") ==
        "16384");
  CHECK(settings.at("TUTTI_ALGORITHM").empty());
}

TEST_CASE("current_environment() returns the process's environment") {
  ::setenv("TUTTI_UNIT_TEST", "a=b", 1);
  CHECK(current_environment().at("TUTTI_UNIT_TEST") == "a=b");
  ::unsetenv("TUTTI_UNIT_TEST");
  CHECK(!current_environment().contains("TUTTI_UNIT_TEST"));
}

TEST_CASE("the tuning file is the named one, none, or in the cache folder") {
  const auto file = [](const EnvironmentMap& map) { return Environment::from(map).tuning_file; };
  CHECK(file({{"HOME", "/home/a"}}) == "/home/a/.cache/tutti/tuning.jsonl");
  CHECK(file({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/cache"}}) == "/cache/tutti/tuning.jsonl");
  for (const auto* const ignored : {"", "relative"}) {
    CHECK(file({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", ignored}}) ==
          "/home/a/.cache/tutti/tuning.jsonl");
  }
  CHECK(file({}).empty());
  CHECK(file({{"HOME", ""}}).empty());
  for (const auto* const variable : {"TUTTI_TUNING", "TUTTI_PROFILE"}) {
    CHECK(file({{"HOME", "/home/a"}, {variable, "a/file"}}) == "a/file");
    CHECK(file({{"HOME", "/home/a"}, {variable, "off"}}).empty());
    CHECK(file({{"HOME", "/home/a"}, {variable, ""}}) == "/home/a/.cache/tutti/tuning.jsonl");
  }
  CHECK(file({{"TUTTI_TUNING", "one"}, {"TUTTI_PROFILE", "two"}}) == "one");
}

}  // namespace tutti::test
