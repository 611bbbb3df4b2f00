#include "engine/shared_call.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {
namespace {

constexpr std::size_t line = 64;
// Up to here each rank combines everything by itself: one meeting of the ranks instead of two, for
// more bytes that each of them reads.
constexpr std::size_t combined_by_all_bytes = std::size_t{16} << 10;
// Rounds that advance() moves at most before it looks around.
constexpr int rounds_at_once = 32;
// Between a root and the others data goes one way, so rounds are short enough for both sides to
// copy at once; but each costs a look at the other.
constexpr std::size_t rounds_one_way = 8;
constexpr std::size_t least_one_way_bytes = std::size_t{16} << 10;
// Who lends must wait for the readers: of less, a copy is cheaper.
constexpr std::size_t least_lent_bytes = std::size_t{32} << 10;

}  // namespace

bool shareable(Operation operation) noexcept {
  switch (operation) {
    case Operation::barrier:
    case Operation::broadcast:
    case Operation::fan_out:
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return true;
    default:
      return false;
  }
}

SharedCall::SharedCall(transport::Room& room, const SharedProblem& problem, CopyChoice& copies)
    : room_(&room), problem_(problem), copies_(&copies), first_(room.next_round) {
  plan();
  room.next_round += rounds_;
  if (put_ == Put::nothing) put_rounds_ = rounds_;
  if (combine_ == Combine::nothing) combined_rounds_ = rounds_;
  if (get_ == Get::nothing) got_rounds_ = rounds_;
  member_ = next(room.rank());
}

void SharedCall::plan() {
  const auto size = static_cast<std::size_t>(room_->size());
  unit_bytes_ = problem_.count * problem_.element_bytes;
  input_bytes_ = unit_bytes_;
  width_ = room_->round_bytes();
  std::size_t contributions = 1;
  switch (problem_.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
      put_ = is_root() ? Put::whole : Put::nothing;
      get_ = is_root() ? Get::nothing : Get::root_whole;
      break;
    case Operation::all_reduce:
      if (unit_bytes_ * size <= 2 * combined_by_all_bytes && unit_bytes_ <= width_) {
        put_ = Put::whole;
        combine_ = Combine::whole;
      } else {
        put_ = Put::slices;
        combine_ = Combine::slice;
        get_ = Get::slices;
      }
      break;
    case Operation::reduce:
      put_ = is_root() ? Put::nothing : Put::whole;
      combine_ = is_root() ? Combine::whole : Combine::nothing;
      break;
    case Operation::reduce_scatter:
      put_ = Put::blocks;
      combine_ = Combine::block;
      break;
    case Operation::all_gather:
      put_ = Put::whole;
      get_ = Get::all_whole;
      break;
    case Operation::gather:
      put_ = is_root() ? Put::nothing : Put::whole;
      get_ = is_root() ? Get::all_whole : Get::nothing;
      break;
    case Operation::scatter:
      put_ = is_root() ? Put::blocks : Put::nothing;
      get_ = is_root() ? Get::nothing : Get::root_block;
      contributions = size;
      break;
    case Operation::all_to_all:
      put_ = Put::blocks;
      get_ = Get::all_blocks;
      break;
    default:  // a barrier
      put_ = Put::signal;
      combine_ = Combine::await;
      rounds_ = 1;
      where_ = Where::cell;
      return;
  }
  const bool has_blocks = problem_.operation == Operation::scatter ||
                          problem_.operation == Operation::all_to_all ||
                          problem_.operation == Operation::reduce_scatter;
  if (has_blocks) input_bytes_ = unit_bytes_ * size;
  if (problem_.root >= 0) {
    width_ =
        std::clamp(input_bytes_ / rounds_one_way / line * line, least_one_way_bytes, width_ / 2);
  }
  if (has_blocks) {
    width_ = width_ / size / line * line;
    contributions = size;
  }
  rounds_ = unit_bytes_ <= width_ ? (unit_bytes_ != 0 ? 1 : 0) : (unit_bytes_ - 1) / width_ + 1;
  stride_ = std::min(unit_bytes_, width_);
  const auto bytes = stride_ * contributions;
  if (rounds_ <= 1 && bytes < transport::page_bytes) {
    where_ = bytes <= transport::inline_bytes ? Where::cell : Where::page;
  }
}

/// Whether the others are to read what this rank has where it lies.
void SharedCall::choose_lending() {
  if (where_ != Where::ring || unit_bytes_ < least_lent_bytes || !room_->all_reach_heaps()) return;
  const auto& heap = room_->arena().heap();
  // All others are through with what a rank overwrites of its input, but in an all-to-all.
  const bool overwrites = problem_.operation == Operation::all_to_all &&
                          problem_.input < problem_.output + input_bytes_ &&
                          problem_.output < problem_.input + input_bytes_;
  if (put_ != Put::nothing && !overwrites) {
    lent_input_ = heap.offset_of(problem_.input, input_bytes_);
  }
  if (combine_ == Combine::slice) lent_output_ = heap.offset_of(problem_.output, unit_bytes_);
}

/// Pieces of a few lines are not worth it.
bool SharedCall::chooses_copies() const {
  constexpr std::size_t least_width = 4096;
  return unit_bytes_ >= CopyChoice::least_bytes && width_ >= least_width;
}

void SharedCall::begin() {
  begun_ = true;
  choose_lending();
  if (where_ == Where::ring && put_ != Put::nothing) room_->grow();
  // Here, and not before the calls before this one are over: one after the other.
  if (chooses_copies()) {
    streaming_ = copies_->next({problem_.operation, is_root(), unit_bytes_});
    begun_at_ = std::chrono::steady_clock::now();
  }
  // Who reads nothing says so now: the others wait for it before they use a place again.
  if (get_ == Get::nothing && combine_ == Combine::nothing && rounds_ != 0) say_read(rounds_);
}

void SharedCall::finish() {
  done_ = true;
  copy_own_block();
  finish_copies();
  if (chooses_copies()) {
    copies_->took({problem_.operation, is_root(), unit_bytes_}, streaming_,
                  std::chrono::steady_clock::now() - begun_at_);
  }
  // Later calls may be over by now where this one had no rounds.
  if (rounds_ != 0) room_->finished_rounds.store(first_ + rounds_, std::memory_order_release);
}

bool SharedCall::is_over() {
  if (put_rounds_ != rounds_ || combined_rounds_ != rounds_ || got_rounds_ != rounds_) return false;
  if (!lends()) return true;
  // The others read the caller's own memory.
  for (int m = 0; m < room_->size(); ++m) {
    if (reads_loans(m) && !has_read_all(room_->member(m))) return false;
  }
  return true;
}

bool SharedCall::reads_loans(int member) const {
  const bool by_root_only =
      problem_.operation == Operation::reduce || problem_.operation == Operation::gather;
  return member != room_->rank() && (!by_root_only || member == problem_.root);
}

bool SharedCall::has_read_all(transport::Room::Member& member) const {
  if (member.read < first_ + rounds_) {
    member.read = member.part->read.value.load(std::memory_order_acquire);
  }
  return member.read >= first_ + rounds_;
}

SharedCall::Progress SharedCall::advance() {
  const auto progress = move_rounds();
  if (std::exchange(ring_is_due_, false)) room_->ring();
  return progress;
}

SharedCall::Progress SharedCall::move_rounds() {
  if (done_) return Progress::done;
  if (!begun_) begin();
  bool moved = false;
  for (int i = 0; i < rounds_at_once; ++i) {
    bool now = false;
    // The oldest data first: it leaves the cache soonest.
    if (got_rounds_ < std::min(put_rounds_, combined_rounds_)) now |= try_get();
    if (combined_rounds_ < put_rounds_) now |= try_combine();
    if (put_rounds_ < rounds_) now |= try_put();
    if (is_over()) {
      finish();
      return Progress::done;
    }
    if (!now) return moved ? Progress::moved : Progress::blocked;
    moved = true;
  }
  return Progress::moved;
}

/// Rounds before this one must have been read before the next is put.
std::uint64_t SharedCall::put_needs() const {
  const auto number = first_ + put_rounds_;
  if (where_ == Where::cell) return transport::Room::cell_needs(number);
  if (where_ == Where::page) return transport::Room::page_needs(number);
  const auto bytes = bytes_of(put_rounds_);
  return room_->next_place(number, bytes.data + bytes.result).needed;
}

std::vector<int> SharedCall::awaited() {
  std::vector<int> result;
  const auto puts_wait = put_rounds_ < rounds_;
  const auto needed = puts_wait ? put_needs() : 0;
  for (int m = 0; m < room_->size(); ++m) {
    if (m == room_->rank()) continue;
    const auto& part = *room_->member(m).part;
    const auto read = part.read.value.load(std::memory_order_acquire);
    bool waits = read < needed;
    if (combined_rounds_ < put_rounds_) waits |= !has_put(m, combined_rounds_);
    if (got_rounds_ < std::min(put_rounds_, combined_rounds_)) {
      const bool from_root = get_ == Get::root_whole || get_ == Get::root_block;
      if (get_ == Get::slices) {
        waits |= part.reduced.value.load(std::memory_order_acquire) < first_ + got_rounds_ + 1;
      } else if (!from_root || m == problem_.root) {
        waits |= !has_put(m, got_rounds_);
      }
    } else if (combined_rounds_ == rounds_ && got_rounds_ == rounds_ && lends()) {
      waits |= reads_loans(m) && !has_read_all(room_->member(m));
    }
    if (waits) result.push_back(m);
  }
  return result;
}

}  // namespace tutti::engine
