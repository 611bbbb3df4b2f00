#include "communicator/state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "algorithm/choice.hpp"
#include "algorithm/cost_model.hpp"
#include "base/quiet_thread.hpp"
#include "bootstrap/shared_secret.hpp"
#include "communicator/host_backend.hpp"
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
    throw Error(
        ErrorCode::usage,
        fmt::format("TUTTI_MODEL={} can't be read: give a file that is on every host", path));
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

/// A rank that has died in set-up comes for no memory either, and its death is what people must
/// hear of: agreeing on it takes some tens of milliseconds.
bool fails_soon(const control::FailureDetector& detector) {
  const auto limit = Deadline::after(std::chrono::milliseconds(60));
  while (!detector.job_failed() && !limit.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return detector.job_failed();
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
    log.warning("TUTTI_FAULT is set: this job has faults on purpose");
  }
  log.info(
      fmt::format("rank {} of {} by {}", bootstrap.rank(), bootstrap.size(), bootstrap.source()));
  const auto shared = bootstrap::SharedSecret::from(environment.secret_file,
                                                    bootstrap::hide_secret_of_environment());
  auto info = rendezvous::make_peer_info(environment);
  std::string no_segment_because;
  const auto open_segment = [&](const rendezvous::Peers& peers,
                                const bootstrap::JobSecret& secret) {
    if (!environment.shared_memory) return;
    segment_setup.emplace(peers, transport::NoteKey{secret}, faults.refuses_shared_memory());
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
  if (!no_segment_because.empty() && !fails_soon(plane->detector())) {
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
      // InjectedFaults on purpose count calls and name ranks of the job that was started.
      faults({}, exchanged.self.rank, exchanged.self.size),
      devices(before.devices),
      ranks(describe_ranks(exchanged.peers)) {
  log.set_rank(exchanged.self.rank);
  shares_memory = before.shares_memory;
  if (shares_memory) {
    const auto& self = exchanged.self;
    segment_setup.emplace(exchanged.peers, transport::NoteKey{self.secret, self.epoch}, false);
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
  if (segment) segment->set_warning_sink([this](const std::string& text) { log.warning(text); });
}

void Job::connect() {
  waits = WaitPolicy(plane->peers().shares_cores());
  checker = std::make_unique<engine::CallChecker>(plane->detector(), plane->histories());
  links = std::make_unique<transport::TcpLinks>(
      plane->detector(), plane->connector(), plane->wakeup(), *checker,
      transport::TcpLinks::Settings{.eager_bytes = environment.eager_bytes,
                                    .congestion = environment.congestion,
                                    .faults = &faults,
                                    .segment = segment,
                                    .waits = waits,
                                    .connect_timeout = environment.timeout});
  progress_engine = std::make_unique<engine::ProgressEngine>(plane->detector(), plane->statuses(),
                                                             plane->wakeup(), *links, *checker,
                                                             segment, while_waiting, waits);
}

namespace {

/// `channel` is the communicator's in this host's shared memory; without a number it has none.
std::unique_ptr<HostBackend> make_host(const Job& job, control::Group group,
                                       std::optional<std::size_t> channel) {
  std::unique_ptr<SharedPath> shared;
  if (channel)
    shared = std::make_unique<SharedPath>(job.plane->detector(), job.segment, *channel, group,
                                          job.waits);
  return std::make_unique<HostBackend>(
      job.plane->detector(), job.plane->histories(), *job.progress_engine, std::move(group),
      HostBackend::Settings{.chunk_bytes = job.environment.chunk_bytes,
                            .costs = job.environment.model.empty()
                                         ? algorithm::CostModel()
                                         : algorithm::parse_cost_model(job.environment.model),
                            .deterministic = job.environment.deterministic},
      std::move(shared));
}

// A block for each rank has to fit into a round.
constexpr int max_sharing_ranks = 256;

/// All ranks of the group come to the same.
bool may_share(const Job& job, const control::Group& group) {
  const auto& peers = job.plane->peers();
  return job.segment && group.size() > 1 && group.size() <= max_sharing_ranks &&
         std::all_of(group.world.begin(), group.world.end(),
                     [&](int rank) { return peers.on_this_host(rank); });
}

}  // namespace

Communicator::State::State(std::shared_ptr<Job> the_job, Bootstrap& bootstrap)
    : job(std::move(the_job)), ranks(job->ranks) {
  const auto& peers = job->plane->peers();
  auto whole = control::Group::whole_job(peers.rank(), peers.size());
  std::optional<std::size_t> channel;
  if (may_share(*job, whole)) channel = 0;
  host = make_host(*job, std::move(whole), channel);
  const auto broadcast = [&](const Bytes& of_rank_0, Deadline deadline) {
    try {
      return bootstrap.broadcast(of_rank_0, 0, deadline);
    } catch (const Error&) {
      // A bootstrap can seldom say who has died.
      if (fails_soon(job->plane->detector())) throw job->plane->detector().agreed_error();
      throw;
    }
  };
  device_path = job->devices->open(
      job->plane->detector(), job->plane->statuses(), job->plane->histories().find(group().id),
      *host, broadcast, job->environment.backend == BackendChoice::nccl, job->environment.timeout);
  has_device_path = static_cast<bool>(device_path.backend);
  if (!device_path.phases.empty()) job->phases += ", " + device_path.phases;
  for (std::size_t rank = 0; rank < device_path.device_of_rank.size(); ++rank) {
    const auto& device = device_path.device_of_rank[rank];
    ranks[rank].device = fmt::format("{}, {}", device.name, device.bus_id);
    ranks[rank].device_uuid = device.uuid;
  }
  job->ranks = ranks;
  if (peers.rank() == 0) {
    job->log.info(
        fmt::format("path: {} ({})", has_device_path ? "device" : "host", device_path.reason));
  }
}

Communicator::State::State(std::shared_ptr<Job> the_job, const State& before)
    : job(std::move(the_job)),
      has_device_path(before.has_device_path),
      device_path{.device = before.device_path.device,
                  .staged = before.device_path.staged,
                  .reason = before.device_path.reason} {
  const auto& peers = job->plane->peers();
  const auto& old_peers = before.job->plane->peers();
  for (auto& info : job->ranks) {
    const int old = old_peers.rank_of_original(peers.original_rank(info.rank));
    const auto& old_info = before.ranks[static_cast<std::size_t>(old)];
    info.device = old_info.device;
    info.device_uuid = old_info.device_uuid;
  }
  ranks = job->ranks;
  auto whole = control::Group::whole_job(peers.rank(), peers.size());
  std::optional<std::size_t> channel;
  if (may_share(*job, whole)) channel = 0;
  host = make_host(*job, std::move(whole), channel);
}

Communicator::State::State(const State& parent, control::Group group)
    : job(parent.job),
      has_device_path(parent.has_device_path),
      device_path{.device = parent.device_path.device,
                  .staged = parent.device_path.staged,
                  .reason = parent.device_path.reason} {
  for (int member = 0; member < group.size(); ++member) {
    ranks.push_back(job->ranks[static_cast<std::size_t>(group.world_of(member))]);
    ranks.back().rank = member;
  }
  std::optional<std::size_t> channel;
  if (job->agreed_channels != 0 && may_share(*job, group)) {
    channel = static_cast<std::size_t>(std::countr_zero(job->agreed_channels));
  }
  host = make_host(*job, std::move(group), channel);
}

CallSettings Communicator::State::settings_of(const CallOptions& options, Memory memory) const {
  if (options.timeout && options.timeout->count() <= 0) {
    throw Error(ErrorCode::usage, fmt::format("CallOptions::timeout is {} ns: it must be above 0",
                                              options.timeout->count()));
  }
  if (options.tag == internal_tag) {
    throw Error(
        ErrorCode::usage,
        fmt::format("CallOptions::tag {} is the library's own: use a smaller one", options.tag));
  }
  if (options.stream && memory == Memory::host) {
    throw Error(ErrorCode::usage,
                "CallOptions::stream is set for a call on host memory: pass tutti::device_span for "
                "device memory, or leave the stream out");
  }
  return {.timeout = options.timeout.value_or(job->environment.timeout),
          .tag = options.tag,
          .algorithm = options.algorithm,
          .stream = options.stream ? options.stream->handle : nullptr};
}

CallSettings Communicator::State::collective_settings_of(const CallOptions& options,
                                                         Memory memory) const {
  auto settings = settings_of(options, memory);
  // TUTTI_ALGORITHM is the host path's: NCCL chooses for itself.
  if (memory == Memory::host) settings.preferred = job->environment.algorithm;
  return settings;
}

Backend& Communicator::State::backend(Memory memory) {
  auto& chosen = memory == Memory::device ? device() : static_cast<Backend&>(*host);
  latest = &chosen;
  return chosen;
}

void Communicator::State::run_internal(Operation operation, const CallOptions& options) {
  job->faults.before_call();
  backend(Memory::host)
      .run(CheckedCollective{.operation = operation},
           collective_settings_of(options, Memory::host));
}

Backend& Communicator::State::device() {
  if (!has_device_path) {
    throw Error(
        ErrorCode::usage,
        fmt::format("a buffer in device memory needs the device path, which this job does not "
                    "have: {}",
                    device_path.reason));
  }
  if (!device_path.backend) {
    device_path.backend = job->devices->open_group(job->plane->detector(), job->plane->statuses(),
                                                   job->plane->histories().find(group().id), *host,
                                                   job->environment.timeout);
  }
  return *device_path.backend;
}

}  // namespace tutti
