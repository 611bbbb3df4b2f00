#include "host_segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/descriptor.hpp"
#include "base/system_error.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"

namespace tutti::preload {
namespace {

constexpr std::chrono::microseconds pause_time{50};

enum Decision : std::uint32_t { undecided, agreed, refused };

/// In a step the ranks write the block of its parity, which all have read two steps later.
struct alignas(64) RankBlocks {
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> latest;  ///< kind, type and count of the latest call
  std::atomic<std::uint32_t> has_left;
  std::array<std::uint32_t, 2> bytes;
  std::array<std::array<std::byte, HostSegment::max_block_bytes>, 2> blocks;
};

constexpr std::uint64_t count_mask = (std::uint64_t{1} << 48) - 1;

}  // namespace

/// All zero at first.
struct HostSegment::Memory {
  std::atomic<std::uint32_t> registered;
  std::atomic<std::uint32_t> decision;
  std::array<RankBlocks, max_ranks> ranks;
};

HostSegment::HostSegment(const Identity& identity)
    : path_(fmt::format("/dev/shm/tutti_nccl_{}_{}_{}", version_string, ::geteuid(),
                        identity.text())) {
  const auto failed = [&](const char* doing) {
    return Error(ErrorCode::system,
                 fmt::format("{} {} failed: {}", doing, path_, errno_text(errno)));
  };
  const Descriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) throw failed("opening");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw failed("asking for the owner of");
  if (status.st_uid != ::geteuid()) {
    throw Error(ErrorCode::system, fmt::format("{} belongs to user {}", path_, status.st_uid));
  }
  if (::ftruncate(file.get(), sizeof(Memory)) != 0) throw failed("sizing");
  void* const mapped =
      ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) throw failed("mapping");
  memory_ = static_cast<Memory*>(mapped);
  memory_->registered.fetch_add(1);
}

HostSegment::~HostSegment() {
  ::munmap(memory_, sizeof(Memory));
}

int HostSegment::registered() const {
  return static_cast<int>(memory_->registered.load());
}

void HostSegment::remove_name() noexcept {
  ::unlink(path_.c_str());
}

void HostSegment::set_ranks(int rank, int size) {
  rank_ = rank;
  size_ = size;
}

void HostSegment::require_not_refused() const {
  if (memory_->decision.load() != refused) return;
  throw Error(ErrorCode::system, "a rank did not take part in the set-up");
}

bool HostSegment::has_come(int rank) const {
  return memory_->ranks[static_cast<std::size_t>(rank)].step.load() >= step_;
}

std::vector<std::vector<std::byte>> HostSegment::all_gather(const std::vector<std::byte>& own,
                                                            Deadline deadline) {
  if (own.size() > max_block_bytes) {
    throw Error(ErrorCode::system,
                fmt::format("a block has {} bytes, at most {} fit", own.size(), max_block_bytes));
  }
  ++step_;
  const auto parity = static_cast<std::size_t>(step_ % 2);
  auto& mine = memory_->ranks[static_cast<std::size_t>(rank_)];
  mine.bytes[parity] = static_cast<std::uint32_t>(own.size());
  std::copy(own.begin(), own.end(), mine.blocks[parity].begin());
  mine.step.store(step_);
  std::vector<std::vector<std::byte>> result;
  for (int rank = 0; rank < size_; ++rank) {
    while (!has_come(rank)) {
      require_not_refused();
      if (deadline.expired()) {
        throw Error(ErrorCode::timeout, fmt::format("rank {} did not come to the set-up", rank));
      }
      std::this_thread::sleep_for(pause_time);
    }
    const auto& from = memory_->ranks[static_cast<std::size_t>(rank)];
    const auto bytes = std::min<std::size_t>(from.bytes[parity], max_block_bytes);
    const auto& block = from.blocks[parity];
    result.emplace_back(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  return result;
}

bool HostSegment::agree(Deadline deadline) {
  std::uint32_t before = undecided;
  try {
    static_cast<void>(all_gather({}, deadline));
    // Whoever sees all and whoever gives up settle it by one exchange.
    memory_->decision.compare_exchange_strong(before, agreed);
  } catch (const Error&) {
    refuse();
  }
  return memory_->decision.load() == agreed;
}

void HostSegment::refuse() noexcept {
  std::uint32_t before = undecided;
  memory_->decision.compare_exchange_strong(before, refused);
}

void HostSegment::publish(const NcclCall& call) noexcept {
  auto& mine = memory_->ranks[static_cast<std::size_t>(rank_)];
  mine.latest.store(static_cast<std::uint64_t>(call.kind) << 56 |
                        (static_cast<std::uint64_t>(call.type) & 0xFFU) << 48 |
                        (call.count & count_mask),
                    std::memory_order_relaxed);
  mine.calls.store(++calls_, std::memory_order_release);
}

void HostSegment::leave() noexcept {
  memory_->ranks[static_cast<std::size_t>(rank_)].has_left.store(1);
}

bool HostSegment::has_left(int rank) const {
  return memory_->ranks[static_cast<std::size_t>(rank)].has_left.load() != 0;
}

HostSegment::LatestCall HostSegment::latest_of(int rank) const {
  const auto& from = memory_->ranks[static_cast<std::size_t>(rank)];
  LatestCall result{.number = from.calls.load(std::memory_order_acquire), .call = {}};
  const auto latest = from.latest.load(std::memory_order_relaxed);
  result.call.kind = static_cast<CallKind>(std::min<std::uint64_t>(latest >> 56, call_kinds - 1));
  result.call.type = static_cast<int>(latest >> 48 & 0xFFU);
  result.call.count = latest & count_mask;
  return result;
}

}  // namespace tutti::preload
