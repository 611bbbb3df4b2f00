#include "engine/reduce.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tutti::engine {
namespace {

template <class T>
struct Sum {
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Overflow wraps, as in MPI implementations; signed overflow in C++ would be undefined.
      using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    } else {
      return a + b;
    }
  }
};

template <class T>
struct Product {
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    } else {
      return a * b;
    }
  }
};

// NaN wins on every rank, whatever the order of ranks; of two zeros the smaller is the negative
// one.
template <class T>
struct Min {
  static T apply(T a, T b) {
    if constexpr (std::floating_point<T>) {
      if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
  }
};

template <class T>
struct Max {
  static T apply(T a, T b) {
    if constexpr (std::floating_point<T>) {
      if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
  }
};

template <class T, template <class> class Op>
void combine(std::byte* to, const std::byte* a, const std::byte* b, std::size_t elements) {
  // Through memcpy, since what comes off the wire may lie at any address; compilers make plain
  // vector code of it.
  for (std::size_t i = 0; i < elements; ++i) {
    T left;
    T right;
    std::memcpy(&left, a + i * sizeof(T), sizeof(T));
    std::memcpy(&right, b + i * sizeof(T), sizeof(T));
    const T result = Op<T>::apply(left, right);
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

template <class T>
transport::ReduceFunction select(Operator op) {
  switch (op) {
    case Operator::sum:
    case Operator::average:
      return combine<T, Sum>;
    case Operator::product:
      return combine<T, Product>;
    case Operator::min:
      return combine<T, Min>;
    case Operator::max:
      return combine<T, Max>;
  }
  return nullptr;
}

template <class T>
void divide_all(std::byte* buffer, std::size_t count, int ranks) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, buffer + i * sizeof(T), sizeof(T));
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(ranks));
    } else {
      value /= static_cast<T>(ranks);
    }
    std::memcpy(buffer + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

transport::ReduceFunction reduce_function(Type type, Operator op) {
  switch (type) {
    case Type::i8:
      return select<std::int8_t>(op);
    case Type::u8:
      return select<std::uint8_t>(op);
    case Type::i32:
      return select<std::int32_t>(op);
    case Type::u32:
      return select<std::uint32_t>(op);
    case Type::i64:
      return select<std::int64_t>(op);
    case Type::u64:
      return select<std::uint64_t>(op);
    case Type::f32:
      return select<float>(op);
    case Type::f64:
      return select<double>(op);
    case Type::f16:
    case Type::bf16:
      return nullptr;
  }
  return nullptr;
}

void divide(std::byte* buffer, std::size_t count, Type type, int ranks) {
  switch (type) {
    case Type::i8:
      return divide_all<std::int8_t>(buffer, count, ranks);
    case Type::u8:
      return divide_all<std::uint8_t>(buffer, count, ranks);
    case Type::i32:
      return divide_all<std::int32_t>(buffer, count, ranks);
    case Type::u32:
      return divide_all<std::uint32_t>(buffer, count, ranks);
    case Type::i64:
      return divide_all<std::int64_t>(buffer, count, ranks);
    case Type::u64:
      return divide_all<std::uint64_t>(buffer, count, ranks);
    case Type::f32:
      return divide_all<float>(buffer, count, ranks);
    case Type::f64:
      return divide_all<double>(buffer, count, ranks);
    case Type::f16:
    case Type::bf16:
      return;
  }
}

}  // namespace tutti::engine
