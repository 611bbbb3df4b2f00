#include "store/open.hpp"

#include <fmt/format.h>

#include "bootstrap/shared_secret.hpp"

namespace tutti::store {

std::unique_ptr<TcpStore> open(const EnvironmentMap& environment, const launch::Words& words,
                               const launch::InitChoice& choice, bool insecure, Log& log,
                               Deadline deadline) {
  const auto resolved = launch::resolve(environment, words, choice);
  if (!resolved.chosen) {
    throw Error(
        ErrorCode::usage,
        fmt::format(
            "{}, but the rank of this process and the number of ranks are not set: set RANK, "
            "WORLD_SIZE and LOCAL_RANK, or pass --rank and --ranks (TUTTI_RANK, "
            "TUTTI_SIZE)",
            choice.source));
  }
  log.set_rank(resolved.rank);
  StoreAddress address;
  bool trusts_network = false;
  std::optional<bootstrap::SharedSecret> shared;
  if (resolved.size > 1) {
    address = find_store_address(environment, choice, resolved);
    const auto file = environment.find("TUTTI_SECRET_FILE");
    shared = bootstrap::SharedSecret::from(file == environment.end() ? std::string() : file->second,
                                           bootstrap::hide_secret_of_environment());
    trusts_network = insecure || launch::flag(environment, "TUTTI_INSECURE");
  }
  TcpStore::Settings settings(shared ? shared->for_purpose(address.job) : open_secret(address.job));
  settings.rank = resolved.rank;
  settings.size = resolved.size;
  settings.source = resolved.text();
  settings.store_address = std::move(address);
  settings.has_secret = shared.has_value();
  settings.insecure = trusts_network;
  return std::make_unique<TcpStore>(settings, log, deadline);
}

}  // namespace tutti::store
