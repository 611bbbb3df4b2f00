// Messages between two ranks.
#include <nanobind/stl/optional.h>

#include "handle.hpp"

namespace tutti::python {
using namespace nb::literals;
namespace {

Message sending(const Buffer& buffer, int to) {
  return {.operation = Operation::send,
          .type = buffer.type(),
          .send = buffer.data(),
          .send_count = buffer.count(),
          .to = to};
}

Message receiving(const Buffer& buffer, int from) {
  return {.operation = Operation::recv,
          .type = buffer.type(),
          .recv = buffer.data(),
          .recv_count = buffer.count(),
          .from = from};
}

}  // namespace

void add_messages(nb::class_<Handle>& type) {
  type.def(
          "Send",
          [](Handle& self, nb::handle buf, int dest, unsigned tag, const Seconds& timeout) {
            const Buffer buffer(buf, false);
            self.run(sending(buffer, dest), {.timeout = duration(timeout), .tag = tag});
          },
          "buf"_a, "dest"_a, "tag"_a = 0, "timeout"_a = nb::none(),
          "Sends `buf` (count elements) to rank `dest`. Returns when `buf` may be changed. Raises "
          "Error.")
      .def(
          "Recv",
          [](Handle& self, nb::handle buf, int source, unsigned tag, const Seconds& timeout) {
            const Buffer buffer(buf, true);
            return self.run(receiving(buffer, source), {.timeout = duration(timeout), .tag = tag});
          },
          "buf"_a, "source"_a, "tag"_a = 0, "timeout"_a = nb::none(),
          "Receives from rank `source`, or ANY_SOURCE, a message of exactly the count and type of "
          "`buf`. Returns the sender's rank. Raises Error.")
      .def(
          "Sendrecv",
          [](Handle& self, nb::handle sendbuf, int dest, nb::handle recvbuf, int source,
             unsigned tag, const Seconds& timeout) {
            const Buffer send(sendbuf, false);
            const Buffer recv(recvbuf, true);
            auto message = sending(send, dest);
            message.operation = Operation::send_recv;
            message.recv = recv.data();
            message.recv_count = recv.count();
            message.from = source;
            if (send.type() != recv.type())
              throw nb::type_error("sendbuf and recvbuf have different types: pass one type");
            self.run(message, {.timeout = duration(timeout), .tag = tag});
          },
          "sendbuf"_a, "dest"_a, "recvbuf"_a, "source"_a, "tag"_a = 0, "timeout"_a = nb::none(),
          "Send() and Recv() at once, so that a cycle of ranks can't deadlock. Raises Error.")
      .def(
          "Isend",
          [](nb::handle self, nb::handle buf, int dest, unsigned tag, const Seconds& timeout) {
            Buffer buffer(buf, false);
            auto work = nb::cast<Handle&>(self).get().start(
                sending(buffer, dest), {.timeout = duration(timeout), .tag = tag});
            return Request(std::move(work), std::move(buffer), {}, nb::borrow(self));
          },
          "buf"_a, "dest"_a, "tag"_a = 0, "timeout"_a = nb::none(), "Non-blocking Send().")
      .def(
          "Irecv",
          [](nb::handle self, nb::handle buf, int source, unsigned tag, const Seconds& timeout) {
            Buffer buffer(buf, true);
            auto work = nb::cast<Handle&>(self).get().start(
                receiving(buffer, source), {.timeout = duration(timeout), .tag = tag});
            return Request(std::move(work), {}, std::move(buffer), nb::borrow(self));
          },
          "buf"_a, "source"_a, "tag"_a = 0, "timeout"_a = nb::none(), "Non-blocking Recv().");
}

}  // namespace tutti::python
