// The doctor's checks: each fault, added to the facts of a healthy job, gives exactly its finding.
#include "doctor/checks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "doctor/reach.hpp"
#include "doctor/report.hpp"
#include "planted_faults.hpp"
#include "support/catch.hpp"

namespace tutti::app::doctor::test {

namespace {

void check_finding(const Finding& finding, const Fault& fault) {
  INFO(fault.name << ": " << finding.sentence << " / " << finding.remedy);
  CHECK(finding.severity == fault.severity);
  CHECK(finding.check == fault.check);
  for (const auto& part : fault.contains) CHECK(finding.sentence.find(part) != std::string::npos);
  CHECK(finding.remedy.find(fault.remedy) != std::string::npos);
  CHECK(!finding.remedy.empty());
  CHECK(finding.sentence.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("a healthy job has no findings") {
  for (const auto& finding : examine(JobFacts(healthy()))) FAIL(finding.sentence);
  CHECK(exit_status({}) == 0);
  Job without_devices = healthy();
  for (auto& facts : without_devices) {
    facts.info.devices.clear();
    facts.info.nccl_version = 0;
    facts.driver_version.clear();
  }
  CHECK(examine(JobFacts(without_devices)).empty());
  CHECK(examine(JobFacts(Job{healthy()[0]})).empty());
}

TEST_CASE("each fault gives a finding with its remedy") {
  for (const auto& fault : faults()) {
    auto job = healthy();
    fault.plant(job);
    const auto findings = examine(JobFacts(std::move(job)));
    INFO(fault.name);
    // RDMA devices give a note of their own.
    const auto expected = fault.check == "locked memory" ? 2U : 1U;
    std::string reported;
    for (const auto& finding : findings) reported += finding.sentence + "\n";
    INFO(reported);
    REQUIRE(findings.size() == expected);
    check_finding(findings[0], fault);
    CHECK(exit_status(findings) == (fault.severity == Severity::stops ? 3 : 0));
  }
}

TEST_CASE("too few descriptors for an all-to-all are a note") {
  Job job(16, healthy()[0]);
  for (auto& facts : job) {
    facts.info.devices.clear();
    facts.reached.clear();
    for (int cpu = 8; cpu < 16; ++cpu) facts.cpus.push_back(cpu);
    facts.machine_cpus = 16;
    facts.info.open_files_limit = 50;
  }
  const auto findings = examine(JobFacts(job));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::note);
  CHECK(findings[0].sentence.find("an all-to-all needs up to 45 more") != std::string::npos);
  CHECK(findings[0].remedy.find("ulimit -n 55") != std::string::npos);
}

TEST_CASE("ten faults at once are ten findings, the worst first") {
  const std::set<std::string> planted{"a firewall",
                                      "few descriptors",
                                      "a setting that must agree",
                                      "a range of too few ports",
                                      "another MTU",
                                      "127.0.1.1",
                                      "two ranks on one core",
                                      "a variable that was not passed on",
                                      "clocks apart",
                                      "single copy refused"};
  auto job = healthy();
  std::vector<const Fault*> found;
  for (const auto& fault : faults()) {
    if (!planted.contains(fault.name)) continue;
    fault.plant(job);
    found.push_back(&fault);
  }
  REQUIRE(found.size() == 10);
  const JobFacts facts(std::move(job));
  const auto findings = examine(facts);
  REQUIRE(findings.size() == 10);
  for (const auto* fault : found) {
    const auto of_it = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.check == fault->check &&
             finding.sentence.find(fault->contains[0]) != std::string::npos;
    });
    INFO(fault->name);
    REQUIRE(of_it != findings.end());
    check_finding(*of_it, *fault);
  }
  for (std::size_t i = 1; i < findings.size(); ++i) {
    CHECK(findings[i - 1].severity <= findings[i].severity);
  }
  const auto text = as_text(facts, findings, {});
  CHECK(text.find("4 ranks on 2 hosts: can't run (findings: 4 stop the job, 3 slow it down, 3 for "
                  "information)") != std::string::npos);
  const auto json = nlohmann::json::parse(json_text(facts, findings, {}));
  CHECK(json["findings"].size() == 10);
  CHECK(json["fit"] == false);
}

TEST_CASE("settings that may differ, or that are equivalent, give no finding") {
  auto job = healthy();
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    job[rank].settings["TUTTI_SOCKET_IFNAME"] = rank < 2 ? "eth0" : "ens3";
    job[rank].settings["TUTTI_HOST_ID"] = rank < 2 ? "a" : "b";
  }
  CHECK(examine(JobFacts(job)).empty());
}

TEST_CASE("encoded facts are decoded unchanged") {
  auto job = healthy();
  job[0].own_name_failure = "no \xFF utf-8";
  job[0].rdma = {"mlx5_0"};
  job[0].token = "0123456789abcdef";
  job[0].nonce_address = ~std::uint64_t{0};
  const auto arrived = decode(encode(job[0]));
  REQUIRE(arrived);
  CHECK(arrived->info.host.name == "node1");
  CHECK(arrived->links.size() == 1);
  CHECK(arrived->links[0].mtu == 1500);
  CHECK(arrived->locked_memory == unlimited);
  CHECK(arrived->reached[0].address == "10.0.0.2:4000");
  CHECK(arrived->nonce_address == job[0].nonce_address);
  CHECK(arrived->cpus == job[0].cpus);
  const auto bytes = encode(job[0]);
  for (std::size_t length = 0; length < bytes.size(); length += 7) {
    CHECK(!decode(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(length))));
  }
}

TEST_CASE("a probe identifies the program that answers at an address") {
  auto listeners = rendezvous::open_listeners({});
  const auto right = listeners[0].address;
  const ProbeServer server(std::move(listeners), "0123456789abcdef");
  auto closed_listener = rendezvous::open_listeners({});
  const auto closed = closed_listener[0].address;
  closed_listener.clear();
  auto silent_listener = rendezvous::open_listeners({});
  const auto results =
      try_targets({{.host = 1, .address = right, .token = "0123456789abcdef"},
                   {.host = 2, .address = right, .token = "fedcba9876543210"},
                   {.host = 3, .address = closed, .token = "0123456789abcdef"},
                   {.host = 4, .address = silent_listener[0].address, .token = "0123456789abcdef"}},
                  std::chrono::milliseconds(300));
  REQUIRE(results.size() == 4);
  CHECK(results[0].failure.empty());
  CHECK(results[0].address == right.text());
  CHECK(results[1].failure == "another program answers there");
  CHECK(results[2].failure.find("Connection refused") == 0);
  CHECK(results[3].failure == "it accepts connections but sends nothing");
}

}  // namespace tutti::app::doctor::test
