// Collectives, blocking and not.
#include <nanobind/stl/optional.h>

#include <string>

#include "handle.hpp"

namespace tutti::python {
using namespace nb::literals;
namespace {

void set_send(Prepared& prepared, nb::handle buffer) {
  if (nb::isinstance<InPlaceObject>(buffer)) {
    prepared.call.in_place = true;
    return;
  }
  prepared.send = Buffer(buffer, false);
  prepared.call.type = prepared.send.type();
  prepared.call.send = prepared.send.data();
  prepared.call.send_count = prepared.send.count();
}

/// None: no buffer, on ranks that need none.
void set_recv(Prepared& prepared, nb::handle buffer) {
  if (buffer.is_none()) return;
  prepared.recv = Buffer(buffer, true);
  const bool has_send = prepared.send.data() != nullptr;
  if (has_send && prepared.send.type() != prepared.recv.type()) {
    throw nb::type_error(("the send buffer has elements of type " +
                          std::string(tutti::name(prepared.send.type())) +
                          ", the receive buffer of type " +
                          std::string(tutti::name(prepared.recv.type())) + ": pass one type")
                             .c_str());
  }
  prepared.call.type = prepared.recv.type();
  prepared.call.recv = prepared.recv.data();
  prepared.call.recv_count = prepared.recv.count();
}

Prepared two_buffers(Operation operation, nb::handle send, nb::handle recv, Operator op = sum,
                     int root = -1) {
  Prepared prepared;
  prepared.call.operation = operation;
  prepared.call.op = op;
  prepared.call.root = root;
  if (!send.is_none()) set_send(prepared, send);
  set_recv(prepared, recv);
  return prepared;
}

/// A collective and its non-blocking form. `prepare` makes the call of `Arguments` from Python;
/// `extra` are their names and the timeout's.
template <class... Arguments, class Prepare, class... Extra>
void add_collective(nb::class_<Handle>& type, const char* name, const char* start_name,
                    const char* text, Prepare prepare, const Extra&... extra) {
  type.def(
      name,
      [prepare](Handle& self, Arguments... arguments, const Seconds& timeout) {
        self.run(prepare(arguments...), timeout);
      },
      extra..., text);
  const auto short_text = std::string("Non-blocking ") + name + "().";
  type.def(
      start_name,
      [prepare](nb::handle self, Arguments... arguments, const Seconds& timeout) {
        return start(self, prepare(arguments...), timeout);
      },
      extra..., short_text.c_str());
}

auto plain(Operation operation) {
  return
      [operation](nb::handle send, nb::handle recv) { return two_buffers(operation, send, recv); };
}
auto rooted(Operation operation) {
  return [operation](nb::handle send, nb::handle recv, int root) {
    return two_buffers(operation, send, recv, sum, root);
  };
}
auto reducing(Operation operation) {
  return [operation](nb::handle send, nb::handle recv, Operator op) {
    return two_buffers(operation, send, recv, op);
  };
}

}  // namespace

void add_collectives(nb::class_<Handle>& type) {
  using nb::handle;
  const auto send = "sendbuf"_a;
  const auto recv = "recvbuf"_a;
  const auto root = "root"_a = 0;
  const auto op = "op"_a = sum;
  const auto timeout = "timeout"_a = nb::none();
  add_collective<>(
      type, "Barrier", "Ibarrier", "Blocks until every rank has entered. Raises Error.",
      [] { return two_buffers(Operation::barrier, nb::none(), nb::none()); }, timeout);
  add_collective<handle, int>(
      type, "Bcast", "Ibcast",
      "Copies `buf` (count elements) of rank `root` to all ranks. Raises Error.",
      [](handle buffer, int from) {
        return two_buffers(Operation::broadcast, nb::none(), buffer, sum, from);
      },
      "buf"_a, root, timeout);
  add_collective<handle, handle, Operator>(
      type, "Allreduce", "Iallreduce",
      "recvbuf[i] = sendbuf[i] of all ranks, combined by `op`: the same bits on all ranks. Both "
      "have count elements. Raises Error.",
      reducing(Operation::all_reduce), send, recv, op, timeout);
  add_collective<handle, handle, Operator, int>(
      type, "Reduce", "Ireduce",
      "As Allreduce(), with the result on rank `root` only; elsewhere recvbuf is None. Raises "
      "Error.",
      [](handle sent, handle received, Operator combine, int to) {
        return two_buffers(Operation::reduce, sent, received, combine, to);
      },
      send, recv.none(), op, root, timeout);
  add_collective<handle, handle, Operator>(
      type, "Reduce_scatter_block", "Ireduce_scatter_block",
      "Combines sendbuf (size x count elements) of all ranks by `op`; rank r gets block r in "
      "recvbuf (count). Raises Error.",
      reducing(Operation::reduce_scatter), send, recv, op, timeout);
  add_collective<handle, handle, Operator>(
      type, "Scan", "Iscan",
      "On rank r, recvbuf[i] = sendbuf[i] of ranks 0 to r, combined by `op`. Both have count "
      "elements. Raises Error.",
      reducing(Operation::scan), send, recv, op, timeout);
  add_collective<handle, handle, Operator>(
      type, "Exscan", "Iexscan",
      "As Scan(), of ranks 0 to r - 1; recvbuf of rank 0 is unchanged. Raises Error.",
      reducing(Operation::exclusive_scan), send, recv, op, timeout);
  add_collective<handle, handle>(
      type, "Allgather", "Iallgather",
      "Gathers sendbuf (count elements) of all ranks into recvbuf (size x count) on all ranks. "
      "Raises Error.",
      plain(Operation::all_gather), send, recv, timeout);
  add_collective<handle, handle>(
      type, "Alltoall", "Ialltoall",
      "Block r of sendbuf goes to rank r, block r of recvbuf comes from it. Both have size x count "
      "elements. Raises Error.",
      plain(Operation::all_to_all), send, recv, timeout);
  add_collective<handle, handle, int>(
      type, "Gather", "Igather",
      "As Allgather(), on rank `root` only; elsewhere recvbuf is None. Raises Error.",
      rooted(Operation::gather), send, nb::arg("recvbuf").none(), root, timeout);
  add_collective<handle, handle, int>(
      type, "Scatter", "Iscatter",
      "Rank r gets block r of rank root's sendbuf (size x count elements; elsewhere None) in "
      "recvbuf (count). Raises Error.",
      rooted(Operation::scatter), nb::arg("sendbuf").none(), recv, root, timeout);
}

}  // namespace tutti::python
