#include "peers.hpp"

#include <fmt/format.h>

namespace tutti::app::bench {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::usage, sentence);
}

void require_memory_of(const std::string& peer, JobSession& job) {
  const bool on_device = job.stream().has_value();
  const bool wants_device = peer.starts_with("nccl");
  if (wants_device && !job.is_on_nccl()) {
    refuse(fmt::format("--vs {} needs the backend nccl, but the backend is cpu: {}", peer,
                       job.communicator().device_path_reason()));
  }
  if (!wants_device && on_device) {
    refuse(
        fmt::format("--vs {} works on host memory, but the buffers are on GPUs: give --backend "
                    "cpu",
                    peer));
  }
}

}  // namespace

std::vector<std::string> peer_names() {
  return {"mpi", "gloo", "nccl", "nccl-serial", "nccl-windows", "copies"};
}

std::unique_ptr<Peer> make_peer(const std::string& name, JobSession& job,
                                std::chrono::nanoseconds timeout) {
  require_memory_of(name, job);
  if (name == "mpi") return make_mpi_peer(job);
  if (name == "copies") return make_copies_peer(job);
  if (name == "gloo") return make_gloo_peer(job, timeout);
  if (name == "nccl-serial") return make_nccl_peer(job, NcclForm::serial);
  return make_nccl_peer(job, name == "nccl" ? NcclForm::grouped : NcclForm::windows);
}

}  // namespace tutti::app::bench
