#include "tutti/communicator.hpp"

#include <fmt/format.h>

#include <functional>

#include "communicator/state.hpp"

namespace tutti {

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

bool Communicator::has_device_path() const noexcept {
  return static_cast<bool>(state_->device_path.backend);
}

const std::string& Communicator::device_path_reason() const noexcept {
  return state_->device_path.reason;
}

int Communicator::device() const noexcept {
  return state_->device_path.device;
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

namespace {

CallSettings on(Stream stream, CallSettings settings) {
  settings.stream = stream.handle;
  return settings;
}

}  // namespace

void Communicator::device_fan_out(void* buffer, std::size_t count, Type type, int root,
                                  Stream stream, const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("root", root);
  state_->device().fan_out(buffer, count, type, root, on(stream, state_->settings_of(call)));
}

void Communicator::device_broadcast(void* buffer, std::size_t count, Type type, int root,
                                    Stream stream, const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("root", root);
  state_->device().broadcast(buffer, count, type, root, on(stream, state_->settings_of(call)));
}

void Communicator::device_all_reduce(const void* send, void* recv, std::size_t count, Type type,
                                     Operator op, Stream stream, const Call& call) {
  require_memory(send, count, type);
  require_memory(recv, count, type);
  state_->device().all_reduce(send, recv, count, type, op, on(stream, state_->settings_of(call)));
}

void Communicator::device_send(const void* buffer, std::size_t count, Type type, int to,
                               Stream stream, const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("receiver", to);
  state_->device().send(buffer, count, type, to, on(stream, state_->settings_of(call)));
}

void Communicator::device_recv(void* buffer, std::size_t count, Type type, int from, Stream stream,
                               const Call& call) {
  require_memory(buffer, count, type);
  state_->require_rank("sender", from);
  state_->device().recv(buffer, count, type, from, on(stream, state_->settings_of(call)));
}

void Communicator::device_send_recv(const void* send, std::size_t send_count, int to, void* recv,
                                    std::size_t recv_count, int from, Type type, Stream stream,
                                    const Call& call) {
  require_memory(send, send_count, type);
  require_memory(recv, recv_count, type);
  state_->require_rank("receiver", to);
  state_->require_rank("sender", from);
  state_->device().send_recv(send, send_count, to, recv, recv_count, from, type,
                             on(stream, state_->settings_of(call)));
}

void Communicator::device_barrier(Stream stream, const Call& call) {
  state_->device().barrier(on(stream, state_->settings_of(call)));
}

void Communicator::synchronize(Stream stream, const Call& call) {
  state_->device().synchronize(on(stream, state_->settings_of(call)));
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
