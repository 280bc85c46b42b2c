// The yardstick: a process with a thread for each connection and blocking sockets, that reads a
// request of fixed size and writes a reply of fixed size, and clients of the same kind.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/load.h"

struct plain {
    const char *unix_path; // NULL: TCP on the loopback
    uint16_t tcp_port;
    size_t request, reply; // bytes
    pid_t server;
};

extern const struct load_type plain_load_type;

/// Starts the server in a process of its own; fills `server`, and `tcp_port` if there is no path.
void plain_start(struct plain *p);
void plain_stop(struct plain *p);

/// A port of the loopback that was free a moment ago.
uint16_t plain_free_port(void);
