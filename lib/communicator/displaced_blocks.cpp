#include "displaced_blocks.hpp"

#include <cstring>
#include <numeric>
#include <utility>

#include "base/shape.hpp"

namespace tutti {
namespace {

/// Blocks of one of the user's buffers, in bytes.
class Displaced {
 public:
  Displaced(std::span<const std::size_t> counts, std::span<const std::size_t> begins,
            std::size_t element_bytes)
      : counts_(counts), begins_(begins), element_bytes_(element_bytes) {}

  [[nodiscard]] std::size_t bytes() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0}) * element_bytes_;
  }
  /// Calls visit(packed_begin, begin, bytes) of each block that is not empty.
  template <class Visit>
  void for_each(Visit visit) const {
    std::size_t packed = 0;
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
      const auto bytes = counts_[rank] * element_bytes_;
      if (bytes > 0) visit(packed, begins_[rank] * element_bytes_, bytes);
      packed += bytes;
    }
  }

 private:
  std::span<const std::size_t> counts_;
  std::span<const std::size_t> begins_;
  std::size_t element_bytes_;
};

}  // namespace

bool is_displaced(const CheckedCollective& call) {
  return !call.displacements.empty() || !call.recv_displacements.empty();
}

CheckedCollective packed(const CheckedCollective& call, int rank, engine::Task& task) {
  const auto element_bytes = size_of(call.type);
  const auto& shape = shape_of(call.operation);
  const bool is_all_to_all = call.operation == Operation::all_to_all_v;
  const bool sends_displaced = shape.send == Extent::all && !call.displacements.empty();
  const auto recv_begins = is_all_to_all               ? call.recv_displacements
                           : shape.recv == Extent::all ? call.displacements
                                                       : std::span<const std::size_t>();
  const Displaced sent(call.counts, call.displacements, element_bytes);
  const Displaced received(is_all_to_all ? call.recv_counts : call.counts, recv_begins,
                           element_bytes);
  const auto sent_bytes = sends_displaced ? sent.bytes() : 0;
  task.packed.resize(sent_bytes + (recv_begins.empty() ? 0 : received.bytes()));

  auto result = call;
  result.displacements = {};
  result.recv_displacements = {};
  if (sends_displaced) {
    sent.for_each([&](std::size_t to, std::size_t from, std::size_t bytes) {
      std::memcpy(task.packed.data() + to, static_cast<const std::byte*>(call.send) + from, bytes);
    });
    result.send = task.packed.data();
    // In place, the root's own block is copied onto itself.
    result.in_place = false;
  }
  if (recv_begins.empty()) return result;
  auto* const memory = task.packed.data() + sent_bytes;
  engine::Task::Unpacking unpacking{
      .from = memory, .to = static_cast<std::byte*>(call.recv), .blocks = {}};
  received.for_each([&](std::size_t from, std::size_t to, std::size_t bytes) {
    unpacking.blocks.push_back({from, to, bytes});
  });
  task.work.unpacking = std::move(unpacking);
  result.recv = memory;
  if (call.in_place) {
    const auto own = call.counts.begin() + rank;
    auto* const block =
        memory + std::accumulate(call.counts.begin(), own, std::size_t{0}) * element_bytes;
    if (*own > 0) std::memcpy(block, call.send, *own * element_bytes);
    result.send = block;
  }
  return result;
}

}  // namespace tutti
