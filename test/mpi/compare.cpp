#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <span>

#include "base/shape.hpp"
#include "values.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t guard = 64;

}  // namespace

std::string describe(const Case& one, int size) {
  return fmt::format("{} of {} {}, {}, root {}, {}{}{}at +{}, counts [{}], {} ranks, data seed {}",
                     name(one.operation), one.count, name(one.type), name(one.op), one.root,
                     one.in_place ? "in place, " : "", one.async ? "async, " : "",
                     one.displaced ? "displaced, " : "", one.offset, fmt::join(one.counts, " "),
                     size, one.seed);
}

bool comparable(Operation operation, Type type, Operator op) {
  return supported(Path::host, operation, type, op);
}

Comparison::Comparison(const Pair& pair, const Case& one)
    : pair_(pair), case_(one), rank_(pair.ours->rank()), size_(pair.ours->size()) {
  place_blocks();
  fill_input();
  run_theirs();
  run_ours();
}

std::size_t Comparison::block(int rank) const {
  return case_.counts.empty() ? case_.count : case_.counts[static_cast<std::size_t>(rank)];
}

void Comparison::place_blocks() {
  std::vector<std::size_t> order(static_cast<std::size_t>(size_));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(case_.seed + static_cast<std::uint64_t>(rank_));
  if (case_.displaced) std::shuffle(order.begin(), order.end(), random);
  for (const bool received : {false, true}) {
    auto& places = received ? recv_places_ : places_;
    places.begins.resize(order.size());
    for (const auto rank : order) {
      if (case_.displaced) places.end += random() % 4;
      places.begins[rank] = places.end;
      places.end += block(received ? rank_ : static_cast<int>(rank));
    }
    if (case_.displaced) places.end += random() % 4;
  }
}

Comparison::Sides Comparison::sides() const {
  const auto& shape = shape_of(case_.operation);
  const auto elements = [&](Extent extent) -> std::size_t {
    if (extent == Extent::none) return 0;
    return extent == Extent::one ? block(rank_) : places_.end;
  };
  Sides result{elements(shape.send), elements(shape.recv)};
  if (shape.send == Extent::none) result.send = result.recv;  // the root's buffer
  if (shape.send_at_root_only && rank_ != case_.root) result.send = 0;
  if (shape.recv_at_root_only && rank_ != case_.root) result.recv = 0;
  if (shape.exclusive && rank_ == 0) result.recv = 0;
  // Rank r receives counts[r] elements from each rank, so each of them sends this rank its own
  // count.
  if (case_.operation == Operation::all_to_all_v) {
    result.recv = recv_places_.end;
  }
  return result;
}

void Comparison::fill_input() {
  const auto bytes = size_of(case_.type);
  const auto elements = sides().send;
  const bool reduces = shape_of(case_.operation).reduces;
  input_.resize(elements * bytes);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = mix(case_.seed ^ mix(static_cast<std::uint64_t>(rank_) << 40 ^ i));
    store_value(input_.data() + i * bytes, case_.type, bits, case_.op, reduces);
  }
}

bool Comparison::multiplies() const {
  return case_.op == Operator::premultiplied_sum && shape_of(case_.operation).reduces;
}

Comparison::Memory Comparison::make_memory(std::size_t bytes, bool allocated) const {
  Memory memory;
  if (allocated) {
    memory.allocated = pair_.ours->allocate<std::byte>(bytes);
    memory.bytes = {memory.allocated.data(), bytes};
  } else {
    memory.own.resize(bytes);
    memory.bytes = memory.own;
  }
  std::fill(memory.bytes.begin(), memory.bytes.end(), poison);
  return memory;
}

void Comparison::run_ours() {
  const auto& shape = shape_of(case_.operation);
  const auto bytes = size_of(case_.type);
  const auto room = sides();
  const auto larger = std::max(room.send, room.recv);
  // Each rank decides independently whether its buffers are zero-copy.
  const auto draw = case_.seed >> (3 * rank_);
  send_ = make_memory(room.send * bytes + 2 * guard, draw % 3 == 0);
  recv_ = make_memory((case_.in_place ? larger : room.recv) * bytes + 2 * guard, draw % 2 == 0);
  send_at_ = send_.bytes.data() + guard / 2 + case_.offset;
  recv_at_ = recv_.bytes.data() + guard / 2 + case_.offset;
  std::memcpy(send_at_, input_.data(), input_.size());

  Collective call{.operation = case_.operation,
                  .type = case_.type,
                  .op = case_.op,
                  .factor = factor_of(rank_),
                  .root = case_.root,
                  .send = send_at_,
                  .send_count = room.send,
                  .recv = recv_at_,
                  .recv_count = room.recv};
  if (shape.send == Extent::none) {
    if (rank_ == case_.root) std::memcpy(recv_at_, input_.data(), input_.size());
    call.send = nullptr;
    call.send_count = 0;
  } else if (case_.in_place) {
    const bool can = shape.send == shape.recv || !shape.rooted || rank_ == case_.root;
    if (can) {
      const bool inner = shape.send == Extent::one && shape.recv == Extent::all;
      std::memcpy(recv_at_ + (inner ? begin_of(rank_) * bytes : 0), input_.data(), input_.size());
      call.in_place = true;
      call.send = nullptr;
      call.send_count = 0;
      call.recv_count = larger;
    }
  }
  if (shape.counts_differ) {
    call.counts = case_.counts;
    recv_counts_.assign(static_cast<std::size_t>(size_), block(rank_));
    if (case_.operation == Operation::all_to_all_v) call.recv_counts = recv_counts_;
    if (case_.displaced) call.displacements = places_.begins;
    if (case_.displaced && case_.operation == Operation::all_to_all_v) {
      call.recv_displacements = recv_places_.begins;
    }
  }
  if (case_.async) {
    work_ = pair_.ours->start(call);
  } else {
    pair_.ours->run(call);
  }
}

std::string Comparison::compare_bytes(const std::byte* ours, const std::byte* theirs,
                                      std::size_t elements, const char* what) const {
  const auto bytes = size_of(case_.type);
  for (std::size_t i = 0; i < elements * bytes; ++i) {
    if (ours[i] == theirs[i]) continue;
    const auto element = i / bytes * bytes;
    const auto part = part_of(case_.type);
    const bool is_product =
        case_.op == Operator::product && shape_of(case_.operation).reduces && part != case_.type;
    if (is_product && same_parts(part, ours + element, theirs + element)) continue;
    return fmt::format("rank {}: {} differs at element {}: {}", rank_, what, i / bytes,
                       describe(case_, size_));
  }
  return {};
}

/// One rounding: the error is at most half the distance to the next 16-bit value.
std::string Comparison::compare_16_bit(const std::byte* ours, std::size_t elements) const {
  const int digits = case_.type == Type::f16 ? 11 : 8;
  for (std::size_t i = 0; i < elements; ++i) {
    const double got = value_of(case_.type, ours + 2 * i);
    const double exact = load<double>(expected_.data() + 8 * i);
    int exponent = 0;
    std::frexp(exact, &exponent);
    const double half_step = std::ldexp(0.5, exponent - digits);
    if (std::fabs(got - exact) <= half_step * 1.001) continue;
    return fmt::format("rank {}: element {} is {} where {} is due: {}", rank_, i, got, exact,
                       describe(case_, size_));
  }
  return {};
}

std::string Comparison::finish() {
  work_.wait();
  const auto& shape = shape_of(case_.operation);
  const auto bytes = size_of(case_.type);
  const auto room = sides();
  const bool scattered_in_place =
      case_.in_place && shape.send == Extent::all && shape.recv == Extent::one;
  const bool in_larger = scattered_in_place && (!shape.rooted || rank_ == case_.root);
  const auto* const ours = recv_at_ + (in_larger ? begin_of(rank_) * bytes : 0);
  const bool in_f64 = is_16_bit(case_.type) && shape.reduces;
  auto fault = in_f64 ? compare_16_bit(ours, room.recv)
                      : compare_bytes(ours, expected_.data(), room.recv, "the result");
  if (fault.empty() && in_larger) {
    // The other blocks must be unchanged.
    const auto behind = begin_of(rank_) + block(rank_);
    fault = compare_bytes(recv_at_, input_.data(), begin_of(rank_), "a block before the result");
    if (fault.empty()) {
      fault = compare_bytes(recv_at_ + behind * bytes, input_.data() + behind * bytes,
                            room.send - behind, "a block after the result");
    }
  }
  if (fault.empty() && !case_.in_place && shape.send != Extent::none) {
    fault = compare_bytes(send_at_, input_.data(), room.send, "the input");
  }
  if (!fault.empty()) return fault;
  const auto used = case_.in_place ? recv_.bytes.size() - 2 * guard : room.recv * bytes;
  const auto before_it = recv_.bytes.first(guard / 2 + case_.offset);
  const auto after_it = recv_.bytes.subspan(guard / 2 + case_.offset + used);
  for (const auto part : {before_it, after_it}) {
    for (const auto byte : part) {
      if (byte != poison) {
        return fmt::format("rank {}: memory beside the receive buffer was written: {}", rank_,
                           describe(case_, size_));
      }
    }
  }
  return {};
}

}  // namespace tutti::test
