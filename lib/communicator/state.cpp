#include "communicator/state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "algorithm/choice.hpp"
#include "communicator/host_backend.hpp"
#include "control/descriptors.hpp"
#include "launch/place.hpp"
#include "rendezvous/peers.hpp"
#include "transport/tcp_links.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
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
                     .cores = static_cast<int>(card.cores)});
  }
  return ranks;
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
  if (options.log_level) environment.log_level = *options.log_level;
  return environment;
}

namespace {

void require_known_algorithm(const std::string& name) {
  if (name.empty()) return;
  std::vector<std::string_view> all;
  for (const auto names : {algorithm::fan_out_algorithms(), algorithm::broadcast_algorithms(),
                           algorithm::all_reduce_algorithms(), algorithm::barrier_algorithms()}) {
    all.insert(all.end(), names.begin(), names.end());
  }
  if (std::find(all.begin(), all.end(), name) != all.end()) return;
  throw Error(ErrorCode::usage, fmt::format("TUTTI_ALGORITHM={} is unknown: there are {}", name,
                                            fmt::join(all, ", ")));
}

}  // namespace

Communicator::State::State(Bootstrap& bootstrap, const Options& options, const EnvironmentMap& map,
                           DeviceProvider& devices)
    : environment(settings_for(options, map)), log(environment.log_level, options.log) {
  require_known_algorithm(environment.algorithm);
  const auto deadline = Deadline::after(environment.timeout);
  const auto start = Clock::now();
  log.set_rank(bootstrap.rank());
  auto card = rendezvous::make_card(environment);
  devices.describe(card);
  auto meeting = rendezvous::meet(bootstrap, std::move(card), environment,
                                  launch::read_launcher(map), log, deadline);
  control::require_descriptors(meeting.peers);
  const auto met = Clock::now();
  ranks = describe_ranks(meeting.peers);
  plane = std::make_unique<control::Plane>(std::move(meeting), environment, log, deadline);
  plane->wait_until_linked(deadline);
  const auto linked = Clock::now();

  const auto& place = plane->peers().place();
  const auto cores = plane->peers().card(place.rank).cores;
  checker = std::make_unique<engine::CallChecker>(*plane);
  links = std::make_unique<transport::TcpLinks>(
      *plane, *checker,
      transport::TcpLinks::Settings{
          .eager_bytes = environment.eager_bytes,
          .congestion = environment.congestion,
          .shares_cores = static_cast<std::uint32_t>(place.local_size) > cores,
          .connect_timeout = environment.timeout});
  host = std::make_unique<HostBackend>(*plane, *links, *checker, environment.chunk_bytes);
  phases = fmt::format("cards {:.1f} ms, control links {:.1f} ms", milliseconds(met - start),
                       milliseconds(linked - met));
  device_path = devices.open(*plane, *host, environment.backend == BackendChoice::device,
                             deadline.remaining());
  if (!device_path.phases.empty()) phases += ", " + device_path.phases;
  for (std::size_t rank = 0; rank < device_path.device_of_rank.size(); ++rank) {
    ranks[rank].device = device_path.device_of_rank[rank];
  }
  if (place.rank == 0) {
    log.info(
        fmt::format("path: {} ({})", device_path.backend ? "device" : "host", device_path.reason));
  }
}

CallSettings Communicator::State::settings_of(const Call& call) const {
  if (call.timeout && call.timeout->count() <= 0) {
    throw Error(ErrorCode::usage,
                fmt::format("Call::timeout is {} ns: it must be above 0", call.timeout->count()));
  }
  return {.timeout = call.timeout.value_or(environment.timeout),
          .tag = call.tag,
          .algorithm = call.algorithm};
}

CallSettings Communicator::State::collective_settings_of(const Call& call) const {
  auto settings = settings_of(call);
  settings.preferred = environment.algorithm;
  return settings;
}

void Communicator::State::require_rank(const char* what, int rank) const {
  const int size = plane->peers().size();
  if (rank >= 0 && rank < size) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} {} is out of range: the communicator has ranks 0 to {}", what, rank,
                          size - 1));
}

Backend& Communicator::State::device() const {
  if (device_path.backend) return *device_path.backend;
  throw Error(
      ErrorCode::usage,
      fmt::format("a buffer in device memory needs the device path, which this job does not "
                  "have: {}",
                  device_path.reason));
}

}  // namespace tutti
