// An iteration that loses a rank and still computes the correct result:
//
//     mpirun --enable-recovery -np 4 recovery             rank 2 dies in step 40
//     mpirun --enable-recovery -np 4 recovery 1 10        rank 1 dies in step 10
//     mpirun -np 4 recovery -1                            no rank dies
//
// It integrates 4 / (1 + x²) from 0 to 1, which is pi, in blocks. In each step every rank computes
// one block, and an all-reduce adds the blocks. So every rank has the sum so far, and the survivors
// can continue.
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tutti/mpi.hpp"
#include "tutti/tutti.hpp"

namespace {

constexpr std::int64_t blocks = 1000;
constexpr std::int64_t points = 2000;  // per block

double integrate(std::int64_t block) {
  if (block >= blocks) return 0;
  constexpr double width = 1.0 / static_cast<double>(blocks * points);
  double sum = 0;
  for (std::int64_t i = 0; i < points; ++i) {
    const double x = (static_cast<double>(block * points + i) + 0.5) * width;
    sum += 4 / (1 + x * x);
  }
  return sum * width;
}

/// Progress of the computation, the same on all ranks after each step.
struct State {
  std::int64_t next_block = 0;
  double total = 0;
};

/// Some survivors may have completed the last step and others not. The former go back one step.
State agree(tutti::Communicator& communicator, const State& latest, const State& before) {
  const auto least = communicator.all_reduce(latest.next_block, tutti::min);
  return least == latest.next_block ? latest : before;
}

int run(int victim, int step_of_death) {
  tutti::MpiSession session;
  auto communicator = std::make_optional(tutti::from_mpi(MPI_COMM_WORLD));
  const int started_as = communicator->rank();
  const int ranks = communicator->size();

  State state;
  State before;
  bool must_agree = false;
  for (int step = 0; state.next_block < blocks; ++step) {
    if (step == step_of_death && started_as == victim) ::raise(SIGKILL);
    try {
      if (must_agree) state = agree(*communicator, state, before);
      must_agree = false;
      const double block = integrate(state.next_block + communicator->rank());
      const double sum = communicator->all_reduce(block, tutti::sum);
      before = state;
      state = {state.next_block + communicator->size(), state.total + sum};
    } catch (const tutti::Error& error) {
      if (error.code() != tutti::ErrorCode::peer_lost) throw;
      if (error.speaks_for_job()) {
        std::fprintf(stderr, "recovery: %s; the survivors continue\n", error.what());
      }
      session.skip_finalize();
      communicator = communicator->shrink();
      must_agree = true;
    }
  }
  communicator->finalize();
  const bool right = std::abs(state.total - M_PI) < 1e-9;
  if (communicator->rank() == 0) {
    std::printf("pi is %.12f, by %d of %d ranks: %s\n", state.total, communicator->size(), ranks,
                right ? "right" : "WRONG");
    if (std::fflush(stdout) != 0) {
      std::perror("recovery: can't write the result");
      return 1;
    }
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 40);
  } catch (const tutti::Error& error) {
    tutti::abort_after(error);
  }
}
