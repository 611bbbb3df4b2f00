#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "device/prewarm.hpp"
#include "options.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

/// This process's part of the job: MPI, if an MPI launcher started it, and the communicator.
class JobSession {
 public:
  JobSession();
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;
  ~JobSession();

  /// Collective.
  void start(const JobOptions& options);
  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  /// Null on the host path.
  [[nodiscard]] std::shared_ptr<device::DeviceMemory> device_memory() const {
    return device_memory_;
  }
  /// The stream of device calls; empty on the host path.
  [[nodiscard]] std::optional<Stream> stream() const;
  /// Whether NCCL moves the data. If false, the host path does, and stages device buffers through
  /// host memory.
  [[nodiscard]] bool is_on_nccl() const;
  /// "nccl" or "cpu"
  [[nodiscard]] const char* backend() const { return is_on_nccl() ? "nccl" : "cpu"; }
  [[nodiscard]] const std::string& source() const { return source_; }
  /// Name and version of the MPI that launched the process; empty without MPI.
  [[nodiscard]] std::string mpi() const;
  /// Duration of each phase of set-up, for --verbose.
  [[nodiscard]] std::string phases() const;
  /// Finalizes the communicator. Collective.
  void finish();
  [[nodiscard]] bool started() const { return static_cast<bool>(communicator_); }
  /// True after finish(): an error then concerns this rank only.
  [[nodiscard]] bool finished() const { return finished_; }
  /// Aborts the job with an error that only this rank has; returns the agreed failure.
  [[nodiscard]] Error abort(const Error& error) noexcept;
  /// After an error: waits up to half a second for the goodbyes of the other ranks.
  void leave() noexcept { communicator_.reset(); }

 private:
  void open(const JobOptions& options, const Options& settings);
  void open_mpi(const JobOptions& options, const Options& settings);
  /// Returns the durations of its phases.
  std::string make_communicator(Bootstrap& bootstrap, const Options& settings);

  struct Mpi;
  std::unique_ptr<Mpi> mpi_;
  std::unique_ptr<device::Prewarm> prewarm_;  ///< keeps the CUDA context until the end of the job
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<device::DeviceMemory> device_memory_;
  std::function<void(Bootstrap&)> instead_of_communicator_;
  std::string source_;
  std::string mpi_library_;
  std::string phases_;
  bool finished_ = false;
};

/// Runs a subcommand's body. Prints the error that it throws, and returns the exit status. A
/// failure of the job is printed once, by the lowest surviving rank.
int run_job(const JobOptions& options, const std::function<int(JobSession&)>& body);

/// The rank in the options or the launcher's variables, before the job has started; 0 if there is
/// none.
[[nodiscard]] int launched_rank(const launch::Words& words = {});

}  // namespace tutti::app
