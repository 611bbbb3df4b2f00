// Replaces mpi_peer.cpp if MPI was not found at build time.
#include "peers.hpp"

namespace tutti::app::bench {

std::unique_ptr<Peer> make_mpi_peer(JobSession& /*job*/) {
  throw Error(
      ErrorCode::usage,
      "--vs mpi is not available: tutti was built without MPI; build it with -Dmpi=enabled");
}

}  // namespace tutti::app::bench
