#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

#include "process_group.hpp"

PYBIND11_MODULE(TUTTI_TORCH_MODULE, module) {
  namespace py = pybind11;
  using tutti::torch_backend::ProcessGroupTutti;
  py::class_<ProcessGroupTutti, c10d::Backend, c10::intrusive_ptr<ProcessGroupTutti>>(
      module, "ProcessGroupTutti")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       std::chrono::milliseconds timeout, std::string name,
                       std::vector<int> global_ranks) {
             return c10::make_intrusive<ProcessGroupTutti>(
                 store, rank, size,
                 ProcessGroupTutti::Settings{timeout, std::move(name), std::move(global_ranks)});
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"),
           py::arg("global_ranks") = std::vector<int>(), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("failed_ranks", &ProcessGroupTutti::failed_ranks);
}
