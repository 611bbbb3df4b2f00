#include "tutti/communicator.hpp"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <vector>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "communicator/host_backend.hpp"
#include "control/plane.hpp"
#include "engine/call_checker.hpp"
#include "launch/place.hpp"
#include "rendezvous/peers.hpp"
#include "transport/tcp_links.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// The environment, with what the program asks for in its place.
Environment settings_for(const Options& options, const EnvironmentMap& map) {
  auto environment = Environment::from(map);
  if (options.timeout) {
    if (options.timeout->count() <= 0) {
      throw Error(ErrorCode::usage, fmt::format("Options::timeout is {} ns: it must be above 0",
                                                options.timeout->count()));
    }
    environment.timeout = *options.timeout;
  }
  if (options.log_level) environment.log_level = *options.log_level;
  return environment;
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

/// Members go in the reverse order of their making: the links before the control plane that says
/// goodbye.
struct Communicator::State {
  State(Bootstrap& bootstrap, const Options& options, const EnvironmentMap& map)
      : environment(settings_for(options, map)), log(environment.log_level, options.log) {
    const auto deadline = Deadline::after(environment.timeout);
    const auto start = Clock::now();
    log.set_rank(bootstrap.rank());
    auto meeting =
        rendezvous::meet(bootstrap, environment, launch::read_launcher(map), log, deadline);
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
  }

  [[nodiscard]] CallSettings settings_of(const Call& call) const {
    if (call.timeout && call.timeout->count() <= 0) {
      throw Error(ErrorCode::usage,
                  fmt::format("Call::timeout is {} ns: it must be above 0", call.timeout->count()));
    }
    return {.timeout = call.timeout.value_or(environment.timeout),
            .tag = call.tag,
            .algorithm = call.algorithm};
  }

  /// The same for collectives, where TUTTI_ALGORITHM counts too.
  [[nodiscard]] CallSettings collective_settings_of(const Call& call) const {
    auto settings = settings_of(call);
    if (settings.algorithm.empty()) settings.algorithm = environment.algorithm;
    return settings;
  }

  void require_rank(const char* what, int rank) const {
    const int size = plane->peers().size();
    if (rank >= 0 && rank < size) return;
    throw Error(ErrorCode::usage,
                fmt::format("{} {} is out of range: the communicator has ranks 0 to {}", what, rank,
                            size - 1));
  }

  Environment environment;
  Log log;
  std::vector<RankInfo> ranks;
  std::unique_ptr<control::Plane> plane;
  std::unique_ptr<engine::CallChecker> checker;
  std::unique_ptr<transport::TcpLinks> links;
  std::unique_ptr<Backend> host;
  std::string phases;
};

namespace {

void require_memory(const void* buffer, std::size_t count, Type type) {
  if (buffer == nullptr && count > 0) {
    throw Error(ErrorCode::usage, fmt::format("the buffer is null but its count is {}", count));
  }
  if (count > static_cast<std::size_t>(INT64_MAX) / size_of(type)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} elements of {} are more than memory can hold", count, name(type)));
  }
}

void require_no_overlap(const void* send, std::size_t send_bytes, const void* recv,
                        std::size_t recv_bytes) {
  const std::less<const std::byte*> before;
  const auto* const a = static_cast<const std::byte*>(send);
  const auto* const b = static_cast<const std::byte*>(recv);
  if (send_bytes == 0 || recv_bytes == 0) return;
  if (before(a, b + recv_bytes) && before(b, a + send_bytes)) {
    throw Error(
        ErrorCode::usage,
        "send and receive buffers overlap: use separate memory, or tutti::in_place where the "
        "call has it");
  }
}

}  // namespace

std::chrono::nanoseconds setup_timeout(const Options& options) {
  return settings_for(options, current_environment()).timeout;
}

Communicator Communicator::create(Bootstrap& bootstrap, const Options& options) {
  return Communicator(std::make_unique<State>(bootstrap, options, current_environment()));
}

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const noexcept {
  return state_->plane->peers().rank();
}
int Communicator::size() const noexcept {
  return state_->plane->peers().size();
}
int Communicator::local_rank() const noexcept {
  return state_->plane->peers().place().local_rank;
}
int Communicator::local_size() const noexcept {
  return state_->plane->peers().place().local_size;
}
int Communicator::host_count() const noexcept {
  return state_->plane->peers().place().host_count;
}

const RankInfo& Communicator::info(int rank) const {
  state_->require_rank("rank", rank);
  return state_->ranks[static_cast<std::size_t>(rank)];
}

std::string Communicator::setup_phases() const {
  return state_->phases;
}

const std::string& Communicator::latest_algorithm() const noexcept {
  return state_->host->latest_algorithm();
}

void Communicator::require_equal_counts(std::size_t send, std::size_t recv) {
  if (send == recv) return;
  throw Error(ErrorCode::usage,
              fmt::format("the send buffer has {} elements and the receive buffer {}: they must be "
                          "equal",
                          send, recv));
}

void Communicator::fan_out(void* buffer, std::size_t count, Type type, int root, const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("root", root);
  state_->host->fan_out(buffer, count, type, root, state_->collective_settings_of(call));
}

void Communicator::broadcast(void* buffer, std::size_t count, Type type, int root,
                             const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("root", root);
  state_->host->broadcast(buffer, count, type, root, state_->collective_settings_of(call));
}

void Communicator::all_reduce(const void* send, void* recv, std::size_t count, Type type,
                              Operator op, const Call& call) {
  require_memory(send, count, type);
  require_memory(recv, count, type);
  const auto bytes = count * size_of(type);
  if (send != recv) require_no_overlap(send, bytes, recv, bytes);
  state_->host->all_reduce(send, recv, count, type, op, state_->collective_settings_of(call));
}

void Communicator::send(const void* buffer, std::size_t count, Type type, int to,
                        const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("receiver", to);
  if (to == rank()) {
    throw Error(ErrorCode::usage, "a rank can't send to itself and then receive: use send_recv");
  }
  state_->host->send(buffer, count, type, to, state_->settings_of(call));
}

void Communicator::recv(void* buffer, std::size_t count, Type type, int from, const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("sender", from);
  if (from == rank()) {
    throw Error(ErrorCode::usage, "a rank can't receive from itself: use send_recv");
  }
  state_->host->recv(buffer, count, type, from, state_->settings_of(call));
}

void Communicator::send_recv(const void* send, std::size_t send_count, int to, void* recv,
                             std::size_t recv_count, int from, Type type, const Call& call) {
  require_memory(send, send_count, type);
  require_memory(recv, recv_count, type);
  state_->require_rank("receiver", to);
  state_->require_rank("sender", from);
  require_no_overlap(send, send_count * size_of(type), recv, recv_count * size_of(type));
  if ((to == rank()) != (from == rank()) || (to == rank() && send_count != recv_count)) {
    throw Error(ErrorCode::usage,
                "send_recv with oneself needs the own rank on both sides and equal counts");
  }
  state_->host->send_recv(send, send_count, to, recv, recv_count, from, type,
                          state_->settings_of(call));
}

void Communicator::barrier(const Call& call) {
  state_->host->barrier(state_->collective_settings_of(call));
}

void Communicator::finalize(const Call& call) {
  state_->host->finalize(state_->collective_settings_of(call));
}

void Communicator::abort(const std::string& reason) noexcept {
  try {
    const auto& peers = state_->plane->peers();
    const int self = peers.rank();
    const auto error = state_->plane->report_and_wait(
        {.code = ErrorCode::aborted,
         .culprits = {self},
         .sentence = fmt::format("{} has ended the job: {}", peers.describe(self), reason),
         .origin = self},
        std::chrono::milliseconds(500));
    state_->log.info(error.sentence());
  } catch (const std::exception& error) {
    state_->log.warning(fmt::format("abort() failed: {}", error.what()));
  }
}

}  // namespace tutti
