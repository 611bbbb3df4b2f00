#pragma once

#include <fcntl.h>

#include <memory>

#include "transport/arena.hpp"
#include "transport/link_wire.hpp"
#include "wire.hpp"

namespace tutti::transport::test {

/// What two ranks of a host have for a link from the first to the second.
struct Host {
  Descriptor file = Arena::make_file(2);
  std::shared_ptr<Arena> first = std::make_shared<Arena>(copy(), 0, 2);
  std::shared_ptr<Arena> second = std::make_shared<Arena>(copy(), 1, 2);
  SocketPair sockets;

  [[nodiscard]] Descriptor copy() const {
    return Descriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  }
  LinkWire dial(bool with_memory = true) {
    return LinkWire::dialed(rendezvous::Wire::plain(std::move(sockets.one)),
                            with_memory ? std::make_unique<LinkMemory>(first, 0, 1) : nullptr);
  }
  LinkWire accept() {
    return LinkWire::accepted(rendezvous::Wire::plain(std::move(sockets.other)),
                              std::make_unique<LinkMemory>(second, 0, 1));
  }
};

}  // namespace tutti::transport::test
