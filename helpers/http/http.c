// rknnd-http: HTTP for whoever watches a daemon (rknnd --http), which starts this and says what is
// to be known. One thread: a question to the daemon is short, and connections are few.
//
//     GET /metrics, /healthz, /readyz ──► rknnd-http ──(fd 3: struct http_ask)──► rknnd
//
// It ends with the daemon, whose end of fd 3 closes then, or, once that one has handed its sockets
// over (HTTP_RETIRE), with the last connection. Where all connections are taken, the one
// that has been at its request for longest gives way: whoever asks whether the daemon is alive has
// an answer.
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/net/discard.h"
#include "base/net/http_ask.h"
#include "base/process/shut_in.h"

#define DAEMON_FD        3
#define CONNECTIONS      256
#define GIVING_WAY       64 // of more that have been told to
#define CONNECTION_BYTES 16384
#define PATIENCE_S       5
#define DAEMON_MS        2000 // after which the daemon is not alive
#define METRICS_PAUSE    4    // times as long as the last ones took them, until new ones are made
#define CONTENT_TYPE     "text/plain; version=0.0.4; charset=utf-8"

// A connection.
struct peer {
    struct list link; // in http.peers
    int socket;
    bool gives_way;
};

struct http {
    uint32_t number;   // of the last question
    bool retiring;     // others have the sockets, too, and accept
    struct list peers; // those that have been at their request for longest come first
    unsigned n_peers;
    struct http_answer metrics; // the last ones
    int metrics_fd;             // -1: there are none
    uint64_t metrics_until_ms;  // they are told
    struct MHD_Daemon *daemons[HTTP_MAX_SOCKETS];
    unsigned n_daemons;
};

// ---- asking the daemon --------------------------------------------------------------------------

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// The daemon's end has closed: nobody is left to serve.
static _Noreturn void daemon_gone(void)
{
    log_debug("the daemon has ended");
    exit(EXIT_SUCCESS);
}

// One answer, if it comes by then. *ret_fd: -1 where it brings none.
static bool receive_answer(struct http *h, struct http_answer *ret, int *ret_fd, uint64_t until_ms)
{
    uint64_t now = now_ms();
    struct pollfd p = {.fd = DAEMON_FD, .events = POLLIN};
    int n_fds = 0;
    if (now >= until_ms || poll(&p, 1, (int)(until_ms - now)) <= 0)
        return false;
    ssize_t n = fd_receive(DAEMON_FD, ret, sizeof *ret, ret_fd, &n_fds, 1);
    if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN))
        daemon_gone();
    if (n_fds == 0)
        *ret_fd = -1;
    h->retiring |= n == sizeof *ret && ret->number == HTTP_RETIRE;
    return n == sizeof *ret;
}

// What comes without a question, or too late.
static void hear_daemon(struct http *h)
{
    struct http_answer a;
    int fd = -1;
    if (receive_answer(h, &a, &fd, now_ms() + 1))
        fd_close(fd);
}

// False: the daemon does not answer.
static bool ask_daemon(struct http *h, enum http_ask_what what, struct http_answer *ret,
                       int *ret_fd)
{
    h->number = h->number < UINT32_MAX ? h->number + 1 : HTTP_RETIRE + 1;
    const struct http_ask question = {.number = h->number, .what = what};
    uint64_t until_ms = now_ms() + DAEMON_MS;
    if (send(DAEMON_FD, &question, sizeof question, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof question)
        return false;
    while (receive_answer(h, ret, ret_fd, until_ms)) {
        if (ret->number == h->number)
            return true;
        if (*ret_fd >= 0)
            close(*ret_fd);
    }
    return false;
}

// ---- answering ----------------------------------------------------------------------------------

static enum MHD_Result http_answer(const struct http *h, struct MHD_Connection *c, unsigned code,
                                   const char *type, struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (h->retiring)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return queued;
}

static enum MHD_Result http_say(const struct http *h, struct MHD_Connection *c, unsigned code,
                                const char *words)
{
    return http_answer(
        h, c, code, "text/plain; charset=utf-8",
        MHD_create_response_from_buffer(strlen(words), (void *)words, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result say_silent(const struct http *h, struct MHD_Connection *c)
{
    return http_say(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "the service does not answer\n");
}

// They cost the daemon something, so that it makes them a fifth of the time at most, however often
// they are asked for. False: the daemon does not answer.
static bool renew_metrics(struct http *h)
{
    uint64_t begin_ms = now_ms();
    if (h->metrics_fd >= 0 && begin_ms < h->metrics_until_ms)
        return true;
    h->metrics_fd = fd_close(h->metrics_fd);
    if (!ask_daemon(h, HTTP_ASK_METRICS, &h->metrics, &h->metrics_fd))
        return false;
    uint64_t end_ms = now_ms();
    h->metrics_until_ms = end_ms + METRICS_PAUSE * (end_ms - begin_ms + 1);
    return true;
}

// The library closes the descriptor with its response.
static enum MHD_Result get_metrics(struct http *h, struct MHD_Connection *c)
{
    if (!renew_metrics(h))
        return say_silent(h, c);
    int fd = h->metrics.yes && h->metrics_fd >= 0 ? fcntl(h->metrics_fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0)
        return http_say(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "the service lacks memory for this\n");
    struct MHD_Response *r = MHD_create_response_from_fd64(h->metrics.size, fd);
    if (!r)
        close(fd);
    return http_answer(h, c, MHD_HTTP_OK, CONTENT_TYPE, r);
}

static enum MHD_Result get_healthz(struct http *h, struct MHD_Connection *c)
{
    struct http_answer a;
    int fd;
    return ask_daemon(h, HTTP_ASK_READY, &a, &fd) ? http_say(h, c, MHD_HTTP_OK, "alive\n")
                                                  : say_silent(h, c);
}

static enum MHD_Result get_readyz(struct http *h, struct MHD_Connection *c)
{
    struct http_answer a;
    int fd;
    if (!ask_daemon(h, HTTP_ASK_READY, &a, &fd))
        return say_silent(h, c);
    return a.yes ? http_say(h, c, MHD_HTTP_OK, "ready\n")
                 : http_say(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "starts, or ends: takes no work\n");
}

static const struct {
    const char *path;
    enum MHD_Result (*get)(struct http *h, struct MHD_Connection *c);
} pages[] = {{"/metrics", get_metrics}, {"/healthz", get_healthz}, {"/readyz", get_readyz}};

// First when the headers are there, then for each part of a body, which is not wanted, then to
// answer.
static enum MHD_Result on_request(void *owner, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_size, void **state)
{
    static char begun;
    const struct http *h = owner;
    (void)version, (void)body;
    if (!*state || *body_size > 0) {
        *state = &begun;
        *body_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return http_say(h, c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD, nothing else\n");
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(url, pages[i].path) == 0)
            return pages[i].get(owner, c);
    return http_say(h, c, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz\n");
}

// ---- what strangers pass ------------------------------------------------------------------------

// In place of the C library's, for libmicrohttpd, which reads by it: what has been passed over a
// Unix socket the kernel would close here, and wait for as long as its sender likes (decision 266).
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
__attribute__((visibility("default"))) ssize_t recv(int socket, void *to, size_t size, int flags)
{
    int passed[FD_MAX_IN_MESSAGE], n_passed = 0;
    if (flags & MSG_PEEK)
        return recvfrom(socket, to, size, flags, NULL, NULL);
    ssize_t n = fd_receive(socket, to, size, passed, &n_passed, FD_MAX_IN_MESSAGE);
    if (!discard_fds(passed, n_passed))
        n = -EMFILE;
    if (n < 0)
        errno = (int)-n;
    return n < 0 ? -1 : n;
}

// The library closes its own descriptor next, which is then not the last one.
static void discard_unread(int socket)
{
    int last = fd_is_unix(socket) ? fcntl(socket, F_DUPFD_CLOEXEC, 3) : -1;
    if (last >= 0)
        discard_socket(last);
}

// ---- connections --------------------------------------------------------------------------------

// Shut down, not closed: the library does that once it has seen the end.
static void make_way(struct http *h)
{
    struct peer *p = list_first(&h->peers, struct peer, link);
    if (!p->gives_way)
        shutdown(p->socket, SHUT_RDWR);
    p->gives_way = true;
    list_remove(&p->link);
    list_append(&h->peers, &p->link);
}

static void on_connection(void *owner, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = owner;
    struct peer *p = *state;
    if (what == MHD_CONNECTION_NOTIFY_STARTED && (p = calloc(1, sizeof *p))) {
        p->socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (fd_is_unix(p->socket))
            fd_take_urgent(p->socket);
        list_append(&h->peers, &p->link);
        if (++h->n_peers > CONNECTIONS)
            make_way(h);
        *state = p;
    } else if (p) {
        discard_unread(p->socket);
        list_remove(&p->link);
        h->n_peers--;
        free(p);
        *state = NULL;
    }
}

// Its next request begins.
static void on_completed(void *owner, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct http *h = owner;
    struct peer *p = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    (void)state, (void)why;
    if (!p)
        return;
    list_remove(&p->link);
    list_append(&h->peers, &p->link);
}

// Pages' addresses need no escapes; what is taken for one of them with "%00" behind it would be
// another page to whoever looks at it on the way.
static size_t leave_escaped(void *owner, struct MHD_Connection *c, char *text)
{
    (void)owner, (void)c;
    return strlen(text);
}

// ---- life ---------------------------------------------------------------------------------------

// One server for each socket that came with the daemon's first byte.
static bool http_begin(struct http *h)
{
    int fds[HTTP_MAX_SOCKETS], n_fds = 0;
    char byte;
    if (fd_receive(DAEMON_FD, &byte, 1, fds, &n_fds, HTTP_MAX_SOCKETS) != 1 || n_fds == 0)
        return false;
    for (int i = 0; i < n_fds; i++) {
        struct MHD_Daemon *d = MHD_start_daemon(
            MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fds[i],
            MHD_OPTION_CONNECTION_LIMIT, (unsigned)(CONNECTIONS + GIVING_WAY),
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
            MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_UNESCAPE_CALLBACK,
            leave_escaped, NULL, MHD_OPTION_END);
        if (!d)
            return false;
        h->daemons[h->n_daemons++] = d;
    }
    return true;
}

// How long to wait for something to happen, at most: -1 without end.
static int http_patience(const struct http *h)
{
    unsigned long long shortest = 0;
    bool any = false;
    for (unsigned i = 0; i < h->n_daemons; i++) {
        unsigned long long wait_ms;
        if (MHD_get_timeout(h->daemons[i], &wait_ms) != MHD_YES)
            continue;
        shortest = any && shortest < wait_ms ? shortest : wait_ms;
        any = true;
    }
    return any ? (int)(shortest < 60000 ? shortest : 60000) : -1;
}

// Where descriptors were short the library accepts no more until a connection has ended, and looks
// at its socket again only when it runs the next time, for which nothing may happen any more.
static void http_run(struct http *h, struct MHD_Daemon *d)
{
    unsigned before;
    do {
        before = h->n_peers;
        MHD_run(d);
    } while (h->n_peers < before);
}

// Whoever waits to be accepted is the others'.
static void http_retire(struct http *h)
{
    for (unsigned i = 0; i < h->n_daemons; i++) {
        MHD_socket listens = MHD_quiesce_daemon(h->daemons[i]);
        if (listens != MHD_INVALID_SOCKET)
            close(listens);
    }
}

static void http_serve(struct http *h)
{
    struct pollfd p[HTTP_MAX_SOCKETS + 1] = {{.fd = DAEMON_FD, .events = POLLIN}};
    bool accepts = true;
    for (unsigned i = 0; i < h->n_daemons; i++)
        p[i + 1] = (struct pollfd){
            .fd = MHD_get_daemon_info(h->daemons[i], MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
            .events = POLLIN};
    while (accepts || h->n_peers > 0) {
        poll(p, h->n_daemons + 1, http_patience(h));
        if (p[0].revents)
            hear_daemon(h);
        if (h->retiring && accepts) {
            http_retire(h);
            accepts = false;
        }
        for (unsigned i = 0; i < h->n_daemons; i++)
            http_run(h, h->daemons[i]);
    }
}

int main(void)
{
    static struct http h = {.metrics_fd = -1};
    list_init(&h.peers);
    log_set_level(LOG_INFO);
    log_mark_levels();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); // the daemon's business
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!http_begin(&h)) {
        log_error("rknnd-http is started by rknnd --http, and cannot start: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    // Who makes it say or do something else has the rights of the service's user, and strangers
    // speak to it: it has its sockets, and needs no file.
    struct error e;
    if (shut_in((const char *const[]){NULL}, &e) < 0)
        log_warn("rknnd-http is not shut in: %s", e.text);
    http_serve(&h);
}
