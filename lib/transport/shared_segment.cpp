#include "transport/shared_segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/system_error.hpp"
#include "transport/link_memory.hpp"

namespace tutti::transport {
namespace {

// Of each rank: address space, and memory only as far as the program takes it.
constexpr std::size_t heap_bytes = std::size_t{64} << 30;
// The first channel is the whole job's.
constexpr std::size_t first_channel_round_bytes = std::size_t{256} << 10;
constexpr std::size_t other_channel_round_bytes = std::size_t{64} << 10;
// Of a ring. Measured: what a core writes next should have left the other cores' second-level
// caches since they read it.
constexpr std::size_t max_long_rounds = 8;
constexpr std::size_t all_rings_bytes = std::size_t{64} << 20;

// In front of the ring.
constexpr std::size_t front_bytes =
    round_up_to_page(sizeof(RankRegion)) + pages_in_flight * page_bytes;

constexpr std::size_t round_bytes_of(std::size_t channel) {
  return channel == 0 ? first_channel_round_bytes : other_channel_round_bytes;
}

/// At first a rank takes memory for one round with its results: a megabyte costs set-up 0.4 ms.
constexpr std::size_t first_ring_bytes(std::size_t channel) {
  return round_bytes_of(channel) + round_bytes_of(channel) / 2 + page_bytes;
}

/// The rings of all ranks of a host have all_rings_bytes together, and each at least what a round
/// needs.
constexpr std::size_t whole_ring_bytes(std::size_t channel, int ranks) {
  const auto share = all_rings_bytes / static_cast<std::size_t>(ranks) / page_bytes * page_bytes;
  return std::clamp(share, first_ring_bytes(channel), max_long_rounds * round_bytes_of(channel));
}

constexpr std::size_t part_bytes(std::size_t channel, int ranks) {
  return front_bytes + whole_ring_bytes(channel, ranks);
}

/// Of a part: what there is memory for from the beginning.
constexpr std::size_t bytes_at_first(std::size_t channel) {
  return front_bytes + first_ring_bytes(channel);
}

/// From the beginning of a rank's bytes.
constexpr std::size_t part_offset(std::size_t channel, int ranks) {
  std::size_t offset = 0;
  for (std::size_t before = 0; before < channel; ++before) offset += part_bytes(before, ranks);
  return offset;
}

constexpr std::size_t rank_bytes(int ranks) {
  return part_offset(channel_count, ranks);
}

std::size_t header_bytes(int ranks) {
  const auto bytes = sizeof(HostLine) + static_cast<std::size_t>(ranks) * sizeof(Doorbell);
  return round_up_to_page(bytes);
}

std::size_t rank_offset(int ranks, int local_rank) {
  return header_bytes(ranks) + static_cast<std::size_t>(local_rank) * rank_bytes(ranks);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &time, nullptr,
            0);
}

}  // namespace

std::size_t SharedSegment::channel_bytes_for(int ranks) {
  return rank_offset(ranks, ranks);
}

std::size_t SharedSegment::bytes_for(int ranks) {
  return channel_bytes_for(ranks) + LinkMemory::bytes_for(ranks);
}

Descriptor SharedSegment::make_file(int ranks) {
  auto bytes = channel_bytes_for(ranks);
  // Past this limit the kernel would end the process.
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (is_limited && limit.rlim_cur < bytes) {
    throw system_error(fmt::format("no shared memory of {} bytes", bytes), EFBIG);
  }
  const bool has_links = !is_limited || limit.rlim_cur >= bytes_for(ranks);
  if (has_links) bytes = bytes_for(ranks);
  if (!is_limited) bytes += static_cast<std::size_t>(ranks) * heap_bytes;
  Descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw system_error("can't make shared memory", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw system_error(fmt::format("no shared memory of {} bytes", bytes), errno);
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw system_error("can't seal shared memory", errno);
  }
  return file;
}

SharedSegment::SharedSegment(Descriptor file, int local_rank, int ranks)
    : file_(std::move(file)),
      owner_(::getpid()),
      local_rank_(local_rank),
      ranks_(ranks),
      uses_(channel_count) {
  const int seals = ::fcntl(file_.get(), F_GET_SEALS);
  const auto mapped = channel_bytes_for(ranks);
  const auto length = static_cast<std::int64_t>(::lseek(file_.get(), 0, SEEK_END));
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || length < static_cast<std::int64_t>(mapped)) {
    throw system_error("what came is not the shared memory of this job", EINVAL);
  }
  take_memory(channel_offset(0), bytes_at_first(0));
  if (local_rank_ == 0) take_memory(0, header_bytes(ranks_));
  void* const base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (base == MAP_FAILED) throw system_error("can't map shared memory", errno);
  base_ = static_cast<std::byte*>(base);
  // A forked child is no rank: what it does, to the end of its copies of objects, stays outside.
  ::madvise(base, mapped, MADV_DONTFORK);
  const auto before_heaps = bytes_for(ranks);
  const auto file_bytes = static_cast<std::size_t>(length);
  has_links_ = file_bytes >= before_heaps;
  const auto zone = has_links_ ? (file_bytes - before_heaps) / static_cast<std::size_t>(ranks_) /
                                     page_bytes * page_bytes
                               : 0;
  heap_.emplace(file_.get(), before_heaps, zone, local_rank_, ranks_);
  doorbell(local_rank_)
      .reaches_heaps.store(heap_->is_reachable() ? 1 : 0, std::memory_order_release);
}

/// Ahead of its use, so that a lack of memory is an error here and not a signal later.
int SharedSegment::try_to_take_memory(std::size_t offset, std::size_t bytes) const noexcept {
  while (::fallocate(file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void SharedSegment::take_memory(std::size_t offset, std::size_t bytes) const {
  const int refused = try_to_take_memory(offset, bytes);
  if (refused == 0) return;
  throw system_error(fmt::format("no memory for {} shared bytes", bytes), refused);
}

bool SharedSegment::take_for_link(std::size_t offset, std::size_t bytes) {
  const int refused = try_to_take_memory(offset, bytes);
  if (refused != 0 && !std::exchange(has_warned_of_links_, true)) {
    tell(
        fmt::format("no memory for {} shared bytes: {}; long messages inside this host take more "
                    "time, unless there is more memory for this job",
                    bytes, errno_text(refused)));
  }
  return refused == 0;
}

/// Of this rank's part of a channel.
std::size_t SharedSegment::channel_offset(std::size_t channel) const {
  return rank_offset(ranks_, local_rank_) + part_offset(channel, ranks_);
}

bool SharedSegment::is_owner() const {
  return ::getpid() == owner_;
}

SharedSegment::~SharedSegment() {
  // In a forked child something else may be there.
  if (is_owner()) ::munmap(base_, channel_bytes_for(ranks_));
}

HostLine& SharedSegment::host() const {
  return *reinterpret_cast<HostLine*>(base_);
}

Doorbell& SharedSegment::doorbell(int local_rank) const {
  return reinterpret_cast<Doorbell*>(base_ + sizeof(HostLine))[local_rank];
}

/// All of them or, where memory is refused, none: then it returns what to tell.
std::string SharedSegment::take_other_channels() {
  other_channels_ = Memory::there;
  for (std::size_t channel = 1; channel < channel_count; ++channel) {
    const auto bytes = bytes_at_first(channel);
    const int refused = try_to_take_memory(channel_offset(channel), bytes);
    if (refused == 0) continue;
    for (std::size_t taken = 1; taken < channel; ++taken) {
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(channel_offset(taken)),
                  static_cast<off_t>(bytes_at_first(taken)));
    }
    other_channels_ = Memory::refused;
    return fmt::format(
        "no memory for {} shared bytes: {}; communicators that are made from now on send all data "
        "through links, unless there is more memory for this job",
        bytes, errno_text(refused));
  }
  return {};
}

std::uint32_t SharedSegment::free_channels() {
  std::unique_lock lock(mutex_);
  if (other_channels_ == Memory::not_asked_for) {
    if (const auto trouble = take_other_channels(); !trouble.empty()) {
      // Who is told may come back here.
      lock.unlock();
      tell(trouble);
      return 0;
    }
  }
  if (other_channels_ == Memory::refused) return 0;
  std::uint32_t free = 0;
  // CollectiveChannel 0 is the whole job's.
  for (std::size_t channel = 1; channel < channel_count; ++channel) {
    const auto& use = uses_[channel];
    if (use.in_use) continue;
    // Numbers of communicators grow: one that has left a later one has left this one.
    const bool all_left = std::all_of(use.members.begin(), use.members.end(), [&](int member) {
      return doorbell(member).left[channel].load(std::memory_order_acquire) >= use.communicator;
    });
    if (!use.used || all_left) free |= std::uint32_t{1} << channel;
  }
  return free;
}

void SharedSegment::wake(Doorbell& doorbell) const {
  doorbell.rings.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(doorbell.rings);
}

void SharedSegment::wake_self() {
  wake(doorbell(local_rank_));
}

Sleep::Sleep(SharedSegment& segment) : segment_(segment) {
  auto& own = segment.doorbell(segment.local_rank_);
  ticket_ = own.rings.load(std::memory_order_acquire);
  own.sleepers.fetch_add(1);
  segment.host().sleepers.fetch_add(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Sleep::~Sleep() {
  segment_.host().sleepers.fetch_sub(1);
  segment_.doorbell(segment_.local_rank_).sleepers.fetch_sub(1);
}

void Sleep::until_notified(std::chrono::nanoseconds limit) const {
  futex_wait(segment_.doorbell(segment_.local_rank_).rings, ticket_, limit);
}

CollectiveChannel::CollectiveChannel(std::shared_ptr<SharedSegment> segment, std::size_t number,
                                     std::uint32_t communicator, std::span<const int> local_ranks,
                                     int rank)
    : segment_(std::move(segment)),
      number_(number),
      communicator_(communicator),
      rank_(rank),
      round_bytes_(round_bytes_of(number)),
      ring_bytes_(first_ring_bytes(number)),
      whole_ring_bytes_(whole_ring_bytes(number, segment_->ranks_)),
      scratch_(new std::byte[local_ranks.size() * scratch_bytes]) {
  // Rounds of two communicators that have a channel one after the other never have the same number.
  constexpr int rounds_bits = 40;
  next_round = static_cast<std::uint64_t>(communicator) << rounds_bits;
  finished_rounds.store(next_round, std::memory_order_relaxed);
  for (const int local_rank : local_ranks) {
    auto* const part = segment_->base_ + rank_offset(segment_->ranks_, local_rank) +
                       part_offset(number, segment_->ranks_);
    members_.push_back({.part = reinterpret_cast<RankRegion*>(part),
                        .pages = part + round_up_to_page(sizeof(RankRegion)),
                        .ring = part + front_bytes,
                        .doorbell = &segment_->doorbell(local_rank),
                        .local_rank = local_rank,
                        .read = next_round});
  }
  const std::lock_guard lock(segment_->mutex_);
  segment_->uses_[number_] = {.communicator = communicator,
                              .in_use = true,
                              .used = true,
                              .members = {local_ranks.begin(), local_ranks.end()}};
}

CollectiveChannel::~CollectiveChannel() {
  const std::lock_guard lock(segment_->mutex_);
  segment_->uses_[number_].in_use = false;
  self().doorbell->left[number_].store(communicator_, std::memory_order_release);
}

CollectiveChannel::Place CollectiveChannel::next_place(std::uint64_t number,
                                                       std::size_t bytes) const {
  Place place{.offset = ring_offset_,
              .end = ring_offset_ + round_up_to_page(bytes),
              .lap = lap_,
              .needed = std::max(oldest_, slot_needs(number))};
  if (place.end > ring_bytes_) {
    place.end -= place.offset;
    place.offset = 0;
    place.lap += ring_bytes_;
  }
  const auto end = place.lap + place.end;
  for (; place.needed < number; ++place.needed) {
    const auto& taken = taken_[place.needed % slots_in_flight];
    if (taken.number == place.needed && taken.begin + ring_bytes_ >= end) break;
  }
  return place;
}

void CollectiveChannel::take(std::uint64_t number, const Place& place) {
  taken_[number % slots_in_flight] = {number, place.lap + place.offset, place};
  oldest_ = place.needed;
  lap_ = place.lap;
  ring_offset_ = place.end;
}

const std::byte* CollectiveChannel::in_ring(int rank, std::uint64_t offset,
                                            std::size_t bytes) const {
  if (offset > whole_ring_bytes_ || bytes > whole_ring_bytes_ - offset) {
    throw system_error("a peer speaks of shared memory that is not its own", EPROTO);
  }
  return members_[static_cast<std::size_t>(rank)].ring + offset;
}

void CollectiveChannel::grow() {
  if (has_grown_) return;
  has_grown_ = true;
  const auto more = whole_ring_bytes_ - ring_bytes_;
  if (more == 0) return;
  const int refused = segment_->try_to_take_memory(
      segment_->channel_offset(number_) + front_bytes + ring_bytes_, more);
  if (refused != 0) {
    segment_->tell(
        fmt::format("no memory for {} shared bytes: {}; long collective calls take longer, "
                    "unless there is more memory for this job",
                    more, errno_text(refused)));
    return;
  }
#ifdef MADV_POPULATE_WRITE
  // Else each of the pages costs a fault in one of the next calls.
  ::madvise(self().ring + ring_bytes_, more, MADV_POPULATE_WRITE);
#endif
  // What has been taken lies in front of what comes now.
  for (auto& taken : taken_) taken.begin = 0;
  lap_ = 0;
  ring_offset_ = ring_bytes_;
  ring_bytes_ = whole_ring_bytes_;
}

bool CollectiveChannel::all_reach_heaps() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.doorbell->reaches_heaps.load(std::memory_order_acquire) != 0;
  });
}

void CollectiveChannel::notify() {
  // No wait until others see what was written, which takes longer than all else in a small call:
  // whoever sleeps looks once more after longest_unseen. (The kernel could do it for the sleeper,
  // by membarrier, but to register for that takes 25 ms of set-up.)
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (segment_->host().sleepers.load(std::memory_order_relaxed) == 0) return;
  for (const auto& member : members_) {
    if (member.doorbell->sleepers.load(std::memory_order_relaxed) != 0)
      segment_->wake(*member.doorbell);
  }
}

}  // namespace tutti::transport
