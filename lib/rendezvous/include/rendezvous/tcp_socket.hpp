#pragma once

#include "base/descriptor.hpp"

/// Options that all TCP sockets of a job have, whichever end made them.
namespace tutti::rendezvous {

/// A non-blocking socket for a dial; forked children do not hold it. No socket, and errno, where
/// there can be none.
[[nodiscard]] Descriptor make_dialing_socket(int family);

/// Sets SO_REUSEADDR: a connection that is closed, but not forgotten yet by the kernel (TIME-WAIT),
/// then keeps its local port from nobody who sets it too. A dial's local port may be the very port
/// at which rank 0 of the next job is to listen.
void let_others_reuse_port(int socket);

/// Sets TCP_NODELAY: else the kernel holds a short message back until the one before it is
/// acknowledged, which takes the other end 40 ms where it has nothing to say.
void send_without_delay(int socket);

/// Before connect(): both ends send IP packets of small_packet_bytes at most. What ranks say to
/// bring the job together, and of their troubles, then passes where larger packets get lost.
void keep_packets_small(int socket, int family);

/// True if both ends are one socket. The kernel connects a dial to itself if it chooses, as the
/// dial's local port, the port that is dialed, and nobody listens there.
[[nodiscard]] bool is_connected_to_itself(int socket);

/// Closes a connection at once, and leaves nothing that holds its port.
void reset(Descriptor& socket);

}  // namespace tutti::rendezvous
