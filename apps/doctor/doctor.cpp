#include "doctor/doctor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "bootstrap/job_secret.hpp"
#include "doctor/gather.hpp"
#include "doctor/measure.hpp"
#include "doctor/reach.hpp"
#include "job_session.hpp"
#include "output.hpp"
#include "rendezvous/interfaces.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/error.hpp"

namespace tutti::app {
namespace {

using namespace doctor;

constexpr std::chrono::milliseconds probe_timeout{2000};
constexpr std::size_t token_bytes = 16;
// Limits the probes per host in a large job.
constexpr std::size_t max_targets = 32;

std::string draw_token() {
  std::array<std::byte, token_bytes / 2> random{};
  bootstrap::draw_random(random);
  std::string text;
  for (const auto byte : random) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

/// The same as all_gather(), in messages that fit into small packets: the path may drop large
/// packets, and the doctor must still report that.
std::vector<Bytes> gather_in_pieces(Bootstrap& bootstrap, const Bytes& mine, Deadline deadline) {
  constexpr std::size_t piece_bytes = 512;
  std::vector<Bytes> all(static_cast<std::size_t>(bootstrap.size()));
  std::size_t at = 0;
  bool has_more = true;
  while (has_more) {
    has_more = false;
    const auto end = std::min(mine.size(), at + piece_bytes);
    const Bytes piece(mine.begin() + static_cast<std::ptrdiff_t>(at),
                      mine.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
    const auto pieces = bootstrap.all_gather(piece, deadline);
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      all[rank].insert(all[rank].end(), pieces[rank].begin(), pieces[rank].end());
      // The last piece may be full; an empty one then follows.
      has_more |= pieces[rank].size() == piece_bytes;
    }
  }
  return all;
}

/// Gathers the facts of all ranks. Throws Error{mismatch} if a rank runs another version.
std::vector<Facts> exchange(Bootstrap& bootstrap, const Facts& mine, Deadline deadline) {
  std::vector<Facts> all;
  for (const auto& bytes : gather_in_pieces(bootstrap, encode(mine), deadline)) {
    auto facts = decode(bytes);
    if (!facts) {
      throw Error(
          ErrorCode::mismatch,
          fmt::format(
              "can't decode the facts of rank {}: install the same version of tutti on all hosts",
              all.size()));
    }
    all.push_back(std::move(*facts));
  }
  return all;
}

std::vector<ProbeTarget> targets_of(const JobFacts& job, std::size_t own) {
  std::vector<ProbeTarget> targets;
  const auto others = job.hosts() - 1;
  for (std::size_t step = 1; step <= std::min(others, max_targets); ++step) {
    const auto host = (own + step) % job.hosts();
    const auto& facts = job.of_host(host);
    for (const auto& address : facts.info.addresses) {
      if (address.is_loopback()) continue;
      targets.push_back({.host = static_cast<int>(host), .address = address, .token = facts.token});
    }
  }
  return targets;
}

/// Probes other hosts and a neighbour's memory.
void probe_others(Facts& mine, const JobFacts& job, std::size_t rank) {
  const auto own = static_cast<std::size_t>(job.places[rank].host_index);
  if (job.leaders[own] == rank) {
    mine.reached = try_targets(targets_of(job, own), probe_timeout);
    for (auto& it : mine.reached) {
      // A virtual bridge is local to its host, even if every host has one with the same network.
      for (const auto& link : mine.links) {
        const auto address = rendezvous::SocketAddress::parse(link.address);
        const auto text = it.address.substr(0, it.address.rfind(':'));
        const auto target = rendezvous::SocketAddress::parse(
            text.starts_with("[") ? text.substr(1, text.size() - 2) : text);
        it.on_same_network |= link.chosen && address && target &&
                              address->shares_prefix(*target, link.prefix_bits) &&
                              !rendezvous::is_virtual_bridge(link.name);
      }
    }
  }
  const auto& neighbours = job.ranks_of[own];
  if (neighbours.size() > 1) {
    const auto at = static_cast<std::size_t>(job.places[rank].local_rank);
    const auto& neighbour = job.facts[neighbours[(at + 1) % neighbours.size()]];
    if (neighbour.info.host.pid_namespace != mine.info.host.pid_namespace ||
        mine.info.host.pid_namespace.empty()) {
      mine.single_copy_failure = "it has another pid namespace";
    } else {
      mine.single_copy_failure = try_single_copy(neighbour);
    }
  }
}

struct Diagnosis {
  std::unique_ptr<JobFacts> job;
  Findings findings;
  Matrix matrix;
  bool is_broken = false;  ///< MPI may be unusable: exit without MPI_Finalize
  int rank = 0;
};

Facts gather_own_facts(const EnvironmentMap& map) {
  try {
    return gather_facts(map, Environment::from(map));
  } catch (const Error& error) {
    // An invalid setting is a finding; the examination continues.
    auto facts = gather_facts(map, Environment());
    facts.info.failure = error.sentence();
    return facts;
  }
}

void examine_job(Bootstrap& bootstrap, const DoctorOptions& options, Diagnosis& diagnosis) {
  const auto map = current_environment();
  Options settings;
  settings.backend = options.backend;
  if (options.timeout.count() > 0) settings.timeout = options.timeout;
  const auto deadline = Deadline::after_running(setup_timeout(settings));
  const auto rank = static_cast<std::size_t>(bootstrap.rank());
  diagnosis.rank = bootstrap.rank();

  auto mine = gather_own_facts(map);
  // Neighbours read the token at this address, so it must stay valid until the function returns.
  const auto token = std::make_unique<std::array<char, token_bytes + 1>>();
  mine.token = draw_token();
  std::copy(mine.token.begin(), mine.token.end(), token->begin());
  mine.nonce_address = reinterpret_cast<std::uintptr_t>(token->data());

  std::unique_ptr<ProbeServer> server;
  if (mine.info.failure.empty()) {
    try {
      const auto environment = Environment::from(map);
      auto listeners =
          rendezvous::open_listeners(rendezvous::usable_interfaces(environment),
                                     environment.socket_family, environment.port_range);
      for (const auto& listener : listeners) mine.info.addresses.push_back(listener.address);
      server = std::make_unique<ProbeServer>(std::move(listeners), mine.token);
    } catch (const Error& error) {
      mine.info.failure = error.sentence();
    }
  }
  bootstrap.barrier(deadline);
  mine.clock_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  auto all = exchange(bootstrap, mine, deadline);
  diagnosis.job = std::make_unique<JobFacts>(all);
  probe_others(mine, *diagnosis.job, rank);
  all = exchange(bootstrap, mine, deadline);
  server.reset();
  diagnosis.job = std::make_unique<JobFacts>(std::move(all));
  diagnosis.findings = examine(*diagnosis.job);
  // The findings already say what fails; creating a communicator would only wait for it.
  if (exit_status(diagnosis.findings) != 0) return;
  try {
    auto communicator = Communicator::create(bootstrap, settings);
    if (options.measure) diagnosis.matrix = measure(communicator, *diagnosis.job);
    communicator.finalize();
  } catch (const Error& error) {
    diagnosis.is_broken = true;
    diagnosis.findings.insert(diagnosis.findings.begin(),
                              {Severity::stops, "set-up", error.sentence(),
                               "follow the message; docs/troubleshooting.md explains it"});
  }
}

void print(const Diagnosis& diagnosis, const DoctorOptions& options) {
  if (diagnosis.rank != 0 || !diagnosis.job) return;
  const auto json = json_text(*diagnosis.job, diagnosis.findings, diagnosis.matrix);
  if (options.json == "-") {
    app::print(json);
    return;
  }
  app::print(as_text(*diagnosis.job, diagnosis.findings, diagnosis.matrix));
  if (!options.json.empty() && !(std::ofstream(options.json) << json).flush()) {
    throw Error(ErrorCode::usage,
                fmt::format("--json {} can't be written: check that its folder exists and has room",
                            options.json));
  }
}

}  // namespace

int diagnose(const DoctorOptions& options) {
  Diagnosis diagnosis;
  auto job_options = options;
  job_options.instead_of_communicator = [&](Bootstrap& bootstrap) {
    examine_job(bootstrap, options, diagnosis);
    if (!diagnosis.is_broken) return;
    print(diagnosis, options);
    // The same exit as in run_job(): without MPI_Finalize, and after rank 0 has printed.
    if (diagnosis.rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::fflush(nullptr);
    ::_exit(exit_status(diagnosis.findings));
  };
  return run_job(job_options, [&](JobSession&) {
    print(diagnosis, options);
    return exit_status(diagnosis.findings);
  });
}

}  // namespace tutti::app
