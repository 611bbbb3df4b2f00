#pragma once

#include "reduce_loops.hpp"

/// Selects the functions of one instruction set for every type and operator.
namespace tutti::engine::vector {

template <class Format, class Op>
Kernels loops() {
  return {reduce<Format, Op>, combine<Format, Op>};
}

/// For sums and products of floats; comparisons use integers.
template <class Format, class Op, Finish finish = Finish::nothing>
Kernels float_loops() {
  return {ByDefault<reduce<Format, Op>>::call, ByDefault<combine<Format, Op, finish>>::call};
}

/// T is i8 … u64, Bits the unsigned type of its size: overflow of signed integers must wrap.
template <class Isa, class T, class Bits>
Kernels of_integers(Operator op) {
  switch (op) {
    case Operator::sum:
    case Operator::average:
      return loops<Integers<Isa, Bits>, Sum>();
    case Operator::product:
      return loops<Integers<Isa, Bits>, Product>();
    case Operator::min:
      return loops<Integers<Isa, T>, Min>();
    case Operator::max:
      return loops<Integers<Isa, T>, Max>();
    case Operator::bit_and:
      return loops<Integers<Isa, Bits>, And>();
    case Operator::bit_or:
      return loops<Integers<Isa, Bits>, Or>();
    case Operator::bit_xor:
      return loops<Integers<Isa, Bits>, Xor>();
    case Operator::logical_and:
      return loops<Integers<Isa, Bits>, Logical<And>>();
    case Operator::logical_or:
      return loops<Integers<Isa, Bits>, Logical<Or>>();
    case Operator::logical_xor:
      return loops<Integers<Isa, Bits>, Logical<Xor>>();
    case Operator::premultiplied_sum:
      break;
  }
  return {};
}

/// The logical operators of u8, which the others amount to.
template <class Isa>
Kernels of_booleans(Operator op) {
  const auto logical = [](Operator of) { return of_integers<Isa, std::uint8_t, std::uint8_t>(of); };
  switch (op) {
    case Operator::product:
    case Operator::min:
    case Operator::bit_and:
    case Operator::logical_and:
      return logical(Operator::logical_and);
    case Operator::bit_xor:
    case Operator::logical_xor:
      return logical(Operator::logical_xor);
    default:
      return logical(Operator::logical_or);
  }
}

/// `Format` is for arithmetic; `Rising` and `Falling` are its numbers in ascending and descending
/// order.
template <class Format, class Rising, class Falling, Finish average>
Kernels of_floats(Operator op) {
  switch (op) {
    case Operator::sum:
    case Operator::premultiplied_sum:
      return float_loops<Format, Sum>();
    case Operator::average:
      return float_loops<Format, Sum, average>();
    case Operator::product:
      return float_loops<Format, Product>();
    case Operator::min:
      return loops<Falling, Max>();
    case Operator::max:
      return loops<Rising, Max>();
    default:
      return {};
  }
}

template <class Format>
Kernels of_complex(Operator op) {
  return op == Operator::product ? float_loops<Format, ComplexProduct>()
                                 : float_loops<Format, Sum>();
}

template <class Isa, bool reversed>
using OrderedHalves = OrderedFloats<Isa, std::int16_t, 0x7c00, 0x7e00, reversed>;
template <class Isa, bool reversed>
using OrderedBfloats = OrderedFloats<Isa, std::int16_t, 0x7f80, 0x7fc0, reversed>;
template <class Isa, bool reversed>
using OrderedSingles = OrderedFloats<Isa, std::int32_t, 0x7f800000, 0x7fc00000, reversed>;
template <class Isa, bool reversed>
using OrderedDoubles =
    OrderedFloats<Isa, std::int64_t, 0x7ff0000000000000, 0x7ff8000000000000, reversed>;

template <class Isa>
Kernels kernels(Type type, Operator op) {
  switch (type) {
    case Type::i8:
      return of_integers<Isa, std::int8_t, std::uint8_t>(op);
    case Type::u8:
      return of_integers<Isa, std::uint8_t, std::uint8_t>(op);
    case Type::i32:
      return of_integers<Isa, std::int32_t, std::uint32_t>(op);
    case Type::u32:
      return of_integers<Isa, std::uint32_t, std::uint32_t>(op);
    case Type::i64:
      return of_integers<Isa, std::int64_t, std::uint64_t>(op);
    case Type::u64:
      return of_integers<Isa, std::uint64_t, std::uint64_t>(op);
    case Type::f16:
      return of_floats<typename Isa::Halves, OrderedHalves<Isa, false>, OrderedHalves<Isa, true>,
                       Finish::divide>(op);
    case Type::bf16:
      return of_floats<Bfloats<Isa>, OrderedBfloats<Isa, false>, OrderedBfloats<Isa, true>,
                       Finish::weigh>(op);
    case Type::f32:
      return of_floats<Floats<Isa, float>, OrderedSingles<Isa, false>, OrderedSingles<Isa, true>,
                       Finish::nothing>(op);
    case Type::f64:
      return of_floats<Floats<Isa, double>, OrderedDoubles<Isa, false>, OrderedDoubles<Isa, true>,
                       Finish::nothing>(op);
    case Type::i16:
      return of_integers<Isa, std::int16_t, std::uint16_t>(op);
    case Type::u16:
      return of_integers<Isa, std::uint16_t, std::uint16_t>(op);
    case Type::boolean:
      return of_booleans<Isa>(op);
    case Type::c64:
      return of_complex<Complex<Isa, float>>(op);
    case Type::c128:
      return of_complex<Complex<Isa, double>>(op);
    case Type::f8e4m3:
    case Type::f8e5m2:
      break;
  }
  return {};
}

template <class Format>
Averaging of_weighed() {
  return {ByDefault<weigh_floats<Format>>::call, ByDefault<divide_weighed<Format>>::call};
}
template <class Format>
Averaging of_small_floats() {
  return {ByDefault<weigh_floats<Format>>::call, ByDefault<divide_floats<Format>>::call};
}

template <class Isa>
Averaging averaging(Type type) {
  switch (type) {
    case Type::i8:
      return {nullptr, ByDefault<divide_integers<Isa, std::int8_t, double>>::call};
    case Type::u8:
      return {nullptr, ByDefault<divide_integers<Isa, std::uint8_t, double>>::call};
    case Type::i32:
      return {nullptr, ByDefault<divide_integers<Isa, std::int32_t, double>>::call};
    case Type::u32:
      return {nullptr, ByDefault<divide_integers<Isa, std::uint32_t, double>>::call};
    case Type::i64:
      return {nullptr, ByDefault<divide_integers<Isa, std::int64_t, std::int64_t>>::call};
    case Type::u64:
      return {nullptr, ByDefault<divide_integers<Isa, std::uint64_t, std::uint64_t>>::call};
    case Type::f16:
      return of_small_floats<typename Isa::Halves>();
    case Type::bf16:
      return of_small_floats<Bfloats<Isa>>();
    case Type::f32:
      return of_weighed<Floats<Isa, float>>();
    case Type::f64:
      return of_weighed<Floats<Isa, double>>();
    case Type::i16:
      return {nullptr, ByDefault<divide_integers<Isa, std::int16_t, double>>::call};
    case Type::u16:
      return {nullptr, ByDefault<divide_integers<Isa, std::uint16_t, double>>::call};
    case Type::c64:
      return of_weighed<Complex<Isa, float>>();
    case Type::c128:
      return of_weighed<Complex<Isa, double>>();
    case Type::boolean:
    case Type::f8e4m3:
    case Type::f8e5m2:
      break;
  }
  return {};
}

}  // namespace tutti::engine::vector
