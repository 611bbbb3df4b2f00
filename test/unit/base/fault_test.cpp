// Fault injection: parsing, rejection, and effect on the right rank.
#include "base/fault_injection.hpp"

#include <chrono>
#include <set>

#include "base/environment.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {

using namespace std::chrono_literals;

namespace {

std::string refusal(const std::string& text) {
  try {
    (void)parse_faults(text);
    return {};
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
}

bool says(const std::string& sentence, const std::string& part) {
  INFO(sentence);
  return sentence.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("faults are parsed") {
  const auto faults = parse_faults(
      "kill:rank=2,call=100;delay:rank=1,call=5,time=50ms;stop:rank=0;drop-link:rank=0,peer=3;"
      "short-writes:bytes=7;refuse-shared-memory:rank=1");
  REQUIRE(faults.size() == 6);
  CHECK(faults[0].kind == FaultKind::kill);
  CHECK(faults[0].rank == 2);
  CHECK(faults[0].call == 100);
  CHECK(faults[1].kind == FaultKind::delay);
  CHECK(faults[1].call == 5);
  CHECK(faults[1].time == 50ms);
  CHECK(faults[2].kind == FaultKind::stop);
  CHECK(faults[2].call == 1);
  CHECK(faults[3].kind == FaultKind::drop_link);
  CHECK(faults[3].peer == 3);
  CHECK(faults[4].kind == FaultKind::short_writes);
  CHECK(faults[4].bytes == 7);
  CHECK(!faults[4].rank);
  CHECK(faults[5].kind == FaultKind::refuse_shared_memory);
  CHECK(parse_faults("").empty());
  CHECK(parse_faults(";;").empty());
}

TEST_CASE("a malformed fault is rejected with the part, the reason and an example") {
  struct Row {
    std::string text;
    std::string reason;
  };
  const std::vector<Row> table{
      {"burn:rank=1", "unknown fault 'burn': use kill, stop, delay"},
      {"kill", "it has no 'rank'"},
      {"kill:call=3", "it has no 'rank'"},
      {"kill:rank=x", "rank=x is not a valid rank"},
      {"kill:rank=-1", "rank=-1 is not a valid rank"},
      {"kill:rank=1 ", "rank=1  is not a valid rank"},
      {"kill:rank=99999999999", "is not a valid rank"},
      {"kill:rank=1,rank=2", "it has 'rank' twice"},
      {"kill:rank=1,peer=2", "kill has no key 'peer'"},
      {"kill:rank=1,call=0", "call=0 is not a valid call number (from 1)"},
      {"kill:rank=1,,call=1", "kill has no key ''"},
      {"delay:rank=1", "it has no 'time'"},
      {"delay:rank=1,time=0", "time=0 is not a valid time (above 0)"},
      {"delay:rank=1,time=soon", "time=soon is not a valid time (above 0)"},
      {"drop-link:rank=1", "it has no 'peer'"},
      {"drop-link:rank=1,peer=1", "a rank has no link with itself"},
      {"short-writes:bytes=0", "bytes=0 is not a valid number of bytes (from 1)"},
      {"refuse-shared-memory:call=1", "has no key 'call'"},
      {"stop:rank=1;kill:rank=", "TUTTI_FAULT=kill:rank= is unusable: rank= is not a valid rank"},
  };
  for (const auto& row : table) {
    INFO(row.text);
    const auto sentence = refusal(row.text);
    CHECK(says(sentence, row.reason));
    CHECK(says(sentence, "TUTTI_FAULT="));
    CHECK(says(sentence, "; example: "));
  }
}

TEST_CASE("the examples in the messages are valid") {
  for (const std::string name : {"kill:", "stop:", "delay:", "drop-link:"}) {
    const auto sentence = refusal(name);
    CHECK(refusal(sentence.substr(sentence.rfind(' ') + 1)).empty());
  }
}

TEST_CASE("faults are read from the environment") {
  CHECK(Environment::from({{"TUTTI_FAULT", "stop:rank=1"}}).faults.size() == 1);
  CHECK(Environment::from({}).faults.empty());
  CHECK_THROWS_AS(Environment::from({{"TUTTI_FAULT", "stop"}}), Error);
}

TEST_CASE("a fault affects only the rank that it names") {
  const auto all = parse_faults(
      "delay:rank=1,call=2,time=30ms;drop-link:rank=1,peer=0,call=3;short-writes:rank=1,bytes=7;"
      "refuse-shared-memory:rank=1");
  InjectedFaults other(all, 0, 2);
  for (int call = 0; call < 5; ++call) {
    other.before_call();
    CHECK(other.take_link_to_drop() == -1);
  }
  CHECK(other.max_written_bytes() == 0);
  CHECK(!other.refuses_shared_memory());

  InjectedFaults named(all, 1, 2);
  CHECK(named.max_written_bytes() == 7);
  CHECK(named.refuses_shared_memory());
  named.before_call();
  const auto begin = std::chrono::steady_clock::now();
  named.before_call();
  CHECK(std::chrono::steady_clock::now() - begin >= 30ms);  // it sleeps at least this long
  CHECK(named.take_link_to_drop() == -1);
  named.before_call();
  CHECK(named.take_link_to_drop() == 0);
  CHECK(named.take_link_to_drop() == -1);
}

TEST_CASE("several links can be dropped at one call") {
  InjectedFaults faults(parse_faults("drop-link:rank=1,peer=0;drop-link:rank=1,peer=2"), 1, 3);
  CHECK(faults.take_link_to_drop() == -1);
  faults.before_call();
  const std::set<int> peers{faults.take_link_to_drop(), faults.take_link_to_drop()};
  CHECK(peers == std::set<int>{0, 2});
  CHECK(faults.take_link_to_drop() == -1);
}

TEST_CASE("a fault for a rank out of range is rejected") {
  CHECK_THROWS_AS(InjectedFaults(parse_faults("kill:rank=2"), 0, 2), Error);
  CHECK_THROWS_AS(InjectedFaults(parse_faults("drop-link:rank=0,peer=2"), 0, 2), Error);
  CHECK_NOTHROW(InjectedFaults(parse_faults("kill:rank=1"), 0, 2));
}

}  // namespace tutti::test
