#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../job_session.hpp"
#include "implementation.hpp"

namespace tutti::app::bench {

/// Valid names for --vs: "mpi", …
[[nodiscard]] std::vector<std::string> baseline_names();
/// "0.5.0", or "not built in".
[[nodiscard]] std::string gloo_version();

/// Creates the implementation with that name. Collective. Throws Error{usage} on all ranks if it is
/// not available.
[[nodiscard]] std::unique_ptr<Implementation> make_baseline(const std::string& name,
                                                            JobSession& job,
                                                            std::chrono::nanoseconds timeout);
/// Creates tutti's own implementation.
[[nodiscard]] std::unique_ptr<Implementation> make_tutti_implementation(JobSession& job);

// Called by make_baseline(). Each is defined in the file of its name.
[[nodiscard]] std::unique_ptr<Implementation> make_copies_implementation(JobSession& job);
[[nodiscard]] std::unique_ptr<Implementation> make_mpi_implementation(JobSession& job);
[[nodiscard]] std::unique_ptr<Implementation> make_gloo_implementation(
    JobSession& job, std::chrono::nanoseconds timeout);
enum class NcclForm : std::uint8_t {
  grouped,  ///< sends in one group
  serial,   ///< sends to one peer after another, as tutorials do
  windows,  ///< grouped, with buffers that NCCL has allocated and registered as symmetric windows
};
[[nodiscard]] std::unique_ptr<Implementation> make_nccl_implementation(JobSession& job,
                                                                       NcclForm form);

}  // namespace tutti::app::bench
