#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "tutti/environment.hpp"
#include "tutti/tutti.hpp"
#include "tutti/version.hpp"

// Communicator for Python, with the names of mpi4py.
namespace tutti::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

using Seconds = std::optional<double>;

std::optional<std::chrono::nanoseconds> duration(const Seconds& seconds) {
  if (!seconds) return std::nullopt;
  if (!(*seconds > 0) || *seconds > 1e9) {
    throw nb::value_error("timeout must be a positive number of seconds, up to 1e9");
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(*seconds));
}

void raise(const Error& error) {
  const auto type = nb::module_::import_("tutti._error").attr("Error");
  const auto value = type(error.sentence(), tutti::name(error.code()), error.failed_ranks(),
                          error.rank(), error.host(), error.operation());
  PyErr_SetObject(type.ptr(), value.ptr());
}

/// What Python passes instead of a send buffer.
struct InPlaceObject {};

/// A call whose buffers Python lends.
struct Prepared {
  Collective call;
  Buffer send;
  Buffer recv;
};

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

Prepared one_buffer(Operation operation, nb::handle buffer, int root) {
  Prepared prepared;
  prepared.call.operation = operation;
  prepared.call.root = root;
  set_recv(prepared, buffer);
  return prepared;
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

/// A call that was started. Keeps its buffers.
class Request {
 public:
  Request(Work work, Buffer send, Buffer recv, nb::object communicator)
      : work_(std::move(work)),
        send_(std::move(send)),
        recv_(std::move(recv)),
        communicator_(std::move(communicator)) {}

  void wait() {
    const nb::gil_scoped_release released;
    work_.wait();
  }
  bool test() {
    const nb::gil_scoped_release released;
    return work_.test();
  }
  /// The call uses the buffers until its end.
  ~Request() {
    if (!work_.is_active()) return;
    const nb::gil_scoped_release released;
    try {
      work_.wait();
    } catch (const std::exception&) {
      // The next call on the communicator throws it, too.
    }
  }
  Request(Request&&) = default;
  Request& operator=(Request&&) = default;

 private:
  Work work_;
  Buffer send_;
  Buffer recv_;
  nb::object communicator_;
};

/// Owns a Communicator until Free().
class Handle {
 public:
  explicit Handle(Communicator communicator) : communicator_(std::move(communicator)) {}

  Communicator& get() {
    if (!communicator_)
      throw Error(ErrorCode::usage,
                  "the communicator was freed: make no call after Free() or Finalize()");
    return *communicator_;
  }
  void run(const Prepared& prepared, const Seconds& timeout) {
    auto& communicator = get();
    const CallOptions options{.timeout = duration(timeout)};
    const nb::gil_scoped_release released;
    communicator.run(prepared.call, options);
  }
  void run(const Message& message, const CallOptions& options) {
    auto& communicator = get();
    const nb::gil_scoped_release released;
    communicator.run(message, options);
  }
  void free() {
    const nb::gil_scoped_release released;
    communicator_.reset();
  }
  void finalize(const Seconds& timeout) {
    auto& communicator = get();
    const CallOptions options{.timeout = duration(timeout)};
    const nb::gil_scoped_release released;
    communicator.finalize(options);
    communicator_.reset();
  }

 private:
  std::optional<Communicator> communicator_;
};

Request start(nb::handle self, Prepared prepared, const Seconds& timeout) {
  auto& communicator = nb::cast<Handle&>(self).get();
  auto work = communicator.start(prepared.call, {.timeout = duration(timeout)});
  return {std::move(work), std::move(prepared.send), std::move(prepared.recv), nb::borrow(self)};
}

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

/// The bootstrap of from_mpi(): functions of Python that exchange bytes.
class PythonBootstrap final : public Bootstrap {
 public:
  PythonBootstrap(int rank, int size, nb::object all_gather, nb::object broadcast,
                  nb::object barrier)
      : rank_(rank),
        size_(size),
        all_gather_(std::move(all_gather)),
        broadcast_(std::move(broadcast)),
        barrier_(std::move(barrier)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override { return "mpi4py"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override {
    std::vector<Bytes> result;
    for (const auto item : nb::cast<nb::list>(all_gather_(object_of(mine)))) {
      result.push_back(bytes_of(item));
    }
    return result;
  }
  Bytes broadcast(const Bytes& from_root, int root, Deadline) override {
    return bytes_of(broadcast_(object_of(from_root), root));
  }
  void barrier(Deadline) override { barrier_(); }

 private:
  static nb::bytes object_of(const Bytes& bytes) {
    return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  static Bytes bytes_of(nb::handle object) {
    const auto bytes = nb::cast<nb::bytes>(object);
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.c_str());
    return {begin, begin + bytes.size()};
  }

  int rank_;
  int size_;
  nb::object all_gather_;
  nb::object broadcast_;
  nb::object barrier_;
};

Handle make_from_environment(const Seconds& timeout) {
  const Options options{.timeout = duration(timeout)};
  const nb::gil_scoped_release released;
  return Handle(tutti::from_environment(options));
}

Handle make_from_exchange(int rank, int size, nb::object all_gather, nb::object broadcast,
                          nb::object barrier, const Seconds& timeout) {
  PythonBootstrap bootstrap(rank, size, std::move(all_gather), std::move(broadcast),
                            std::move(barrier));
  return Handle(Communicator::create(bootstrap, {.timeout = duration(timeout)}));
}

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
            self.run(receiving(buffer, source), {.timeout = duration(timeout), .tag = tag});
          },
          "buf"_a, "source"_a, "tag"_a = 0, "timeout"_a = nb::none(),
          "Receives from rank `source` a message of exactly the count and type of `buf`. Raises "
          "Error.")
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

/// A collective and its non-blocking form.
template <class... Extra, class Prepare>
void add_collective(nb::class_<Handle>& type, const char* name, const char* start_name,
                    Prepare prepare, const char* text, const Extra&... extra) {
  prepare.template define<false>(type, name, text, extra...);
  prepare.template define<true>(type, start_name,
                                (std::string("Non-blocking ") + name + "().").c_str(), extra...);
}

struct Rooted {
  Operation operation;
  template <bool starts, class... Extra>
  void define(nb::class_<Handle>& type, const char* name, const char* text,
              const Extra&... extra) const {
    const auto what = operation;
    if constexpr (starts) {
      type.def(
          name,
          [what](nb::handle self, nb::handle send, nb::handle recv, int root,
                 const Seconds& timeout) {
            return start(self, two_buffers(what, send, recv, sum, root), timeout);
          },
          extra..., text);
    } else {
      type.def(
          name,
          [what](Handle& self, nb::handle send, nb::handle recv, int root, const Seconds& timeout) {
            self.run(two_buffers(what, send, recv, sum, root), timeout);
          },
          extra..., text);
    }
  }
};

struct Plain {
  Operation operation;
  template <bool starts, class... Extra>
  void define(nb::class_<Handle>& type, const char* name, const char* text,
              const Extra&... extra) const {
    const auto what = operation;
    if constexpr (starts) {
      type.def(
          name,
          [what](nb::handle self, nb::handle send, nb::handle recv, const Seconds& timeout) {
            return start(self, two_buffers(what, send, recv), timeout);
          },
          extra..., text);
    } else {
      type.def(
          name,
          [what](Handle& self, nb::handle send, nb::handle recv, const Seconds& timeout) {
            self.run(two_buffers(what, send, recv), timeout);
          },
          extra..., text);
    }
  }
};

struct Reducing {
  Operation operation;
  template <bool starts, class... Extra>
  void define(nb::class_<Handle>& type, const char* name, const char* text,
              const Extra&... extra) const {
    const auto what = operation;
    if constexpr (starts) {
      type.def(
          name,
          [what](nb::handle self, nb::handle send, nb::handle recv, Operator op,
                 const Seconds& timeout) {
            return start(self, two_buffers(what, send, recv, op), timeout);
          },
          extra..., text);
    } else {
      type.def(
          name,
          [what](Handle& self, nb::handle send, nb::handle recv, Operator op,
                 const Seconds& timeout) { self.run(two_buffers(what, send, recv, op), timeout); },
          extra..., text);
    }
  }
};

void add_collectives(nb::class_<Handle>& type) {
  const auto send = "sendbuf"_a;
  const auto recv = "recvbuf"_a;
  const auto root = "root"_a = 0;
  const auto op = "op"_a = sum;
  const auto timeout = "timeout"_a = nb::none();
  type.def(
          "Bcast",
          [](Handle& self, nb::handle buf, int from, const Seconds& limit) {
            self.run(one_buffer(Operation::broadcast, buf, from), limit);
          },
          "buf"_a, root, timeout,
          "Copies `buf` (count elements) of rank `root` to all ranks. Raises Error.")
      .def(
          "Ibcast",
          [](nb::handle self, nb::handle buf, int from, const Seconds& limit) {
            return start(self, one_buffer(Operation::broadcast, buf, from), limit);
          },
          "buf"_a, root, timeout, "Non-blocking Bcast().")
      .def(
          "Reduce",
          [](Handle& self, nb::handle s, nb::handle r, Operator o, int to, const Seconds& limit) {
            self.run(two_buffers(Operation::reduce, s, r, o, to), limit);
          },
          send, recv.none(), op, root, timeout,
          "As Allreduce(), with the result on rank `root` only; elsewhere recvbuf is None. Raises "
          "Error.")
      .def(
          "Ireduce",
          [](nb::handle self, nb::handle s, nb::handle r, Operator o, int to,
             const Seconds& limit) {
            return start(self, two_buffers(Operation::reduce, s, r, o, to), limit);
          },
          send, recv.none(), op, root, timeout, "Non-blocking Reduce().")
      .def(
          "Barrier",
          [](Handle& self, const Seconds& limit) {
            Prepared prepared;
            prepared.call.operation = Operation::barrier;
            self.run(prepared, limit);
          },
          timeout, "Blocks until every rank has entered. Raises Error.")
      .def(
          "Ibarrier",
          [](nb::handle self, const Seconds& limit) {
            Prepared prepared;
            prepared.call.operation = Operation::barrier;
            return start(self, std::move(prepared), limit);
          },
          timeout, "Non-blocking Barrier().");
  add_collective(type, "Allreduce", "Iallreduce", Reducing{Operation::all_reduce},
                 "recvbuf[i] = sendbuf[i] of all ranks, combined by `op`: the same bits on all "
                 "ranks. Both have count elements. Raises Error.",
                 send, recv, op, timeout);
  add_collective(type, "Reduce_scatter_block", "Ireduce_scatter_block",
                 Reducing{Operation::reduce_scatter},
                 "Combines sendbuf (size x count elements) of all ranks by `op`; rank r gets block "
                 "r in recvbuf (count). Raises Error.",
                 send, recv, op, timeout);
  add_collective(type, "Allgather", "Iallgather", Plain{Operation::all_gather},
                 "Gathers sendbuf (count elements) of all ranks into recvbuf (size x count) on all "
                 "ranks. Raises Error.",
                 send, recv, timeout);
  add_collective(type, "Alltoall", "Ialltoall", Plain{Operation::all_to_all},
                 "Block r of sendbuf goes to rank r, block r of recvbuf comes from it. Both have "
                 "size x count elements. Raises Error.",
                 send, recv, timeout);
  add_collective(type, "Gather", "Igather", Rooted{Operation::gather},
                 "As Allgather(), on rank `root` only; elsewhere recvbuf is None. Raises Error.",
                 send, nb::arg("recvbuf").none(), root, timeout);
  add_collective(type, "Scatter", "Iscatter", Rooted{Operation::scatter},
                 "Rank r gets block r of rank root's sendbuf (size x count elements; elsewhere "
                 "None) in recvbuf (count). Raises Error.",
                 nb::arg("sendbuf").none(), recv, root, timeout);
}

}  // namespace
}  // namespace tutti::python

NB_MODULE(_c, module) {
  using namespace tutti;
  using namespace tutti::python;
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error);
    }
  });
  module.attr("Version") = version_string;

  nb::enum_<Operator>(module, "Op", "How two contributions become one.")
      .value("SUM", Operator::sum)
      .value("PROD", Operator::product)
      .value("MIN", Operator::min)
      .value("MAX", Operator::max)
      .value("AVG", Operator::average,
             "the sum divided by the number of ranks; of integers truncated toward zero")
      .value("BAND", Operator::bit_and)
      .value("BOR", Operator::bit_or)
      .value("BXOR", Operator::bit_xor);
  nb::class_<InPlaceObject>(module, "InPlace", "The type of tutti.IN_PLACE.").def(nb::init<>());

  nb::class_<RankInfo>(module, "RankInfo", "What is known of one rank; the same on all ranks.")
      .def_ro("rank", &RankInfo::rank)
      .def_ro("local_rank", &RankInfo::local_rank)
      .def_ro("host_index", &RankInfo::host_index)
      .def_ro("host", &RankInfo::host)
      .def_ro("pid", &RankInfo::pid)
      .def_ro("address", &RankInfo::address)
      .def_ro("device", &RankInfo::device)
      .def_ro("cores", &RankInfo::cores);

  nb::class_<Request>(
      module, "Request",
      "A call that was started. Its buffers must not be touched until Wait() has returned.")
      .def("Wait", &Request::wait, "Returns when the call is complete. Raises its Error.")
      .def("Test", &Request::test,
           "True if the call is complete. Does not wait. Raises its Error.");

  nb::class_<Handle> communicator(
      module, "Communicator",
      "The ranks of a job. All ranks make the same collective calls in the same order, from one "
      "thread at a time. Calls release the GIL, "
      "and end at their timeout (seconds) at the latest; the default is the communicator's.");
  communicator
      .def(
          "Get_rank", [](Handle& self) { return self.get().rank(); },
          "This process's number, from 0.")
      .def(
          "Get_size", [](Handle& self) { return self.get().size(); },
          "How many ranks the communicator has.")
      .def_prop_ro(
          "rank", [](Handle& self) { return self.get().rank(); }, "This process's number, from 0.")
      .def_prop_ro(
          "size", [](Handle& self) { return self.get().size(); },
          "How many ranks the communicator has.")
      .def_prop_ro(
          "local_rank", [](Handle& self) { return self.get().local_rank(); },
          "This process's number among the ranks of its host.")
      .def_prop_ro(
          "local_size", [](Handle& self) { return self.get().local_size(); },
          "How many ranks of the job are on this host.")
      .def_prop_ro(
          "host_count", [](Handle& self) { return self.get().host_count(); },
          "How many hosts the ranks are on.")
      .def(
          "info", [](Handle& self, int rank) { return self.get().info(rank); }, "rank"_a,
          "About any rank. Raises Error for other numbers.")
      .def(
          "Split",
          [](Handle& self, std::optional<int> color, int key) -> std::optional<Handle> {
            auto& from = self.get();
            const nb::gil_scoped_release released;
            auto made = from.split(color, key);
            if (!made) return std::nullopt;
            return Handle(std::move(*made));
          },
          "color"_a.none(), "key"_a = 0,
          "Collective. A communicator of the ranks that pass the same `color`, ordered by `key`, "
          "then by rank; None for color None. Raises Error.")
      .def(
          "Dup",
          [](Handle& self) {
            auto& from = self.get();
            const nb::gil_scoped_release released;
            return Handle(from.duplicate());
          },
          "Collective. A communicator of the same ranks, whose calls are matched separately. "
          "Raises Error.")
      .def(
          "Shrink",
          [](Handle& self) {
            auto& from = self.get();
            const nb::gil_scoped_release released;
            return Handle(from.shrink());
          },
          "After an Error with code \"peer_lost\": collective over the survivors, which get a new "
          "communicator. Raises Error.")
      .def("Finalize", &Handle::finalize, "timeout"_a = nb::none(),
           "Collective. Checks that all ranks have made the same calls, and frees the "
           "communicator. Raises Error.")
      .def("Free", &Handle::free, "Says goodbye to the other ranks. No call may follow.")
      .def(
          "Abort",
          [](Handle& self, const std::string& reason) {
            auto& ended = self.get();
            const nb::gil_scoped_release released;
            ended.abort(reason);
          },
          "reason"_a, "The current or next call of every other rank raises Error with `reason`.");
  add_messages(communicator);
  add_collectives(communicator);

  module.def("from_environment", &make_from_environment, "timeout"_a.none());
  module.def("from_exchange", &make_from_exchange, "rank"_a, "size"_a, "all_gather"_a,
             "broadcast"_a, "barrier"_a, "timeout"_a.none());
  module.def("check_launcher", &check_launcher, "rank"_a, "size"_a, "mpi"_a);
}
