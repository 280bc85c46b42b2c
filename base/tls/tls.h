// One TLS 1.3 session over a stream that never blocks: who has one moves bytes by two functions of
// his, and asks again when they can move. Handshake first, then both directions at any time.
//
//     plain bytes ─► tls_send() ─► sealed records ─► io.send()
//     plain bytes ◄─ tls_receive() ◄── records ◄──── io.receive()
//
// One thread at a time.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "base/tls/tls_context.h"

struct tls;

// As fd_send() and fd_receive() (base/fd.h) without descriptors: bytes, 0 (the end, of receive),
// -EAGAIN, or another -errno.
struct tls_io {
    ssize_t (*send)(void *owner, const void *data, size_t size);
    ssize_t (*receive)(void *owner, void *buffer, size_t size);
    void *owner;
};

/// Of a client `host` is what the server's certificate has to be for; NULL: nothing. The context
/// stays until the session is freed.
int tls_new(struct tls_context *c, const struct tls_io *io, const char *host, struct tls **ret,
            struct error *e);

/// Without a word to the other end; frees it.
void tls_free(struct tls *t);

/// Tells the other end that nothing follows, if it can be told at once.
void tls_finish(struct tls *t);

/// 0: done. -EAGAIN: to be called again when bytes can move (tls_wants_send()). Else a negative
/// errno, and tls_why() has words.
int tls_handshake(struct tls *t);

/// What is waited for includes that bytes can be sent, whatever else is.
bool tls_wants_send(const struct tls *t);

/// As fd_send(). Bytes count as sent when all of their records have been; so after -EAGAIN the next
/// call has to begin with all of the same bytes. A negative errno: tls_why().
ssize_t tls_send(struct tls *t, const struct iovec *iov, int n_iov);

/// As fd_receive(): fills the buffer as far as it can. 0: the other end has said that nothing
/// follows; an end without that is -ECONNRESET.
ssize_t tls_receive(struct tls *t, void *buffer, size_t size);

/// Something has arrived that tls_receive() has not looked at: the stream need not bring more.
bool tls_has_input(const struct tls *t);

/// Whether what came first, after a handshake that failed, begins with these bytes.
bool tls_began_with(const struct tls *t, const void *bytes, size_t size);

/// `size` bytes that both ends of this session, and nobody else, get for a label (RFC 8446, 7.5).
/// 0, or a negative errno: there has been no handshake.
int tls_export(struct tls *t, const char *label, uint8_t *ret, size_t size);

/// Who the other end is: of a server's session the identity of the client's key, or the name of its
/// certificate (common name, else the first DNS name). "": nobody has said.
const char *tls_identity(const struct tls *t);

/// Why it failed, for people: what, and what to do.
const char *tls_why(const struct tls *t);

/// "TLS_AES_128_GCM_SHA256", for people.
const char *tls_cipher(const struct tls *t);
