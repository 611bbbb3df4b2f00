#include "communicator/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "algorithm/choice.hpp"
#include "algorithm/cost_model.hpp"
#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "bootstrap/shared_secret.hpp"
#include "communicator/shared_path.hpp"
#include "control/descriptors.hpp"
#include "launch/place.hpp"
#include "rendezvous/peers.hpp"
#include "transport/tcp_links.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* for_control = "for the control links";

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// Zero where there is no quota.
std::uint32_t min_millicores(const rendezvous::PeerInfo& info) {
  std::uint32_t least = 0;
  for (const auto& quota : info.cpu_quotas) {
    least = least == 0 ? quota.millicores : std::min(least, quota.millicores);
  }
  return least;
}

std::vector<RankInfo> describe_ranks(const rendezvous::Peers& peers) {
  std::vector<RankInfo> ranks;
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& place = peers.place_of(rank);
    const auto& info = peers.info(rank);
    // Where peers of other hosts would go; loopback where there are none.
    auto address = info.addresses.front();
    if (place.host_count == 1) {
      for (const auto& other : info.addresses) {
        if (other.is_loopback()) address = other;
      }
    }
    ranks.push_back({.rank = rank,
                     .local_rank = place.local_rank,
                     .host_index = place.host_index,
                     .host = info.host.name,
                     .pid = static_cast<int>(info.pid),
                     .address = address.text(),
                     .cores = static_cast<int>(info.cores),
                     .core_quota = min_millicores(info) / 1000.0});
  }
  return ranks;
}

/// The cost model in a file, spelt so that equal models have equal texts.
std::string model_in(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw Error(ErrorCode::usage, fmt::format("TUTTI_MODEL={} can't be read on this host: {}", path,
                                              errno_text(errno)));
  try {
    return algorithm::text_of(algorithm::parse_cost_model(text.str()));
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::usage,
                fmt::format("TUTTI_MODEL={} is unusable: {}; docs/environment.md shows such a file",
                            path, error.what()));
  }
}

}  // namespace

Environment settings_for(const Options& options, const EnvironmentMap& map) {
  auto environment = Environment::from(map);
  if (options.timeout) {
    if (options.timeout->count() <= 0) {
      throw Error(ErrorCode::usage, fmt::format("Options::timeout is {} ns: it must be above 0",
                                                options.timeout->count()));
    }
    environment.timeout = *options.timeout;
  }
  if (options.backend) environment.backend = *options.backend;
  if (!environment.model_file.empty()) environment.model = model_in(environment.model_file);
  if (options.deterministic) environment.deterministic = *options.deterministic;
  if (options.log_level) environment.log_level = *options.log_level;
  return environment;
}

namespace {

void require_known_algorithm(const std::string& wanted) {
  if (wanted.empty() || wanted == SharedPath::name) return;
  std::vector<std::string_view> all{SharedPath::name};
  for (int i = 0; i < operation_count; ++i) {
    for (const auto known : algorithm::algorithms_of(static_cast<Operation>(i))) {
      if (known == wanted) return;
      if (std::find(all.begin(), all.end(), known) == all.end()) all.push_back(known);
    }
  }
  throw Error(ErrorCode::usage, fmt::format("TUTTI_ALGORITHM={} is unknown: there are {}", wanted,
                                            fmt::join(all, ", ")));
}

}  // namespace

Job::Job(Bootstrap& bootstrap, const Options& options, const EnvironmentMap& map,
         std::shared_ptr<DeviceProvider> device_provider)
    : environment(settings_for(options, map)),
      sink(options.log),
      while_waiting(options.while_waiting),
      log(environment.log_level, sink),
      faults(environment.faults, bootstrap.rank(), bootstrap.size()),
      devices(std::move(device_provider)) {
  require_known_algorithm(environment.algorithm);
  const auto clock = std::make_shared<RunningClock>();
  auto deadline = Deadline::after(environment.timeout, clock);
  const auto start = Clock::now();
  log.set_rank(bootstrap.rank());
  if (!environment.faults.empty() && bootstrap.rank() == 0) {
    log.warning("TUTTI_FAULT injects faults into this job");
  }
  log.info(fmt::format("rank {} of {}, source: {}", bootstrap.rank(), bootstrap.size(),
                       bootstrap.source()));
  const auto shared = bootstrap::SharedSecret::from(environment.secret_file,
                                                    bootstrap::hide_secret_of_environment());
  auto info = rendezvous::make_peer_info(environment);
  std::string no_segment_because;
  const auto open_segment = [&](const rendezvous::Peers& peers,
                                const bootstrap::JobSecret& secret) {
    if (!environment.shared_memory) return;
    segment_setup.emplace(peers, transport::NoteKey{secret}, environment.single_copy,
                          faults.refuses_shared_memory());
  };
  std::unique_ptr<ReservedThread> thread;
  try {
    // A bootstrap may sleep until the deadline: somebody else has to read the clock.
    thread = std::make_unique<ReservedThread>(for_control, [clock] { clock->now(); });
  } catch (const Error& error) {
    info.failure = error.sentence();  // all ranks hear it by the info
    deadline = Deadline::after(environment.timeout);
  }
  devices->describe(info);
  auto exchanged = rendezvous::exchange_peer_info(
      bootstrap, std::move(info), environment, shared ? &*shared : nullptr,
      launch::read_launcher(map), log, deadline, open_segment);
  control::require_descriptors(exchanged.peers);
  const auto met = Clock::now();
  ranks = describe_ranks(exchanged.peers);
  plane = std::make_unique<control::Plane>(std::move(exchanged), environment, log, deadline,
                                           std::move(thread));
  if (segment_setup) {
    // Meanwhile the control thread makes its links.
    auto outcome = segment_setup->finish(plane->peers(), deadline,
                                         [this] { return plane->detector().job_failed(); });
    take_segment(std::move(outcome.segment));
    no_segment_because = std::move(outcome.failure);
    segment_setup.reset();
  }
  shares_memory = segment != nullptr;
  const auto sharing = Clock::now();
  plane->wait_until_linked(deadline);
  if (!no_segment_because.empty() && !fails_soon()) {
    log.warning(fmt::format("the ranks of {} share no memory, so their data goes over TCP: {}",
                            plane->peers().info(bootstrap.rank()).host.name, no_segment_because));
  }
  const auto linked = Clock::now();
  connect();
  phases = fmt::format("peer info {:.1f} ms, shared memory {:.1f} ms, control links {:.1f} ms",
                       milliseconds(met - start), milliseconds(sharing - met),
                       milliseconds(linked - sharing));
}

Job::Job(const Job& before, rendezvous::PeerExchange exchanged, Deadline deadline)
    : environment(before.environment),
      sink(before.sink),
      while_waiting(before.while_waiting),
      log(environment.log_level, sink),
      // Injected faults count calls and name ranks of the job that was started.
      faults({}, exchanged.self.rank, exchanged.self.size),
      devices(before.devices),
      ranks(describe_ranks(exchanged.peers)) {
  log.set_rank(exchanged.self.rank);
  shares_memory = before.shares_memory;
  if (shares_memory) {
    const auto& self = exchanged.self;
    segment_setup.emplace(exchanged.peers, transport::NoteKey{self.secret, self.epoch},
                          environment.single_copy);
  }
  std::unique_ptr<ReservedThread> thread;
  try {
    thread = std::make_unique<ReservedThread>(for_control);
  } catch (const Error& error) {
    no_thread_because = error.sentence();
  }
  plane = std::make_unique<control::Plane>(std::move(exchanged), environment, log, deadline,
                                           std::move(thread));
}

void Job::require_thread(Deadline deadline) {
  if (no_thread_because.empty()) return;
  const auto& peers = plane->peers();
  throw plane->end_without_thread(
      {.code = ErrorCode::system,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {}", peers.describe(peers.rank()), no_thread_because),
       .origin = peers.rank()},
      deadline);
}

void Job::share_memory_anew(Deadline deadline) {
  if (!segment_setup) return;
  take_segment(
      segment_setup
          ->finish(plane->peers(), deadline, [this] { return plane->detector().job_failed(); })
          .segment);
  segment_setup.reset();
}

void Job::take_segment(std::shared_ptr<transport::SharedSegment> shared) {
  segment = std::move(shared);
  if (!segment) return;
  segment->set_warning_sink([this](const std::string& text) { log.warning(text); });
  const auto refused = segment->single_copy().probe();
  log.info(refused.empty() ? "single copy inside this host: possible; TUTTI_SINGLE_COPY says "
                             "when it is used"
                           : fmt::format("single copy inside this host: no, {}", refused));
}

void Job::connect() {
  waits = WaitPolicy(plane->peers().shares_cores());
  checker = std::make_unique<engine::CallChecker>(plane->detector(), plane->histories());
  links = std::make_unique<transport::TcpLinks>(
      plane->detector(), plane->connector(), plane->wakeup(), *checker,
      transport::TcpLinks::Settings{.eager_bytes = environment.eager_bytes,
                                    .far_eager_bytes = environment.far_eager_bytes,
                                    .congestion = environment.congestion,
                                    .faults = &faults,
                                    .segment = segment,
                                    .waits = waits,
                                    .connect_timeout = environment.timeout});
  progress_engine = std::make_unique<engine::ProgressEngine>(plane->detector(), plane->statuses(),
                                                             plane->wakeup(), *links, *checker,
                                                             segment, while_waiting, waits);
}

bool Job::fails_soon() const {
  const auto& detector = plane->detector();
  const auto limit = Deadline::after(std::chrono::milliseconds(60));
  while (!detector.job_failed() && !limit.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return detector.job_failed();
}

}  // namespace tutti
