// Replaces mpi_implementation.cpp if MPI was not found at build time.
#include "implementations.hpp"

namespace tutti::app::bench {

std::unique_ptr<Implementation> make_mpi_implementation(JobSession& /*job*/) {
  throw Error(
      ErrorCode::usage,
      "--vs mpi is not available: tutti was built without MPI; build it with -Dmpi=enabled");
}

}  // namespace tutti::app::bench
