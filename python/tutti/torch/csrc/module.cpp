#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <utility>
#include <vector>

#include "process_group.hpp"

PYBIND11_MODULE(TUTTI_TORCH_MODULE, module) {
  namespace py = pybind11;
  using tutti::torch_backend::CopyableOptions;
  using tutti::torch_backend::OpenGroups;
  using tutti::torch_backend::ProcessGroupTutti;
  const auto copy = [](const CopyableOptions& options) {
    return c10::make_intrusive<CopyableOptions>(options);
  };
  py::class_<CopyableOptions, c10d::Backend::Options, c10::intrusive_ptr<CopyableOptions>>(
      module, "Options")
      .def("__copy__", copy)
      .def("__deepcopy__",
           [copy](const CopyableOptions& options, const py::object&) { return copy(options); });
  py::class_<ProcessGroupTutti, c10d::Backend, c10::intrusive_ptr<ProcessGroupTutti>>(
      module, "ProcessGroupTutti")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       std::chrono::milliseconds timeout, std::string name,
                       std::vector<int> global_ranks, bool enable_reconfigure) {
             return c10::make_intrusive<ProcessGroupTutti>(
                 store, rank, size,
                 ProcessGroupTutti::Settings{timeout, std::move(name), std::move(global_ranks),
                                             enable_reconfigure});
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"),
           py::arg("global_ranks") = std::vector<int>(), py::arg("enable_reconfigure") = false,
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("failed_ranks", &ProcessGroupTutti::failed_ranks)
      .def_property_readonly("options", &ProcessGroupTutti::options)
      // torch calls it on the ranks that a new group leaves out. Its members make the group alone.
      .def("perform_nocolor_split", [](ProcessGroupTutti&, const py::object&) {});
  py::class_<OpenGroups, std::shared_ptr<OpenGroups>>(module, "OpenGroups")
      .def(py::init<>())
      .def("add", &OpenGroups::add, py::arg("group"))
      .def("shutdown", &OpenGroups::shutdown, py::call_guard<py::gil_scoped_release>());
}
