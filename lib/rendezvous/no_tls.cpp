// Stubs for a build without libssl.
#include <cerrno>

#include "rendezvous/tls.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous {

struct Tls::Parts {
  std::string failure;
};

bool has_tls() {
  return false;
}

struct TlsContext::Parts {};

TlsContext::TlsContext() {
  throw Error(
      ErrorCode::usage,
      "TUTTI_ENCRYPT=1 needs libssl, and tutti was built without it: install OpenSSL's headers "
      "(libssl-dev) and rebuild, or unset the variable on all ranks");
}

TlsContext::~TlsContext() = default;

// Never called: TlsContext's constructor throws.
Tls::Tls(std::shared_ptr<const TlsContext>, int, Side, std::span<const std::byte, key_bytes>,
         Settings)
    : parts_(std::make_unique<Parts>()) {}

Tls::~Tls() = default;

Tls::Step Tls::handshake() {
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

bool Tls::has_buffered_data() const {
  return false;
}

const std::string& Tls::failure() const {
  return parts_->failure;
}

}  // namespace tutti::rendezvous
