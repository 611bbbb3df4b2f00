#pragma once

#include "base/descriptor.hpp"
#include "rendezvous/handshake.hpp"

namespace tutti::rendezvous {

/// A connection to a peer that has proven who it is.
struct Connection {
  Descriptor socket;  ///< non-blocking
  int peer = -1;
  LinkKind kind = LinkKind::control;
};

}  // namespace tutti::rendezvous
