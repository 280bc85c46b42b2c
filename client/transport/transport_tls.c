// tls:HOST[:PORT], a daemon elsewhere, with TLS 1.3 over TCP. The handshake is done here, before
// HELLO, in the thread of the call; the session then belongs to the connection's stream.
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/tls/tls_paths.h"
#include "client/limits.h"
#include "client/transport/connect.h"
#include "client/transport/transports.h"

// ---- keys and certificates ----------------------------------------------------------------------

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// The environment says, else the user's own file of keys counts.
static int make_context(const struct uri *address, struct tls_context **ret, struct error *e)
{
    char server[TLS_SERVER_SIZE], path[512];
    struct tls_files files = {.psk = setting("RKNND_TLS_PSK_FILE"),
                              .cert = setting("RKNND_TLS_CERT"),
                              .key = setting("RKNND_TLS_KEY"),
                              .ca = setting("RKNND_TLS_CA"),
                              .crl = setting("RKNND_TLS_CRL")};
    if (!files.psk && tls_keys_path(path, sizeof path) && access(path, F_OK) == 0)
        files.psk = path;
    uri_format_host(address, server, sizeof server);
    return tls_client_context(&files, server, setting("RKNND_TLS_PSK_IDENTITY"), ret, e);
}

// ---- connecting ---------------------------------------------------------------------------------

static void context_free_p(struct tls_context **c)
{
    tls_context_free(*c);
}

static void stream_tls_free_p(struct stream_tls **s)
{
    stream_tls_free(*s);
}

// Bounded as a whole: a server that sends a byte now and then does not keep us.
static int shake(struct stream_tls *s, int fd, struct error *e)
{
    uint64_t until = clock_ms() + LIMIT_CONNECT_MS;
    int r;
    while ((r = tls_handshake(s->tls)) == -EAGAIN) {
        uint64_t now = clock_ms();
        short events = (short)(POLLIN | (tls_wants_send(s->tls) ? POLLOUT : 0));
        struct pollfd p = {fd, events, 0};
        if (now >= until)
            return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                             "the TLS handshake takes too long; is the server overloaded, or is it "
                             "the port of something else?");
        poll(&p, 1, clock_poll_ms(now, until));
    }
    return r == 0 ? 0 : error_set(e, STATUS_DEVICE_UNAVAILABLE, "no TLS: %s", tls_why(s->tls));
}

// Connects to one of the addresses and greets by TLS.
static int secure(const struct uri *address, int fd, struct stream_tls **ret, struct error *e)
{
    cleanup(context_free_p) struct tls_context *context = NULL;
    cleanup(stream_tls_free_p) struct stream_tls *s = NULL;
    int r = make_context(address, &context, e);
    if (r < 0)
        return r;
    r = stream_tls_new(steal_ptr(context), fd, address->text, &s, e);
    if (r == 0)
        r = shake(s, fd, e);
    if (r == 0)
        *ret = steal_ptr(s);
    return r;
}

static int tls_connect(struct transport_attempt *a, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    int r = connect_look_up(a->address, &list, e);
    if (r < 0)
        return r;
    cleanup(fd_close_p) int fd = connect_addresses(list);
    if (fd < 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "cannot connect: %s; %s", strerror(-fd),
                         connect_advice(-fd));
    r = secure(a->address, fd, &a->tls, e);
    return r < 0 ? r : steal_fd(&fd);
}

// Three hops: the name, the port, the handshake. HELLO is the caller's (doctor_reach.c).
static bool tls_diagnose(struct checks *c, const struct uri *uri)
{
    struct error e;
    cleanup(stream_tls_free_p) struct stream_tls *s = NULL;
    cleanup(fd_close_p) int fd = connect_check(c, uri);
    if (fd < 0)
        return false;
    if (secure(uri, fd, &s, &e) < 0) {
        checks_tell(c, RKNND_CHECK_BAD, "TLS", "", "%s", e.text);
        return false;
    }
    checks_tell(c, RKNND_CHECK_GOOD, "TLS", "", "version 1.3, %s", tls_cipher(s->tls));
    tls_finish(s->tls);
    return true;
}

const struct transport transport_tls = {
    .uri = URI_SCHEME_TLS,
    .help = "a daemon elsewhere, over TLS",
    .hello_advice = "if the server takes certificates, does it take ours? Its log says why it "
                    "refused",
    .connect = tls_connect,
    .diagnose = tls_diagnose,
};
