#include "peer_processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.hpp"
#include "tutti/error.hpp"

namespace tutti::preload {
namespace {

Descriptor open_process(std::uint32_t pid) {
#ifdef SYS_pidfd_open
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
#else
  errno = ENOSYS;
  return {};
#endif
}

}  // namespace

PeerProcesses::PeerProcesses(const rendezvous::Peers& peers) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    processes_.emplace_back();
    if (rank == peers.rank()) continue;
    const auto& info = peers.info(rank);
    processes_.back() = open_process(info.pid);
    if (!processes_.back()) {
      throw Error(ErrorCode::system, fmt::format("watching the process of {} failed: {}",
                                                 peers.describe(rank), errno_text(errno)));
    }
    // Otherwise the pid belongs to another process by now.
    if (rendezvous::process_start_ticks(info.pid) == info.process_start) continue;
    throw Error(ErrorCode::system, fmt::format("{} has ended", peers.describe(rank)));
  }
}

bool PeerProcesses::look() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (!processes_[rank]) continue;
    pollfd entry{.fd = processes_[rank].get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 0) <= 0) continue;
    processes_[rank].reset();
    ended_.push_back(static_cast<int>(rank));
  }
  return !ended_.empty();
}

}  // namespace tutti::preload
