#pragma once

#include "rendezvous/handshake.hpp"
#include "rendezvous/wire.hpp"

namespace tutti::rendezvous {

/// A connection to a peer that has proven who it is.
struct Connection {
  Wire socket;  ///< non-blocking
  int peer = -1;
  LinkKind kind = LinkKind::control;
};

}  // namespace tutti::rendezvous
