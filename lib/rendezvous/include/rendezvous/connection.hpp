#pragma once

#include <string_view>

#include "rendezvous/handshake.hpp"
#include "rendezvous/secure_socket.hpp"

namespace tutti::rendezvous {

/// A connection to an authenticated peer.
struct Connection {
  SecureSocket socket;  ///< non-blocking
  int peer = -1;
  LinkKind kind = LinkKind::control;
};

/// Returns why this connection must be rejected (it is plain although the job's links are
/// encrypted), or an empty text. No code path is known to produce such a connection; the check
/// keeps a defect from sending data in the clear.
[[nodiscard]] inline std::string_view rejection_reason(const Membership& self,
                                                       const Connection& connection) {
  if (!self.tls || connection.socket.is_encrypted()) return {};
  return "the connection is not encrypted although TUTTI_ENCRYPT=1 is set: no data was sent over "
         "it; please report this bug";
}

}  // namespace tutti::rendezvous
