#pragma once

#include <string_view>

#include "rendezvous/handshake.hpp"
#include "rendezvous/secure_socket.hpp"

namespace tutti::rendezvous {

/// A connection to a peer that has proven who it is.
struct Connection {
  SecureSocket socket;  ///< non-blocking
  int peer = -1;
  LinkKind kind = LinkKind::control;
};

/// Why this connection must not serve the job of `self`: it is plain, and the job's links are
/// encrypted. Empty if it may. No way is known to come to it; a defect on the way here must not
/// send data in the clear.
[[nodiscard]] inline std::string_view why_refused(const Membership& self,
                                                  const Connection& connection) {
  if (!self.tls || connection.socket.is_encrypted()) return {};
  return "the connection is not encrypted, and TUTTI_ENCRYPT=1 asks for it: nothing was sent over "
         "it; please report this defect";
}

}  // namespace tutti::rendezvous
