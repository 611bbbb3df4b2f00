// What a rank tells all others of itself.
#include "rendezvous/card.hpp"

#include <unistd.h>

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

Card sample() {
  Card card;
  card.version = version_string;
  card.settings = {{"TUTTI_ALGORITHM", ""}, {"TUTTI_CHUNK", "262144"}};
  card.host = {"identity", "node1", "pid:[1]@boot"};
  card.pid = 4711;
  card.process_start = 0x123456789ABC;
  card.cores = 16;
  card.first_core = 8;
  card.open_files_limit = 1024;
  card.open_files = 17;
  card.devices = {{"0-1", "a GPU", "0000:18:00.0", true},
                  {"0-2", "another", "0000:19:00.0", false}};
  card.no_device_because = "none";
  card.nccl_version = 22803;
  card.no_nccl_because = "too old";
  card.addresses = {v4("10.0.0.1", 5000), v6("fd00::1", 5001), v4("127.0.0.1", 5002)};
  card.failure = "no port is free";
  card.failure_is_usage = true;
  card.cpu_quotas = {{500, "/a/b", "29:17", "cpu.max 50000 100000"}, {4000, "/a", "29:4", "x"}};
  return card;
}

std::string sentence_of(const std::vector<Card>& cards, std::vector<int> culprits) {
  try {
    require_agreement(cards);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK(error.culprits() == culprits);
    return error.sentence();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// Were the card of the fuzzer's inputs another one, they would be refused before they reach
// anything.
TEST_CASE("the fuzzer's kept card is a card of today") {
  std::ifstream file(TUTTI_SOURCE_ROOT "/test/fuzz/corpus/card/whole", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  const auto card = Card::decode({bytes.begin(), bytes.end()});
  REQUIRE(card);
  CHECK(card->settings.size() == 2);
  CHECK(card->devices.size() == 2);
  CHECK(card->addresses.size() == 5);
  CHECK(card->cpu_quotas.size() == 1);
}

TEST_CASE("a card survives the way") {
  const auto card = sample();
  const auto arrived = Card::decode(card.encode());
  REQUIRE(arrived);
  CHECK(arrived->version == card.version);
  CHECK(arrived->settings == card.settings);
  CHECK(arrived->host.identity == card.host.identity);
  CHECK(arrived->host.name == card.host.name);
  CHECK(arrived->host.pid_namespace == card.host.pid_namespace);
  CHECK(arrived->pid == card.pid);
  CHECK(arrived->process_start == card.process_start);
  CHECK(arrived->cores == card.cores);
  CHECK(arrived->first_core == card.first_core);
  CHECK(arrived->open_files_limit == card.open_files_limit);
  CHECK(arrived->open_files == card.open_files);
  CHECK(arrived->failure == card.failure);
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
  CHECK(arrived->no_device_because == "none");
  CHECK(arrived->nccl_version == 22803);
  CHECK(arrived->no_nccl_because == "too old");
  REQUIRE(arrived->addresses.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(arrived->addresses[i].text() == card.addresses[i].text());
  }
}

TEST_CASE("a card cut short anywhere, or with something behind it, is none") {
  auto bytes = sample().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(
        !Card::decode(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length))));
  }
  bytes.push_back(std::byte{0});
  CHECK(!Card::decode(bytes));
}

TEST_CASE("what does not begin as a card is none") {
  auto bytes = sample().encode();
  bytes[0] ^= std::byte{1};
  CHECK(!Card::decode(bytes));
  CHECK(!Card::decode(Bytes(300, std::byte{0xFF})));
}

TEST_CASE("of a card of another version only the version is read") {
  ByteWriter writer;
  writer.put(std::uint32_t{0x44524354}).put_string("99.0.0").put(std::uint64_t{12345});
  const auto arrived = Card::decode(writer.bytes());
  REQUIRE(arrived);
  CHECK(arrived->version == "99.0.0");
  CHECK(arrived->addresses.empty());
  CHECK(arrived->settings.empty());
}

TEST_CASE("counts from a hostile card are not believed") {
  auto card = sample();
  for (int i = 0; i < 200; ++i) card.addresses.push_back(v4("10.0.0.1"));
  CHECK(!Card::decode(card.encode()));
  card = sample();
  for (int i = 0; i < 100; ++i) card.settings["S" + std::to_string(i)] = "x";
  CHECK(!Card::decode(card.encode()));
  card = sample();
  card.cpu_quotas.resize(100);
  CHECK(!Card::decode(card.encode()));
}

TEST_CASE("no single byte of a card makes its reader stumble") {
  const auto bytes = sample().encode();
  std::size_t read = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) {
      auto spoiled = bytes;
      spoiled[at] = static_cast<std::byte>(value);
      read += Card::decode(spoiled) ? 1U : 0U;
    }
  }
  CHECK(read > 0);  // letters and numbers may be any
}

TEST_CASE("ranks that agree are no error") {
  require_agreement({sample()});
  require_agreement({sample(), sample(), sample()});
  auto elsewhere = sample();
  elsewhere.host = {"other", "node2", ""};
  elsewhere.pid = 1;
  elsewhere.addresses.clear();
  CHECK_NOTHROW(require_agreement({sample(), elsewhere}));
}

TEST_CASE("different versions are named, with ranks") {
  auto newer = sample();
  newer.version = "99.0.0";
  const auto sentence = sentence_of({sample(), sample(), newer}, {0, 2});
  INFO(sentence);
  CHECK(contains(sentence, "rank 2 runs tutti 99.0.0"));
  CHECK(contains(sentence, std::string("rank 0 runs tutti ") + std::string(version_string)));
}

TEST_CASE("a setting that differs is named, with both values, ranks and hosts") {
  auto other = sample();
  other.settings["TUTTI_CHUNK"] = "4096";
  other.host.name = "node2";
  const auto sentence = sentence_of({sample(), other}, {0, 1});
  INFO(sentence);
  CHECK(contains(sentence, "TUTTI_CHUNK"));
  CHECK(contains(sentence, "\"4096\" on rank 1 (node2)"));
  CHECK(contains(sentence, "\"262144\" on rank 0 (node1)"));
}

TEST_CASE("a setting that one rank does not have is named") {
  auto other = sample();
  other.settings.erase("TUTTI_CHUNK");
  CHECK(contains(sentence_of({sample(), other}, {0, 1}), "TUTTI_CHUNK is \"\" on rank 1"));
}

TEST_CASE("a process's own card tells of it") {
  Environment environment;
  environment.host_id = "made-up";
  environment.chunk_bytes = 12345;
  const auto card = make_card(environment);
  CHECK(card.version == version_string);
  CHECK(card.pid == static_cast<std::uint32_t>(::getpid()));
  CHECK(card.process_start == process_start_ticks(card.pid));
  CHECK(card.process_start > 0);
  CHECK(card.cores > 0);
  CHECK(card.open_files > 0);
  CHECK(card.open_files_limit > card.open_files);
  CHECK(card.settings.at("TUTTI_CHUNK") == "12345");
  CHECK(card.host.name == "made-up");
  CHECK(card.addresses.empty());
}

TEST_CASE("a process that there is not started at no time") {
  CHECK(process_start_ticks(0x7FFFFFFF) == 0);
}

}  // namespace tutti::rendezvous::test
