// File descriptors: shared memory, and passing them over Unix sockets.
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/error.h"

#define FD_MAX_PASSED     4   // by us
#define FD_MAX_IN_MESSAGE 253 // by anybody: SCM_MAX_FD of the kernel

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/// Closes what another process has passed: a socket does not wait for its last bytes for as long as
/// that one likes (SO_LINGER). A file system of its own may still let us wait (base/net/discard.h).
void fd_close_passed(int fd);

/// For programs that were started with a standard descriptor closed: /dev/null takes its place, so
/// that none of their sockets does, into which they would print. What is printed then is an error.
/// Call it first.
void fd_keep_standard(void);

/// For the library, whose program may be such a one: takes over a new descriptor and gives it, or
/// one above the standard ones in its place. -1: there is none (errno), as if it was -1 before.
int fd_above_standard(int fd);

/// Whether a file of this process may have so many bytes (RLIMIT_FSIZE). What writes more than it
/// may is sent a signal that ends it, and a library may not decide that for its program.
bool fd_limit_allows(uint64_t size);

/// An anonymous file of `size` bytes that can be shared, close-on-exec. Negative status on failure.
int fd_memory(const char *name, uint64_t size, struct error *e);

/// As fd_memory(), mapped for reading and writing, and sealed against any change of its size and
/// then, with `last_seal` (F_SEAL_*, or 0; may be one that the kernel does not know), for good: a
/// process that has it mapped is safe from all others that have the fd. Returns the fd.
int fd_memory_sealed(const char *name, uint64_t size, int last_seal, void **ret_map,
                     struct error *e);

/// Bytes of what can be shared by mapping it: a file, a memfd or a dma-buf. Words, and
/// STATUS_PARAM_INVALID, if the fd is anything else, or nothing.
int fd_size(int fd, uint64_t *ret, struct error *e);

/// Whether a mapping of a memfd stays valid. A process that touches mapped pages which the file's
/// owner has cut off dies of SIGBUS, as it does when huge pages run out. Only a memfd of ordinary
/// pages that cannot shrink is safe; one that merely lacks the seal gets it, and one that can be
/// written stays so, for others that will map it later. Else STATUS_PARAM_INVALID, with a reason.
int fd_check_stays(int fd, struct error *e);

/// Maps `size` bytes of a file, shared: for reading and writing, or for reading if it is read-only.
/// NULL: it cannot be.
void *fd_map(int fd, uint64_t size, struct error *e);

/// A memfd is its owner's alone from here on: who gets a descriptor of fd_open_read_only() cannot
/// open it for writing. May wait for its owner.
void fd_hide(int fd);

/// The same file (a memfd), open for reading alone, whose descriptor can be given to who may not
/// write it. Does not wait. -1 with errno if that cannot be: EWOULDBLOCK, somebody has a lease on
/// it.
int fd_open_read_only(int fd);

/// Whether an fd is open for reading alone, or of a memfd that is sealed against writing.
bool fd_is_read_only(int fd);

/// Words, and `code`, if the fd of a memory is read-only.
int fd_check_writable(int fd, int code, struct error *e);

/// Whether a socket is one that file descriptors can pass.
bool fd_is_unix(int socket);

/// Makes it non-blocking.
void fd_unblock(int fd);

/// What a Unix socket's peer has sent as urgent (MSG_OOB) is read among the rest, with the
/// descriptors that came along. Else the kernel drops both where it comes to them, and whoever
/// reads then waits for as long as closing these takes.
void fd_take_urgent(int socket);

/// Nobody can pass descriptors over connections to this listening Unix socket, as far as the kernel
/// knows how to refuse them (from Linux 6.16 on).
void fd_refuse_passed(int socket);

/// How long a receive on a blocking socket waits at most; 0: for ever.
void fd_limit_receive(int socket, unsigned ms);

/// Makes a socket blocking, and lets it wait for so long at most for what is to be received
/// (-EAGAIN).
void fd_block_for(int socket, unsigned ms);

/// Asks for a larger send buffer where that helps: a Unix socket's is small and does not grow, so
/// the two ends of a large frame would run in lockstep. TCP sizes its own.
void fd_widen(int socket);

/// sendmsg() on a non-blocking or blocking socket, with up to FD_MAX_PASSED fds on the first byte.
/// Returns bytes sent, or -errno (-EAGAIN: nothing sent, no fd passed). No SIGPIPE.
ssize_t fd_send(int socket, const struct iovec *iov, int n_iov, const int *fds, int n_fds);

/// As fd_send(), and does not wait on a blocking socket either.
ssize_t fd_send_now(int socket, const struct iovec *iov, int n_iov, const int *fds, int n_fds);

/// recvmsg() into one buffer. fds that come along are put, close-on-exec, into fds[] from *n_fds
/// on; those that do not fit `max_fds` are closed here, none if there is room for
/// FD_MAX_IN_MESSAGE. A -1 stands for those that the kernel has dropped because this process may
/// not open more; they are the last of their message. Returns bytes (0: end of stream) or -errno.
ssize_t fd_receive(int socket, void *buffer, size_t size, int *fds, int *n_fds, int max_fds);

/// As fd_receive(), with recvmsg()'s flags (MSG_DONTWAIT), and a signal ends the wait: -EINTR.
ssize_t fd_receive_once(int socket, void *buffer, size_t size, int *fds, int *n_fds, int max_fds,
                        int flags);
