#include "communicators.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/keep_mapped.hpp"
#include "direct/image.hpp"
#include "real_nccl.hpp"
#include "report.hpp"

namespace tutti::preload {
namespace {

constexpr std::chrono::milliseconds watch_interval{100};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Communicators& Communicators::instance() {
  static auto* const all = new Communicators;
  return *all;
}

Communicators::Communicators()
    : report_(variable("TUTTI_NCCL_REPORT")),
      cuda_(std::make_shared<const device::Library<device::CudaCalls>>(device::load_cuda())),
      closing_(std::make_shared<device::direct::ClosingStaging>()),
      pid_(::getpid()) {
  try {
    environment_ = Environment::from(current_environment());
  } catch (const Error& error) {
    bad_environment_ = error.sentence();
    Log(LogLevel::warning, nullptr).warning(bad_environment_ + "; NCCL takes all calls");
  }
  // After CUDA's own handlers, so it runs before them.
  static_cast<void>(std::atexit([] { instance().end(); }));
}

/// Why this rank can't have a direct path, whatever the others can; empty if it can.
std::string Communicators::why_not_registered() const {
  if (!bad_environment_.empty()) return bad_environment_;
  if (environment_.device_path == DevicePathChoice::nccl) return "TUTTI_DEVICE_PATH is nccl";
  if (variable("NCCL_P2P_DISABLE") == "1") return "NCCL_P2P_DISABLE is 1";
  if (variable("NCCL_P2P_LEVEL") == "LOC" || variable("NCCL_P2P_LEVEL") == "0") {
    return "NCCL_P2P_LEVEL allows no access to other GPUs";
  }
  if (!cuda_->usable()) return "there is no CUDA driver (" + cuda_->missing + ")";
  if (device::direct::kernel_image() == nullptr) {
    return "this library was built without nvcc, so it has no kernels";
  }
  return {};
}

Communicators::SetUp Communicators::begin(std::optional<Identity> identity) {
  SetUp set_up{.identity = identity, .segment = nullptr, .reason = why_not_registered()};
  if (!identity) set_up.reason = "its parent is not known";
  if (!set_up.reason.empty()) return set_up;
  try {
    start_watching();
    set_up.segment = std::make_unique<HostSegment>(*identity);
  } catch (const Error& error) {
    set_up.reason = error.sentence();
  }
  return set_up;
}

void Communicators::finish(SetUp set_up, NcclResult result, const NcclComm* made) {
  const bool has_comm = made != nullptr && *made != nullptr;
  if (result == device::nccl_success && has_comm) return open(std::move(set_up), *made);
  if (result == device::nccl_in_progress && has_comm) {
    const std::unique_lock lock(mutex_);
    pending_[*made] = std::move(set_up);
    ++pending_count_;
    return;
  }
  if (!set_up.segment) return;
  // A rank whose set-up has succeeded waits for this one no more.
  set_up.segment->refuse();
  set_up.segment->remove_name();
}

NcclResult Communicators::finish_pending(NcclComm comm, NcclResult state) {
  if (pending_count_ == 0 || state == device::nccl_in_progress) return state;
  SetUp set_up;
  {
    const std::unique_lock lock(mutex_);
    const auto found = pending_.find(comm);
    if (found == pending_.end()) return state;
    // Another thread is about to finish it: until then the ranks could decide differently.
    if (!found->second) return device::nccl_in_progress;
    set_up = *std::exchange(found->second, std::nullopt);
  }
  finish(std::move(set_up), state, &comm);
  drop_pending(comm);
  return state;
}

void Communicators::drop_pending(NcclComm comm) {
  if (pending_count_ == 0) return;
  std::optional<SetUp> dropped;
  const std::unique_lock lock(mutex_);
  const auto found = pending_.find(comm);
  if (found == pending_.end()) return;
  dropped = std::move(found->second);
  pending_.erase(found);
  --pending_count_;
  if (!dropped || !dropped->segment) return;
  dropped->segment->refuse();
  dropped->segment->remove_name();
}

/// NCCL's set-up of `comm` has succeeded.
void Communicators::open(SetUp set_up, NcclComm comm) {
  const auto& nccl = real_nccl();
  NcclCommunicator::Parts parts{.who = {},
                                .identity = set_up.identity,
                                .opened = {},
                                .log_level = environment_.log_level,
                                .timeout = environment_.timeout};
  auto& who = parts.who;
  if (set_up.segment) set_up.segment->remove_name();
  if (hand_on(nccl.count, comm, &who.size) != device::nccl_success ||
      hand_on(nccl.user_rank, comm, &who.rank) != device::nccl_success ||
      hand_on(nccl.cu_device, comm, &who.device) != device::nccl_success) {
    if (set_up.segment) set_up.segment->refuse();
    return;
  }
  parts.opened.reason = std::move(set_up.reason);
  if (who.size == 1) {
    parts.opened.reason = "it has one rank";
  } else if (set_up.segment) {
    parts.opened = open_path(who, std::move(set_up.segment), environment_, cuda_, closing_);
    const auto& warning = parts.opened.warning;
    if (!warning.empty() && !has_warned_.exchange(true)) {
      Log(environment_.log_level, nullptr).warning(warning);
    }
  }
  add(comm, std::make_shared<NcclCommunicator>(std::move(parts)));
}

void Communicators::add(NcclComm comm, std::shared_ptr<NcclCommunicator> communicator) {
  const std::unique_lock lock(mutex_);
  known_[comm] = std::move(communicator);
}

void Communicators::start_watching() {
  const std::unique_lock lock(mutex_);
  if (is_watched_) return;
  start_abandoned_thread("to watch NCCL", [this] { watch(); });
  is_watched_ = true;
}

std::shared_ptr<NcclCommunicator> Communicators::find(NcclComm comm) {
  const auto look = [&]() -> std::shared_ptr<NcclCommunicator> {
    const std::shared_lock lock(mutex_);
    const auto found = known_.find(comm);
    return found == known_.end() ? nullptr : found->second;
  };
  auto known = look();
  if (known || pending_count_ == 0) return known;
  // A program may use a non-blocking communicator without having asked whether it is ready.
  NcclResult state = device::nccl_success;
  const auto get_state = real_nccl().get_async_error;
  if (hand_on(get_state, comm, &state) != device::nccl_success) return nullptr;
  static_cast<void>(finish_pending(comm, state));
  return look();
}

std::shared_ptr<NcclCommunicator> Communicators::take(NcclComm comm) {
  drop_pending(comm);
  std::shared_ptr<NcclCommunicator> taken;
  {
    const std::unique_lock lock(mutex_);
    const auto found = known_.find(comm);
    if (found == known_.end()) return nullptr;
    taken = std::move(found->second);
    known_.erase(found);
  }
  const std::lock_guard round(watching_);
  return taken;
}

std::vector<std::shared_ptr<NcclCommunicator>> Communicators::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<NcclCommunicator>> result;
  for (const auto& [comm, communicator] : known_) result.push_back(communicator);
  return result;
}

const std::string* Communicators::failure() const {
  for (const auto& communicator : all()) {
    if (const auto* const text = communicator->failure(); text != nullptr) return text;
  }
  return nullptr;
}

void Communicators::watch() {
  int mode = device::capture_mode_relaxed;
  if (cuda_->calls.exchange_capture_mode != nullptr) cuda_->calls.exchange_capture_mode(&mode);
  while (true) {
    std::this_thread::sleep_for(watch_interval);
    const std::lock_guard round(watching_);
    if (is_over_.load()) return;
    for (const auto& communicator : all()) {
      try {
        communicator->watch();
      } catch (const std::exception&) {
        // The device does not answer: the program's calls say so.
      }
    }
  }
}

void Communicators::report(const NcclCommunicator& communicator) const {
  if (report_.empty() || report_ == "0" || !communicator.counts().any()) return;
  if (communicator.who().rank == 0 || report_ == "all") print_report(communicator);
}

void Communicators::end() {
  if (::getpid() != pid_) return;
  // The watchdog may wait for a device that does not answer.
  const std::unique_lock round(watching_, std::chrono::seconds(2));
  is_over_ = true;
  for (const auto& communicator : all()) {
    communicator->leave();
    report(*communicator);
  }
}

}  // namespace tutti::preload
