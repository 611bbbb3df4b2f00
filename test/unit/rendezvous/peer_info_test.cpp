// Peer info: encoding, and agreement of all ranks.
#include "rendezvous/peer_info.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "addresses.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"

namespace tutti::rendezvous::test {

namespace {

PeerInfo sample() {
  PeerInfo info;
  info.version = version_string;
  info.settings = {{"TUTTI_ALGORITHM", ""}, {"TUTTI_CHUNK", "262144"}};
  info.host = {"identity", "node1", "pid:[1]@boot"};
  info.pid = 4711;
  info.process_start = 0x123456789ABC;
  info.cores = 16;
  info.first_core = 8;
  info.open_files_limit = 1024;
  info.open_files = 17;
  info.devices = {{"0-1", "a GPU", "0000:18:00.0", true},
                  {"0-2", "another", "0000:19:00.0", false}};
  info.device = 1;
  info.no_device_reason = "none";
  info.nccl_version = 22803;
  info.no_nccl_reason = "too old";
  info.addresses = {v4("10.0.0.1", 5000), v6("fd00::1", 5001), v4("127.0.0.1", 5002)};
  info.failure = "no port is free";
  info.failure_is_usage = true;
  info.cpu_quotas = {{500, "/a/b", "29:17", "cpu.max 50000 100000"}, {4000, "/a", "29:4", "x"}};
  return info;
}

std::string sentence_of(const std::vector<PeerInfo>& infos, std::vector<int> failed_ranks) {
  try {
    require_agreement(infos);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK(error.failed_ranks() == failed_ranks);
    return error.sentence();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// Inputs of another format would be rejected before they exercise the decoder.
TEST_CASE("the fuzzer's corpus has peer info of the current format") {
  std::ifstream file(TUTTI_SOURCE_ROOT "/test/fuzz/corpus/peer_info/whole", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  const auto info = PeerInfo::decode({bytes.begin(), bytes.end()});
  REQUIRE(info);
  CHECK(info->settings.size() == 2);
  CHECK(info->devices.size() == 2);
  CHECK(info->addresses.size() == 5);
  CHECK(info->cpu_quotas.size() == 1);
}

TEST_CASE("the start of a process is found, whatever its name is") {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  const auto start = process_start_ticks(pid);
  CHECK(start > 0);
  ::prctl(PR_SET_NAME, "a) S 1 (b) 2");
  CHECK(process_start_ticks(pid) == start);
  ::prctl(PR_SET_NAME, name.data());
  CHECK(process_start_ticks(1) <= start);
  CHECK(process_start_ticks(std::uint32_t{1} << 30) == 0);  // beyond the largest pid
}

TEST_CASE("peer info survives encoding and decoding") {
  const auto info = sample();
  const auto arrived = PeerInfo::decode(info.encode());
  REQUIRE(arrived);
  CHECK(arrived->version == info.version);
  CHECK(arrived->settings == info.settings);
  CHECK(arrived->host.identity == info.host.identity);
  CHECK(arrived->host.name == info.host.name);
  CHECK(arrived->host.pid_namespace == info.host.pid_namespace);
  CHECK(arrived->pid == info.pid);
  CHECK(arrived->process_start == info.process_start);
  CHECK(arrived->cores == info.cores);
  CHECK(arrived->first_core == info.first_core);
  CHECK(arrived->open_files_limit == info.open_files_limit);
  CHECK(arrived->open_files == info.open_files);
  CHECK(arrived->failure == info.failure);
  CHECK(arrived->failure_is_usage);
  REQUIRE(arrived->cpu_quotas.size() == 2);
  CHECK(arrived->cpu_quotas[0].millicores == 500);
  CHECK(arrived->cpu_quotas[0].group == "/a/b");
  CHECK(arrived->cpu_quotas[0].identity == "29:17");
  CHECK(arrived->cpu_quotas[0].setting == "cpu.max 50000 100000");
  CHECK(arrived->cpu_quotas[1].millicores == 4000);
  REQUIRE(arrived->devices.size() == 2);
  CHECK(arrived->devices[0].uuid == "0-1");
  CHECK(arrived->devices[0].is_slice);
  CHECK(arrived->devices[1].name == "another");
  CHECK(arrived->devices[1].bus_id == "0000:19:00.0");
  CHECK(arrived->device == 1U);
  CHECK(arrived->no_device_reason == "none");
  CHECK(arrived->nccl_version == 22803);
  CHECK(arrived->no_nccl_reason == "too old");
  REQUIRE(arrived->addresses.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(arrived->addresses[i].text() == info.addresses[i].text());
  }
}

TEST_CASE("peer info that chooses a device which it does not have is rejected") {
  auto info = sample();
  info.device = 2;
  CHECK(!PeerInfo::decode(info.encode()));
  info.device = std::nullopt;
  const auto arrived = PeerInfo::decode(info.encode());
  REQUIRE(arrived);
  CHECK(!arrived->device);
}

TEST_CASE("truncated peer info, and peer info with trailing bytes, is rejected") {
  auto bytes = sample().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(!PeerInfo::decode(
        Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length))));
  }
  bytes.push_back(std::byte{0});
  CHECK(!PeerInfo::decode(bytes));
}

TEST_CASE("data without the magic number is rejected") {
  auto bytes = sample().encode();
  bytes[0] ^= std::byte{1};
  CHECK(!PeerInfo::decode(bytes));
  CHECK(!PeerInfo::decode(Bytes(300, std::byte{0xFF})));
}

TEST_CASE("only the version of another version's peer info is decoded") {
  ByteWriter writer;
  writer.put(std::uint32_t{0x44524354}).put_string("99.0.0").put(std::uint64_t{12345});
  const auto arrived = PeerInfo::decode(writer.bytes());
  REQUIRE(arrived);
  CHECK(arrived->version == "99.0.0");
  CHECK(arrived->addresses.empty());
  CHECK(arrived->settings.empty());
}

TEST_CASE("out-of-range counts are rejected") {
  auto info = sample();
  for (int i = 0; i < 200; ++i) info.addresses.push_back(v4("10.0.0.1"));
  CHECK(!PeerInfo::decode(info.encode()));
  info = sample();
  for (int i = 0; i < 100; ++i) info.settings["S" + std::to_string(i)] = "x";
  CHECK(!PeerInfo::decode(info.encode()));
  info = sample();
  info.cpu_quotas.resize(100);
  CHECK(!PeerInfo::decode(info.encode()));
}

TEST_CASE("peer info with any byte changed is decoded or rejected without an error") {
  const auto bytes = sample().encode();
  std::size_t read = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) {
      auto spoiled = bytes;
      spoiled[at] = static_cast<std::byte>(value);
      read += PeerInfo::decode(spoiled) ? 1U : 0U;
    }
  }
  CHECK(read > 0);  // bytes of texts and numbers can have any value
}

TEST_CASE("equal versions and settings are accepted") {
  require_agreement({sample()});
  require_agreement({sample(), sample(), sample()});
  auto elsewhere = sample();
  elsewhere.host = {"other", "node2", ""};
  elsewhere.pid = 1;
  elsewhere.addresses.clear();
  CHECK_NOTHROW(require_agreement({sample(), elsewhere}));
}

TEST_CASE("different versions are an error with the ranks") {
  auto newer = sample();
  newer.version = "99.0.0";
  const auto sentence = sentence_of({sample(), sample(), newer}, {0, 2});
  INFO(sentence);
  CHECK(contains(sentence, "rank 2 runs tutti 99.0.0"));
  CHECK(contains(sentence, std::string("rank 0 runs tutti ") + std::string(version_string)));
}

TEST_CASE("a setting that differs is an error with both values, ranks and hosts") {
  auto other = sample();
  other.settings["TUTTI_CHUNK"] = "4096";
  other.host.name = "node2";
  const auto sentence = sentence_of({sample(), other}, {0, 1});
  INFO(sentence);
  CHECK(contains(sentence, "TUTTI_CHUNK"));
  CHECK(contains(sentence, "\"4096\" on rank 1 (node2)"));
  CHECK(contains(sentence, "\"262144\" on rank 0 (node1)"));
}

TEST_CASE("a setting that one rank lacks is an error") {
  auto other = sample();
  other.settings.erase("TUTTI_CHUNK");
  CHECK(contains(sentence_of({sample(), other}, {0, 1}), "TUTTI_CHUNK is \"\" on rank 1"));
}

TEST_CASE("make_peer_info() describes this process") {
  Environment environment;
  environment.host_id = "made-up";
  environment.chunk_bytes = 12345;
  const auto info = make_peer_info(environment);
  CHECK(info.version == version_string);
  CHECK(info.pid == static_cast<std::uint32_t>(::getpid()));
  CHECK(info.process_start == process_start_ticks(info.pid));
  CHECK(info.process_start > 0);
  CHECK(info.cores > 0);
  CHECK(info.open_files > 0);
  CHECK(info.open_files_limit > info.open_files);
  CHECK(info.settings.at("TUTTI_CHUNK") == "12345");
  CHECK(info.host.name == "made-up");
  CHECK(info.addresses.empty());
}

TEST_CASE("the start time of a process that does not exist is 0") {
  CHECK(process_start_ticks(0x7FFFFFFF) == 0);
}

}  // namespace tutti::rendezvous::test
