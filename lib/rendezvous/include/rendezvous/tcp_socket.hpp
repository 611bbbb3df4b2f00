#pragma once

#include "base/descriptor.hpp"

/// Options of all TCP sockets of a job.
namespace tutti::rendezvous {

/// Creates a non-blocking client socket that forked children do not inherit. Returns an empty
/// descriptor and sets errno on failure.
[[nodiscard]] Descriptor make_client_socket(int family);

/// Sets SO_REUSEADDR, so that a connection in TIME-WAIT does not block its local port for others
/// that set the option. A client's local port may be the port that rank 0 of the next job listens
/// at.
void set_reuse_address(int socket);

/// Sets TCP_NODELAY. Without it, a short message waits for the acknowledgement of the previous one,
/// which a silent peer delays by 40 ms.
void set_no_delay(int socket);

/// Call before connect(): limits both ends to IP packets of small_packet_bytes, so that set-up and
/// failure reports work on paths that drop larger packets.
void limit_packet_size(int socket, int family);

/// True if the socket is connected to itself. The kernel does so if it picks the dialed port as the
/// local port while no process listens there.
[[nodiscard]] bool is_connected_to_itself(int socket);

/// Closes a connection with a reset, so that its port is free at once.
void reset(Descriptor& socket);

}  // namespace tutti::rendezvous
