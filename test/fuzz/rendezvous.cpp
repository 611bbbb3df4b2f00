// Data from unauthenticated connections and from peers during rendezvous.
#include <algorithm>

#include "rendezvous/address.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/interfaces.hpp"
#include "rendezvous/peer_info.hpp"
#include "support/secret.hpp"
#include "targets.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"

namespace tutti::fuzz {
namespace {

using rendezvous::Membership;

Membership member(int rank) {
  // drawn once: drawing it per input would take most of the time
  static const auto secret = test::known_secret();
  return {.secret = secret, .epoch = 0, .rank = rank, .size = 4};
}

/// Copies `input` to the start of an array; the rest is zero.
template <std::size_t N>
std::array<std::byte, N> padded(Input& input) {
  std::array<std::byte, N> result{};
  const auto count = std::min(N, input.size());
  std::copy_n(input.begin(), count, result.begin());
  input = input.subspan(count);
  return result;
}

}  // namespace

// The first byte selects the rest's meaning: a hello, a proof, an answer, or changes to a valid
// proof.
void handshake(Input input) {
  if (input.empty()) return;
  const auto what = std::to_integer<unsigned>(input[0]) % 4;
  input = input.subspan(1);
  const auto self = member(1);
  rendezvous::Nonce nonce{};
  nonce[0] = std::byte{7};
  const auto own_hello = rendezvous::make_hello(nonce);
  if (what == 0) {
    const auto hello = padded<rendezvous::hello_bytes>(input);
    const auto proof = rendezvous::make_proof(self, 2, rendezvous::LinkKind::data, hello, nonce);
    require(proof.index() == 1 || std::equal(hello.begin(), hello.begin() + 8, own_hello.begin()),
            "a proof is given only where the hello has this version");
    return;
  }
  const auto good = std::get<rendezvous::Proof>(
      rendezvous::make_proof(member(2), 1, rendezvous::LinkKind::data, own_hello, nonce));
  auto proof = good;
  if (what == 1) {
    proof = padded<rendezvous::proof_bytes>(input);
  } else if (what == 2) {
    // Pairs of an offset and a value to add there.
    for (std::size_t i = 0; i + 1 < input.size(); i += 2) {
      auto& changed = proof[std::to_integer<std::size_t>(input[i]) % proof.size()];
      changed = static_cast<std::byte>(std::to_integer<unsigned>(changed) +
                                       std::to_integer<unsigned>(input[i + 1]));
    }
  } else {
    const auto answer = padded<rendezvous::answer_bytes>(input);
    require(!rendezvous::check_answer(member(2), 1, own_hello, good, answer),
            "an answer by who does not know the secret is refused");
    return;
  }
  const auto checked = rendezvous::check_proof(self, own_hello, proof);
  require((checked.index() == 0) == (proof == good), "exactly the good proof is accepted");
  if (const auto* authenticated = std::get_if<rendezvous::AuthenticatedPeer>(&checked)) {
    require(authenticated->from == 2 &&
                rendezvous::check_answer(member(2), 1, own_hello, proof, authenticated->answer),
            "the answer to a good proof is good");
  }
}

void peer_info(Input input) {
  const auto decoded = rendezvous::PeerInfo::decode(Bytes(input.begin(), input.end()));
  if (!decoded) return;
  const auto again = rendezvous::PeerInfo::decode(decoded->encode());
  require(again && again->encode() == decoded->encode(),
          "peer info survives the way there and back");
  for (const auto& address : decoded->addresses) {
    require(!address.text().empty() && address.shares_prefix(address, 128),
            "an address can be written and lies in its own network");
  }
  try {
    rendezvous::require_agreement({*decoded, *again});
  } catch (const Error&) {
    require(false, "peer info agrees with itself");
  }
  rendezvous::PeerInfo own;
  own.version = version_string;
  own.settings = {{"TUTTI_CHUNK", "262144"}};
  try {
    rendezvous::require_agreement({own, *decoded});
    require(decoded->version == own.version, "infos of two versions do not agree");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::mismatch, "infos that differ are a mismatch");
  }
}

// One line with the filter, then lines with names of interfaces and, for some, an address.
void interfaces(Input input) {
  auto text = text_of(input);
  const auto line_end = std::min(text.find('\n'), text.size());
  rendezvous::InterfaceFilter filter;
  try {
    filter = rendezvous::InterfaceFilter(text.substr(0, line_end), "TUTTI_SOCKET_IFNAME=");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::usage && error.sentence().starts_with("TUTTI_SOCKET_IFNAME"),
            "bad input is a usage error that names the variable");
    return;
  }
  text.erase(0, line_end);
  bool allows_all = true;
  std::vector<rendezvous::Interface> all;
  while (!text.empty()) {
    text.erase(0, 1);
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    const auto blank = std::min(line.find(' '), line.size());
    const auto name = line.substr(0, blank);
    allows_all = filter.allows(name) && allows_all;
    if (blank < line.size()) {
      if (const auto address = rendezvous::SocketAddress::parse(line.substr(blank + 1))) {
        all.push_back({.name = name, .address = *address, .prefix_bits = 24});
        allows_all = filter.allows(all.back()) && allows_all;
      }
    }
    text.erase(0, end);
  }
  require(filter.is_set() || allows_all, "a filter that names nothing allows all");
  require(!filter.is_allow_list() || line_end > 0, "an empty filter names none");
  for (const auto family : {SocketFamily::any, SocketFamily::v4, SocketFamily::v6}) {
    try {
      const auto chosen =
          rendezvous::choose_interfaces(all, filter, "TUTTI_SOCKET_IFNAME=", family);
      require(chosen.size() <= all.size(), "no interface comes out of nothing");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::usage, "no interface is left: a usage error");
    }
  }
}

}  // namespace tutti::fuzz
