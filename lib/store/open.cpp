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
  TcpStore::Settings settings(open_secret({}));
  settings.rank = resolved.rank;
  settings.size = resolved.size;
  settings.source = resolved.text();
  log.set_rank(resolved.rank);
  if (resolved.size > 1) {
    settings.store_address = find_store_address(environment, choice, resolved);
    const auto file = environment.find("TUTTI_SECRET_FILE");
    const auto shared =
        bootstrap::SharedSecret::from(file == environment.end() ? std::string() : file->second,
                                      bootstrap::hide_secret_of_environment());
    settings.has_secret = shared.has_value();
    settings.secret = shared ? shared->for_purpose(settings.store_address.job)
                             : open_secret(settings.store_address.job);
    settings.insecure = insecure || launch::flag(environment, "TUTTI_INSECURE");
  }
  return std::make_unique<TcpStore>(settings, log, deadline);
}

}  // namespace tutti::store
