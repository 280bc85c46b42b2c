// Who connected, as far as others have to wait for him.
#pragma once

#include <sys/socket.h>

#include "kserve/seats.h"

/// Of an IPv4 address, of the 64 bits of an IPv6 address that are a network's, of a user on a Unix
/// socket. On the loopback interface anybody can have any address, and proxies have those of many:
/// each connection there (`socket`) is one by itself.
struct seat_key peer_key(int socket, const struct sockaddr *address);
