#pragma once

#include <fcntl.h>

#include <memory>

#include "half_pair.hpp"
#include "transport/link_endpoint.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::transport::test {

/// Two ranks of a host, for a link from the first to the second.
struct Host {
  Descriptor file = SharedSegment::make_file(2);
  std::shared_ptr<SharedSegment> first = std::make_shared<SharedSegment>(copy(), 0, 2);
  std::shared_ptr<SharedSegment> second = std::make_shared<SharedSegment>(copy(), 1, 2);
  SocketPair sockets;

  [[nodiscard]] Descriptor copy() const {
    return Descriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  }
  LinkEndpoint dial(bool with_memory = true) {
    return LinkEndpoint::dialed(rendezvous::SecureSocket::plain(std::move(sockets.one)),
                                with_memory ? std::make_unique<LinkMemory>(first, 0, 1) : nullptr);
  }
  LinkEndpoint accept() {
    return LinkEndpoint::accepted(rendezvous::SecureSocket::plain(std::move(sockets.other)),
                                  std::make_unique<LinkMemory>(second, 0, 1));
  }
};

}  // namespace tutti::transport::test
