#include "device/provider.hpp"

#include <fmt/format.h>

#include <utility>

#include "device/inventory.hpp"
#include "device_backend.hpp"
#include "direct/path.hpp"
#include "session.hpp"
#include "staged_backend.hpp"

namespace tutti::device {

Provider::Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl, Settings settings)
    : cuda_(std::make_shared<const Library<CudaCalls>>(std::move(cuda))),
      nccl_(std::make_shared<const Library<NcclCalls>>(std::move(nccl))),
      settings_(std::move(settings)),
      closing_(std::make_shared<direct::ClosingStaging>()) {}

void Provider::describe(rendezvous::PeerInfo& info) {
  auto inventory = take_inventory(cuda_->calls, cuda_->missing);
  info.devices = std::move(inventory.devices);
  info.no_device_reason = std::move(inventory.none_because);
  choose_device(info);
  if (!nccl_->usable()) {
    info.no_nccl_reason = nccl_->missing;
    return;
  }
  int version = 0;
  if (nccl_->calls.get_version(&version) == nccl_success && version > 0) {
    info.nccl_version = static_cast<std::uint32_t>(version);
  } else {
    info.no_nccl_reason = "it does not report its version";
  }
}

void Provider::choose_device(rendezvous::PeerInfo& info) const {
  const auto visible = info.devices.size();
  if (!settings_.device || visible == 0) return;
  const auto index = *settings_.device;
  if (index >= 0 && static_cast<std::size_t>(index) < visible) {
    info.device = static_cast<std::uint32_t>(index);
    return;
  }
  if (!info.failure.empty()) return;
  info.failure = fmt::format(
      "Options::device is {}, and this process sees {} device{}: pass an index from 0 to {}, or "
      "none",
      index, visible, visible == 1 ? "" : "s", visible - 1);
  info.failure_is_usage = true;
}

void Provider::warn(const control::Group& group, const std::string& text) const {
  if (settings_.log && group.rank == 0) settings_.log->warning(text);
}

DevicePath Provider::open(control::FailureDetector& detector, control::StatusExchange& statuses,
                          const std::shared_ptr<control::CallHistory>& history, Backend& host,
                          const BootstrapBroadcast& broadcast, bool required,
                          std::chrono::nanoseconds timeout) {
  const auto& peers = detector.peers();
  if (settings_.log) settings_.log->set_rank(peers.rank());
  const auto agreement = agree(peers);
  required_ = required;
  reason_ = agreement.reason;
  if (required && agreement.mode != DeviceMode::nccl) {
    throw Error(
        ErrorCode::usage,
        fmt::format("the nccl backend can't be used: {}; the cpu backend can (--backend cpu, "
                    "or TUTTI_BACKEND=cpu)",
                    reason_));
  }
  if (agreement.mode == DeviceMode::host) return {.reason = reason_};

  const auto& group = history->group();
  const auto index = agreement.device_of_rank[static_cast<std::size_t>(peers.rank())];
  SetupExchange setup(peers, group, host, detector.deadline(timeout));
  const auto start = std::chrono::steady_clock::now();
  try {
    open_context(setup, index);
  } catch (const AgreedFailure& failure) {
    context_.reset();
    if (required) throw Error(failure);
    reason_ = fmt::format("a device can't be used: {}", failure.sentence());
    warn(group, reason_ + "; buffers in device memory are refused");
    return {.reason = reason_};
  }
  const std::chrono::duration<double, std::milli> context_time =
      std::chrono::steady_clock::now() - start;
  DevicePath path{.device = index};
  card_of_rank_.clear();
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto of_rank = agreement.device_of_rank[static_cast<std::size_t>(rank)];
    const auto& info = peers.info(rank).devices[static_cast<std::size_t>(of_rank)];
    path.device_of_rank.push_back({info.name, info.bus_id, info.uuid});
    card_of_rank_.push_back(info.name);
  }
  mode_ = agreement.mode;
  auto opened = open_best(detector, statuses, history, host, setup, [&](const Bytes& of_rank_0) {
    return broadcast(of_rank_0, setup.deadline());
  });

  path.backend = std::move(opened.backend);
  path.staged = mode_ == DeviceMode::staged;
  path.reason = reason_;
  path.phases = fmt::format("CUDA context {:.1f} ms{}", context_time.count(), opened.phases);
  return path;
}

std::unique_ptr<Backend> Provider::open_group(control::FailureDetector& detector,
                                              control::StatusExchange& statuses,
                                              const std::shared_ptr<control::CallHistory>& history,
                                              Backend& host, std::chrono::nanoseconds timeout) {
  if (!context_) {
    throw Error(ErrorCode::usage, "this job has no backend for device memory: " + reason_);
  }
  SetupExchange setup(detector.peers(), history->group(), host, detector.deadline(timeout));
  // The bootstrap is closed by now.
  return open_best(detector, statuses, history, host, setup,
                   [&](Bytes message) {
                     setup.broadcast(message.data(), message.size());
                     return message;
                   })
      .backend;
}

void Provider::open_context(SetupExchange& setup, int index) {
  std::string failure;
  try {
    context_ = std::make_shared<const Context>(cuda_, index);
  } catch (const Error& error) {
    failure = error.sentence();
  }
  static_cast<void>(setup.all_done(true, failure));
}

/// Opens NCCL if possible; staging if not, or if its set-up fails and it is not required.
Provider::Opened Provider::open_best(control::FailureDetector& detector,
                                     control::StatusExchange& statuses,
                                     const std::shared_ptr<control::CallHistory>& history,
                                     Backend& host, SetupExchange& setup,
                                     const Broadcast& broadcast) {
  const auto& group = history->group();
  bool failed = false;
  if (mode_ == DeviceMode::nccl) {
    try {
      return open_nccl(detector, statuses, history, host, setup, broadcast);
    } catch (const AgreedFailure& failure) {
      if (required_) throw Error(failure);
      // For the whole job: communicators split off later need not try again.
      if (group.id == 0) mode_ = DeviceMode::staged;
      reason_ = failure.sentence();
      failed = true;
    }
  }
  // After a loss `reason_` may have the suffix already.
  constexpr std::string_view staged = "; buffers in device memory are staged through host memory";
  if ((group.id == 0 || failed) && !reason_.ends_with(staged)) reason_ += staged;
  if (failed) {
    warned_ = true;
    warn(group, reason_);
  }
  return {.backend = open_staged(detector, history, host)};
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): clang 14 loses what is returned

Provider::Opened Provider::open_nccl(control::FailureDetector& detector,
                                     control::StatusExchange& statuses,
                                     const std::shared_ptr<control::CallHistory>& history,
                                     Backend& host, SetupExchange& setup,
                                     const Broadcast& broadcast) {
  const auto& peers = detector.peers();
  const auto& group = history->group();
  auto session = std::make_unique<Session>(
      Session::Parts{.context = context_, .nccl = nccl_, .detector = detector, .group = group},
      setup, broadcast);
  Opened opened;
  opened.phases = fmt::format(", NCCL {:.1f} ms", session->setup_milliseconds());
  const auto start = std::chrono::steady_clock::now();
  std::string no_direct_because;
  auto direct = direct::DirectPath::open({.context = context_,
                                          .peers = peers,
                                          .group = group,
                                          .closing = closing_,
                                          .choice = settings_.path,
                                          .tuning = tuning_source(peers, group)},
                                         setup, no_direct_because);
  if (direct) {
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    opened.phases += fmt::format(", direct path {:.1f} ms", time.count());
    if (settings_.path == DevicePathChoice::automatic) {
      const auto text = "limits " + direct->limits_origin();
      opened.phases += fmt::format(" ({})", text);
      if (settings_.log && group.id == 0 && group.rank == 0) {
        settings_.log->info("direct path between GPUs: " + text);
      }
    }
  } else {
    const auto text = "no direct path between GPUs: " + no_direct_because;
    opened.phases += ", " + text;
    if (settings_.path == DevicePathChoice::direct && group.size() > 1) {
      warn(group, text + ", although TUTTI_DEVICE_PATH is direct; NCCL takes all calls");
    }
  }
  opened.backend =
      std::make_unique<DeviceBackend>(DeviceBackend::Parts{.detector = detector,
                                                           .statuses = statuses,
                                                           .history = history,
                                                           .host = host,
                                                           .session = std::move(session),
                                                           .direct = std::move(direct),
                                                           .stuck = settings_.on_stuck});
  return opened;
}

direct::TuningSource Provider::tuning_source(const rendezvous::Peers& peers,
                                             const control::Group& group) {
  std::vector<std::string> cards;
  cards.reserve(group.world.size());
  for (const int rank : group.world) cards.push_back(card_of_rank_[static_cast<std::size_t>(rank)]);
  int version = 0;
  nccl_->calls.get_version(&version);
  direct::TuningSource source{.file = settings_.tuning_file,
                              .key = make_tuning_key(cards, cuda_->calls, version),
                              .warn = {}};
  // Once on a host: other ranks, which may be the first of communicators too, read the same file.
  if (settings_.log && peers.place_of(peers.rank()).local_rank == 0) {
    source.warn = [this](const std::string& text) {
      if (!std::exchange(tuning_warned_, true)) settings_.log->warning(text);
    };
  }
  return source;
}

std::unique_ptr<Backend> Provider::open_staged(control::FailureDetector& detector,
                                               const std::shared_ptr<control::CallHistory>& history,
                                               Backend& host) {
  const auto& group = history->group();
  return std::make_unique<StagedBackend>(StagedBackend::Parts{.detector = detector,
                                                              .history = history,
                                                              .context = context_,
                                                              .group = group,
                                                              .host = host,
                                                              .on_first_call = [this, group] {
                                                                if (std::exchange(warned_, true)) {
                                                                  return;
                                                                }
                                                                warn(group, reason_);
                                                              }});
}

}  // namespace tutti::device
