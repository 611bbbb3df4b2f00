// Compiled by each MPI's mpicxx against the same libtutti.
#include <mpi.h>

#include <cstdio>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    auto comm = tutti::from_mpi(MPI_COMM_WORLD);
    int sum = comm.rank() + 1;
    comm.all_reduce(tutti::in_place, std::span(&sum, 1), tutti::sum);
    for (int rank = 0; rank < comm.size(); ++rank) {
      comm.barrier();
      if (rank != comm.rank()) continue;
      std::printf("rank %d of %d, local rank %d, sum %d, %s\n", rank, comm.size(),
                  comm.local_rank(), sum, tutti::MpiBootstrap::library_version().c_str());
      std::fflush(stdout);
    }
    comm.finalize();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
