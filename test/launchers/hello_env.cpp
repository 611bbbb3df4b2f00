// A program without MPI.
#include <cstdio>
#include <tutti/tutti.hpp>

int main() {
  try {
    auto comm = tutti::from_environment();
    int sum = comm.rank() + 1;
    comm.all_reduce(tutti::in_place, std::span(&sum, 1), tutti::sum);
    // A second job with the same MASTER_ADDR and MASTER_PORT.
    auto again = tutti::from_environment();
    again.barrier();
    std::printf("rank %d of %d, local rank %d, sum %d\n", comm.rank(), comm.size(),
                comm.local_rank(), sum);
    again.finalize();
    comm.finalize();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
