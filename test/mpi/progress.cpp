// Rank 0 has an MPI_Isend of a large message in progress and enters a call of tutti. Rank 1
// receives the message first, then enters the call. MPI transfers the message only while rank 0
// calls MPI.
//
//     mpirun -np 2 --mca btl tcp,self --mca pml ob1 build/test/mpi/progress drive|leave
//
// With "drive", tutti's waits progress MPI, and all completes. With "leave" they do not, and the
// call times out.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr int count = 16 << 20;

/// Returns the exit status.
int work(bool drives) {
  using namespace std::chrono_literals;
  auto comm = tutti::from_mpi(MPI_COMM_WORLD, {.timeout = 4s, .mpi_progress = drives});
  std::vector<char> message(count, static_cast<char>(comm.rank() == 0 ? 7 : 0));
  MPI_Request request = MPI_REQUEST_NULL;
  if (comm.rank() == 0) {
    MPI_Isend(message.data(), count, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
  } else if (comm.rank() == 1) {
    MPI_Recv(message.data(), count, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  int sum = 1;
  comm.all_reduce(tutti::in_place, std::span(&sum, 1), tutti::sum);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const bool good = sum == comm.size() && (comm.rank() > 1 || message.back() == 7);
  comm.finalize();
  if (good && comm.rank() == 0) std::puts("the message and the call are done");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  try {
    status = work(argc > 1 && std::string_view(argv[1]) == "drive");
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return status;
}
