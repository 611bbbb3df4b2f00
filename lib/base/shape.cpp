#include "base/shape.hpp"

namespace tutti {

const Shape& shape_of(Operation operation) noexcept {
  constexpr auto one = Extent::one;
  constexpr auto all = Extent::all;
  static constexpr Shape internal{.for_users = false};
  static constexpr Shape barrier{};
  static constexpr Shape message{.collective = false};
  static constexpr Shape from_root{.recv = one, .rooted = true};
  static constexpr Shape all_reduce{.send = one, .recv = one, .reduces = true};
  static constexpr Shape scan{.send = one, .recv = one, .reduces = true, .scans = true};
  static constexpr Shape exclusive_scan{
      .send = one, .recv = one, .reduces = true, .scans = true, .exclusive = true};
  static constexpr Shape reduce{
      .send = one, .recv = one, .rooted = true, .recv_at_root_only = true, .reduces = true};
  static constexpr Shape all_gather{.send = one, .recv = all};
  static constexpr Shape all_gather_v{.send = one, .recv = all, .counts_differ = true};
  static constexpr Shape reduce_scatter{.send = all, .recv = one, .reduces = true};
  static constexpr Shape reduce_scatter_v{
      .send = all, .recv = one, .reduces = true, .counts_differ = true};
  static constexpr Shape gather{
      .send = one, .recv = all, .rooted = true, .recv_at_root_only = true};
  static constexpr Shape gather_v{
      .send = one, .recv = all, .rooted = true, .recv_at_root_only = true, .counts_differ = true};
  static constexpr Shape scatter{
      .send = all, .recv = one, .rooted = true, .send_at_root_only = true};
  static constexpr Shape scatter_v{
      .send = all, .recv = one, .rooted = true, .send_at_root_only = true, .counts_differ = true};
  static constexpr Shape all_to_all{.send = all, .recv = all};
  static constexpr Shape all_to_all_v{.send = all, .recv = all, .counts_differ = true};
  switch (operation) {
    case Operation::barrier:
      return barrier;
    case Operation::broadcast:
    case Operation::fan_out:
      return from_root;
    case Operation::all_reduce:
      return all_reduce;
    case Operation::scan:
      return scan;
    case Operation::exclusive_scan:
      return exclusive_scan;
    case Operation::reduce:
      return reduce;
    case Operation::all_gather:
      return all_gather;
    case Operation::all_gather_v:
      return all_gather_v;
    case Operation::reduce_scatter:
      return reduce_scatter;
    case Operation::reduce_scatter_v:
      return reduce_scatter_v;
    case Operation::gather:
      return gather;
    case Operation::gather_v:
      return gather_v;
    case Operation::scatter:
      return scatter;
    case Operation::scatter_v:
      return scatter_v;
    case Operation::all_to_all:
      return all_to_all;
    case Operation::all_to_all_v:
      return all_to_all_v;
    case Operation::send:
    case Operation::recv:
    case Operation::send_recv:
      return message;
    default:
      return internal;
  }
}

Type part_of(Type type) noexcept {
  if (type == Type::c64) return Type::f32;
  return type == Type::c128 ? Type::f64 : type;
}

bool supported(Path path, Operation operation, Type type, Operator op) noexcept {
  const auto& shape = shape_of(operation);
  if (!shape.reduces) return true;
  // Ranks have sums of different numbers of contributions.
  if (shape.scans && op == Operator::average) return false;
  if (path == Path::host) return reducible(type, op);
  if (shape.scans) return false;
  // NCCL has no scans, no bitwise and logical operators, no 16-bit integers, no bool and no complex
  // numbers.
  switch (type) {
    case Type::i16:
    case Type::u16:
      return false;
    case Type::boolean:  // min and max of u8
      return reducible(type, op) && op != Operator::bit_xor && op != Operator::logical_xor;
    case Type::c64:
    case Type::c128:  // by parts
      return reducible(type, op) && op != Operator::product;
    default:
      return op < Operator::bit_and || (op == Operator::premultiplied_sum && reducible(type, op));
  }
}

}  // namespace tutti
