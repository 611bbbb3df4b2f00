#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>

#include "base/shape.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t guard = 64;
constexpr std::byte poison{0xA5};

bool is_16_bit(Type type) {
  return type == Type::f16 || type == Type::bf16;
}

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::i8:
      return MPI_INT8_T;
    case Type::i16:
      return MPI_INT16_T;
    case Type::u16:
      return MPI_UINT16_T;
    case Type::boolean:
      return MPI_C_BOOL;
    case Type::c64:
      return MPI_C_FLOAT_COMPLEX;
    case Type::c128:
      return MPI_C_DOUBLE_COMPLEX;
    case Type::i32:
      return MPI_INT32_T;
    case Type::u32:
      return MPI_UINT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u64:
      return MPI_UINT64_T;
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    case Type::f16:
    case Type::bf16:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

MPI_Op mpi_operator(Type type, Operator op) {
  // MPI has the logical operators only for bool.
  if (type == Type::boolean) {
    if (op == Operator::sum || op == Operator::max || op == Operator::bit_or) return MPI_LOR;
    if (op == Operator::product || op == Operator::min || op == Operator::bit_and) return MPI_LAND;
    if (op == Operator::bit_xor) return MPI_LXOR;
  }
  switch (op) {
    case Operator::logical_and:
      return MPI_LAND;
    case Operator::logical_or:
      return MPI_LOR;
    case Operator::logical_xor:
      return MPI_LXOR;
    case Operator::product:
      return MPI_PROD;
    case Operator::min:
      return MPI_MIN;
    case Operator::max:
      return MPI_MAX;
    case Operator::bit_and:
      return MPI_BAND;
    case Operator::bit_or:
      return MPI_BOR;
    case Operator::bit_xor:
      return MPI_BXOR;
    default:
      return MPI_SUM;
  }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Values whose sums and products are exact in any order, so MPI's order does not matter: small
/// integers, or powers of two for a product.
double exact_value(std::uint64_t bits, Type type, Operator op) {
  if (op == Operator::product)
    return std::ldexp((bits & 8U) != 0 ? -1 : 1, static_cast<int>(bits % 3) - 1);
  // For 16-bit floats up to the largest exact integer, so that sums are rounded.
  const std::int64_t most = type == Type::f16 ? 2047 : 127;
  return static_cast<double>(static_cast<std::int64_t>(bits % (2 * most + 1)) - most);
}

std::uint16_t half_of(double value) {
  // Integers up to 2048 and small powers of two are exact.
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<unsigned>(std::lround((fraction * 2 - 1) * 1024));
  return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) |
                                    static_cast<unsigned>(exponent - 1 + 15) << 10 | mantissa);
}
double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}
double value_of_bfloat(std::uint16_t bits) {
  const auto wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}
std::uint16_t bfloat_of(double value) {
  // Values with up to 8 significant bits are exact.
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}
double value_of(Type type, const std::byte* at) {
  const auto bits = load<std::uint16_t>(at);
  return type == Type::f16 ? value_of_half(bits) : value_of_bfloat(bits);
}

/// Values whose reduction over 8 ranks fits into 8 bits.
std::uint64_t small_bits(std::uint64_t bits, Type type, Operator op) {
  const bool is_signed = type == Type::i8 || type == Type::i16;
  if (op == Operator::product) {
    return is_signed ? ((bits & 1U) != 0 ? ~std::uint64_t{0} : 1U) : bits & 1U;
  }
  if (op != Operator::sum) return bits;
  return is_signed ? bits % 31 - 15 : bits % 31;
}

/// Of a rank in a premultiplied sum; products with it are exact.
double factor_of(int rank) {
  constexpr std::array factors{1.0, -0.5, 2.0};
  return factors[static_cast<std::size_t>(rank) % factors.size()];
}

/// Multiplies f32 or f64.
void multiply(std::span<std::byte> bytes, Type part, double factor) {
  for (std::size_t at = 0; at < bytes.size(); at += size_of(part)) {
    auto* const to = bytes.data() + at;
    if (part == Type::f32) {
      store(to, load<float>(to) * static_cast<float>(factor));
    } else {
      store(to, load<double>(to) * factor);
    }
  }
}

/// The sign of a zero part of a complex product depends on the order of the factors.
bool same_parts(Type part, const std::byte* a, const std::byte* b) {
  const auto bytes = size_of(part);
  if (part == Type::f32) {
    return load<float>(a) == load<float>(b) && load<float>(a + bytes) == load<float>(b + bytes);
  }
  return load<double>(a) == load<double>(b) && load<double>(a + bytes) == load<double>(b + bytes);
}

void store_value(std::byte* to, Type type, std::uint64_t bits, Operator op, bool reduces) {
  switch (type) {
    case Type::f32:
      return store(to, static_cast<float>(exact_value(bits, type, op)));
    case Type::f64:
      return store(to, exact_value(bits, type, op));
    case Type::f16:
      return store(to, half_of(exact_value(bits, type, op)));
    case Type::bf16:
      return store(to, bfloat_of(exact_value(bits, type, op)));
    case Type::c64:
    case Type::c128: {
      const auto part = part_of(type);
      const auto real = bits & 0xFFFFFFFFU;
      store_value(to, part, real, op, reduces);
      return store_value(to + size_of(part), part, bits >> 32, op, reduces);
    }
    case Type::boolean:
      return store(to, (bits & 1U) != 0);
    default:
      break;
  }
  // Both truth values.
  const bool is_logical = op >= Operator::logical_and && op <= Operator::logical_xor;
  if (reduces && is_logical && (bits & 1U) != 0) bits = 0;
  // A wrapped sum does not depend on the order, but its average is meaningless.
  if (reduces && op == Operator::average) bits %= 16;
  // Open MPI's vector code saturates sums of 8 and 16 bits; tutti and Open MPI's scalar code wrap
  // around. Overflows are not compared.
  if (reduces && size_of(type) <= 2) bits = small_bits(bits, type, op);
  std::memcpy(to, &bits, size_of(type));
}

int checked_int(std::size_t value) {
  return static_cast<int>(value);  // counts are small
}

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

void Comparison::run_theirs() {
  const auto elements = sides().recv;
  const bool in_f64 = is_16_bit(case_.type) && shape_of(case_.operation).reduces;
  if (!in_f64) {
    expected_.assign(elements * size_of(case_.type), poison);
    auto input = input_;
    if (multiplies()) multiply(input, part_of(case_.type), factor_of(rank_));
    run_their_collective(input.data(), expected_.data());
    return;
  }
  // MPI has no 16-bit floats. The reference is MPI's reduction of the same values in f64.
  const auto sent = input_.size() / 2;
  std::vector<double> wide(sent);
  const double factor = multiplies() ? factor_of(rank_) : 1;
  for (std::size_t i = 0; i < sent; ++i) {
    wide[i] = value_of(case_.type, input_.data() + 2 * i) * factor;
  }
  expected_.assign(elements * sizeof(double), poison);
  const auto type = case_.type;
  case_.type = Type::f64;
  run_their_collective(wide.data(), expected_.data());
  case_.type = type;
}

void Comparison::run_their_collective(const void* send, void* recv) {
  const auto type = mpi_type(case_.type);
  const auto op = mpi_operator(case_.type, case_.op);
  const auto comm = pair_.theirs;
  const int root = case_.root;
  const int count = checked_int(block(rank_));
  std::vector<int> counts;
  std::vector<int> places;
  std::vector<int> alike;
  std::vector<int> alike_places;
  for (int rank = 0; rank < size_; ++rank) {
    counts.push_back(checked_int(block(rank)));
    places.push_back(checked_int(begin_of(rank)));
    alike.push_back(count);
    alike_places.push_back(checked_int(recv_places_.begins[static_cast<std::size_t>(rank)]));
  }
  switch (case_.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
      if (rank_ == root) std::memcpy(recv, send, input_.size());
      MPI_Bcast(recv, count, type, root, comm);
      break;
    case Operation::all_reduce:
      MPI_Allreduce(send, recv, count, type, op, comm);
      break;
    case Operation::reduce:
      MPI_Reduce(send, recv, count, type, op, root, comm);
      break;
    case Operation::scan:
      MPI_Scan(send, recv, count, type, op, comm);
      break;
    case Operation::exclusive_scan:
      MPI_Exscan(send, recv, count, type, op, comm);
      break;
    case Operation::all_gather:
    case Operation::all_gather_v:
      MPI_Allgatherv(send, count, type, recv, counts.data(), places.data(), type, comm);
      break;
    case Operation::gather:
    case Operation::gather_v:
      MPI_Gatherv(send, count, type, recv, counts.data(), places.data(), type, root, comm);
      break;
    case Operation::scatter:
    case Operation::scatter_v:
      MPI_Scatterv(send, counts.data(), places.data(), type, recv, count, type, root, comm);
      break;
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      MPI_Reduce_scatter(send, recv, counts.data(), type, op, comm);
      break;
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      MPI_Alltoallv(send, counts.data(), places.data(), type, recv, alike.data(),
                    alike_places.data(), type, comm);
      break;
    default:
      MPI_Barrier(comm);
  }
  if (case_.op != Operator::average || !shape_of(case_.operation).reduces) return;
  const auto elements = sides().recv;
  auto* const at = static_cast<std::byte*>(recv);
  const auto part = part_of(case_.type);
  const auto parts = elements * size_of(case_.type) / size_of(part);
  for (std::size_t i = 0; i < parts; ++i) {
    switch (part) {
      case Type::f32:
        store(at + 4 * i, load<float>(at + 4 * i) / static_cast<float>(size_));
        break;
      case Type::f64:
        store(at + 8 * i, load<double>(at + 8 * i) / size_);
        break;
      default: {
        // Below 128 in every type: sums of up to 8 numbers below 16.
        std::uint64_t value = 0;
        std::memcpy(&value, at + i * size_of(case_.type), size_of(case_.type));
        value /= static_cast<std::uint64_t>(size_);
        std::memcpy(at + i * size_of(case_.type), &value, size_of(case_.type));
      }
    }
  }
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
