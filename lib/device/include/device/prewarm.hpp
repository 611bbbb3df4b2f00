#pragma once

#include <memory>

#include "base/environment.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// Creates the CUDA context of this rank's device and loads NCCL in the background, while the
/// program does something else (MPI_Init). A communicator created later reuses the context. Reports
/// no errors: they show when the communicator is created.
class Prewarm {
 public:
  /// `local_rank` as the launcher reports it.
  explicit Prewarm(int local_rank);
  Prewarm(const Prewarm&) = delete;
  Prewarm& operator=(const Prewarm&) = delete;
  /// Releases the context, or has the thread do so when it is done.
  ~Prewarm();

  /// Waits until the context exists or has failed, at the latest until the deadline. Call it before
  /// any other use of CUDA: two threads that initialize it concurrently delay each other.
  void wait(Deadline deadline) const;

  /// Null unless the environment contains the local rank.
  [[nodiscard]] static std::unique_ptr<Prewarm> from(const EnvironmentMap& environment);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::device
