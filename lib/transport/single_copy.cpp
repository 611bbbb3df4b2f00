#include "transport/single_copy.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/system_error.hpp"
#include "bootstrap/job_secret.hpp"

namespace tutti::transport {
namespace {

void* address(std::uint64_t value) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(value));  // NOLINT: of another process
}

}  // namespace

static_assert(std::is_standard_layout_v<Witness>);

SingleCopy::SingleCopy(std::vector<MemoryAccess*> all, int local_rank)
    : access_(std::move(all)),
      targets_(access_.size()),
      local_rank_(local_rank),
      owner_(::getpid()) {}

SingleCopy::~SingleCopy() {
  // The memory may be reused: it must not look like a witness.
  if (witness_ != nullptr && ::getpid() == owner_) {
    ::explicit_bzero(&witness_->nonce, sizeof witness_->nonce);
  }
}

void SingleCopy::publish(SingleCopyUse use) {
  use_ = use;
  if (use == SingleCopyUse::off) return;
  witness_ = std::make_unique<Witness>();
  bootstrap::draw_random(std::as_writable_bytes(std::span(witness_->nonce)));
  auto& own = *access_[static_cast<std::size_t>(local_rank_)];
  own.witness = reinterpret_cast<std::uintptr_t>(witness_.get());
  own.nonce = witness_->nonce;
  own.pid.store(owner_, std::memory_order_release);
}

std::string SingleCopy::probe() {
  if (use_ == SingleCopyUse::off) return "TUTTI_SINGLE_COPY=off";
  for (std::size_t rank = 0; rank < access_.size(); ++rank) {
    const auto& theirs = *access_[rank];
    auto& target = targets_[rank];
    target.pid = theirs.pid.load(std::memory_order_acquire);
    if (target.pid == 0) return fmt::format("local rank {} has TUTTI_SINGLE_COPY=off", rank);
    target.witness = theirs.witness;
    target.nonce = theirs.nonce;
    if (static_cast<int>(rank) == local_rank_) continue;
    if (const auto result = read_witness(target); result != Result::read) {
      return fmt::format(
          "process_vm_readv() can't read local rank {} (pid {}): {}", rank, target.pid,
          result == Result::gone ? "not in this process namespace" : errno_text(errno));
    }
  }
  access_[static_cast<std::size_t>(local_rank_)]->reads_others.store(1, std::memory_order_relaxed);
  return {};
}

SingleCopy::Result SingleCopy::read_witness(const Target& target) const {
  Witness seen;
  const iovec local{.iov_base = &seen, .iov_len = sizeof seen};
  const iovec remote{.iov_base = address(target.witness), .iov_len = sizeof seen};
  const auto got = ::process_vm_readv(target.pid, &local, 1, &remote, 1, 0);
  if (got == sizeof seen) {
    return seen.nonce == target.nonce && seen.revoked.load() == 0 ? Result::read : Result::gone;
  }
  return got < 0 && errno != ESRCH && errno != EFAULT ? Result::refused : Result::gone;
}

bool SingleCopy::is_readable(const std::byte* memory, std::size_t bytes) const {
  std::array<std::byte, 2> ends;
  auto* const first = const_cast<std::byte*>(memory);
  const iovec local{.iov_base = ends.data(), .iov_len = ends.size()};
  const std::array<iovec, 2> remote{{{first, 1}, {first + bytes - 1, 1}}};
  return ::process_vm_readv(owner_, &local, 1, remote.data(), remote.size(), 0) ==
         static_cast<ssize_t>(ends.size());
}

SingleCopy::Result SingleCopy::read(int local_rank, std::byte* to, std::uint64_t from,
                                    std::size_t bytes) const {
  const auto& target = targets_[static_cast<std::size_t>(local_rank)];
  if (target.pid == 0) return Result::refused;
  Witness seen;
  const std::array<iovec, 2> local{{{to, bytes}, {&seen, sizeof seen}}};
  const std::array<iovec, 2> remote{
      {{address(from), bytes}, {address(target.witness), sizeof seen}}};
  const auto got =
      ::process_vm_readv(target.pid, local.data(), local.size(), remote.data(), remote.size(), 0);
  if (got == static_cast<ssize_t>(bytes + sizeof seen) && seen.nonce == target.nonce) {
    return seen.revoked.load() == 0 ? Result::read : Result::gone;
  }
  // Another process may have got the pid meanwhile: its data stays with it.
  if (got > 0) std::memset(to, 0, std::min(bytes, static_cast<std::size_t>(got)));
  const int reason = got < 0 ? errno : EFAULT;
  const auto owner = read_witness(target);
  if (owner == Result::gone) return owner;
  errno = reason;
  return Result::refused;
}

void SingleCopy::revoke() {
  if (witness_ == nullptr) return;
  witness_->revoked.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace tutti::transport
