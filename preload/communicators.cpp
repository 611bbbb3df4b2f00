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

Communicators::SetUp::SetUp(Communicators& all, std::optional<Identity> identity)
    : all_(all), identity_(identity) {
  reason_ = identity ? all.why_not_registered() : "its parent was not made under this library";
  if (!reason_.empty()) return;
  try {
    segment_ = std::make_unique<HostSegment>(*identity);
  } catch (const Error& error) {
    reason_ = error.sentence();
  }
}

Communicators::SetUp::~SetUp() {
  if (segment_) segment_->remove_name();
}

void Communicators::SetUp::finish(NcclResult result, const NcclComm* made) {
  if (result != device::nccl_success || made == nullptr || *made == nullptr) {
    // A rank whose set-up has succeeded waits for this one no more.
    if (segment_) segment_->refuse();
    return;
  }
  NcclComm comm = *made;
  const auto& nccl = real_nccl();
  NcclCommunicator::Parts parts{.who = {},
                                .identity = identity_,
                                .opened = {},
                                .log_level = all_.environment_.log_level,
                                .timeout = all_.environment_.timeout};
  auto& who = parts.who;
  if (hand_on(nccl.count, comm, &who.size) != device::nccl_success ||
      hand_on(nccl.user_rank, comm, &who.rank) != device::nccl_success ||
      hand_on(nccl.cu_device, comm, &who.device) != device::nccl_success) {
    if (segment_) segment_->refuse();
    return;
  }
  parts.opened.reason = reason_;
  if (who.size == 1) parts.opened.reason = "it has one rank";
  if (segment_) segment_->remove_name();
  if (segment_ && who.size > 1) {
    parts.opened = open_path(who, std::move(segment_), all_.environment_, all_.cuda_, all_.closing_);
  }
  all_.add(comm, std::make_shared<NcclCommunicator>(std::move(parts)));
}

void Communicators::add(NcclComm comm, std::shared_ptr<NcclCommunicator> communicator) {
  const bool has_path = communicator->has_path();
  const std::unique_lock lock(mutex_);
  known_[comm] = std::move(communicator);
  if (!has_path || std::exchange(is_watched_, true)) return;
  start_abandoned_thread("to watch NCCL", [this] { watch(); });
}

std::shared_ptr<NcclCommunicator> Communicators::find(NcclComm comm) const {
  const std::shared_lock lock(mutex_);
  const auto found = known_.find(comm);
  return found == known_.end() ? nullptr : found->second;
}

std::shared_ptr<NcclCommunicator> Communicators::take(NcclComm comm) {
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
    if (is_over_) return;
    for (const auto& communicator : all()) {
      try {
        communicator->watch();
      } catch (const Error&) {
        // The device does not answer: the program's calls say so.
      }
    }
  }
}

void Communicators::report(const NcclCommunicator& communicator) const {
  if (report_.empty() || report_ == "0") return;
  if (communicator.who().rank == 0 || report_ == "all") print_report(communicator);
}

void Communicators::end() {
  if (::getpid() != pid_) return;
  const std::lock_guard round(watching_);
  is_over_ = true;
  for (const auto& communicator : all()) report(*communicator);
}

}  // namespace tutti::preload
