// Where libssl was not found at build time.
#include <cerrno>

#include "rendezvous/tls.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous {

struct Tls::Parts {
  std::string trouble;
};

bool has_tls() {
  return false;
}

struct TlsContext::Parts {};

TlsContext::TlsContext() {
  throw Error(ErrorCode::usage,
              "TUTTI_ENCRYPT=1 needs libssl, and this tutti was built without: build it where "
              "OpenSSL's headers are (libssl-dev), or unset the variable on all ranks");
}

TlsContext::~TlsContext() = default;

// Never called: there is no context to call it with.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the one of tls.cpp keeps it
Tls::Tls(std::shared_ptr<const TlsContext>, int, Side, std::span<const std::byte, key_bytes>,
         Settings)
    : parts_(std::make_unique<Parts>()) {}

Tls::~Tls() = default;

Tls::Step Tls::shake_hands() {
  return Step::failed;
}

ssize_t Tls::write(std::span<const iovec>) {
  errno = EBADMSG;
  return -1;
}

ssize_t Tls::read(std::span<const iovec>, bool) {
  errno = EBADMSG;
  return -1;
}

bool Tls::holds_back() const {
  return false;
}

const std::string& Tls::trouble() const {
  return parts_->trouble;
}

}  // namespace tutti::rendezvous
