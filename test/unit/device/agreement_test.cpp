// The mode that all ranks agree on, from fake peer info; needs no GPU.
#include "device/agreement.hpp"

#include "support/catch.hpp"
#include "tutti/version.hpp"

namespace tutti::device::test {
namespace {

using rendezvous::PeerInfo;
using rendezvous::Peers;

/// A rank on `host` that sees the devices with these UUIDs.
PeerInfo info(const std::string& host, const std::vector<std::string>& uuids) {
  PeerInfo made;
  made.version = version_string;
  made.host = {.identity = host, .name = host, .pid_namespace = host};
  made.pid = 4711;
  made.nccl_version = 22803;
  for (const auto& uuid : uuids) {
    made.devices.push_back({.uuid = uuid, .name = "GPU", .bus_id = "bus-" + uuid});
  }
  if (uuids.empty()) made.no_device_reason = "hidden";
  return made;
}

Agreement agree_on(const std::vector<PeerInfo>& infos) {
  const auto first = agree(Peers(0, infos, {}));
  // Every rank must agree.
  for (int rank = 1; rank < static_cast<int>(infos.size()); ++rank) {
    const auto other = agree(Peers(rank, infos, {}));
    CHECK(other.mode == first.mode);
    CHECK(other.device_of_rank == first.device_of_rank);
    CHECK(other.reason == first.reason);
  }
  return first;
}

bool says(const Agreement& agreement, const std::string& words) {
  INFO(agreement.reason);
  return agreement.reason.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("ranks of a host that see all its devices take the one of their local rank") {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    std::vector<std::string> all;
    for (int i = 0; i < size; ++i) all.push_back(std::to_string(i));
    std::vector<PeerInfo> infos(static_cast<std::size_t>(size), info("a", all));
    const auto agreement = agree_on(infos);
    REQUIRE(agreement.mode == DeviceMode::nccl);
    for (int rank = 0; rank < size; ++rank) {
      CHECK(agreement.device_of_rank[static_cast<std::size_t>(rank)] == rank);
    }
  }
}

TEST_CASE("on two hosts the local rank counts, not the rank") {
  const auto agreement = agree_on(
      {info("a", {"1", "2"}), info("b", {"3", "4"}), info("a", {"1", "2"}), info("b", {"3", "4"})});
  REQUIRE(agreement.mode == DeviceMode::nccl);
  CHECK(agreement.device_of_rank == std::vector{0, 0, 1, 1});
}

TEST_CASE("a process that sees one device uses it, whatever its local rank") {
  const auto agreement = agree_on({info("a", {"1"}), info("a", {"2"}), info("a", {"3"})});
  REQUIRE(agreement.mode == DeviceMode::nccl);
  CHECK(agreement.device_of_rank == std::vector{0, 0, 0});
}

TEST_CASE("a device that the program chose goes before the local rank") {
  std::vector infos{info("a", {"1", "2"}), info("a", {"1", "2"})};
  infos[0].device = 1;
  infos[1].device = 0;
  const auto swapped = agree_on(infos);
  REQUIRE(swapped.mode == DeviceMode::nccl);
  CHECK(swapped.device_of_rank == std::vector{1, 0});

  infos[0].device = std::nullopt;
  CHECK(says(agree_on(infos), "share GPU"));
}

TEST_CASE("a process that chose its device may have a local rank above the number of devices") {
  // Such as a communicator of some of the job's ranks, where others use other GPUs.
  std::vector infos{info("a", {"1", "2"}), info("a", {"3", "4"}), info("a", {"5", "6"})};
  for (auto& each : infos) each.device = 1;
  const auto agreement = agree_on(infos);
  CHECK(agreement.mode == DeviceMode::nccl);
  CHECK(agreement.device_of_rank == std::vector{1, 1, 1});
}

TEST_CASE("two ranks on one device are named, with the remedy") {
  const auto agreement = agree_on({info("a", {"1"}), info("a", {"1"})});
  CHECK(agreement.mode == DeviceMode::staged);
  CHECK(says(agreement, "rank 0 (a, pid 4711) and rank 1 (a, pid 4711) share GPU"));
  CHECK(says(agreement, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("the same device name on another host is another device") {
  CHECK(agree_on({info("a", {"1"}), info("b", {"1"})}).mode == DeviceMode::nccl);
}

TEST_CASE("more ranks than devices") {
  const auto agreement =
      agree_on({info("a", {"1", "2"}), info("a", {"1", "2"}), info("a", {"1", "2"})});
  CHECK(agreement.mode == DeviceMode::staged);
  CHECK(agreement.device_of_rank == std::vector{0, 1, 0});
  CHECK(says(agreement, "host a: 3 local ranks, 2 devices"));
}

TEST_CASE("a rank without a device leaves all ranks to the host path") {
  const auto agreement = agree_on({info("a", {"1"}), info("a", {}), info("a", {"2"})});
  CHECK(agreement.mode == DeviceMode::host);
  CHECK(agreement.device_of_rank.empty());
  CHECK(says(agreement, "rank 1 (a, pid 4711): hidden"));
  CHECK(agree_on({info("a", {}), info("b", {})}).reason == "no rank has a GPU");
}

TEST_CASE("a MIG slice is refused and named") {
  std::vector infos{info("a", {"1"}), info("a", {"2"})};
  infos[1].devices[0].is_slice = true;
  const auto agreement = agree_on(infos);
  CHECK(agreement.mode == DeviceMode::staged);
  CHECK(says(agreement, "rank 1"));
  CHECK(says(agreement, "MIG"));
}

TEST_CASE("NCCL missing or of another release on one rank") {
  std::vector infos{info("a", {"1"}), info("b", {"2"})};
  infos[1].nccl_version = 22809;
  CHECK(says(agree_on(infos), "install one version"));
  infos[1].nccl_version = 0;
  infos[1].no_nccl_reason = "libnccl.so.2: not found";
  const auto agreement = agree_on(infos);
  CHECK(agreement.mode == DeviceMode::staged);
  CHECK(says(agreement, "rank 1 (b, pid 4711) has no NCCL (libnccl.so.2: not found)"));
}

}  // namespace tutti::device::test
