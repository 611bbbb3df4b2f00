#include "implementations.hpp"

#include <fmt/format.h>

namespace tutti::app::bench {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::usage, sentence);
}

void require_memory_of(const std::string& implementation, JobSession& job) {
  const bool on_device = job.stream().has_value();
  const bool wants_device = implementation.starts_with("nccl");
  if (wants_device && !job.is_on_nccl()) {
    refuse(fmt::format("--vs {} needs the backend nccl, but the backend is cpu: {}", implementation,
                       job.communicator().device_path_reason()));
  }
  if (!wants_device && on_device) {
    refuse(
        fmt::format("--vs {} works on host memory, but the buffers are on GPUs: give --backend "
                    "cpu",
                    implementation));
  }
}

}  // namespace

std::vector<std::string> baseline_names() {
  return {"mpi", "gloo", "nccl", "nccl-serial", "nccl-windows", "copies"};
}

std::unique_ptr<Implementation> make_baseline(const std::string& name, JobSession& job,
                                              std::chrono::nanoseconds timeout) {
  require_memory_of(name, job);
  if (name == "mpi") return make_mpi_implementation(job);
  if (name == "copies") return make_copies_implementation(job);
  if (name == "gloo") return make_gloo_implementation(job, timeout);
  if (name == "nccl-serial") return make_nccl_implementation(job, NcclForm::serial);
  return make_nccl_implementation(job, name == "nccl" ? NcclForm::grouped : NcclForm::windows);
}

}  // namespace tutti::app::bench
