#include "pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "number.hpp"

namespace tutti::app {
namespace {

std::uint64_t splitmix64(std::uint64_t value) {
  // The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

/// `source` is a rank, or -1 for values that are the same on all ranks.
std::uint64_t random_bits(int source, std::size_t index) {
  return splitmix64(splitmix64(static_cast<std::uint64_t>(source)) ^ index);
}

/// A value in [-limit, limit].
std::int64_t between(std::uint64_t bits, std::uint64_t limit) {
  return static_cast<std::int64_t>(bits % (2 * limit + 1) - limit);
}

/// The operand of one rank in a reduction, as an integer.
class Contribution {
 public:
  Contribution(const CallSpec& spec, int rank) : spec_(spec), rank_(rank), op_(effective(spec)) {
    const auto ranks = static_cast<std::uint64_t>(spec.ranks);
    if (is_float(spec.type)) {
      max_ = std::uint64_t{1} << precision_of(spec.type);
    } else {
      max_ = UINT64_MAX >> (64 - precision_of(spec.type)) >> (is_signed(spec.type) ? 1 : 0);
    }
    if (op_ == Operator::premultiplied_sum) max_ /= max_factor;
    share_ = max_ / ranks;
  }

  [[nodiscard]] std::int64_t at(std::size_t index) const {
    if (is_complex(spec_.type)) return complex_at(index);
    return is_float(spec_.type) ? float_at(index) : wrapped(spec_.type, integer_at(index));
  }
  /// The largest absolute value of one rank's operand such that the sum stays exact.
  [[nodiscard]] std::uint64_t share() const { return share_; }

  /// Of bool, the bitwise operator that `spec.op` amounts to.
  [[nodiscard]] static Operator effective(const CallSpec& spec) {
    if (spec.type != Type::boolean) return spec.op;
    switch (spec.op) {
      case Operator::product:
      case Operator::min:
      case Operator::logical_and:
        return Operator::bit_and;
      case Operator::sum:
      case Operator::max:
      case Operator::logical_or:
        return Operator::bit_or;
      case Operator::logical_xor:
        return Operator::bit_xor;
      default:
        return spec.op;
    }
  }

 private:
  /// A factor of a product has one part: the product of all stays small.
  [[nodiscard]] std::int64_t complex_at(std::size_t index) const {
    if (op_ != Operator::product) return complex_of(float_at(2 * index), float_at(2 * index + 1));
    const auto operand = float_at(index);
    return (random_bits(rank_, index) & 4) != 0 ? complex_of(0, operand) : complex_of(operand, 0);
  }

  [[nodiscard]] std::int64_t float_at(std::size_t index) const {
    const auto bits = random_bits(rank_, index);
    switch (op_) {
      case Operator::min:
      case Operator::max:
        return between(bits, max_);
      case Operator::product:
        return product_operand(bits);
      case Operator::average:
        return average_operand(index);
      default:
        // With more ranks than exact integers, only the first max_ ranks contribute.
        if (share_ == 0 && static_cast<std::uint64_t>(rank_) >= max_) return 0;
        return between(bits, std::max<std::uint64_t>(share_, 1));
    }
  }

  /// A value in [-2, 2] without 0. At most six ranks contribute 2, so that the product fits into
  /// 8-bit floats.
  [[nodiscard]] std::int64_t product_operand(std::uint64_t bits) const {
    constexpr int doubling_ranks = 6;
    const int every = (spec_.ranks + doubling_ranks - 1) / doubling_ranks;
    const int magnitude = rank_ % every == 0 && (bits & 2) != 0 ? 2 : 1;
    return (bits & 1) != 0 ? magnitude : -magnitude;
  }

  /// Two neighbouring ranks differ from a common mean by the same amount, one above and one below.
  [[nodiscard]] std::int64_t average_operand(std::size_t index) const {
    if (share_ == 0) return 0;
    const auto mean_limit = std::max<std::uint64_t>(share_ / 2, 1);
    const auto mean = between(random_bits(-1, index), mean_limit);
    const bool is_single = rank_ == spec_.ranks - 1 && rank_ % 2 == 0;
    if (is_single) return mean;
    const auto apart = between(random_bits(rank_ / 2, index), share_ - mean_limit);
    return rank_ % 2 == 0 ? mean + apart : mean - apart;
  }

  [[nodiscard]] std::int64_t integer_at(std::size_t index) const {
    const auto bits = random_bits(rank_, index);
    // Over many ranks, uniform bits would reduce to all zeros by "and", and to all ones by "or".
    switch (op_) {
      case Operator::sum:
        return spec_.wraps ? static_cast<std::int64_t>(bits) : sum_operand(bits);
      case Operator::average:
        return sum_operand(bits);
      case Operator::product:
        return static_cast<std::int64_t>(bits | 1);
      case Operator::bit_and:
        return static_cast<std::int64_t>(mostly_ones(bits));
      case Operator::bit_or:
        return static_cast<std::int64_t>(mostly_zeros(bits));
      case Operator::logical_and:
        return truth(mostly_ones(bits), bits);
      case Operator::logical_or:
        return truth(mostly_zeros(bits), bits);
      case Operator::logical_xor:
        return truth(bits, bits >> 1);
      default:
        return static_cast<std::int64_t>(bits);
    }
  }

  [[nodiscard]] static std::uint64_t mostly_ones(std::uint64_t bits) {
    return bits | splitmix64(bits) | splitmix64(bits + 1);
  }
  [[nodiscard]] static std::uint64_t mostly_zeros(std::uint64_t bits) {
    return bits & splitmix64(bits) & splitmix64(bits + 1);
  }
  /// Any number but 0 if the last bit of `value` is set, else 0.
  [[nodiscard]] static std::int64_t truth(std::uint64_t value, std::uint64_t bits) {
    return (value & 1) != 0 ? static_cast<std::int64_t>(bits | 1) : 0;
  }

  /// An operand of a sum that does not overflow.
  [[nodiscard]] std::int64_t sum_operand(std::uint64_t bits) const {
    if (share_ == 0)
      return static_cast<std::uint64_t>(rank_) < max_ ? static_cast<int>(bits & 1) : 0;
    if (is_signed(spec_.type)) return between(bits, share_);
    return static_cast<std::int64_t>(share_ == UINT64_MAX ? bits : bits % (share_ + 1));
  }

  const CallSpec& spec_;
  int rank_;
  Operator op_;
  std::uint64_t max_;    ///< the largest integer, or 2^precision for floats
  std::uint64_t share_;  ///< max_ divided by the number of ranks
};

bool is_less(Type type, std::int64_t a, std::int64_t b) {
  return is_signed(type) ? a < b : static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
}

std::int64_t complex_product(std::int64_t a, std::int64_t b) {
  const auto ra = real_part(a);
  const auto ia = imaginary_part(a);
  const auto rb = real_part(b);
  const auto ib = imaginary_part(b);
  return complex_of(ra * rb - ia * ib, ra * ib + ia * rb);
}

std::int64_t combined(const CallSpec& spec, std::int64_t a, std::int64_t b) {
  const auto left = static_cast<std::uint64_t>(a);
  const auto right = static_cast<std::uint64_t>(b);
  switch (Contribution::effective(spec)) {
    case Operator::product:
      if (is_complex(spec.type)) return complex_product(a, b);
      return static_cast<std::int64_t>(left * right);
    case Operator::min:
      return is_less(spec.type, b, a) ? b : a;
    case Operator::max:
      return is_less(spec.type, a, b) ? b : a;
    case Operator::bit_and:
      return a & b;
    case Operator::bit_or:
      return a | b;
    case Operator::bit_xor:
      return a ^ b;
    case Operator::logical_and:
      return a != 0 && b != 0 ? 1 : 0;
    case Operator::logical_or:
      return a != 0 || b != 0 ? 1 : 0;
    case Operator::logical_xor:
      return (a != 0) != (b != 0) ? 1 : 0;
    default:
      return static_cast<std::int64_t>(left + right);
  }
}

std::int64_t finished(const CallSpec& spec, std::int64_t total) {
  if (spec.op != Operator::average) return total;
  if (is_complex(spec.type)) {
    return complex_of(real_part(total) / spec.ranks, imaginary_part(total) / spec.ranks);
  }
  if (is_signed(spec.type)) return total / spec.ranks;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(total) /
                                   static_cast<std::uint64_t>(spec.ranks));
}

/// Whether all parts of two elements differ by at most `tolerance`.
bool is_close(Type type, const std::byte* a, const std::byte* b, double tolerance) {
  const auto part = part_of(type);
  for (std::size_t at = 0; at < size_of(type); at += size_of(part)) {
    if (!(std::abs(value_of(part, a + at) - value_of(part, b + at)) <= tolerance)) return false;
  }
  return true;
}

/// NCCL divides floats before it adds. That is exact only if the number of ranks is a power of two.
/// Bounds the rounding error of each operand and each addition.
double tolerance_of(const CallSpec& spec) {
  const bool rounds = spec.on_nccl && spec.op == Operator::average && is_float(spec.type) &&
                      !std::has_single_bit(static_cast<unsigned>(spec.ranks));
  if (!rounds) return 0;
  const auto share = static_cast<double>(Contribution(spec, 0).share());
  return std::ldexp((spec.ranks + 2) * share, 1 - precision_of(spec.type));
}

}  // namespace

Pattern::Pattern(const CallSpec& spec, std::size_t elements)
    : type_(spec.type), size_(size_of(spec.type)), image_(std::min(elements, period) * size_) {}

Pattern Pattern::of_rank(const CallSpec& spec, int rank, std::size_t elements) {
  Pattern pattern(spec, elements);
  const bool reduces = shape_of(spec).reduces;
  const Contribution contribution(spec, rank);
  for (std::size_t i = 0; i * pattern.size_ < pattern.image_.size(); ++i) {
    auto* const element = &pattern.image_[i * pattern.size_];
    if (reduces) {
      encode(spec.type, contribution.at(i), element);
    } else {
      const std::array bits{random_bits(rank, i), random_bits(rank, ~i)};
      std::memcpy(element, bits.data(), pattern.size_);
    }
  }
  return pattern;
}

Pattern Pattern::reduced(const CallSpec& spec, std::size_t elements) {
  Pattern pattern(spec, elements);
  pattern.tolerance_ = tolerance_of(spec);
  std::vector<std::int64_t> totals(std::min(elements, period));
  for (int rank = 0; rank < reduced_ranks(spec); ++rank) {
    const Contribution contribution(spec, rank);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      auto value = contribution.at(i);
      if (spec.op == Operator::premultiplied_sum) value *= factor_of(rank);
      totals[i] = rank == 0 ? value : combined(spec, totals[i], value);
      if (!is_float(spec.type)) totals[i] = wrapped(spec.type, totals[i]);
    }
  }
  for (std::size_t i = 0; i < totals.size(); ++i) {
    encode(spec.type, finished(spec, totals[i]), &pattern.image_[i * pattern.size_]);
  }
  return pattern;
}

void Pattern::fill(std::byte* to, std::size_t first, std::size_t count) const {
  while (count > 0) {
    const auto at = first % period;
    const auto piece = std::min(count, image_.size() / size_ - at);
    std::memcpy(to, &image_[at * size_], piece * size_);
    to += piece * size_;
    first += piece;
    count -= piece;
  }
}

void Pattern::compare(const std::byte* found, std::size_t first, std::size_t count,
                      std::size_t name_of_first, CheckResult& wrong) const {
  while (count > 0) {
    const auto at = first % period;
    const auto piece = std::min(count, image_.size() / size_ - at);
    if (std::memcmp(found, &image_[at * size_], piece * size_) != 0) {
      compare_piece(found, at, piece, name_of_first, wrong);
    }
    found += piece * size_;
    name_of_first += piece;
    first += piece;
    count -= piece;
  }
}

void Pattern::compare_piece(const std::byte* found, std::size_t at, std::size_t count,
                            std::size_t name_of_first, CheckResult& wrong) const {
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const is = found + i * size_;
    const auto* const due = &image_[(at + i) * size_];
    if (std::memcmp(is, due, size_) == 0) continue;
    // The sign of a zero part of a complex product depends on the order.
    if ((tolerance_ > 0 || is_complex(type_)) && is_close(type_, is, due, tolerance_)) continue;
    if (wrong.elements++ == 0) {
      wrong.first = fmt::format("element {} is {}, expected {}", name_of_first + i,
                                value_text(type_, is), value_text(type_, due));
    }
  }
}

}  // namespace tutti::app
