#include "transport/descriptor_passing.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "base/system_error.hpp"
#include "bootstrap/keyed_hash.hpp"

namespace tutti::transport {
namespace {

using Mac = bootstrap::Hash;

Mac mac_of(const NoteKey& key, std::string_view purpose, int from, int to) {
  ByteWriter message;
  message.put(std::as_bytes(std::span(purpose)))
      .put(std::span<const std::byte>(key.secret.id()))
      .put(key.epoch)
      .put(static_cast<std::uint32_t>(from))
      .put(static_cast<std::uint32_t>(to));
  return bootstrap::hmac_sha256(key.secret.secret(), message.bytes());
}

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Address address_of(const NoteKey& key, int owner) {
  std::string name = "tutti-";
  const auto mac = mac_of(key, "tutti notes name", owner, owner);
  for (std::size_t i = 0; i < mac.size() / 2; ++i) {
    name += fmt::format("{:02x}", static_cast<unsigned>(mac[i]));
  }
  Address result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

Descriptor make_socket() {
  Descriptor result(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result) throw system_error("can't create a Unix socket", errno);
  result.close_on_fork();
  return result;
}

/// The transmitted fields of a note.
struct PackedNote {
  std::uint8_t kind;
  std::int32_t rank;
  std::array<std::byte, 32> proof;
  std::array<char, 160> reason;
};

/// Buffer of the control message that carries one descriptor.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Note Note::no(const std::string& reason) {
  Note note;
  const auto length = std::min(reason.size(), note.reason.size() - 1);
  std::copy_n(reason.begin(), length, note.reason.begin());
  return note;
}

Note Note::request(const NoteKey& key, int from, int to) {
  return {
      .kind = NoteKind::request, .rank = from, .proof = mac_of(key, "tutti notes proof", from, to)};
}

bool Note::proves_membership(const NoteKey& key, int to) const {
  const auto due = mac_of(key, "tutti notes proof", rank, to);
  return kind == NoteKind::request && bootstrap::equal_in_constant_time(due, proof);
}

Descriptor listen_for_notes(const NoteKey& key, int owner) {
  auto socket = make_socket();
  const auto address = address_of(key, owner);
  if (::bind(socket.get(), address.get(), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    throw system_error("can't open the socket that passes shared memory", errno);
  }
  return socket;
}

Descriptor accept_notes(const Descriptor& socket, std::chrono::milliseconds limit) {
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) return Descriptor();
  Descriptor connection(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  connection.close_on_fork();
  return connection;
}

Descriptor connect_for_notes(const NoteKey& key, int owner) {
  auto socket = make_socket();
  const auto address = address_of(key, owner);
  while (::connect(socket.get(), address.get(), address.length) != 0) {
    if (errno == EAGAIN) return Descriptor();
    if (errno != EINTR) {
      throw system_error("can't reach the rank that passes shared memory", errno);
    }
  }
  return socket;
}

bool send_note(const Descriptor& connection, const Note& note, int file) {
  PackedNote packed{static_cast<std::uint8_t>(note.kind), note.rank, note.proof, note.reason};
  iovec content{.iov_base = &packed, .iov_len = sizeof packed};
  Control control{};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(connection.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof packed;
}

Received receive_note(const Descriptor& connection, Note& note, Deadline limit,
                      const std::function<bool()>& cancelled) {
  PackedNote packed{};
  iovec content{.iov_base = &packed, .iov_len = sizeof packed};
  while (true) {
    Control control{};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    const auto received = ::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (cancelled()) return Received::cancelled;
      if (limit.expired()) return Received::timeout;
      pollfd waiting{.fd = connection.get(), .events = POLLIN, .revents = 0};
      ::poll(&waiting, 1, static_cast<int>(poll_interval.count()));
      continue;
    }
    const auto* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      note.file = Descriptor(fd);
    }
    if (received != sizeof packed) return Received::closed;
    note.kind = static_cast<NoteKind>(packed.kind);
    note.rank = packed.rank;
    note.proof = packed.proof;
    note.reason = packed.reason;
    note.reason.back() = 0;
    return Received::note;
  }
}

}  // namespace tutti::transport
