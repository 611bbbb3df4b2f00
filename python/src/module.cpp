#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "handle.hpp"
#include "tutti/environment.hpp"
#include "tutti/version.hpp"

// Communicator for Python, with the names of mpi4py.
namespace tutti::python {
using namespace nb::literals;
namespace {

void raise(const Error& error) {
  const auto type = nb::module_::import_("tutti._error").attr("Error");
  const auto value = type(error.sentence(), tutti::name(error.code()), error.failed_ranks(),
                          error.rank(), error.host(), error.operation());
  PyErr_SetObject(type.ptr(), value.ptr());
}

/// Memory of Communicator::allocate() as a numpy array, which keeps it.
nb::object empty(Handle& self, const nb::object& shape, const nb::object& dtype) {
  const auto numpy = nb::module_::import_("numpy");
  const auto type = numpy.attr("dtype")(dtype);
  if (nb::cast<bool>(type.attr("hasobject"))) {
    throw nb::type_error("Python objects can't be in shared memory: pass a dtype of plain data");
  }
  if (!type.attr("subdtype").is_none()) {
    throw nb::type_error("a dtype with dimensions of its own: put them into the shape");
  }
  std::vector<std::int64_t> extents(1);
  if (!nb::try_cast(shape, extents[0]) && !nb::try_cast(shape, extents)) {
    throw nb::type_error("shape must be an integer or a sequence of integers");
  }
  auto bytes = nb::cast<std::size_t>(type.attr("itemsize"));
  for (const auto extent : extents) {
    if (extent < 0) throw nb::value_error("negative dimensions");
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes) ||
        bytes > static_cast<std::size_t>(INT64_MAX)) {
      throw nb::value_error("the array is too big");
    }
  }
  if (bytes == 0) return numpy.attr("empty")(extents, type);
  auto memory = std::make_unique<Allocation<std::byte>>(self.get().allocate<std::byte>(bytes));
  auto* const data = memory->data();
  const nb::capsule owner(memory.release(), [](void* kept) noexcept {
    delete static_cast<Allocation<std::byte>*>(kept);
  });
  const nb::ndarray<nb::numpy, std::uint8_t> flat(data, {bytes}, owner);
  return nb::cast(flat).attr("view")(type).attr("reshape")(extents);
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
  module.attr("AnySource") = any_rank;

  nb::enum_<Operator>(module, "Op", "How two contributions become one.")
      .value("SUM", Operator::sum)
      .value("PROD", Operator::product)
      .value("MIN", Operator::min)
      .value("MAX", Operator::max)
      .value("AVG", Operator::average,
             "the sum divided by the number of ranks; of integers truncated toward zero")
      .value("BAND", Operator::bit_and)
      .value("BOR", Operator::bit_or)
      .value("BXOR", Operator::bit_xor)
      .value("LAND", Operator::logical_and)
      .value("LOR", Operator::logical_or)
      .value("LXOR", Operator::logical_xor);
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
      .def("Test", &Request::test, "True if the call is complete. Does not wait. Raises its Error.")
      .def_prop_ro("source", &Request::source,
                   "The sender's rank, once a call of Irecv() is complete; otherwise -1.");

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
      .def("empty", &empty, "shape"_a, "dtype"_a = "float64",
           "A numpy array of zeros in memory that the other ranks of the host read directly, so "
           "that "
           "large collectives copy less; where ranks share no memory, or none is left, in ordinary "
           "memory. It may outlive the communicator. Each rank decides for itself.")
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
      .def("Free", &Handle::free,
           "Ends this communicator without a check: the other ranks are told that this one leaves. "
           "No call may follow.")
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
