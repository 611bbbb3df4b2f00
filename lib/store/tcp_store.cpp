#include "store/tcp_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bootstrap/keyed_hash.hpp"
#include "member_side.hpp"
#include "store/root_side.hpp"

namespace tutti::store {
namespace {

// Larger than any job, so that a rank beyond rank 0's size gets an error instead of a rejected
// handshake.
constexpr int any_size = 1 << 24;

void require_allowed(const TcpStore::Settings& settings,
                     const std::vector<rendezvous::SocketAddress>& addresses) {
  if (settings.has_secret || settings.insecure || is_loopback(addresses)) return;
  throw Error(
      ErrorCode::usage,
      fmt::format("{} can be reached from other hosts ({}), and connections are not "
                  "authenticated: give all ranks the same secret with TUTTI_SECRET_FILE, or "
                  "trust the network with --insecure (TUTTI_INSECURE=1)",
                  settings.store_address.source, addresses.front().text()));
}

/// The addresses at which rank 0 listens. A hosts file may map this host's name to 127.0.1.1 while
/// other hosts resolve it to a network address: if other hosts are allowed, rank 0 listens at all
/// addresses.
std::vector<rendezvous::SocketAddress> listen_addresses(
    const TcpStore::Settings& settings, const std::vector<rendezvous::SocketAddress>& addresses) {
  const auto& store_address = settings.store_address;
  const bool others_may_come = settings.has_secret || settings.insecure;
  if (store_address.on_one_host || store_address.is_explicit() || !others_may_come ||
      !is_loopback(addresses)) {
    return addresses;
  }
  return wildcard_addresses(store_address.port);
}

}  // namespace

bootstrap::JobSecret open_secret(const std::string& job) {
  const auto text = "tutti without a secret: " + job;
  const auto hash = bootstrap::sha256(std::as_bytes(std::span(text)));
  std::array<std::byte, bootstrap::JobSecret::id_bytes> id{};
  std::copy_n(hash.begin(), id.size(), id.begin());
  return {hash, id};
}

TcpStore::TcpStore(const Settings& settings, Log& log, Deadline deadline)
    : rank_(settings.rank), size_(settings.size), source_(settings.source) {
  if (size_ == 1) return;
  const auto addresses = resolve_addresses(settings.store_address, deadline);
  require_allowed(settings, addresses);
  rendezvous::Membership self{
      .secret = settings.secret, .epoch = 0, .rank = rank_, .size = any_size};
  if (rank_ == 0) {
    side_ = std::make_unique<RootSide>(std::move(self), size_, settings.store_address,
                                       listen_addresses(settings, addresses), log, deadline);
  } else {
    side_ = std::make_unique<MemberSide>(std::move(self), size_, settings.store_address, addresses,
                                         deadline);
  }
}

TcpStore::~TcpStore() = default;

namespace {

const Bytes& checked(const Bytes& mine) {
  if (mine.size() <= max_contribution) return mine;
  throw Error(ErrorCode::usage,
              fmt::format("a bootstrap message of {} bytes is too long: the store "
                          "takes {} at most",
                          mine.size(), max_contribution));
}

}  // namespace

std::vector<Bytes> TcpStore::all_gather(const Bytes& mine, Deadline deadline) {
  if (!side_) return {mine};
  const auto table = side_->exchange(StoreOperation::all_gather, checked(mine), 0, deadline);
  auto result = split_gathered(table, size_);
  if (!result) {
    throw Error(ErrorCode::mismatch,
                "rank 0 sent a malformed result: it runs another version "
                "of tutti");
  }
  return *std::move(result);
}

Bytes TcpStore::broadcast(const Bytes& from_root, int root, Deadline deadline) {
  if (!side_) return from_root;
  const bool mine = rank_ == root;
  return side_->exchange(StoreOperation::broadcast, mine ? checked(from_root) : Bytes(), root,
                         deadline);
}

void TcpStore::barrier(Deadline deadline) {
  if (side_) (void)side_->exchange(StoreOperation::barrier, {}, 0, deadline);
}

std::size_t TcpStore::messages() const {
  return side_ ? side_->messages() : 0;
}

}  // namespace tutti::store
