#include "rendezvous/tls.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system_error.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t record_bytes = std::size_t{16} << 10;
// Maximum that one write() encrypts before it sends: few system calls, and it fits into the cache.
constexpr std::size_t max_bytes_per_write = std::size_t{128} << 10;
constexpr std::size_t header_bytes = 5;
constexpr std::string_view identity = "tutti";

std::string reason_of_latest_error() {
  const auto code = ERR_peek_last_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "no reason is given" : text;
}

Error unusable() {
  return {ErrorCode::system,
          fmt::format("libssl can't make a TLS 1.3 connection ({}): check the installed OpenSSL 3",
                      reason_of_latest_error())};
}

}  // namespace

// Not in the unnamed namespace: types with external linkage have members of this type.
template <auto Free>
struct Freeing {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

bool has_tls() {
  return true;
}

struct TlsContext::Parts {
  std::unique_ptr<SSL_CTX, Freeing<SSL_CTX_free>> context;
  std::unique_ptr<BIO_METHOD, Freeing<BIO_meth_free>> method;
};

struct Tls::Parts {
  int socket = -1;
  Settings settings;
  std::shared_ptr<const TlsContext> shared;  ///< keeps the SSL_CTX alive
  std::unique_ptr<SSL_SESSION, Freeing<SSL_SESSION_free>> session;
  std::unique_ptr<SSL, Freeing<SSL_free>> ssl;

  /// Encrypted bytes; those from `flushed` on are not sent yet.
  std::vector<char> out;
  std::size_t flushed = 0;
  std::size_t taken = 0;  ///< number of the caller's bytes encrypted into `out`
  std::uint64_t under_this_key = 0;
  std::vector<std::byte> record;  ///< small parts combined into one record

  /// Bytes read ahead from the socket: [in_begin, in_end).
  std::array<char, header_bytes> in{};
  std::size_t in_begin = 0;
  std::size_t in_end = 0;
  bool ahead = false;
  bool at_end = false;
  int socket_errno = 0;  ///< sticky: the kernel reports an error once, then end of file
  std::string failure;

  static Parts& of(BIO* bio) { return *static_cast<Parts*>(BIO_get_data(bio)); }
  static int on_read(BIO* bio, char* to, int wanted);
  static int on_write(BIO* bio, const char* from, int bytes);

  int take(BIO* bio, char* to, int wanted);
  bool flush();
  bool encrypt(std::span<const iovec> parts);
  bool encrypt(const void* data, std::size_t bytes);
  ssize_t fail(std::string_view what);
};

/// BIO read callback. libssl's own socket BIO sets neither MSG_DONTWAIT nor MSG_NOSIGNAL.
int Tls::Parts::take(BIO* bio, char* to, int wanted) {
  BIO_clear_retry_flags(bio);
  if (socket_errno != 0) return -1;
  const auto size = static_cast<std::size_t>(wanted);
  if (in_begin < in_end) {
    const auto got = std::min(size, in_end - in_begin);
    std::memcpy(to, in.data() + in_begin, got);
    in_begin += got;
    return static_cast<int>(got);
  }
  // Reads the next record's header together with a record's body: one system call a record, no
  // copy.
  const bool has_body = ahead && size > in.size();
  std::array<iovec, 2> buffers{{{to, size}, {in.data(), in.size()}}};
  msghdr message{};
  message.msg_iov = buffers.data();
  message.msg_iovlen = has_body ? 2 : 1;
  ssize_t result = 0;
  do {
    result = ::recvmsg(socket, &message, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    BIO_set_retry_read(bio);
    return -1;
  }
  if (result < 0) socket_errno = errno;
  if (result == 0) at_end = true;
  if (result <= 0) return static_cast<int>(result);
  const auto got = static_cast<std::size_t>(result);
  in_begin = 0;
  in_end = got > size ? got - size : 0;
  return static_cast<int>(std::min(got, size));
}

/// True if all data was passed to the kernel.
bool Tls::Parts::flush() {
  while (flushed < out.size()) {
    const auto done =
        ::send(socket, out.data() + flushed, out.size() - flushed, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done >= 0) {
      flushed += static_cast<std::size_t>(done);
    } else if (errno != EINTR) {
      return false;
    }
  }
  out.clear();
  flushed = 0;
  return true;
}

ssize_t Tls::Parts::fail(std::string_view what) {
  failure = fmt::format("{} (TLS: {})", what, reason_of_latest_error());
  // Sends the alert to the peer.
  static_cast<void>(flush());
  errno = EBADMSG;
  return -1;
}

bool Tls::Parts::encrypt(const void* data, std::size_t bytes) {
  std::size_t written = 0;
  return SSL_write_ex(ssl.get(), data, bytes, &written) == 1 && written == bytes;
}

/// Combines small parts into one record, such as a header with its payload.
bool Tls::Parts::encrypt(std::span<const iovec> parts) {
  record.clear();
  for (const auto& part : parts) {
    std::span<const std::byte> rest(static_cast<const std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty() && taken < max_bytes_per_write) {
      const auto some = rest.first(std::min(rest.size(), record_bytes - record.size()));
      rest = rest.subspan(some.size());
      taken += some.size();
      if (record.empty() && (some.size() == record_bytes || &part == &parts.back())) {
        if (!encrypt(some.data(), some.size())) return false;
        continue;
      }
      record.insert(record.end(), some.begin(), some.end());
      if (record.size() < record_bytes) continue;
      if (!encrypt(record.data(), record.size())) return false;
      record.clear();
    }
  }
  return record.empty() || encrypt(record.data(), record.size());
}

int Tls::Parts::on_read(BIO* bio, char* to, int wanted) {
  return of(bio).take(bio, to, wanted);
}

int Tls::Parts::on_write(BIO* bio, const char* from, int bytes) {
  auto& out = of(bio).out;
  out.insert(out.end(), from, from + bytes);
  return bytes;
}

namespace {

long on_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int on_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

SSL_SESSION* another_reference(SSL* ssl) {
  auto* const session = static_cast<SSL_SESSION*>(SSL_get_app_data(ssl));
  SSL_SESSION_up_ref(session);
  return session;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* length,
              SSL_SESSION** session) {
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *length = identity.size();
  *session = another_reference(ssl);
  return 1;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t length, SSL_SESSION** session) {
  const bool is_ours = std::string_view(reinterpret_cast<const char*>(id), length) == identity;
  *session = is_ours ? another_reference(ssl) : nullptr;
  return 1;
}

}  // namespace

TlsContext::TlsContext() : parts_(std::make_unique<Parts>()) {
  ERR_clear_error();
  parts_->context.reset(SSL_CTX_new(TLS_method()));
  auto* const context = parts_->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1) {
    throw unusable();
  }
  // End of file without close_notify is accepted: the layers above detect truncation.
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);

  parts_->method.reset(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tutti"));
  auto* const method = parts_->method.get();
  if (method == nullptr || BIO_meth_set_read(method, Tls::Parts::on_read) != 1 ||
      BIO_meth_set_write(method, Tls::Parts::on_write) != 1 ||
      BIO_meth_set_ctrl(method, on_control) != 1 || BIO_meth_set_create(method, on_create) != 1) {
    throw unusable();
  }
}

TlsContext::~TlsContext() = default;

Tls::Tls(std::shared_ptr<const TlsContext> context, int socket, Side side,
         std::span<const std::byte, key_bytes> key, Settings settings)
    : parts_(std::make_unique<Parts>()) {
  auto& parts = *parts_;
  parts.socket = socket;
  parts.settings = settings;
  parts.shared = std::move(context);
  ERR_clear_error();
  parts.ssl.reset(SSL_new(parts.shared->parts_->context.get()));
  auto* const ssl = parts.ssl.get();
  if (ssl == nullptr) throw unusable();

  parts.session.reset(SSL_SESSION_new());
  constexpr std::array<unsigned char, 2> suite{0x13, 0x01};  // TLS_AES_128_GCM_SHA256
  const auto* const cipher = SSL_CIPHER_find(ssl, suite.data());
  if (!parts.session || cipher == nullptr ||
      SSL_SESSION_set1_master_key(parts.session.get(),
                                  reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) != 1 ||
      SSL_SESSION_set_cipher(parts.session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(parts.session.get(), TLS1_3_VERSION) != 1) {
    throw unusable();
  }
  SSL_set_app_data(ssl, parts.session.get());

  auto* const bio = BIO_new(parts.shared->parts_->method.get());
  if (bio == nullptr) throw unusable();
  BIO_set_data(bio, &parts);
  SSL_set_bio(ssl, bio, bio);
  if (side == Side::initiator) {
    SSL_set_connect_state(ssl);
    // No peer has a certificate; one that sends one is rejected.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(ssl);
  }
}

Tls::~Tls() = default;

Tls::Step Tls::handshake() {
  auto& parts = *parts_;
  ERR_clear_error();
  const int result = SSL_do_handshake(parts.ssl.get());
  const int error = SSL_get_error(parts.ssl.get(), result);
  // A handshake flight of a few hundred bytes fits into the empty send buffer.
  if (!parts.flush()) {
    parts.failure = "the TLS handshake failed: " + errno_text(errno);
    return Step::failed;
  }
  if (result == 1) {
    // The handshake must have used the pre-shared key.
    if (SSL_session_reused(parts.ssl.get()) == 1) return Step::done;
    parts.failure = "the TLS handshake failed: the pre-shared key of this link was not used";
    return Step::failed;
  }
  if (error == SSL_ERROR_WANT_READ) return Step::wait;
  if (parts.socket_errno != 0) {
    parts.failure = "the TLS handshake failed: " + errno_text(parts.socket_errno);
  } else if (parts.at_end) {
    parts.failure = "it closed the connection during the TLS handshake";
  } else {
    static_cast<void>(parts.fail("the TLS handshake failed"));
  }
  return Step::failed;
}

ssize_t Tls::write(std::span<const iovec> parts) {
  auto& own = *parts_;
  if (!own.failure.empty()) {
    errno = EBADMSG;
    return -1;
  }
  if (own.taken == 0) {
    if (!own.flush()) return -1;
    ERR_clear_error();
    if (own.under_this_key >= own.settings.bytes_per_key) {
      own.under_this_key = 0;
      if (SSL_key_update(own.ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
        return own.fail("the key update failed");
      }
    }
    if (!own.encrypt(parts)) return own.fail("encryption failed");
    own.under_this_key += own.taken;
  }
  if (!own.flush()) return -1;
  return static_cast<ssize_t>(std::exchange(own.taken, 0));
}

ssize_t Tls::read(std::span<const iovec> parts, bool ahead) {
  auto& own = *parts_;
  if (!own.failure.empty()) {
    errno = EBADMSG;
    return -1;
  }
  own.ahead = ahead;
  std::size_t total = 0;
  for (const auto& part : parts) {
    std::span<std::byte> buffer(static_cast<std::byte*>(part.iov_base), part.iov_len);
    while (!buffer.empty()) {
      std::size_t got = 0;
      ERR_clear_error();
      if (SSL_read_ex(own.ssl.get(), buffer.data(), buffer.size(), &got) == 1) {
        total += got;
        buffer = buffer.subspan(got);
        if (!ahead && !has_buffered_data()) return static_cast<ssize_t>(total);
        continue;
      }
      const bool wants_more = SSL_get_error(own.ssl.get(), 0) == SSL_ERROR_WANT_READ;
      if (!wants_more && own.socket_errno == 0 && !own.at_end) {
        static_cast<void>(
            own.fail("received data failed authentication, or the peer reported that"));
      }
      // Return received data first; the next read returns the error.
      if (total > 0) return static_cast<ssize_t>(total);
      if (own.socket_errno == 0 && own.at_end) return 0;
      errno = own.socket_errno != 0 ? own.socket_errno : wants_more ? EAGAIN : EBADMSG;
      return -1;
    }
  }
  return static_cast<ssize_t>(total);
}

bool Tls::has_buffered_data() const {
  return parts_->in_begin < parts_->in_end || SSL_pending(parts_->ssl.get()) > 0 ||
         !parts_->failure.empty() || parts_->socket_errno != 0;
}

const std::string& Tls::failure() const {
  return parts_->failure;
}

}  // namespace tutti::rendezvous
