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

/// The process's place in its job: MPI where an MPI launcher started it, and the communicator.
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
  /// Where device calls are queued; nothing on the host path.
  [[nodiscard]] std::optional<Stream> stream() const;
  /// Who moves the data: NCCL, or the host path, which serves device memory too where NCCL can't.
  [[nodiscard]] bool is_on_nccl() const;
  /// "nccl" or "cpu"
  [[nodiscard]] const char* backend() const { return is_on_nccl() ? "nccl" : "cpu"; }
  [[nodiscard]] const std::string& source() const { return source_; }
  /// Name and version of the MPI that started it; empty without.
  [[nodiscard]] std::string mpi() const;
  /// How long each phase took up to now, for --verbose.
  [[nodiscard]] std::string phases() const;
  /// The orderly end: all ranks have made the same calls.
  void finish();
  [[nodiscard]] bool started() const { return static_cast<bool>(communicator_); }
  /// The other ranks wait for this one no more: an error from here on is its own.
  [[nodiscard]] bool finished() const { return finished_; }
  /// Tells the other ranks of an error that only this one has met; returns what all have agreed on.
  [[nodiscard]] Error give_up(const Error& error) noexcept;
  /// After an error: returns when all others have said goodbye too, after half a second at the
  /// latest.
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
  std::function<void(Bootstrap&)> instead_;
  std::string source_;
  std::string mpi_library_;
  std::string phases_;
  bool finished_ = false;
};

/// Runs a subcommand's body and turns what it throws into a sentence and an exit status. A failure
/// of the job is printed once, by the lowest surviving rank.
int run_job(const JobOptions& options, const std::function<int(JobSession&)>& body);

/// The rank that options or the launcher's variables name, before the job has started; 0 where they
/// name none.
[[nodiscard]] int launched_rank(const launch::Words& words = {});

}  // namespace tutti::app
