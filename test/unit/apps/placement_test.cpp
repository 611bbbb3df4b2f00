// Placement of ranks by mpirun's rules.
#include "hostfile/placement.hpp"

#include <map>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::hostfile::test {

namespace {

const Resolver nobody = [](const std::string&) { return std::vector<std::string>(); };

Placement place(std::string_view text, PlacementRequest request, const Resolver& resolve = nobody) {
  return place_ranks(parse_hostfile(text, "hosts"), "hosts", request, resolve);
}

/// Host and local rank of each rank: "a0 a1 b0".
std::string text_of(const Placement& placement) {
  std::string text;
  for (const auto& rank : placement.ranks) {
    CHECK(rank.rank * 1UL == static_cast<unsigned long>(&rank - placement.ranks.data()));
    text += (text.empty() ? "" : " ") + placement.hosts[rank.entry].entry.name +
            std::to_string(rank.local_rank);
  }
  return text;
}

std::string error_of(std::string_view text, const PlacementRequest& request) {
  try {
    (void)place(text, request);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ranks by slot, by node, and a number per host") {
  struct Row {
    std::string hosts;
    int ranks;
    std::string map_by;
    std::string expected;
  };
  const std::vector<Row> table{
      {"a:2\nb:2", 4, "slot", "a0 a1 b0 b1"},
      {"a:2\nb:2", 3, "slot", "a0 a1 b0"},
      {"a:2\nb:2", 4, "node", "a0 b0 a1 b1"},
      {"a:2\nb:2", 3, "node", "a0 b0 a1"},
      {"a:1\nb:3\nc:2", 6, "slot", "a0 b0 b1 b2 c0 c1"},
      {"a:1\nb:3\nc:2", 6, "node", "a0 b0 c0 b1 c1 b2"},
      {"a:2\nb:2", 0, "slot", "a0 a1 b0 b1"},
      {"a:4\nb:4", 0, "ppr:2:node", "a0 a1 b0 b1"},
      {"a:4\nb:4", 3, "ppr:2:node", "a0 a1 b0"},
      {"a:4\nb:4", 2, "ppr:1:node", "a0 b0"},
      {"localhost\nlocalhost\nlocalhost", 3, "slot", "localhost0 localhost1 localhost2"},
  };
  for (const auto& row : table) {
    INFO(row.hosts << ", " << row.ranks << " by " << row.map_by);
    CHECK(text_of(place(row.hosts, {.ranks = row.ranks, .map_by = parse_map_by(row.map_by)})) ==
          row.expected);
  }
}

TEST_CASE("Open MPI 4.1 begins with mpirun's host, and distributes by node differently") {
  struct Row {
    std::string hosts;
    int ranks;
    std::string map_by;
    std::string expected;
  };
  // Output of its `mpirun --do-not-launch --display-map`, on a machine called me.
  const std::vector<Row> table{
      {"a:2\nme:2\nc:1", 3, "slot", "me0 me1 a0"},
      {"a:2\nme:2\nc:1", 5, "slot", "me0 me1 a0 a1 c0"},
      {"a:2\nme:2\nc:1", 2, "node", "me0 a0"},
      {"a:2\nme:2\nc:1", 5, "node", "me0 a0 c0 me1 a1"},
      {"a:2\nme:2\nc:1", 2, "ppr:1:node", "me0 a0"},
      {"a:1\nb:3\nc:2", 3, "node", "a0 b0 c0"},
      {"a:1\nb:3\nc:2", 4, "node", "a0 b0 c0 b1"},
      {"a:1\nb:3\nc:2", 5, "node", "a0 b0 c0 b1 b2"},
      {"a:1\nb:3\nc:2", 6, "node", "a0 b0 c0 b1 c1 b2"},
  };
  const Resolver resolve = [](const std::string& host) {
    return std::vector<std::string>{host == "me" ? this_machine : host};
  };
  for (const auto& row : table) {
    INFO(row.hosts << ", " << row.ranks << " by " << row.map_by);
    PlacementRequest request{
        .ranks = row.ranks, .map_by = parse_map_by(row.map_by), .rules = parse_rules("openmpi4")};
    const auto plan = place(row.hosts, request, resolve);
    CHECK(text_of(plan) == row.expected);
    CHECK(same_places(plan, plan));
    request.rules = parse_rules("openmpi5");
    const auto other = place(row.hosts, request, resolve);
    CHECK(same_places(plan, other) == (text_of(plan) == text_of(other)));
  }
  CHECK_THROWS_AS(parse_rules("lam"), Error);
}

TEST_CASE("two bare hosts: both ranks on the first, and a note names the assumption") {
  const auto plan = place("a\nb", {.ranks = 2, .cores = 8, .cores_source = "--cores"});
  CHECK(text_of(plan) == "a0 a1");
  CHECK(plan.host_count == 1);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0] == "assumed: hosts without a slot count (a, b) have 8 slots each (--cores)");
  CHECK(place("a:1\nb:1", {.ranks = 2}).notes.empty());
}

TEST_CASE("missing slots are an error with the slots of each host") {
  CHECK(error_of("a slots=2\nb slots=1", {.ranks = 4})
            .starts_with("hosts: need 4, have 3 (a: 2, b: 1): "));
  CHECK(error_of("a\nb", {.ranks = 5, .cores = 2})
            .starts_with("hosts: need 5, have 4 (a: 2, b: 2): "));
  CHECK(error_of("a:4\nb:4", {.ranks = 5, .map_by = parse_map_by("ppr:2:node")})
            .starts_with("hosts: need 5, have 4 (a: 2, b: 2): "));
  CHECK(error_of("a:4\nb:1", {.map_by = parse_map_by("ppr:2:node")})
            .starts_with("hosts:2: --map-by ppr:2:node needs 2 slots on each host, b has 1"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "h" + std::to_string(i) + " slots=1\n";
  const auto sentence = error_of(many, {.ranks = 101});
  CHECK(sentence.find("h7: 1, 92 more)") != std::string::npos);
}

TEST_CASE("names of one host are detected, and its local ranks continue") {
  const std::map<std::string, std::vector<std::string>> addresses{
      {"node1", {"10.0.0.1"}},
      {"node1.cluster", {"10.0.0.1", "fd00::1"}},
      {"10.0.0.1", {"10.0.0.1"}},
      {"node2", {"10.0.0.2"}}};
  const Resolver resolve = [&](const std::string& host) {
    const auto found = addresses.find(host);
    return found == addresses.end() ? std::vector<std::string>() : found->second;
  };
  const auto plan = place("node1:1\nnode2:1\nnode1.cluster:1\n10.0.0.1:1\nunknown:1", {}, resolve);
  CHECK(text_of(plan) == "node10 node20 node1.cluster1 10.0.0.12 unknown0");
  CHECK(plan.host_count == 3);
  REQUIRE(plan.notes.size() == 2);
  CHECK(plan.notes[0].starts_with(
      "hosts:3: node1.cluster is the same host as node1 of line 1 (10.0.0.1)"));
  CHECK(plan.notes[1].starts_with("hosts:4: 10.0.0.1 is the same host as node1"));
  // Containers with the same address and different ports.
  CHECK(place("node1 slots=1 port=2201\nnode1.cluster slots=1 port=2202", {}, resolve).host_count ==
        2);
}

TEST_CASE("an unknown --map-by is rejected") {
  for (const std::string text : {"", "core", "ppr:2", "ppr::node", "ppr:0:node", "ppr:x:node",
                                 "ppr:-1:node", "ppr:2:socket", "slot:OVERSUBSCRIBE", "ppr:node"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_map_by(text), Error);
  }
  CHECK(parse_map_by("ppr:2:node").per_host == 2);
}

TEST_CASE("a thousand hosts are placed quickly") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "h" + std::to_string(i) + " slots=8\n";
  for (const std::string how : {"slot", "node", "ppr:8:node"}) {
    const auto plan = place(text, {.ranks = 8000, .map_by = parse_map_by(how)});
    CHECK(plan.ranks.size() == 8000);
    CHECK(plan.host_count == 1000);
  }
}

}  // namespace tutti::hostfile::test
