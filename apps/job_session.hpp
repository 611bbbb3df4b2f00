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
  /// Whether NCCL moves the data. Else the host path does, by staging if buffers are in device
  /// memory.
  [[nodiscard]] bool is_on_nccl() const;
  /// "nccl" or "cpu"
  [[nodiscard]] const char* backend() const { return is_on_nccl() ? "nccl" : "cpu"; }
  [[nodiscard]] const std::string& source() const { return source_; }
  /// Name and version of the MPI that started it; empty without.
  [[nodiscard]] std::string mpi() const;
  /// How long each phase took up to now, for --verbose.
  [[nodiscard]] std::string phases() const;
  /// Finalizes the communicator. Collective.
  void finish();
  [[nodiscard]] bool started() const { return static_cast<bool>(communicator_); }
  /// After finish(): an error concerns this rank only.
  [[nodiscard]] bool finished() const { return finished_; }
  /// Aborts the job with an error that only this rank has; returns the agreed failure.
  [[nodiscard]] Error abort(const Error& error) noexcept;
  /// After an error: waits up to half a second for the goodbyes of the other ranks.
  void leave() noexcept { communicator_.reset(); }

 private:
  void open(const JobOptions& options, const Options& settings);
  void open_mpi(const JobOptions& options, const Options& settings);
  /// Returns how long its phases took.
  std::string make_communicator(Bootstrap& bootstrap, const Options& settings);

  struct Mpi;
  std::unique_ptr<Mpi> mpi_;
  std::unique_ptr<device::Prewarm> prewarm_;  ///< its context lasts as long as the job
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<device::DeviceMemory> device_memory_;
  std::function<void(Bootstrap&)> instead_of_communicator_;
  std::string source_;
  std::string mpi_library_;
  std::string phases_;
  bool finished_ = false;
};

/// Runs a subcommand's body; prints what it throws and returns the exit status. A failure of the
/// job is printed once, by the lowest surviving rank.
int run_job(const JobOptions& options, const std::function<int(JobSession&)>& body);

/// The rank that options or the launcher's variables name, before the job has started; 0 where they
/// name none.
[[nodiscard]] int launched_rank(const launch::Words& words = {});

}  // namespace tutti::app
