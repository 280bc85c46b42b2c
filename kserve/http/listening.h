// Sockets that HTTP is listened on.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/net/unix_socket.h"
#include "base/net/uri.h"

/// unix: or tcp:, with words for anything else.
int listening_parse(const char *text, struct uri *ret, struct error *e);

/// A socket that listens; its fd, or a negative status. An address that other machines can reach
/// takes `insecure`. *ret_file is for who removes the file at the end, before the socket is closed.
int listening_open(const struct uri *u, bool insecure, struct unix_file *ret_file, struct error *e);
