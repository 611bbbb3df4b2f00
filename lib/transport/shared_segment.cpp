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

// Per rank: address space, and memory only for what the program allocates.
constexpr std::size_t heap_bytes = std::size_t{64} << 30;
// Chunks per ring. Measured: the other cores' L2 caches should have evicted a line before the
// writer reuses it.
constexpr std::size_t max_long_chunks = 8;
constexpr std::size_t all_rings_bytes = std::size_t{64} << 20;

// Bytes before the ring.
constexpr std::size_t front_bytes =
    round_up_to_page(sizeof(RankRegion)) + pages_in_flight * page_bytes;

/// At first a rank allocates one chunk with its results: each MiB adds 0.4 ms to set-up.
constexpr std::size_t initial_ring_bytes(std::size_t channel) {
  return published_bytes_of(channel) + published_bytes_of(channel) / 2 + page_bytes;
}

/// The rings of all ranks of a host share all_rings_bytes; each has at least the bytes of a chunk.
constexpr std::size_t whole_ring_bytes(std::size_t channel, int ranks) {
  const auto share = all_rings_bytes / static_cast<std::size_t>(ranks) / page_bytes * page_bytes;
  return std::clamp(share, initial_ring_bytes(channel),
                    max_long_chunks * published_bytes_of(channel));
}

constexpr std::size_t region_bytes(std::size_t channel, int ranks) {
  return front_bytes + whole_ring_bytes(channel, ranks);
}

/// Initially allocated bytes of a region.
constexpr std::size_t initial_bytes(std::size_t channel) {
  return front_bytes + initial_ring_bytes(channel);
}

/// Relative to the rank's bytes.
constexpr std::size_t region_offset(std::size_t channel, int ranks) {
  std::size_t offset = 0;
  for (std::size_t before = 0; before < channel; ++before) offset += region_bytes(before, ranks);
  return offset;
}

constexpr std::size_t rank_bytes(int ranks) {
  return region_offset(channel_count, ranks);
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
  // Beyond this limit the kernel would kill the process with SIGXFSZ.
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (is_limited && limit.rlim_cur < bytes) {
    throw system_error(fmt::format("can't create a shared segment of {} bytes", bytes), EFBIG);
  }
  const bool has_links = !is_limited || limit.rlim_cur >= bytes_for(ranks);
  if (has_links) bytes = bytes_for(ranks);
  if (!is_limited) bytes += static_cast<std::size_t>(ranks) * heap_bytes;
  Descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw system_error("can't create a shared segment", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw system_error(fmt::format("can't create a shared segment of {} bytes", bytes), errno);
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw system_error("can't seal the shared segment", errno);
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
    throw system_error("the received descriptor is not this job's shared segment", EINVAL);
  }
  allocate(channel_offset(0), initial_bytes(0));
  if (local_rank_ == 0) allocate(0, header_bytes(ranks_));
  void* const base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (base == MAP_FAILED) throw system_error("can't map the shared segment", errno);
  base_ = static_cast<std::byte*>(base);
  // A forked child is not a rank: nothing it does, including destructors, may touch the segment.
  ::madvise(base, mapped, MADV_DONTFORK);
  const auto before_heaps = bytes_for(ranks);
  const auto file_bytes = static_cast<std::size_t>(length);
  has_links_ = file_bytes >= before_heaps;
  const auto heap_bytes_each =
      has_links_
          ? (file_bytes - before_heaps) / static_cast<std::size_t>(ranks_) / page_bytes * page_bytes
          : 0;
  heap_.emplace(file_.get(), before_heaps, heap_bytes_each, local_rank_, ranks_);
  doorbell(local_rank_)
      .can_read_heaps.store(heap_->is_reachable() ? 1 : 0, std::memory_order_release);
  std::vector<MemoryAccess*> access;
  access.reserve(static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) access.push_back(&doorbell(rank).memory);
  single_copy_.emplace(std::move(access), local_rank_);
}

/// Allocates now, so that a lack of memory is an error here and not SIGBUS later.
int SharedSegment::try_allocate(std::size_t offset, std::size_t bytes) const noexcept {
  while (::fallocate(file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void SharedSegment::allocate(std::size_t offset, std::size_t bytes) const {
  const int refused = try_allocate(offset, bytes);
  if (refused == 0) return;
  throw system_error(fmt::format("can't allocate {} bytes of shared memory", bytes), refused);
}

bool SharedSegment::allocate_for_link(std::size_t offset, std::size_t bytes) {
  const int refused = try_allocate(offset, bytes);
  if (refused != 0 && !std::exchange(has_warned_of_links_, true)) {
    warn(fmt::format(
        "can't allocate {} bytes of shared memory: {}; long messages inside this host are "
        "slower: raise the memory limit of this job",
        bytes, errno_text(refused)));
  }
  return refused == 0;
}

/// Offset of this rank's region of a channel.
std::size_t SharedSegment::channel_offset(std::size_t channel) const {
  return rank_offset(ranks_, local_rank_) + region_offset(channel, ranks_);
}

bool SharedSegment::is_owner() const {
  return ::getpid() == owner_;
}

SharedSegment::~SharedSegment() {
  // In a forked child the address may be reused.
  if (is_owner()) ::munmap(base_, channel_bytes_for(ranks_));
}

HostLine& SharedSegment::host() const {
  return *reinterpret_cast<HostLine*>(base_);
}

Doorbell& SharedSegment::doorbell(int local_rank) const {
  return reinterpret_cast<Doorbell*>(base_ + sizeof(HostLine))[local_rank];
}

/// Allocates all of them or, if that fails, none, and returns a warning.
std::string SharedSegment::allocate_other_channels() {
  other_channels_ = Memory::allocated;
  for (std::size_t channel = 1; channel < channel_count; ++channel) {
    const auto bytes = initial_bytes(channel);
    const int refused = try_allocate(channel_offset(channel), bytes);
    if (refused == 0) continue;
    for (std::size_t done = 1; done < channel; ++done) {
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(channel_offset(done)),
                  static_cast<off_t>(initial_bytes(done)));
    }
    other_channels_ = Memory::refused;
    return fmt::format(
        "can't allocate {} bytes of shared memory: {}; new communicators use links for all data "
        "and "
        "are slower: raise the memory limit of this job",
        bytes, errno_text(refused));
  }
  return {};
}

std::uint32_t SharedSegment::free_channels() {
  std::unique_lock lock(mutex_);
  if (other_channels_ == Memory::not_requested) {
    if (const auto trouble = allocate_other_channels(); !trouble.empty()) {
      // The callback may call this function.
      lock.unlock();
      warn(trouble);
      return 0;
    }
  }
  if (other_channels_ == Memory::refused) return 0;
  std::uint32_t free = 0;
  // Channel 0 belongs to the whole job.
  for (std::size_t channel = 1; channel < channel_count; ++channel) {
    const auto& use = uses_[channel];
    if (use.in_use) continue;
    // Communicator ids grow: a rank that has left a later one has left this one.
    const bool all_left = std::all_of(use.members.begin(), use.members.end(), [&](int member) {
      return doorbell(member).left[channel].load(std::memory_order_acquire) >= use.communicator;
    });
    if (!use.used || all_left) free |= std::uint32_t{1} << channel;
  }
  return free;
}

void SharedSegment::wake(Doorbell& doorbell) const {
  doorbell.notifications.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(doorbell.notifications);
}

void SharedSegment::wake_self() {
  wake(doorbell(local_rank_));
}

Sleep::Sleep(SharedSegment& segment) : segment_(segment) {
  auto& own = segment.doorbell(segment.local_rank_);
  ticket_ = own.notifications.load(std::memory_order_acquire);
  own.sleepers.fetch_add(1);
  segment.host().sleepers.fetch_add(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Sleep::~Sleep() {
  segment_.host().sleepers.fetch_sub(1);
  segment_.doorbell(segment_.local_rank_).sleepers.fetch_sub(1);
}

void Sleep::until_notified(std::chrono::nanoseconds limit) const {
  futex_wait(segment_.doorbell(segment_.local_rank_).notifications, ticket_, limit);
}

CollectiveChannel::CollectiveChannel(std::shared_ptr<SharedSegment> segment, std::size_t number,
                                     std::uint32_t communicator, std::span<const int> local_ranks,
                                     int rank)
    : segment_(std::move(segment)),
      number_(number),
      communicator_(communicator),
      rank_(rank),
      published_bytes_(published_bytes_of(number)),
      ring_bytes_(initial_ring_bytes(number)),
      whole_ring_bytes_(whole_ring_bytes(number, segment_->ranks_)),
      scratch_(new std::byte[local_ranks.size() * scratch_bytes]) {
  // Chunk numbers of successive communicators of a channel never overlap.
  constexpr int chunks_bits = 40;
  next_chunk = static_cast<std::uint64_t>(communicator) << chunks_bits;
  finished_chunks.store(next_chunk, std::memory_order_relaxed);
  for (const int local_rank : local_ranks) {
    auto* const region = segment_->base_ + rank_offset(segment_->ranks_, local_rank) +
                         region_offset(number, segment_->ranks_);
    members_.push_back({.region = reinterpret_cast<RankRegion*>(region),
                        .pages = region + round_up_to_page(sizeof(RankRegion)),
                        .ring = region + front_bytes,
                        .doorbell = &segment_->doorbell(local_rank),
                        .local_rank = local_rank,
                        .read = next_chunk});
    boards_.push_back(&members_.back().region->times);
  }
  for (auto& trial : self().region->times) {
    for (auto& posted : trial) posted.call.store(0, std::memory_order_relaxed);
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

CollectiveChannel::RingSpan CollectiveChannel::next_span(std::uint64_t number,
                                                         std::size_t bytes) const {
  RingSpan span{.offset = ring_offset_,
                .end = ring_offset_ + round_up_to_page(bytes),
                .base = base_position_,
                .reads_before = std::max(oldest_, reads_before_slot(number))};
  if (span.end > ring_bytes_) {
    span.end -= span.offset;
    span.offset = 0;
    span.base += ring_bytes_;
  }
  const auto end = span.base + span.end;
  // Chunks without bytes in the ring have no reservation.
  for (auto earlier = span.reads_before; earlier < number; ++earlier) {
    const auto& reservation = reservations_[earlier % slots_in_flight];
    if (reservation.number == earlier && reservation.begin + ring_bytes_ < end) {
      span.reads_before = earlier + 1;
    }
  }
  return span;
}

void CollectiveChannel::reserve(std::uint64_t number, const RingSpan& span) {
  reservations_[number % slots_in_flight] = {number, span.base + span.offset, span};
  oldest_ = span.reads_before;
  base_position_ = span.base;
  ring_offset_ = span.end;
}

const std::byte* CollectiveChannel::in_ring(int rank, std::uint64_t offset,
                                            std::size_t bytes) const {
  if (offset > whole_ring_bytes_ || bytes > whole_ring_bytes_ - offset) {
    throw system_error("a peer published an offset outside its ring", EPROTO);
  }
  return members_[static_cast<std::size_t>(rank)].ring + offset;
}

void CollectiveChannel::grow() {
  if (has_grown_) return;
  has_grown_ = true;
  const auto more = whole_ring_bytes_ - ring_bytes_;
  if (more == 0) return;
  const int refused =
      segment_->try_allocate(segment_->channel_offset(number_) + front_bytes + ring_bytes_, more);
  if (refused != 0) {
    segment_->warn(fmt::format(
        "can't allocate {} bytes of shared memory: {}; long collective calls are slower: "
        "raise the memory limit of this job",
        more, errno_text(refused)));
    return;
  }
#ifdef MADV_POPULATE_WRITE
  // Otherwise each page faults during the next calls.
  ::madvise(self().ring + ring_bytes_, more, MADV_POPULATE_WRITE);
#endif
  // Existing reservations precede all new ones.
  for (auto& reservation : reservations_) reservation.begin = 0;
  base_position_ = 0;
  ring_offset_ = ring_bytes_;
  ring_bytes_ = whole_ring_bytes_;
}

bool CollectiveChannel::all_can_read_heaps() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.doorbell->can_read_heaps.load(std::memory_order_acquire) != 0;
  });
}

bool CollectiveChannel::is_read_by_all() const {
  return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
    return segment_->single_copy().is_read_by(member.local_rank);
  });
}

void CollectiveChannel::notify() {
  // No fence: it would take longer than everything else in a small call, so a sleeper checks again
  // after max_store_delay. (membarrier in the sleeper would do, too, but its registration adds 25
  // ms to set-up.)
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (segment_->host().sleepers.load(std::memory_order_relaxed) == 0) return;
  for (const auto& member : members_) {
    if (member.doorbell->sleepers.load(std::memory_order_relaxed) != 0)
      segment_->wake(*member.doorbell);
  }
}

}  // namespace tutti::transport
