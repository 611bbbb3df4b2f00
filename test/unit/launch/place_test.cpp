// Places of ranks, from host identities and the environment.
#include "launch/place.hpp"

#include "launch/launcher.hpp"

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::launch::test {

namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<int>;

struct Places {
  Numbers local_rank;
  Numbers local_size;
  Numbers host;
  int host_count = 0;
};

Places places_on(const Strings& hosts) {
  Places result;
  int rank = 0;
  for (const auto& place : find_places(hosts)) {
    CHECK(place.rank == rank++);
    CHECK(place.size == static_cast<int>(hosts.size()));
    result.local_rank.push_back(place.local_rank);
    result.local_size.push_back(place.local_size);
    result.host.push_back(place.host_index);
    result.host_count = place.host_count;
  }
  return result;
}

std::string reading_error(const std::string& variable, const std::string& value) {
  try {
    (void)read_launcher({{variable, value}});
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
  return {};
}

}  // namespace

TEST_CASE("one rank alone is local rank 0 of 1") {
  const auto places = places_on({"a"});
  CHECK(places.local_rank == Numbers{0});
  CHECK(places.local_size == Numbers{1});
  CHECK(places.host_count == 1);
}

TEST_CASE("two hosts with two ranks each have local ranks 0, 1, 0, 1") {
  const auto places = places_on({"a", "a", "b", "b"});
  CHECK(places.local_rank == Numbers{0, 1, 0, 1});
  CHECK(places.local_size == Numbers{2, 2, 2, 2});
  CHECK(places.host == Numbers{0, 0, 1, 1});
  CHECK(places.host_count == 2);
}

TEST_CASE("local ranks are counted per host with ranks distributed round-robin") {
  const auto places = places_on({"b", "a", "b", "a", "b"});
  CHECK(places.local_rank == Numbers{0, 0, 1, 1, 2});
  CHECK(places.local_size == Numbers{3, 2, 3, 2, 3});
  CHECK(places.host == Numbers{0, 1, 0, 1, 0});  // in the order of their lowest ranks
}

TEST_CASE("identities are compared as a whole") {
  // Names with equal prefixes.
  CHECK(places_on({"compute00000R", "compute000011"}).host_count == 2);
  CHECK(places_on({"gpu.a", "gpu.b"}).host_count == 2);
  CHECK(places_on({"node1", "node10", "node"}).host_count == 3);
  CHECK(places_on({"a", "A"}).host_count == 2);
  CHECK(places_on({"a", "a "}).host_count == 2);
  CHECK(places_on({std::string("a\0b", 3), std::string("a\0c", 3)}).host_count == 2);
}

TEST_CASE("a thousand hosts with three ranks each") {
  Strings hosts;
  for (int rank = 0; rank < 3000; ++rank) hosts.push_back("host" + std::to_string(rank % 1000));
  const auto places = places_on(hosts);
  CHECK(places.host_count == 1000);
  CHECK(places.local_rank[2999] == 2);
  CHECK(places.host[2999] == 999);
}

TEST_CASE("an environment without a launcher has no claim") {
  const auto claim = read_launcher({{"PATH", "/bin"}});
  CHECK(!claim.local_rank);
  CHECK(claim.source.empty());
}

TEST_CASE("a launcher's local rank is read, with its source") {
  const auto claim = read_launcher({{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}});
  CHECK(claim.local_rank == 3);
  CHECK(claim.source == "OMPI_COMM_WORLD_LOCAL_RANK");
}

TEST_CASE("an invalid rank is an error with the variable and its value") {
  for (const std::string value : {"abc", "-1", "1x", "1.0", " 1", "99999999999"}) {
    const auto sentence = reading_error("OMPI_COMM_WORLD_LOCAL_RANK", value);
    INFO(sentence);
    CHECK(sentence.find("OMPI_COMM_WORLD_LOCAL_RANK=" + value) == 0);
  }
}

TEST_CASE("traces of an MPI launcher are detected") {
  for (const std::string variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE",
                                     "PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALRANKID"}) {
    INFO(variable);
    CHECK(started_by_mpi_launcher({{variable, "1"}}));
  }
  CHECK(!started_by_mpi_launcher({}));
  CHECK(!started_by_mpi_launcher({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_MCA_btl", "tcp"}}));
}

TEST_CASE("a claim that contradicts the ranks' placement is reported with both") {
  const Place place{.rank = 5, .size = 8, .local_rank = 1, .local_size = 4};
  CHECK(disagreement({}, place, "node1").empty());
  CHECK(disagreement({1, "OMPI_COMM_WORLD_LOCAL_RANK"}, place, "node1").empty());
  const auto sentence = disagreement({0, "OMPI_COMM_WORLD_LOCAL_RANK"}, place, "node1");
  CHECK(sentence ==
        "local rank 1 is used, not OMPI_COMM_WORLD_LOCAL_RANK=0: by the ranks' host identities "
        "rank 5 is local rank 1 of 4 on node1");
}

TEST_CASE("a claim about other ranks is not a contradiction") {
  const Place place{.rank = 5, .size = 8, .local_rank = 1, .local_size = 4};
  LauncherClaim claim{0, "OMPI_COMM_WORLD_LOCAL_RANK", "5", "8"};
  CHECK(!disagreement(claim, place, "node1").empty());
  claim.size = "3";
  CHECK(disagreement(claim, place, "node1").empty());
  claim.size = "8";
  claim.rank = "4";
  CHECK(disagreement(claim, place, "node1").empty());
  const auto spawned = read_launcher({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                      {"OMPI_COMM_WORLD_RANK", "2"},
                                      {"OMPI_COMM_WORLD_SIZE", "3"}});
  CHECK(spawned.rank == "2");
  CHECK(spawned.size == "3");
}

}  // namespace tutti::launch::test
