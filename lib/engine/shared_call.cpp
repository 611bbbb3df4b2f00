#include "engine/shared_call.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {
namespace {

// Up to this size each rank combines the whole vector: ranks synchronize once instead of twice, and
// each reads more bytes.
constexpr std::size_t combined_by_all_bytes = std::size_t{16} << 10;
// Maximum chunks per advance(), so that the engine checks other work between.
constexpr int chunks_at_once = 32;
// Between a root and the others data moves one way. Short chunks let both sides copy concurrently,
// but each chunk costs a synchronization.
constexpr std::size_t chunks_one_way = 8;
constexpr std::size_t min_one_way_bytes = std::size_t{16} << 10;
// An exporting rank waits for its readers: below this size a copy is cheaper.
constexpr std::size_t min_exported_bytes = std::size_t{32} << 10;

bool is_single_copied(const SharedCall::Plan& plan, Operation operation) {
  return plan.where == SharedCall::Where::ring && plan.unit_bytes >= min_single_copy_bytes &&
         SingleCopyChoice::covers(operation);
}

}  // namespace

SharedCall::SharedCall(transport::CollectiveChannel& channel, const SharedArguments& arguments,
                       const Plan& plan, CopyChoices& copies)
    : channel_(&channel),
      arguments_(arguments),
      copies_(&copies),
      plan_(plan),
      chunks_(channel, plan.chunks, arguments.fingerprint) {
  if (plan.put == Put::nothing) put_chunks_ = plan.chunks;
  if (plan.combine == Combine::nothing) combined_chunks_ = plan.chunks;
  if (plan.get == Get::nothing) got_chunks_ = plan.chunks;
  member_ = next(channel.rank());
}

SharedCall::Plan SharedCall::plan(const transport::CollectiveChannel& channel,
                                  const SharedArguments& arguments) {
  Plan plan;
  const bool is_root = arguments.root == channel.rank();
  const auto size = static_cast<std::size_t>(channel.size());
  plan.unit_bytes = arguments.count * arguments.element_bytes;
  plan.input_bytes = plan.unit_bytes;
  plan.width = channel.published_bytes();
  std::size_t contributions = 1;
  switch (arguments.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
      plan.put = is_root ? Put::whole : Put::nothing;
      plan.get = is_root ? Get::nothing : Get::root_whole;
      break;
    case Operation::all_reduce:
      if (plan.unit_bytes * size <= 2 * combined_by_all_bytes && plan.unit_bytes <= plan.width) {
        plan.put = Put::whole;
        plan.combine = Combine::whole;
      } else {
        plan.put = Put::slices;
        plan.combine = Combine::slice;
        plan.get = Get::slices;
      }
      break;
    case Operation::scan:
    case Operation::exclusive_scan:
      plan.put = Put::whole;
      plan.combine = Combine::prefix;
      break;
    case Operation::reduce:
      plan.put = is_root ? Put::nothing : Put::whole;
      plan.combine = is_root ? Combine::whole : Combine::nothing;
      break;
    case Operation::reduce_scatter:
      plan.put = Put::blocks;
      plan.combine = Combine::block;
      break;
    case Operation::all_gather:
      plan.put = Put::whole;
      plan.get = Get::all_whole;
      break;
    case Operation::gather:
      plan.put = is_root ? Put::nothing : Put::whole;
      plan.get = is_root ? Get::all_whole : Get::nothing;
      break;
    case Operation::scatter:
      plan.put = is_root ? Put::blocks : Put::nothing;
      plan.get = is_root ? Get::nothing : Get::root_block;
      contributions = size;
      break;
    case Operation::all_to_all:
      plan.put = Put::blocks;
      plan.get = Get::all_blocks;
      break;
    default:  // a barrier
      plan.put = Put::signal;
      plan.combine = Combine::await;
      plan.chunks = 1;
      plan.where = Where::slot;
      return plan;
  }
  const bool has_blocks = arguments.operation == Operation::scatter ||
                          arguments.operation == Operation::all_to_all ||
                          arguments.operation == Operation::reduce_scatter;
  if (has_blocks) plan.input_bytes = plan.unit_bytes * size;
  if (arguments.root >= 0) {
    plan.width = std::clamp(plan.input_bytes / chunks_one_way / line * line, min_one_way_bytes,
                            plan.width / 2);
  }
  if (has_blocks) {
    plan.width = plan.width / size / line * line;
    contributions = size;
  }
  plan.chunks = plan.unit_bytes <= plan.width ? (plan.unit_bytes != 0 ? 1 : 0)
                                              : (plan.unit_bytes - 1) / plan.width + 1;
  plan.stride = std::min(plan.unit_bytes, plan.width);
  const auto bytes = plan.stride * contributions;
  // Results use the ring, beside the data, and the slot holds their location.
  const bool has_results = plan.combine == Combine::slice;
  if (plan.chunks <= 1 && bytes < page_bytes && !has_results) {
    plan.where = bytes <= transport::inline_bytes ? Where::slot : Where::page;
  }
  return plan;
}

/// Exports this rank's zero-copy buffers instead of copying them.
void SharedCall::choose_export() {
  if (plan_.where != Where::ring || plan_.unit_bytes < min_exported_bytes ||
      !channel_->all_can_read_heaps())
    return;
  const auto& heap = channel_->segment().heap();
  if (plan_.put != Put::nothing && !overwrites_input()) {
    exported_input_ = heap.offset_of(arguments_.input, plan_.input_bytes);
  }
  if (plan_.combine == Combine::slice)
    exported_output_ = heap.offset_of(arguments_.output, plan_.unit_bytes);
}

/// In all other operations the readers are done before a rank overwrites its input.
bool SharedCall::overwrites_input() const {
  return (arguments_.operation == Operation::all_to_all || plan_.combine == Combine::prefix) &&
         arguments_.input < arguments_.output + plan_.input_bytes &&
         arguments_.output < arguments_.input + plan_.input_bytes;
}

/// Publishes the address of this rank's buffer instead of copying it.
void SharedCall::choose_single_copy() {
  if (!is_single_copied(plan_, arguments_.operation)) return;
  const auto& kernel = channel_->segment().single_copy();
  // All ranks count all calls, whether they publish or not.
  const auto calls_through_ring = channel_->max_ring_bytes() / plan_.input_bytes;
  const bool single = (copies_->single.next({arguments_.operation, plan_.unit_bytes},
                                            channel_->boards(), calls_through_ring) ||
                       kernel.is_forced()) &&
                      channel_->is_read_by_all();
  publishes_address_ = single && plan_.put != Put::nothing && !exported_input_ &&
                       !overwrites_input() && is_input_readable();
  expects_addresses_ = single && plan_.put == Put::nothing;
}

/// Asks the kernel once for each buffer.
bool SharedCall::is_input_readable() const {
  const auto bytes = plan_.input_bytes;
  if (copies_->readable == arguments_.input && copies_->readable_bytes == bytes) return true;
  if (!channel_->segment().single_copy().is_readable(arguments_.input, bytes)) return false;
  copies_->readable = arguments_.input;
  copies_->readable_bytes = bytes;
  return true;
}

/// Streaming stores do not pay for pieces of a few cache lines.
bool SharedCall::chooses_copies() const {
  constexpr std::size_t min_width = 4096;
  return plan_.unit_bytes >= CopyChoice::min_bytes && plan_.width >= min_width;
}

void SharedCall::begin() {
  begun_ = true;
  choose_export();
  choose_single_copy();
  if (plan_.where == Where::ring && plan_.put != Put::nothing) {
    const auto bytes = bytes_of(0);
    if (bytes.data + bytes.result > 0) channel_->grow();
  }
  // Only now, when all earlier calls of the channel are over: measurements must not overlap.
  if (chooses_copies()) {
    if (!publishes_address_ && !expects_addresses_)
      streaming_ = copies_->stores.next({arguments_.operation, is_root(), plan_.unit_bytes});
    begun_at_ = std::chrono::steady_clock::now();
  }
  // A rank that reads nothing publishes so now: the others wait for it before they reuse a buffer.
  if (plan_.get == Get::nothing && plan_.combine == Combine::nothing && plan_.chunks != 0)
    publish_read(plan_.chunks);
}

void SharedCall::finish() {
  done_ = true;
  copy_own_block();
  finish_streaming_copies();
  if (chooses_copies()) {
    const auto now = std::chrono::steady_clock::now();
    if (!publishes_address_ && !expects_addresses_ && !has_read_addresses_) {
      copies_->stores.took({arguments_.operation, is_root(), plan_.unit_bytes}, streaming_,
                           now - begun_at_);
    }
    if (is_single_copied(plan_, arguments_.operation)) {
      copies_->single.took({arguments_.operation, plan_.unit_bytes}, begun_at_, now,
                           channel_->self().region->times);
    }
  }
  chunks_.finish();
}

bool SharedCall::is_over() {
  if (put_chunks_ != plan_.chunks || combined_chunks_ != plan_.chunks ||
      got_chunks_ != plan_.chunks)
    return false;
  if (!exports()) return true;
  // The other ranks read the caller's own memory.
  for (int m = 0; m < channel_->size(); ++m) {
    if (reads_exported(m) && !chunks_.has_released_all(m)) return false;
  }
  return true;
}

bool SharedCall::reads_exported(int member) const {
  const bool by_root_only =
      arguments_.operation == Operation::reduce || arguments_.operation == Operation::gather;
  return member != channel_->rank() && (!by_root_only || member == arguments_.root);
}

SharedCall::Progress SharedCall::advance() {
  const auto progress = move_chunks();
  if (std::exchange(notify_is_due_, false)) channel_->notify();
  return progress;
}

SharedCall::Progress SharedCall::move_chunks() {
  if (done_) return Progress::done;
  if (!begun_) begin();
  bool moved = false;
  for (int i = 0; i < chunks_at_once; ++i) {
    bool now = false;
    // Oldest data first: the cache evicts it soonest.
    if (got_chunks_ < std::min(put_chunks_, combined_chunks_)) now |= try_get();
    if (combined_chunks_ < put_chunks_) now |= try_combine();
    if (put_chunks_ < plan_.chunks) now |= try_put();
    if (is_over()) {
      finish();
      return Progress::done;
    }
    if (!now) return moved ? Progress::moved : Progress::blocked;
    moved = true;
  }
  return Progress::moved;
}

/// The number of chunks that all ranks must have read before the next put.
std::uint64_t SharedCall::reads_before_put() const {
  const auto number = chunks_.number(put_chunks_);
  if (plan_.where == Where::slot) return transport::CollectiveChannel::reads_before_slot(number);
  if (plan_.where == Where::page) return transport::CollectiveChannel::reads_before_page(number);
  const auto bytes = bytes_of(put_chunks_);
  return channel_->next_span(number, bytes.data + bytes.result).reads_before;
}

bool SharedCall::awaits(int member) {
  // Before it has begun, its buffer needs are unknown.
  if (!begun_ || member == channel_->rank()) return false;
  const auto& part = *channel_->member(member).region;
  bool waits = put_chunks_ < plan_.chunks &&
               part.read.value.load(std::memory_order_acquire) < reads_before_put();
  if (combined_chunks_ < put_chunks_) waits |= !chunks_.has_published(member, combined_chunks_);
  if (got_chunks_ < std::min(put_chunks_, combined_chunks_)) {
    const bool from_root = plan_.get == Get::root_whole || plan_.get == Get::root_block;
    if (plan_.get == Get::slices) {
      waits |= part.reduced.value.load(std::memory_order_acquire) < chunks_.number(got_chunks_ + 1);
    } else if (!from_root || member == arguments_.root) {
      waits |= !chunks_.has_published(member, got_chunks_);
    }
  } else if (combined_chunks_ == plan_.chunks && got_chunks_ == plan_.chunks && exports()) {
    waits |= reads_exported(member) && !chunks_.has_released_all(member);
  }
  return waits;
}

}  // namespace tutti::engine
