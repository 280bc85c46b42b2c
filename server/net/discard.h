// Closing what other processes have passed to us. close() may wait for as long as they like: for a
// socket's last bytes (SO_LINGER), for the answer of a file system of theirs (FUSE). So it is done
// on threads, of which some may hang.
#pragma once

/// Takes over a descriptor that came from another process, and closes it some time. Never waits;
/// from any thread.
void discard_fd(int fd);

/// Takes out and discards the descriptors that still lie unread in a Unix socket, which is of no
/// further use. After that close(socket) does not wait, as the socket's end would end them as well.
void discard_unread(int socket);
