// Diagnosis of timed-out calls.
#include "engine/timeout_report.hpp"

#include "support/catch.hpp"
#include "tutti/version.hpp"

namespace tutti::engine::test {

namespace {

using control::Group;
using control::Status;
using control::UnacknowledgedData;

/// Rank r runs on host n(r+1).
rendezvous::Peers peers(int rank, int size) {
  std::vector<rendezvous::PeerInfo> infos;
  for (int i = 1; i <= size; ++i) {
    rendezvous::PeerInfo info;
    info.version = version_string;
    const auto name = "n" + std::to_string(i);
    info.host = {"identity of " + name, name, "pids"};
    info.pid = 100;
    infos.push_back(std::move(info));
  }
  return {rank, std::move(infos), {}};
}

/// In call 3, as all other ranks, unless `sequence` differs.
Status in_call(const CallSignature& call, std::uint64_t sequence = 3) {
  Status status;
  status.activity.in_call = true;
  status.activity.sequence = sequence;
  status.activity.call = call;
  status.activity.since = std::chrono::steady_clock::now();
  return status;
}

UnacknowledgedData lost_to(int peer, std::uint32_t packet_bytes = 1500) {
  return {.peer = peer,
          .data = {.bytes = 14480, .times = 4, .packet_bytes = packet_bytes, .is_ipv6 = false}};
}

const CallSignature broadcast{Operation::broadcast, Type::u8, Operator::sum, 0, 1 << 24};

struct Scene {
  int rank = 1;
  int size = 2;
  CallSignature call = broadcast;
  std::vector<Awaited> awaited{{0, true}};
  Answers answers;

  [[nodiscard]] control::FailureReport judge() const {
    const auto group = Group::whole_job(rank, size);
    return diagnose_timeout(peers(rank, size),
                            {.group = &group,
                             .begun = {.sequence = 3, .call = call},
                             .timeout = std::chrono::seconds(5)},
                            awaited, answers);
  }
};

bool has(const control::FailureReport& report, const std::string& part) {
  return report.sentence.find(part) != std::string::npos;
}

using Ranks = std::set<int>;

}  // namespace

TEST_CASE("a receiver names both ends if the sender's data is lost, and suspects the MTU") {
  Scene scene;
  scene.answers.statuses[0] = in_call(broadcast);
  scene.answers.statuses[0].unacknowledged = {lost_to(1)};
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.code == ErrorCode::timeout);
  CHECK(report.failed_ranks == Ranks{0, 1});
  CHECK(has(report,
            "14480 bytes that rank 0 (n1, pid 100) has sent to rank 1 (n2, pid 100) are not "
            "acknowledged after 4 retransmissions, while small packets pass"));
  CHECK(has(report, "packets of 1500 bytes"));
  CHECK(has(report, "ping -M do -s 1472 n2 on n1"));
  CHECK(!has(report, "waiting for"));
}

TEST_CASE("the sender makes the same report") {
  Scene scene;
  scene.rank = 0;
  scene.awaited = {{1, false}};
  scene.answers.statuses[1] = in_call(broadcast);
  scene.answers.own_unacknowledged = {lost_to(1)};
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{0, 1});
  CHECK(has(report, "14480 bytes that rank 0 (n1, pid 100) has sent to rank 1 (n2, pid 100)"));
  CHECK(has(report, "ping -M do -s 1472 n2 on n1"));
}

TEST_CASE("lost data takes precedence over ranks that wait for it in other calls") {
  Scene scene;
  scene.rank = 2;
  scene.size = 4;
  scene.awaited = {{1, true}};
  // Rank 0's kernel had taken all data for rank 3: rank 0 has moved on to another call.
  scene.answers.statuses[0].activity.sequence = 2;
  scene.answers.statuses[0].unacknowledged = {lost_to(3)};
  scene.answers.statuses[1] = in_call(broadcast, 2);
  scene.answers.statuses[3] = in_call(broadcast, 2);
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{0, 3});
  CHECK(has(report, "rank 0 (n1, pid 100) has sent to rank 3 (n4, pid 100)"));
}

TEST_CASE("an absent rank takes precedence over data lost between others") {
  Scene scene;
  scene.rank = 2;
  scene.size = 4;
  scene.awaited = {{1, true}};
  scene.answers.statuses[0] = in_call(broadcast, 3);
  scene.answers.statuses[0].unacknowledged = {lost_to(1)};
  scene.answers.statuses[1] = in_call(broadcast, 3);
  scene.answers.statuses[3].activity.sequence = 2;
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{3});
  CHECK(has(report, "outside any call"));
}

TEST_CASE("lost small packets are not attributed to the MTU") {
  Scene scene;
  scene.answers.statuses[0] = in_call(broadcast);
  scene.answers.statuses[0].unacknowledged = {lost_to(1, 200)};
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{0, 1});
  CHECK(!has(report, "MTU"));
  CHECK(has(report, "firewalls on n1 and n2"));
}

TEST_CASE("a rank that does not answer is reported, and its host if it acknowledges nothing") {
  Scene scene;
  scene.rank = 0;
  scene.awaited = {{1, false}};
  CHECK(has(scene.judge(), "rank 1 (n2, pid 100), which does not answer (it is stopped, or"));
  scene.answers.own_unacknowledged = {lost_to(1)};
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{1});
  CHECK(has(report, "14480 bytes that rank 0 (n1, pid 100) has sent to it are not acknowledged"));
  CHECK(has(report, "is down"));
  CHECK(!has(report, "MTU"));
}

TEST_CASE("the report of a message ignores data lost between other ranks") {
  Scene scene;
  scene.size = 4;
  scene.call = {Operation::recv, Type::u8, Operator::sum, 0, 1 << 20};
  scene.answers.statuses[0].activity.sequence = 3;
  scene.answers.statuses[2] = in_call(broadcast);
  scene.answers.statuses[2].unacknowledged = {lost_to(3)};
  scene.answers.statuses[3] = in_call(broadcast);
  const auto report = scene.judge();
  INFO(report.sentence);
  CHECK(report.failed_ranks == Ranks{0});
  CHECK(has(report, "rank 0 (n1, pid 100), which is outside any call"));
}

TEST_CASE("data sent to a rank that has left is ignored") {
  Scene scene;
  scene.size = 3;
  scene.answers.statuses[0] = in_call(broadcast);
  scene.answers.statuses[0].unacknowledged = {lost_to(2)};
  scene.answers.departed = {2};
  CHECK(scene.judge().failed_ranks == Ranks{0});
}

}  // namespace tutti::engine::test
