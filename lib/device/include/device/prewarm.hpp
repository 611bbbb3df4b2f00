#pragma once

#include <memory>

#include "base/environment.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// Makes the CUDA context of this rank's device in the background, and loads NCCL, while the
/// program does something else (MPI_Init). A communicator that is made later finds it there. Safe
/// where anything is missing, and speaks of nothing: what does not work shows when the communicator
/// is made.
class Prewarm {
 public:
  /// `local_rank`: the launcher's word on it.
  explicit Prewarm(int local_rank);
  Prewarm(const Prewarm&) = delete;
  Prewarm& operator=(const Prewarm&) = delete;
  /// Gives the context back, or has the thread do so when it is through.
  ~Prewarm();

  /// Returns when the context is there or can't be made, at the latest at the deadline. Before any
  /// other use of CUDA: two threads that start it at once hold each other up.
  void wait(Deadline deadline) const;

  /// Where the environment names the local rank; else null.
  [[nodiscard]] static std::unique_ptr<Prewarm> from(const EnvironmentMap& environment);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::device
