#include "gloo_context.hpp"

#include <fmt/format.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "implementations.hpp"

namespace tutti::app::bench {
namespace {

/// A key-value store for Gloo's rendezvous over tutti's communicator. set() is collective.
class CommunicatorStore final : public gloo::rendezvous::Store {
 public:
  explicit CommunicatorStore(Communicator& communicator) : communicator_(communicator) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const auto name = from(rank, std::vector<char>(key.begin(), key.end()));
      values_[std::string(name.begin(), name.end())] = from(rank, data);
    }
  }
  std::vector<char> get(const std::string& key) override {
    const auto found = values_.find(key);
    if (found == values_.end()) throw std::runtime_error("Gloo asks for " + key);
    return found->second;
  }
  void wait(const std::vector<std::string>& /*keys*/) override {}
  void wait(const std::vector<std::string>& /*keys*/,
            const std::chrono::milliseconds& /*timeout*/) override {}

 private:
  /// Returns `mine` of `rank`, on every rank.
  std::vector<char> from(int rank, std::vector<char> mine) {
    std::uint64_t length = mine.size();
    communicator_.broadcast(std::span(&length, 1), rank);
    mine.resize(length);
    communicator_.broadcast(std::span(mine), rank);
    return mine;
  }

  Communicator& communicator_;
  std::map<std::string, std::vector<char>> values_;
};

/// The host part of "10.0.0.1:40123" or "[fe80::1]:40123".
std::string host_of(const std::string& address) {
  const auto host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

std::shared_ptr<gloo::Context> connect(Communicator& communicator,
                                       std::chrono::nanoseconds timeout) {
  gloo::transport::tcp::attr where;
  where.hostname = host_of(communicator.info(communicator.rank()).address);
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(communicator.rank(), communicator.size());
  context->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  CommunicatorStore store(communicator);
  context->connectFullMesh(store, device);
  return context;
}

}  // namespace

std::shared_ptr<gloo::Context> connect_gloo(Communicator& communicator,
                                            std::chrono::nanoseconds timeout) {
  try {
    return connect(communicator, timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::system, fmt::format("Gloo can't start: {}", error.what()));
  }
}

std::string gloo_version() {
  return fmt::format("{}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
}

}  // namespace tutti::app::bench
