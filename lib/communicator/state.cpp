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
std::uint32_t least_millicores(const rendezvous::Card& card) {
  std::uint32_t least = 0;
  for (const auto& quota : card.cpu_quotas) {
    least = least == 0 ? quota.millicores : std::min(least, quota.millicores);
  }
  return least;
}

std::vector<RankInfo> describe_ranks(const rendezvous::Peers& peers) {
  std::vector<RankInfo> ranks;
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& place = peers.place_of(rank);
    const auto& card = peers.card(rank);
    // Where peers of other hosts would go; loopback where there are none.
    auto address = card.addresses.front();
    if (place.host_count == 1) {
      for (const auto& other : card.addresses) {
        if (other.is_loopback()) address = other;
      }
    }
    ranks.push_back({.rank = rank,
                     .local_rank = place.local_rank,
                     .host_index = place.host_index,
                     .host = card.host.name,
                     .pid = static_cast<int>(card.pid),
                     .address = address.text(),
                     .cores = static_cast<int>(card.cores),
                     .core_quota = least_millicores(card) / 1000.0});
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
/// hear of: the verdict takes some tens of milliseconds.
bool fails_soon(const control::Plane& plane) {
  const auto limit = Deadline::after(std::chrono::milliseconds(60));
  while (!plane.failed() && !limit.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return plane.failed();
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
  auto card = rendezvous::make_card(environment);
  std::string no_arena_because;
  const auto open_arena = [&](const rendezvous::Peers& peers, const bootstrap::JobSecret& secret) {
    if (!environment.shared_memory) return;
    arena_setup.emplace(peers, transport::NoteKey{secret}, faults.refuses_shared_memory());
  };
  std::unique_ptr<ReservedThread> thread;
  try {
    // A bootstrap may sleep until the deadline: somebody else has to read the clock.
    thread = std::make_unique<ReservedThread>(for_control, [clock] { clock->now(); });
  } catch (const Error& error) {
    card.failure = error.sentence();  // all ranks hear it by the card
    deadline = Deadline::after(environment.timeout);
  }
  devices->describe(card);
  auto meeting =
      rendezvous::meet(bootstrap, std::move(card), environment, shared ? &*shared : nullptr,
                       launch::read_launcher(map), log, deadline, open_arena);
  control::require_descriptors(meeting.peers);
  const auto met = Clock::now();
  ranks = describe_ranks(meeting.peers);
  plane = std::make_unique<control::Plane>(std::move(meeting), environment, log, deadline,
                                           std::move(thread));
  if (arena_setup) {
    // Meanwhile the control thread makes its links.
    auto outcome =
        arena_setup->finish(plane->peers(), deadline, [this] { return plane->failed(); });
    take_arena(std::move(outcome.arena));
    no_arena_because = std::move(outcome.trouble);
    arena_setup.reset();
  }
  shares_memory = arena != nullptr;
  const auto sharing = Clock::now();
  plane->wait_until_linked(deadline);
  if (!no_arena_because.empty() && !fails_soon(*plane)) {
    log.warning(fmt::format("the ranks of {} share no memory, so their data goes over TCP: {}",
                            plane->peers().card(bootstrap.rank()).host.name, no_arena_because));
  }
  const auto linked = Clock::now();
  connect();
  phases = fmt::format("cards {:.1f} ms, shared memory {:.1f} ms, control links {:.1f} ms",
                       milliseconds(met - start), milliseconds(sharing - met),
                       milliseconds(linked - sharing));
}

Job::Job(const Job& before, rendezvous::Meeting meeting, Deadline deadline)
    : environment(before.environment),
      sink(before.sink),
      while_waiting(before.while_waiting),
      log(environment.log_level, sink),
      // Faults on purpose count calls and name ranks of the job that was started.
      faults({}, meeting.self.rank, meeting.self.size),
      devices(before.devices),
      ranks(describe_ranks(meeting.peers)) {
  log.set_rank(meeting.self.rank);
  shares_memory = before.shares_memory;
  if (shares_memory) {
    const auto& self = meeting.self;
    arena_setup.emplace(meeting.peers, transport::NoteKey{self.secret, self.epoch}, false);
  }
  std::unique_ptr<ReservedThread> thread;
  try {
    thread = std::make_unique<ReservedThread>(for_control);
  } catch (const Error& error) {
    no_thread_because = error.sentence();
  }
  plane = std::make_unique<control::Plane>(std::move(meeting), environment, log, deadline,
                                           std::move(thread));
}

void Job::require_thread(Deadline deadline) {
  if (no_thread_because.empty()) return;
  const auto& peers = plane->peers();
  throw plane->end_without_thread(
      {.code = ErrorCode::system,
       .culprits = {peers.rank()},
       .sentence = fmt::format("{}: {}", peers.describe(peers.rank()), no_thread_because),
       .origin = peers.rank()},
      deadline);
}

void Job::share_memory_anew(Deadline deadline) {
  if (!arena_setup) return;
  take_arena(
      arena_setup->finish(plane->peers(), deadline, [this] { return plane->failed(); }).arena);
  arena_setup.reset();
}

void Job::take_arena(std::shared_ptr<transport::Arena> shared) {
  arena = std::move(shared);
  if (arena) arena->tell_by([this](const std::string& text) { log.warning(text); });
}

void Job::connect() {
  checker = std::make_unique<engine::CallChecker>(*plane);
  links = std::make_unique<transport::TcpLinks>(
      *plane, *checker,
      transport::TcpLinks::Settings{.eager_bytes = environment.eager_bytes,
                                    .congestion = environment.congestion,
                                    .faults = &faults,
                                    .arena = arena,
                                    .shares_cores = plane->peers().shares_cores(),
                                    .connect_timeout = environment.timeout});
  driver = std::make_unique<engine::Driver>(*plane, *links, *checker, arena, while_waiting);
}

namespace {

/// `room` is the communicator's in this host's shared memory; without a number it has none.
std::unique_ptr<HostBackend> make_host(const Job& job, control::Group group,
                                       std::optional<std::size_t> room) {
  std::unique_ptr<SharedPath> shared;
  if (room) shared = std::make_unique<SharedPath>(*job.plane, job.arena, *room, group);
  return std::make_unique<HostBackend>(
      *job.plane, *job.driver, std::move(group),
      HostBackend::Settings{.chunk_bytes = job.environment.chunk_bytes,
                            .costs = job.environment.model.empty()
                                         ? algorithm::CostModel()
                                         : algorithm::parse_cost_model(job.environment.model),
                            .deterministic = job.environment.deterministic},
      std::move(shared));
}

// A block for each rank has to fit into a round.
constexpr int most_sharing_ranks = 256;

/// All ranks of the group come to the same.
bool may_share(const Job& job, const control::Group& group) {
  const auto& peers = job.plane->peers();
  return job.arena && group.size() > 1 && group.size() <= most_sharing_ranks &&
         std::all_of(group.world.begin(), group.world.end(),
                     [&](int rank) { return peers.on_this_host(rank); });
}

}  // namespace

Communicator::State::State(std::shared_ptr<Job> the_job, Bootstrap& bootstrap)
    : job(std::move(the_job)), ranks(job->ranks) {
  const auto& peers = job->plane->peers();
  auto whole = control::Group::whole_job(peers.rank(), peers.size());
  std::optional<std::size_t> room;
  if (may_share(*job, whole)) room = 0;
  host = make_host(*job, std::move(whole), room);
  const auto broadcast = [&](const Bytes& of_rank_0, Deadline deadline) {
    try {
      return bootstrap.broadcast(of_rank_0, 0, deadline);
    } catch (const Error&) {
      // A bootstrap can seldom say who has died.
      if (fails_soon(*job->plane)) throw job->plane->verdict_error();
      throw;
    }
  };
  device_path = job->devices->open(*job->plane, *host, broadcast,
                                   job->environment.backend == BackendChoice::device,
                                   job->environment.timeout);
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
  std::optional<std::size_t> room;
  if (may_share(*job, whole)) room = 0;
  host = make_host(*job, std::move(whole), room);
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
  std::optional<std::size_t> room;
  if (job->agreed_rooms != 0 && may_share(*job, group)) {
    room = static_cast<std::size_t>(std::countr_zero(job->agreed_rooms));
  }
  host = make_host(*job, std::move(group), room);
}

CallSettings Communicator::State::settings_of(const Call& call,
                                              const std::optional<Stream>& stream) const {
  if (call.timeout && call.timeout->count() <= 0) {
    throw Error(ErrorCode::usage,
                fmt::format("Call::timeout is {} ns: it must be above 0", call.timeout->count()));
  }
  if (call.tag == internal_tag) {
    throw Error(ErrorCode::usage,
                fmt::format("Call::tag {} is the library's own: use a smaller one", call.tag));
  }
  return {.timeout = call.timeout.value_or(job->environment.timeout),
          .tag = call.tag,
          .algorithm = call.algorithm,
          .stream = stream ? stream->handle : nullptr};
}

CallSettings Communicator::State::collective_settings_of(
    const Call& call, const std::optional<Stream>& stream) const {
  auto settings = settings_of(call, stream);
  // TUTTI_ALGORITHM is the host path's: NCCL chooses for itself.
  if (!stream) settings.preferred = job->environment.algorithm;
  return settings;
}

Backend& Communicator::State::backend(const std::optional<Stream>& stream) {
  auto& chosen = stream ? device() : static_cast<Backend&>(*host);
  latest = &chosen;
  return chosen;
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
    device_path.backend =
        job->devices->open_group(*job->plane, group(), *host, job->environment.timeout);
  }
  return *device_path.backend;
}

}  // namespace tutti
