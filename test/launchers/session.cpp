// A communicator from a group of an MPI session, without MPI_Init. Fails if MPI_COMM_WORLD is used.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>

namespace {

void require_other_than_world(MPI_Comm communicator) {
  if (communicator != MPI_COMM_WORLD) return;
  std::fputs("a call on MPI_COMM_WORLD\n", stderr);
  std::abort();
}

}  // namespace

// MPI's profiling interface: the program may override MPI calls.
extern "C" {
int MPI_Comm_rank(MPI_Comm communicator, int* rank) {
  require_other_than_world(communicator);
  return PMPI_Comm_rank(communicator, rank);
}
int MPI_Comm_size(MPI_Comm communicator, int* size) {
  require_other_than_world(communicator);
  return PMPI_Comm_size(communicator, size);
}
}

namespace {

int work(MPI_Comm communicator) {
  // Blocking calls progress MPI, which has no MPI_COMM_SELF here.
  auto comm = tutti::from_mpi(communicator, {.mpi_progress = true});
  int sum = comm.rank() + 1;
  comm.all_reduce(tutti::in_place, std::span(&sum, 1), tutti::sum);
  for (int rank = 0; rank < comm.size(); ++rank) {
    comm.barrier();
    if (rank != comm.rank()) continue;
    std::printf("rank %d of %d, local rank %d, sum %d, %s\n", rank, comm.size(), comm.local_rank(),
                sum, tutti::MpiBootstrap::library_version().c_str());
    std::fflush(stdout);
  }
  comm.finalize();
  return 0;
}

/// Without a session, from_mpi() must reject it.
void refuse_world() {
  try {
    auto comm = tutti::from_mpi(MPI_COMM_WORLD);
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.sentence().c_str());
  }
}

}  // namespace

int main() {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "tutti.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                             &communicator);
  int status = 1;
  try {
    refuse_world();
    status = work(communicator);
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  MPI_Comm_free(&communicator);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  return status;
}
