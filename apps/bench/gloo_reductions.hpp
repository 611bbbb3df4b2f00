#pragma once

#include <fmt/format.h>
#include <gloo/algorithm.h>
#include <gloo/math.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tutti/types.hpp"

namespace tutti::app::bench {

/// Calls `action` with a value of the C++ type that Gloo reduces. Returns its result, or why Gloo
/// can't reduce the type.
template <class Action>
std::string with_type(Type type, Action action) {
  switch (type) {
    case Type::i8:
      return action(std::int8_t{});
    case Type::u8:
      return action(std::uint8_t{});
    case Type::i32:
      return action(std::int32_t{});
    case Type::u32:
      return action(std::uint32_t{});
    case Type::i64:
      return action(std::int64_t{});
    case Type::u64:
      return action(std::uint64_t{});
    case Type::f16:
      return action(gloo::float16{});
    case Type::f32:
      return action(float{});
    case Type::f64:
      return action(double{});
    default:
      return fmt::format("Gloo does not reduce {}", name(type));
  }
}

using Reduction = void (*)(void*, const void*, const void*, std::size_t);

template <class T>
Reduction reduction(Operator op) {
  switch (op) {
    case Operator::sum:
      return &gloo::sum<T>;
    case Operator::product:
      return &gloo::product<T>;
    case Operator::min:
      return &gloo::min<T>;
    case Operator::max:
      return &gloo::max<T>;
    default:
      return nullptr;
  }
}

/// The same for Gloo's older algorithms, which take function objects.
template <class T>
const gloo::ReductionFunction<T>* reduction_object(Operator op) {
  switch (op) {
    case Operator::product:
      return gloo::ReductionFunction<T>::product;
    case Operator::min:
      return gloo::ReductionFunction<T>::min;
    case Operator::max:
      return gloo::ReductionFunction<T>::max;
    default:
      return gloo::ReductionFunction<T>::sum;
  }
}

}  // namespace tutti::app::bench
