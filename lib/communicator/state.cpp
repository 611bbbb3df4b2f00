#include "communicator/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "algorithm/cost_model.hpp"
#include "communicator/shared_path.hpp"

namespace tutti {
namespace {

// A block for each rank has to fit into a chunk.
constexpr int max_sharing_ranks = 256;

bool is_on_this_host(const Job& job, const control::Group& group) {
  const auto& peers = job.plane->peers();
  return std::all_of(group.world.begin(), group.world.end(),
                     [&](int rank) { return peers.on_this_host(rank); });
}

std::unique_ptr<transport::CollectiveChannel> channel_of_this_host(const Job& job,
                                                                   const control::Group& group,
                                                                   std::size_t number) {
  const auto& peers = job.plane->peers();
  std::vector<int> local_ranks;
  int member = 0;
  for (const int rank : group.world) {
    if (!peers.on_this_host(rank)) continue;
    if (rank == peers.rank()) member = static_cast<int>(local_ranks.size());
    local_ranks.push_back(peers.place_of(rank).local_rank);
  }
  return std::make_unique<transport::CollectiveChannel>(job.segment, number, group.id, local_ranks,
                                                        member);
}

/// `channel` is the communicator's in this host's shared memory; without a number it has none.
std::unique_ptr<HostBackend> make_host(const Job& job, control::Group group,
                                       std::optional<std::size_t> channel) {
  std::unique_ptr<SharedPath> shared;
  std::unique_ptr<transport::CollectiveChannel> part;
  if (channel && is_on_this_host(job, group)) {
    shared = std::make_unique<SharedPath>(job.plane->detector(), job.segment, *channel, group,
                                          job.waits);
  } else if (channel) {
    part = channel_of_this_host(job, group, *channel);
  }
  return std::make_unique<HostBackend>(
      job.plane->detector(), job.plane->histories(), *job.progress_engine, std::move(group),
      HostBackend::Settings{.chunk_bytes = job.environment.chunk_bytes,
                            .costs = job.environment.model.empty()
                                         ? algorithm::CostModel()
                                         : algorithm::parse_cost_model(job.environment.model),
                            .deterministic = job.environment.deterministic},
      std::move(shared), std::move(part));
}

/// The same for all ranks of the group that are on this host.
bool may_share(const Job& job, const control::Group& group) {
  const auto& peers = job.plane->peers();
  const auto here = std::count_if(group.world.begin(), group.world.end(),
                                  [&](int rank) { return peers.on_this_host(rank); });
  return job.segment && here > 1 && here <= max_sharing_ranks;
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
      if (job->fails_soon()) throw job->plane->detector().agreed_error();
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
