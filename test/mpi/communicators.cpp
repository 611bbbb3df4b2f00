// from_mpi() with all kinds of MPI communicators, under MPI's default error handlers.
//
//     mpirun -np 4 build/test/mpi/communicators null|left-out|inter|spawn|alone|session|abort
//
// Rank 0 prints what it received. MPI and tutti still work over all ranks afterwards.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>

namespace {

bool free_waits = false;

}  // namespace

// Overrides MPI_Comm_free through the profiling interface, and lets it wait for all ranks.
extern "C" int MPI_Comm_free(MPI_Comm* communicator) {
  if (free_waits) PMPI_Barrier(*communicator);
  return PMPI_Comm_free(communicator);
}

namespace {

using namespace std::chrono_literals;

/// Longer than the test's limit: an error must come immediately, else the test sees a hang.
constexpr auto timeout = 300s;

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

std::string refusal(MPI_Comm communicator) {
  try {
    auto made = tutti::from_mpi(communicator, {.timeout = timeout});
    return "nothing was thrown";
  } catch (const tutti::Error& error) {
    return (error.code() == tutti::ErrorCode::usage ? "usage: " : "another error: ") +
           error.sentence();
  }
}

/// Sums 1 over all ranks, by MPI and by tutti.
void require_sums(MPI_Comm communicator) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  int mpi_sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &mpi_sum, 1, MPI_INT, MPI_SUM, communicator);
  auto comm = tutti::from_mpi(communicator, {.timeout = timeout});
  int sum = 1;
  comm.all_reduce(tutti::in_place, std::span(&sum, 1), tutti::sum);
  comm.finalize();
  if (mpi_sum != size || sum != size) MPI_Abort(communicator, 4);
  if (rank_in(communicator) == 0) std::printf("sums over %d ranks\n", size);
}

MPI_Comm half_of_world() {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_in(MPI_COMM_WORLD) % 2, 0, &half);
  return half;
}

std::string refuse_what_is_no_intracommunicator(const std::string& kind) {
  if (kind == "null") return refusal(MPI_COMM_NULL);
  if (kind == "left-out") {
    // Rank 0 is not a member; the others use it.
    MPI_Comm rest = MPI_COMM_NULL;
    const bool is_out = rank_in(MPI_COMM_WORLD) == 0;
    MPI_Comm_split(MPI_COMM_WORLD, is_out ? MPI_UNDEFINED : 0, 0, &rest);
    if (is_out) return refusal(rest);
    require_sums(rest);
    MPI_Comm_free(&rest);
    return "";
  }
  auto half = half_of_world();
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank_in(MPI_COMM_WORLD) % 2, 0, &inter);
  auto refused = refusal(inter);
  MPI_Comm merged = MPI_COMM_NULL;  // the remedy
  MPI_Intercomm_merge(inter, 0, &merged);
  require_sums(merged);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  return refused;
}

/// Spawns three processes: the communicator is larger than the launcher's job.
void spawn(const char* program) {
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  const bool is_child = parent != MPI_COMM_NULL;
  if (!is_child) {
    std::string word = "spawn";
    char* words[] = {word.data(), nullptr};
    MPI_Comm_spawn(program, words, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent,
                   MPI_ERRCODES_IGNORE);
  }
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Intercomm_merge(parent, is_child ? 1 : 0, &merged);
  require_sums(merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&parent);
}

/// Set-up fails on rank 0 only: it must not free what all ranks share.
void fail_alone() {
  free_waits = true;
  const int rank = rank_in(MPI_COMM_WORLD);
  if (rank == 0) ::setenv("TUTTI_ALGORITHM", "none-such", 1);
  std::string told = "nothing was thrown";
  try {
    auto comm = tutti::from_mpi(MPI_COMM_WORLD, {.timeout = 2s});
  } catch (const tutti::Error& error) {
    told = error.sentence();
  }
  std::printf("rank %d: %s\n", rank, told.c_str());
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  // MPI has open requests: MPI_Finalize would block.
  std::_Exit(0);
}

/// tutti initializes and finalizes MPI.
int begin_session() {
  int level = -1;
  {
    tutti::MpiSession session;
    MPI_Query_thread(&level);
    require_sums(MPI_COMM_WORLD);
    tutti::MpiSession another;  // does not initialize it again
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  return level >= MPI_THREAD_FUNNELED && finalized != 0 ? 0 : 1;
}

/// Every rank throws the same error.
void fail_together() {
  auto comm = tutti::from_mpi(MPI_COMM_WORLD, {.timeout = timeout});
  if (comm.rank() == 1) comm.abort("the input is unusable");
  comm.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "session") return begin_session();
  MPI_Init(&argc, &argv);
  if (kind == "abort") {
    try {
      fail_together();
    } catch (const tutti::Error& error) {
      tutti::abort_after(error, MPI_COMM_WORLD);
    }
  }
  try {
    if (kind == "spawn") {
      spawn(argv[0]);
    } else if (kind == "alone") {
      fail_alone();
    } else {
      const auto refused = refuse_what_is_no_intracommunicator(kind);
      if (rank_in(MPI_COMM_WORLD) == 0) std::printf("%s\n", refused.c_str());
      require_sums(MPI_COMM_WORLD);
    }
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
}
