// Collectives, blocking and not.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

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

/// mpi4py has IN_PLACE in the place of the receive buffer of a scatter.
void move_in_place(Operation operation, nb::handle& send, nb::handle& recv) {
  if (!nb::isinstance<InPlaceObject>(recv)) return;
  if (operation != Operation::scatter && operation != Operation::scatter_v) {
    throw nb::type_error("tutti.IN_PLACE takes the place of the send buffer");
  }
  std::swap(send, recv);
}

Prepared two_buffers(Operation operation, nb::handle send, nb::handle recv, Operator op = sum,
                     int root = -1) {
  move_in_place(operation, send, recv);
  Prepared prepared;
  prepared.call.operation = operation;
  prepared.call.op = op;
  prepared.call.root = root;
  if (!send.is_none()) set_send(prepared, send);
  set_recv(prepared, recv);
  return prepared;
}

std::vector<std::size_t> numbers(nb::handle list, const char* what) {
  std::vector<std::size_t> result;
  if (!nb::try_cast(list, result)) {
    throw nb::type_error(
        (std::string(what) + " must be non-negative integers, one for each rank").c_str());
  }
  return result;
}

/// Takes [buffer, counts], [buffer, counts, displacements] or [buffer, (counts, displacements)]
/// apart, and returns the buffer.
nb::object take_blocks(nb::handle given, BlockLists& blocks) {
  const bool is_list = nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
  const auto parts = is_list ? nb::list(nb::borrow(given)) : nb::list();
  if (parts.size() < 2 || parts.size() > 3) {
    throw nb::type_error(
        "the buffer of all blocks is [buffer, counts] or [buffer, counts, displacements], with an "
        "integer for each rank in both");
  }
  if (parts.size() == 3) {
    blocks.counts = numbers(parts[1], "counts");
    if (!parts[2].is_none()) blocks.displacements = numbers(parts[2], "displacements");
    return parts[0];
  }
  const nb::object second = parts[1];
  if (nb::try_cast(second, blocks.counts)) return parts[0];
  if (!nb::isinstance<nb::tuple>(second) || nb::len(second) != 2) {
    blocks.counts = numbers(second, "counts");
    return parts[0];
  }
  blocks.counts = numbers(second[0], "counts");
  blocks.displacements = numbers(second[1], "displacements");
  return parts[0];
}

/// A v-form with one buffer of blocks, which is None on ranks that need none.
Prepared v_form(Operation operation, nb::handle send, nb::handle recv, bool blocks_in_send,
                int root = -1) {
  BlockLists blocks;
  move_in_place(operation, send, recv);
  // In place, the root's receive buffer is that of all blocks.
  if (nb::isinstance<InPlaceObject>(send)) blocks_in_send = false;
  const auto given = blocks_in_send ? send : recv;
  const auto whole = given.is_none() || nb::isinstance<InPlaceObject>(given)
                         ? nb::object(nb::borrow(given))
                         : take_blocks(given, blocks);
  auto prepared = blocks_in_send ? two_buffers(operation, whole, recv, sum, root)
                                 : two_buffers(operation, send, whole, sum, root);
  prepared.blocks = std::move(blocks);
  prepared.call.counts = prepared.blocks.counts;
  prepared.call.displacements = prepared.blocks.displacements;
  return prepared;
}

Prepared all_to_all_v(nb::handle send, nb::handle recv) {
  if (nb::isinstance<InPlaceObject>(send)) {
    throw nb::type_error("Alltoallv has no in-place form: pass a send buffer");
  }
  BlockLists sent;
  BlockLists received;
  const auto from = take_blocks(send, sent);
  const auto to = take_blocks(recv, received);
  auto prepared = two_buffers(Operation::all_to_all_v, from, to);
  prepared.blocks = std::move(sent);
  prepared.recv_blocks = std::move(received);
  prepared.call.counts = prepared.blocks.counts;
  prepared.call.displacements = prepared.blocks.displacements;
  prepared.call.recv_counts = prepared.recv_blocks.counts;
  prepared.call.recv_displacements = prepared.recv_blocks.displacements;
  return prepared;
}

Prepared reduce_scatter_v(nb::handle send, nb::handle recv, nb::handle counts, Operator op) {
  auto prepared = two_buffers(Operation::reduce_scatter_v, send, recv, op);
  prepared.blocks.counts = numbers(counts, "recvcounts");
  prepared.call.counts = prepared.blocks.counts;
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
  add_collective<handle, handle>(
      type, "Allgatherv", "Iallgatherv",
      "Gathers sendbuf (counts[rank] elements) of all ranks into recvbuf, [buffer, counts] or "
      "[buffer, counts, displacements], on all ranks. Raises Error.",
      [](handle sent, handle received) {
        return v_form(Operation::all_gather_v, sent, received, false);
      },
      send, recv, timeout);
  add_collective<handle, handle, int>(
      type, "Gatherv", "Igatherv",
      "As Allgatherv(), on rank `root` only; elsewhere recvbuf is None. Raises Error.",
      [](handle sent, handle received, int to) {
        return v_form(Operation::gather_v, sent, received, false, to);
      },
      send, nb::arg("recvbuf").none(), root, timeout);
  add_collective<handle, handle, int>(
      type, "Scatterv", "Iscatterv",
      "Rank r gets block r of rank root's sendbuf, [buffer, counts] or [buffer, counts, "
      "displacements] (elsewhere None), in recvbuf (counts[r] elements). Raises Error.",
      [](handle sent, handle received, int from) {
        return v_form(Operation::scatter_v, sent, received, true, from);
      },
      nb::arg("sendbuf").none(), recv, root, timeout);
  add_collective<handle, handle>(
      type, "Alltoallv", "Ialltoallv",
      "Block r of sendbuf goes to rank r, block r of recvbuf comes from it. Both are [buffer, "
      "counts] or [buffer, counts, displacements]. Raises Error.",
      all_to_all_v, send, recv, timeout);
  add_collective<handle, handle, handle, Operator>(
      type, "Reduce_scatter", "Ireduce_scatter",
      "Combines sendbuf (sum of recvcounts elements) of all ranks by `op`; rank r gets block r in "
      "recvbuf (recvcounts[r]). Raises Error.",
      reduce_scatter_v, send, recv, "recvcounts"_a, op, timeout);
}

}  // namespace tutti::python
