#pragma once

#include <arpa/inet.h>

#include <stdexcept>
#include <string>

#include "rendezvous/address.hpp"

namespace tutti::rendezvous::test {

inline SocketAddress v4(const std::string& text, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) throw std::invalid_argument(text);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

inline SocketAddress v6(const std::string& text, std::uint16_t port = 0) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, text.c_str(), &address.sin6_addr) != 1) {
    throw std::invalid_argument(text);
  }
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

}  // namespace tutti::rendezvous::test
