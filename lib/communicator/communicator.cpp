#include "tutti/communicator.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "communicator/arguments.hpp"
#include "communicator/state.hpp"

namespace tutti {

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  // What was here goes by the destructor, which knows a forked child.
  Communicator taken(std::move(other));
  state_.swap(taken.state_);
  return *this;
}
Communicator::~Communicator() {
  if (!state_) return;
  const auto& peers = state_->job->plane->peers();
  // In a forked child: the threads that would say goodbye are the parent's, and so is the memory.
  if (peers.info(peers.rank()).pid != static_cast<std::uint32_t>(::getpid())) {
    static_cast<void>(state_.release());
  }
}

int Communicator::rank() const noexcept {
  return state_->group().rank;
}
int Communicator::size() const noexcept {
  return state_->group().size();
}
int Communicator::local_rank() const noexcept {
  return state_->job->plane->peers().place().local_rank;
}
int Communicator::local_size() const noexcept {
  return state_->job->plane->peers().place().local_size;
}

int Communicator::host_count() const noexcept {
  int hosts = 0;
  for (auto info = state_->ranks.begin(); info != state_->ranks.end(); ++info) {
    const auto is_same = [&](const RankInfo& other) {
      return other.host_index == info->host_index;
    };
    if (std::none_of(state_->ranks.begin(), info, is_same)) ++hosts;
  }
  return hosts;
}

const RankInfo& Communicator::info(int rank) const {
  require_rank("rank", rank, state_->group());
  return state_->ranks[static_cast<std::size_t>(rank)];
}

std::string Communicator::setup_phases() const {
  return state_->job->phases;
}

bool Communicator::has_device_path() const noexcept {
  return state_->has_device_path;
}

bool Communicator::is_device_path_staged() const noexcept {
  return state_->device_path.staged;
}

const std::string& Communicator::device_path_reason() const noexcept {
  return state_->device_path.reason;
}

int Communicator::device() const noexcept {
  return state_->device_path.device;
}

const std::string& Communicator::latest_algorithm() const noexcept {
  const auto* const latest = state_->latest;
  return (latest != nullptr ? *latest : *state_->host).latest_algorithm();
}

namespace {

/// A barrier has no buffers: the stream alone says where it is.
Memory memory_of(const Collective& collective, const CallOptions& options) {
  const bool is_on_stream = options.stream && collective.operation == Operation::barrier;
  return is_on_stream ? Memory::device : collective.memory;
}

}  // namespace

void Communicator::run(const Collective& collective, const CallOptions& options) {
  const auto& checked = state_->arguments.of(collective, state_->group());
  state_->job->faults.before_call();
  const auto memory = memory_of(collective, options);
  auto& backend = state_->backend(memory);
  backend.run(checked, state_->collective_settings_of(options, memory));
}

int Communicator::run(const Message& message, const CallOptions& options) {
  check_arguments(message, state_->group());
  state_->job->faults.before_call();
  auto& backend = state_->backend(message.memory);
  backend.run(message, state_->settings_of(options, message.memory));
  return message.from == any_rank ? state_->host->latest_source() : message.from;
}

Work Communicator::start(const Collective& collective, const CallOptions& options) {
  const auto checked = check_arguments(collective, state_->group());
  state_->job->faults.before_call();
  const auto memory = memory_of(collective, options);
  auto& backend = state_->backend(memory);
  return Work(backend.start(checked, state_->collective_settings_of(options, memory)));
}

Work Communicator::start(const Message& message, const CallOptions& options) {
  check_arguments(message, state_->group());
  state_->job->faults.before_call();
  auto& backend = state_->backend(message.memory);
  return Work(backend.start(message, state_->settings_of(options, message.memory)));
}

Work Communicator::start(std::span<const Message> messages, const CallOptions& options) {
  if (messages.empty()) return {};
  const auto memory = messages.front().memory;
  for (const auto& message : messages) {
    check_arguments(message, state_->group());
    if (message.memory == memory) continue;
    throw Error(ErrorCode::usage,
                "messages that are started together are in host memory or in device memory, not in "
                "both: start those in device memory by a call of their own");
  }
  state_->job->faults.before_call();
  auto& backend = state_->backend(memory);
  return Work(backend.start_together(messages, state_->settings_of(options, memory)));
}

std::shared_ptr<void> Communicator::allocate_bytes(std::size_t bytes) {
  if (const auto& segment = state_->job->segment) {
    if (auto* const piece = segment->heap().allocate(bytes)) {
      // In a forked child the memory is still the parent's.
      return {piece, [segment, owner = ::getpid()](std::byte* memory) {
                if (::getpid() == owner) segment->heap().release(memory);
              }};
    }
  }
  constexpr std::size_t page = 4096;
  if (bytes > SIZE_MAX - page) throw std::bad_alloc();
  const auto rounded = std::max<std::size_t>(1, (bytes + page - 1) / page) * page;
  std::shared_ptr<void> memory(std::aligned_alloc(page, rounded), std::free);
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, rounded);
  return memory;
}

std::shared_ptr<void> Communicator::allocate_device_bytes(std::size_t bytes,
                                                          const CallOptions& options) {
  state_->job->faults.before_call();
  return state_->backend(Memory::device)
      .allocate_device(bytes, state_->settings_of(options, Memory::device));
}

void Communicator::barrier(const CallOptions& options) {
  run(Collective{.operation = Operation::barrier}, options);
}

Work Communicator::start_barrier(const CallOptions& options) {
  return start(Collective{.operation = Operation::barrier}, options);
}

void Communicator::synchronize(Stream stream, const CallOptions& options) {
  auto settings = state_->settings_of(options, Memory::device);
  settings.stream = stream.handle;
  state_->backend(Memory::device).synchronize(settings);
}

void Communicator::finalize(const CallOptions& options) {
  if (state_->device_path.backend) state_->device_path.backend->finish_started();
  state_->host->finish_started();
  state_->run_internal(Operation::finalize, options);
}

void Communicator::abort(const std::string& reason) noexcept {
  try {
    const auto& peers = state_->job->plane->peers();
    const int self = peers.rank();
    const auto error = state_->job->plane->detector().report_and_wait(
        {.code = ErrorCode::aborted,
         .failed_ranks = {self},
         .sentence = fmt::format("{} has ended the job: {}", peers.describe(self), reason),
         .origin = self});
    state_->job->log.info(error.sentence());
  } catch (const std::exception& error) {
    state_->job->log.warning(fmt::format("abort() failed: {}", error.what()));
  }
}

}  // namespace tutti
