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

bool supported(Path path, Operation operation, Type type, Operator op) noexcept {
  if (!shape_of(operation).reduces) return true;
  // NCCL has no bitwise operators.
  return path == Path::host ? reducible(type, op) : op < Operator::bit_and;
}

}  // namespace tutti
