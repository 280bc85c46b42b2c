// Closing what other processes have passed to us. close() may wait for as long as they like: for a
// socket's last bytes (SO_LINGER), for the answer of a file system of theirs (FUSE). So it is done
// on threads, of which some may hang.
#pragma once

#include <stdbool.h>

#include "base/error.h"

/// Once, before the first of them: room for as many as may ever wait, so that none stays open for
/// lack of memory.
int discard_prepare(struct error *e);

/// Takes over descriptors that came from another process, and closes them some time. Never waits;
/// from any thread.
void discard_fd(int fd);

/// The same for several. False: so many wait that whoever passes more should be sent away.
bool discard_fds(const int *fds, int n);

/// Closes a socket that nobody else has. Descriptors that lie unread in a Unix socket, hundreds for
/// each byte if their sender likes, are taken out and closed as the others are.
void discard_socket(int socket);
