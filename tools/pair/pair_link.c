// Nothing here waits without an end: connecting, the handshake, messages and the person's answer
// all have the link's `until_ms`. Sockets never block; the board's side uses the functions in
// steps, since it has many guests at once, and the PC's side the ones that wait.
#include "tools/pair/pair_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/net/tcp.h"
#include "base/tls/pairing.h"

#define BACKLOG 128 // strangers that come at once are no reason to turn one away

int pair_wait(struct pollfd *p, nfds_t n, uint64_t until_ms, struct error *e)
{
    int r;
    do {
        uint64_t now = clock_ms();
        if (now >= until_ms)
            return error_set(e, STATUS_FAIL, "it has taken too long; begin again");
        r = poll(p, n, clock_poll_ms(now, until_ms));
    } while (r == 0 || (r < 0 && errno == EINTR));
    return r < 0 ? error_set_errno(e, STATUS_FAIL, errno, "poll") : 0;
}

// ---- sockets ------------------------------------------------------------------------------------

static void freeaddrinfo_p(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

static int look_up(const char *host, uint16_t port, bool listens, struct addrinfo **ret,
                   struct error *e)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = listens ? AI_PASSIVE : 0};
    snprintf(service, sizeof service, "%u", port);
    int r = getaddrinfo(*host ? host : NULL, service, &hints, ret);
    if (r != 0)
        return error_set(e, listens ? STATUS_PARAM_INVALID : STATUS_DEVICE_UNAVAILABLE,
                         "%s cannot be looked up: %s", host,
                         r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
    return 0;
}

static int finish_connecting(int fd, uint64_t until_ms)
{
    int why = 0;
    socklen_t size = sizeof why;
    struct pollfd p = {fd, POLLOUT, 0};
    if (pair_wait(&p, 1, until_ms, NULL) < 0)
        return -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0 ? -errno : -why;
}

static int connect_one(const struct addrinfo *a, uint64_t until_ms)
{
    cleanup(fd_close_p) int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    tcp_prepare(fd, a->ai_addr);
    int r = connect(fd, a->ai_addr, a->ai_addrlen) < 0 ? -errno : 0;
    if (r == -EINPROGRESS)
        r = finish_connecting(fd, until_ms);
    return r < 0 ? r : steal_fd(&fd);
}

int pair_connect(const char *host, uint16_t port, uint64_t until_ms, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    int fd = -1, r = look_up(host, port, false, &list, e);
    if (r < 0)
        return r;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_one(a, until_ms);
    if (fd >= 0)
        return fd;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "cannot connect to %s, port %u: %s; does `rknnctl pair --listen` wait there?",
                     host, port, strerror(-fd));
}

static int listen_one(const struct addrinfo *a)
{
    cleanup(fd_close_p) int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return steal_fd(&fd);
}

// A socket for all addresses of IPv6 takes IPv4, too, so it is tried first.
int pair_listen(const char *host, uint16_t port, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    int fd = -1, r = look_up(host, port, true, &list, e);
    if (r < 0)
        return r;
    for (int v6 = 1; v6 >= 0 && fd < 0; v6--)
        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            if ((a->ai_family == AF_INET6) == v6)
                fd = listen_one(a);
    if (fd >= 0)
        return fd;
    return error_set_errno(e, STATUS_FAIL, -fd, "cannot listen at %s%sport %u", host,
                           *host ? ", " : "", port);
}

// An IPv4 address may come as an IPv6 one; of others the network counts, unless it is this link's.
static void name_network(const struct sockaddr_storage *from, const char *address, char *ret,
                         size_t size)
{
    const struct sockaddr_in6 *v6 = (const void *)from;
    char text[INET6_ADDRSTRLEN];
    struct in6_addr network = v6->sin6_addr;
    snprintf(ret, size, "%s", address);
    if (from->ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&network) ||
        IN6_IS_ADDR_LINKLOCAL(&network))
        return;
    memset(network.s6_addr + 8, 0, 8);
    if (inet_ntop(AF_INET6, &network, text, sizeof text))
        snprintf(ret, size, "%s", text);
}

int pair_accept(int listener, int *ret, char *ret_from, char *ret_network, size_t size,
                struct error *e)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR
                   ? 1
                   : error_set_errno(e, STATUS_FAIL, errno, "cannot take a connection");
    if (getnameinfo((struct sockaddr *)&from, n, ret_from, (socklen_t)size, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(ret_from, size, "?");
    name_network(&from, ret_from, ret_network, size);
    *ret = fd;
    return 0;
}

// ---- TLS ----------------------------------------------------------------------------------------

short pair_link_events(const struct pair_link *l)
{
    return (short)(POLLIN | (tls_wants_send(l->tls->tls) ? POLLOUT : 0));
}

static int wait_for_peer(const struct pair_link *l, struct error *e)
{
    struct pollfd p = {l->fd, pair_link_events(l), 0};
    return pair_wait(&p, 1, l->until_ms, e);
}

int pair_link_begin(struct pair_link *l, int fd, bool server, uint64_t until_ms, struct error *e)
{
    struct tls_context *context;
    *l = (struct pair_link){.fd = fd, .until_ms = until_ms};
    int r = pairing_context(server, &context, e);
    if (r == 0)
        r = stream_tls_new(context, fd, NULL, &l->tls, e);
    if (r < 0)
        pair_link_close(l);
    return r;
}

int pair_link_shake(struct pair_link *l, struct error *e)
{
    int r = tls_handshake(l->tls->tls);
    if (r == 0 || r == -EAGAIN)
        return r != 0;
    return error_set(e, STATUS_FAIL, "no TLS: %s", tls_why(l->tls->tls));
}

int pair_link_open(struct pair_link *l, int fd, uint64_t until_ms, struct error *e)
{
    int r = pair_link_begin(l, fd, false, until_ms, e);
    if (r < 0)
        return r;
    while ((r = pair_link_shake(l, e)) > 0)
        if ((r = wait_for_peer(l, e)) < 0)
            break;
    if (r < 0)
        pair_link_close(l);
    return r;
}

void pair_link_close(struct pair_link *l)
{
    if (l->tls)
        tls_finish(l->tls->tls);
    stream_tls_free(l->tls);
    l->tls = NULL;
    l->fd = fd_close(l->fd);
}

// ---- messages -----------------------------------------------------------------------------------

int pair_link_send(struct pair_link *l, const struct pair_message *m, struct error *e)
{
    uint8_t bytes[PAIR_MESSAGE_SIZE];
    size_t sent = 0;
    pair_message_write(m, bytes);
    while (sent < sizeof bytes) {
        const struct iovec iov = {bytes + sent, sizeof bytes - sent};
        ssize_t n = tls_send(l->tls->tls, &iov, 1);
        if (n < 0 && n != -EAGAIN)
            return error_set(e, STATUS_FAIL, "the other end is gone: %s", tls_why(l->tls->tls));
        if (n == -EAGAIN && wait_for_peer(l, e) < 0)
            return e ? e->code : STATUS_FAIL;
        sent += n > 0 ? (size_t)n : 0;
    }
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

int pair_link_receive_some(struct pair_link *l, uint8_t bytes[PAIR_MESSAGE_SIZE], size_t *have,
                           struct error *e)
{
    while (*have < PAIR_MESSAGE_SIZE) {
        ssize_t n = tls_receive(l->tls->tls, bytes + *have, PAIR_MESSAGE_SIZE - *have);
        if (n == -EAGAIN)
            return 1;
        if (n == 0)
            return error_set(e, STATUS_FAIL, "the other end has gone away");
        if (n < 0)
            return error_set(e, STATUS_FAIL, "the other end is gone: %s", tls_why(l->tls->tls));
        *have += (size_t)n;
    }
    return 0;
}

int pair_link_read(uint8_t bytes[PAIR_MESSAGE_SIZE], enum pair_type type, struct pair_message *ret,
                   struct error *e)
{
    struct pair_message m = {0};
    int r = pair_message_read(bytes, &m, e);
    explicit_bzero(bytes, PAIR_MESSAGE_SIZE);
    if (r < 0)
        return r;
    if (m.type == PAIR_ABORT)
        return error_set(e, STATUS_FAIL, "the other end gives up: %s", m.text);
    if (m.type != type)
        return error_set(e, STATUS_FAIL, "the other end says %s where %s belongs",
                         pair_type_name(m.type), pair_type_name(type));
    *ret = m;
    return 0;
}

int pair_link_receive(struct pair_link *l, enum pair_type type, struct pair_message *ret,
                      struct error *e)
{
    uint8_t bytes[PAIR_MESSAGE_SIZE];
    size_t have = 0;
    int r;
    while ((r = pair_link_receive_some(l, bytes, &have, e)) > 0)
        if ((r = wait_for_peer(l, e)) < 0)
            return r;
    return r < 0 ? r : pair_link_read(bytes, type, ret, e);
}

void pair_link_abort(struct pair_link *l, const char *why)
{
    struct pair_message m = {.type = PAIR_ABORT};
    if (!l->tls)
        return;
    snprintf(m.text, sizeof m.text, "%s", why);
    l->until_ms = 0; // nothing is waited for
    pair_link_send(l, &m, NULL);
}

// ---- the person ---------------------------------------------------------------------------------

bool pair_read_line(char *ret, size_t size)
{
    size_t n = 0;
    char c;
    ssize_t r;
    while ((r = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n')
        if (n + 1 < size)
            ret[n++] = c;
    ret[n] = 0;
    return r == 1 || n > 0;
}

int pair_link_ask(struct pair_link *l, const char *question, char *ret, size_t size,
                  struct error *e)
{
    struct pair_message m;
    struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {l->fd, POLLIN, 0}};
    printf("%s ", question);
    fflush(stdout);
    int r = pair_wait(p, 2, l->until_ms, e);
    if (r < 0)
        return r;
    if (p[1].revents) {
        r = pair_link_receive(l, PAIR_ABORT, &m, e); // cannot be anything good
        return r < 0 ? r : STATUS_FAIL;
    }
    if (!pair_read_line(ret, size))
        return error_set(e, STATUS_FAIL, "nobody is there to type");
    return 0;
}
