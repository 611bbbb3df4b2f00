#include "nccl_queue.hpp"

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "device/nccl_numbers.hpp"

namespace tutti::device {

/// A buffer of blocks, in rank order without gaps if there are no displacements.
struct NcclQueue::Blocks {
  std::byte* memory = nullptr;
  std::size_t element_bytes = 1;
  std::size_t count = 0;  ///< elements of each block if `counts` is empty
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> displacements = {};

  [[nodiscard]] std::size_t count_of(int rank) const {
    return counts.empty() ? count : counts[static_cast<std::size_t>(rank)];
  }
  /// Of a block that begins at `next` if there are no displacements.
  [[nodiscard]] std::byte* address_of(int rank, std::byte* next) const {
    if (displacements.empty()) return next;
    return memory + displacements[static_cast<std::size_t>(rank)] * element_bytes;
  }
};

/// Blocks to send and to receive, by peer.
struct NcclQueue::Parts {
  Blocks send;
  Blocks recv;
  int type = 0;
  bool one_to_all = false;  ///< the send buffer is one block, for every peer
  int only_to = -1;         ///< or for this one only
  int only_from = -1;       ///< only this rank sends
  bool to_self = false;     ///< copy this rank's block from send to recv
  bool sends = false;
  bool receives = false;
  CudaStream stream = nullptr;
};

namespace {

std::byte* writable(const void* memory) {
  return static_cast<std::byte*>(const_cast<void*>(memory));
}

std::vector<std::size_t> twice(std::span<const std::size_t> counts) {
  std::vector<std::size_t> result(counts.begin(), counts.end());
  for (auto& count : result) count *= 2;
  return result;
}

/// `number` as an element of a float type.
std::array<std::byte, 8> element_of(Type type, double number) {
  std::array<std::byte, 8> element{};
  const auto encode = [&element](auto value) {
    std::memcpy(element.data(), &value, sizeof value);
    return element;
  };
  const auto narrow = static_cast<float>(number);
  if (type == Type::f16) return encode(half(narrow));
  if (type == Type::bf16) return encode(bfloat16(narrow));
  return type == Type::f32 ? encode(narrow) : encode(number);
}

}  // namespace

/// With one rank the average is its own contribution; NCCL refuses to divide some types by 1.
int NcclQueue::operator_of(const CheckedCollective& call) const {
  const bool is_alone = target_.size == 1 && call.op == Operator::average;
  return nccl_operator(call.type, is_alone ? Operator::sum : call.op).value_or(0);
}

template <class Action>
NcclResult NcclQueue::grouped(Action action) const {
  const auto start = nccl_.group_start();
  if (start != nccl_success) return start;
  const NcclResult result = action();
  // End the group in any case, or every later call would be part of it.
  const auto end = nccl_.group_end();
  return result != nccl_success ? result : end;
}

NcclResult NcclQueue::collective(const CheckedCollective& call, CudaStream stream) const {
  if (part_of(call.type) != call.type) {
    const auto counts = twice(call.counts);
    const auto recv_counts = twice(call.recv_counts);
    const auto displacements = twice(call.displacements);
    const auto recv_displacements = twice(call.recv_displacements);
    auto parts = call;
    parts.type = part_of(call.type);
    parts.count *= 2;
    parts.counts = counts;
    parts.recv_counts = recv_counts;
    parts.displacements = displacements;
    parts.recv_displacements = recv_displacements;
    return collective(parts, stream);
  }
  if (call.op == Operator::premultiplied_sum) return premultiplied(call, stream);
  return collective(call, operator_of(call), stream);
}

NcclResult NcclQueue::premultiplied(const CheckedCollective& call, CudaStream stream) const {
  int op = 0;
  auto factor = element_of(call.type, call.factor);
  const auto made = nccl_.create_premultiplied_sum(&op, factor.data(), nccl_type(call.type),
                                                   nccl_scalar_on_host, target_.comm);
  if (made != nccl_success) return made;
  const auto result = collective(call, op, stream);
  const auto destroyed = nccl_.destroy_operator(op, target_.comm);
  return result != nccl_success ? result : destroyed;
}

NcclResult NcclQueue::collective(const CheckedCollective& call, int op, CudaStream stream) const {
  auto* const comm = target_.comm;
  const auto count = call.count;
  switch (call.operation) {
    case Operation::barrier:
      return nccl_.all_reduce(target_.token, target_.token, 1, nccl_type(Type::u8),
                              *nccl_operator(Type::u8, Operator::max), comm, stream);
    case Operation::broadcast:
      if (count == 0) return nccl_success;
      return nccl_.broadcast(call.recv, call.recv, count, nccl_moved_type(call.type), call.root,
                             comm, stream);
    case Operation::all_reduce:
      if (count == 0) return nccl_success;
      return nccl_.all_reduce(call.send, call.recv, count, nccl_type(call.type), op, comm, stream);
    case Operation::reduce:
      if (count == 0) return nccl_success;
      return nccl_.reduce(call.send, call.recv, count, nccl_type(call.type), op, call.root, comm,
                          stream);
    case Operation::all_gather:
      if (count == 0) return nccl_success;
      return nccl_.all_gather(call.send, call.recv, count, nccl_moved_type(call.type), comm,
                              stream);
    case Operation::reduce_scatter:
      if (count == 0) return nccl_success;
      return nccl_.reduce_scatter(call.send, call.recv, count, nccl_type(call.type), op, comm,
                                  stream);
    case Operation::reduce_scatter_v:
      return reduce_scatter_v(call, op, stream);
    case Operation::fan_out:
      // A group of one call costs more than the call.
      if (count == 0) return nccl_success;
      if (target_.rank != call.root) {
        return nccl_.recv(call.recv, count, nccl_moved_type(call.type), call.root, comm, stream);
      }
      if (target_.size == 2) {
        return nccl_.send(call.recv, count, nccl_moved_type(call.type), 1 - target_.rank, comm,
                          stream);
      }
      return exchange(call, stream);
    default:
      return exchange(call, stream);
  }
}

/// Operations composed of sends and receives.
NcclResult NcclQueue::exchange(const CheckedCollective& call, CudaStream stream) const {
  const auto bytes = size_of(call.type);
  const bool is_root = call.root == target_.rank;
  Parts parts{.send = {writable(call.send), bytes, call.count, call.counts},
              .recv = {writable(call.recv), bytes, call.count, call.counts},
              .type = nccl_moved_type(call.type),
              .to_self = !call.in_place,
              .stream = stream};
  switch (call.operation) {
    case Operation::fan_out:
      parts.send.memory = parts.recv.memory;
      parts.one_to_all = true;
      parts.only_from = call.root;
      parts.sends = is_root;
      parts.receives = !is_root;
      parts.to_self = false;
      break;
    case Operation::all_gather_v:
      parts.recv.displacements = call.displacements;
      parts.one_to_all = true;
      parts.sends = parts.receives = true;
      break;
    case Operation::gather:
    case Operation::gather_v:
      // Only the root knows all counts; other ranks send their own block.
      parts.recv.displacements = call.displacements;
      parts.one_to_all = true;
      parts.only_to = call.root;
      parts.sends = true;
      parts.receives = is_root;
      break;
    case Operation::scatter:
    case Operation::scatter_v:
      parts.send.displacements = call.displacements;
      parts.only_from = call.root;
      parts.sends = is_root;
      parts.receives = true;
      break;
    case Operation::all_to_all_v:
      parts.recv.counts = call.recv_counts;
      parts.send.displacements = call.displacements;
      parts.recv.displacements = call.recv_displacements;
      parts.sends = parts.receives = true;
      break;
    default:  // all_to_all
      parts.sends = parts.receives = true;
      break;
  }
  if (parts.one_to_all) parts.send.count = call.count;
  return exchange(parts);
}

NcclResult NcclQueue::exchange(const Parts& parts) const {
  return grouped([&] {
    auto* from = parts.send.memory;
    auto* to = parts.recv.memory;
    // A lone receiver has one block, at the begin of its buffer.
    const bool one_from_one = parts.only_from >= 0;
    for (int peer = 0; peer < target_.size; ++peer) {
      const auto sent = parts.one_to_all ? parts.send.count : parts.send.count_of(peer);
      const auto received = one_from_one ? parts.recv.count : parts.recv.count_of(peer);
      const bool allowed = peer != target_.rank || parts.to_self;
      const bool sends =
          parts.sends && allowed && sent > 0 && (parts.only_to < 0 || parts.only_to == peer);
      const bool receives =
          parts.receives && allowed && received > 0 && (!one_from_one || parts.only_from == peer);
      NcclResult result = nccl_success;
      if (sends) {
        result = nccl_.send(parts.send.address_of(peer, from), sent, parts.type, peer, target_.comm,
                            parts.stream);
      }
      if (receives && result == nccl_success) {
        result = nccl_.recv(parts.recv.address_of(peer, to), received, parts.type, peer,
                            target_.comm, parts.stream);
      }
      if (result != nccl_success) return result;
      if (parts.sends && !parts.one_to_all) from += sent * parts.send.element_bytes;
      if (parts.receives && !one_from_one) to += received * parts.recv.element_bytes;
    }
    return nccl_success;
  });
}

/// One reduce per rank, to that rank.
NcclResult NcclQueue::reduce_scatter_v(const CheckedCollective& call, int op,
                                       CudaStream stream) const {
  return grouped([&] {
    const auto* from = static_cast<const std::byte*>(call.send);
    for (int root = 0; root < target_.size; ++root) {
      const auto count = call.counts[static_cast<std::size_t>(root)];
      if (count == 0) continue;
      void* const to = root == target_.rank ? call.recv : nullptr;
      const auto result =
          nccl_.reduce(from, to, count, nccl_type(call.type), op, root, target_.comm, stream);
      if (result != nccl_success) return result;
      from += count * size_of(call.type);
    }
    return nccl_success;
  });
}

NcclResult NcclQueue::message(const Message& message, CudaStream stream) const {
  const auto type = nccl_moved_type(message.type);
  const std::size_t parts = part_of(message.type) != message.type ? 2 : 1;
  const auto send = [&] {
    // NCCL requires an address even for zero elements.
    const void* const from = message.send_count == 0 ? target_.token : message.send;
    return nccl_.send(from, parts * message.send_count, type, message.to, target_.comm, stream);
  };
  const auto recv = [&] {
    void* const to = message.recv_count == 0 ? target_.token : message.recv;
    return nccl_.recv(to, parts * message.recv_count, type, message.from, target_.comm, stream);
  };
  if (message.operation == Operation::send) return send();
  if (message.operation == Operation::recv) return recv();
  return grouped([&] {
    const auto sent = send();
    return sent != nccl_success ? sent : recv();
  });
}

NcclResult NcclQueue::messages(std::span<const Message> messages, CudaStream stream) const {
  return grouped([&] {
    for (const auto& one : messages) {
      if (const auto result = message(one, stream); result != nccl_success) return result;
    }
    return nccl_success;
  });
}

}  // namespace tutti::device
