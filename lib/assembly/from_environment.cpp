#include "communicator/state.hpp"
#include "launch/resolve.hpp"
#include "rendezvous/unacknowledged.hpp"
#include "store/open.hpp"
#include "tutti/environment.hpp"

namespace tutti {
namespace {

/// MPI is not ours to start here, but what its launcher says of the rank serves all the same.
launch::InitChoice choose_without_mpi(const EnvironmentMap& map) {
  auto choice = launch::choose_init(map, {});
  if (choice.init != launch::Init::mpi) return choice;
  const auto master = map.find("MASTER_ADDR");
  if (choice.is_explicit || master == map.end() || master->second.empty()) {
    throw Error(
        ErrorCode::usage,
        (choice.is_explicit ? choice.source : std::string("an MPI launcher started this process")) +
            ", but from_environment() works without MPI: use from_mpi() of tutti/mpi.hpp, "
            "or set MASTER_ADDR and MASTER_PORT on all ranks");
  }
  choice.init = launch::Init::store;
  choice.url = "env://";
  return choice;
}

}  // namespace

Communicator from_environment(const Options& options) {
  const auto map = current_environment();
  const auto settings = settings_for(options, map);
  Log log(settings.log_level, options.log);
  const auto choice = choose_without_mpi(map);
  if (choice.init == launch::Init::alone) {
    AloneBootstrap alone;
    return Communicator::create(alone, options);
  }
  const auto store =
      store::open(map, {}, choice, false, log, Deadline::after_running(settings.timeout));
  return Communicator::create(*store, options);
}

std::string check_launcher(int world_rank, int world_size, const std::string& mpi) {
  return launch::require_agreement(current_environment(), {},
                                   {.rank = world_rank, .size = world_size, .mpi = mpi})
      .shadow_text();
}

std::string unacknowledged_data() {
  return rendezvous::describe_unacknowledged_data();
}

}  // namespace tutti
