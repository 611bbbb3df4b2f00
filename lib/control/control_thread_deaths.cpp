// Failure detection: pidfds of this host's processes, and links that end.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "control/descriptors.hpp"
#include "control_thread.hpp"

namespace tutti::control {
namespace {

// Time for the ranks to agree on a corrupted link between two of them.
constexpr std::chrono::milliseconds corrupted_link_timeout{1000};
// A process may exit right after its goodbye, which arrives on another path than the pidfd's event.
constexpr std::chrono::milliseconds goodbye_grace{10};

Descriptor open_process(std::uint32_t pid) {
#ifdef SYS_pidfd_open
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
#else
  return Descriptor();
#endif
}

}  // namespace

void ControlThread::watch_processes() {
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer == peers_.rank() || !peers_.sees_pid_of(peer)) continue;
    const auto& info = peers_.info(peer);
    // pidfds are more precise, but control links suffice if descriptors are short.
    if (spare_descriptors(peers_) <= static_cast<std::int64_t>(processes_.size())) return;
    auto process = open_process(info.pid);
    // The start time shows whether the pid is still the process of the peer info (or was, when it
    // was opened).
    const bool gone = !process && errno == ESRCH;
    const auto start = process ? rendezvous::process_start_ticks(info.pid) : 0;
    const bool ended = gone || (start != 0 && start != info.process_start);
    if (ended) {
      reactor_.post([this, peer] { on_process_ended(peer); });
      continue;
    }
    if (!process) continue;  // old kernel: only the control links detect its end
    const int fd = process.get();
    processes_[peer] = std::move(process);
    reactor_.add(fd, EPOLLIN, [this, peer](std::uint32_t) { on_process_ended(peer); });
  }
}

void ControlThread::on_process_ended(int peer) {
  if (const auto found = processes_.find(peer); found != processes_.end()) {
    reactor_.remove(found->second.get());
    processes_.erase(found);
  }
  reactor_.after(goodbye_grace, [this, peer] { on_rank_lost(peer, LossReason::process_ended); });
}

/// A rank that ends before it has a link closes none. Without a pidfd, refused connections at its
/// ports show it.
void ControlThread::probe_unlinked() {
  for (const int peer : neighbours_) {
    if (links_.contains(peer) || processes_.contains(peer)) continue;
    if (spare_descriptors(peers_) <= 0) return;
    probes_.try_emplace(peer, reactor_, peers_.remote_candidates(peer), sources(), [this, peer] {
      probes_.erase(peer);
      on_rank_lost(peer, LossReason::ports_closed);
    });
  }
}

void ControlThread::on_link_closed(int peer, int number) {
  if (number == EBADMSG) return on_link_corrupted(peer);
  const bool silent = number == ETIMEDOUT || number == EHOSTUNREACH || number == ENETUNREACH;
  if (silent && !peers_.on_this_host(peer)) {
    // The host's kernel does not respond, so all its ranks are lost. Their own links would detect
    // that too, each after its own timeout.
    for (int other = 0; other < peers_.size(); ++other) {
      if (peers_.place_of(other).host_index == peers_.place_of(peer).host_index) {
        on_rank_lost(other, LossReason::host_silent);
      }
    }
    return;
  }
  const auto reason = silent ? LossReason::host_silent : LossReason::connection_closed;
  if (!processes_.contains(peer)) return on_rank_lost(peer, reason);
  // On this host the pidfd gives the more precise reason shortly.
  reactor_.after(2 * goodbye_grace, [this, peer, reason] { on_rank_lost(peer, reason); });
}

/// Both ends are alive, so neither is lost, and no survivors can continue without them. The ranks
/// agree through their other links; if that fails, each end fails by itself.
void ControlThread::on_link_corrupted(int peer) {
  const int first = std::min(peer, peers_.rank());
  const int second = std::max(peer, peers_.rank());
  const FailureReport report{
      .code = ErrorCode::system,
      .failed_ranks = {first, second},
      .sentence = fmt::format("the encrypted control link between {} and {} was tampered with or "
                              "damaged: received data failed its integrity check",
                              peers_.describe(first), peers_.describe(second)),
      .origin = peers_.rank()};
  const auto end_alone = [this, report] {
    if (!consensus_.agreed_failure()) decided(report);
  };
  consensus_.report_failure(report);
  const bool is_cut_off = std::none_of(links_.begin(), links_.end(),
                                       [](const auto& link) { return link.second->is_open(); });
  if (is_cut_off) return end_alone();
  reactor_.after(corrupted_link_timeout, end_alone);
}

void ControlThread::on_rank_lost(int peer, LossReason reason) {
  if (departed_.contains(peer) || consensus_.is_lost(peer)) return;
  consensus_.report_failure(
      {.code = ErrorCode::peer_lost, .lost = {{peer, reason}}, .origin = peers_.rank()});
  check_all_left();
}

}  // namespace tutti::control
