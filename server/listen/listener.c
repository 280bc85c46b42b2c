// Listening sockets, and the socket over which a parent passes connections (--adopt).
//
//   listen fd --accept4()-----------+
//                                   +--> take_connection(): who is it? --> listeners.take()
//   adopt fd --SCM_RIGHTS message---+
//
// All of it is on the loop's thread. A listener is freed when libuv has closed both its handles.
#include "server/listen/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/net/tcp.h"
#include "base/net/unix_socket.h"
#include "server/listen/bind.h"
#include "server/net/watch.h"
#include "server/turns.h"

#define ACCEPTS_PER_TURN 16
#define RETRY_MS         500 // when the process has no file descriptors left

struct listener {
    struct list link;
    struct listeners *all;
    int fd;
    bool tls;
    bool lent; // another process has it, too: its file stays
    char name[160];
    char *unlink_path; // a Unix socket that was made here
    struct unix_file file;
    char *address; // listeners.address when it was made; NULL: none
    void (*take)(struct listener *l);
    // Only of one that has started: so others can be made on any thread.
    bool started, polled;
    uv_poll_t poll;
    uv_timer_t retry;
    unsigned n_open; // handles
};

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *l = container_of(poll, struct listener, poll);
    (void)status;
    (void)events;
    l->take(l);
}

static void on_retry(uv_timer_t *timer);

// Without a free descriptor accept4() fails at once and the socket stays readable: without a pause
// the loop would spin.
static void pause_accepting(struct listener *l, const char *why)
{
    log_warn("%s: no connections are accepted for a moment: %s", l->name, why);
    if (l->polled)
        uv_poll_stop(&l->poll);
    uv_timer_start(&l->retry, on_retry, RETRY_MS, 0);
}

// Fails when the kernel has no room for one more in an epoll set.
static int listener_poll(struct listener *l, struct error *e)
{
    if (l->polled)
        return 0;
    int r = uv_poll_init(l->all->loop, &l->poll, l->fd);
    if (r < 0)
        return error_set(e, STATUS_FAIL, "%s", uv_strerror(r));
    l->poll.data = l;
    l->polled = true;
    l->n_open++;
    return 0;
}

static void listener_start(struct listener *l)
{
    struct error e;
    if (l->all->paused)
        return;
    int r = listener_poll(l, &e);
    if (r == 0)
        r = watch_start(&l->poll, UV_READABLE, on_readable, &e);
    if (r < 0)
        pause_accepting(l, e.text);
}

static void on_retry(uv_timer_t *timer)
{
    listener_start(container_of(timer, struct listener, retry));
}

// ---- who is at the other end --------------------------------------------------------------------

// For Unix sockets the kernel says who connected (SO_PEERCRED, as of connect()). uid -1 if it does
// not.
static void find_origin(const struct listener *l, int fd, const struct sockaddr *peer,
                        struct origin *ret)
{
    char host[INET6_ADDRSTRLEN] = "?";
    *ret = (struct origin){0};
    if (peer->sa_family == AF_UNIX) {
        origin_set_peer(ret, fd, l->all->groups, l->all->n_groups);
        return;
    }
    ret->remote = !tcp_is_loopback(peer);
    origin_set_source(ret, peer);
    uv_ip_name(peer, host, sizeof host);
    ret->tls = l->tls;
    snprintf(ret->text, sizeof ret->text, "%s, %s", l->tls ? "tls" : "tcp", host);
}

// The peer's address decides about socket options as well as about the origin.
static void prepare_connection(const struct listener *l, int fd, struct origin *ret)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage space;
    } peer = {.any.sa_family = AF_UNSPEC};
    socklen_t length = sizeof peer;
    getpeername(fd, &peer.any, &length);
    find_origin(l, fd, &peer.any, ret);
    tcp_prepare(fd, &peer.any);
    fd_widen(fd);
}

static void take_connection(struct listener *l, int fd)
{
    struct origin origin;
    prepare_connection(l, fd, &origin);
    l->all->take(l->all, fd, &origin);
}

void listeners_prepare(struct listeners *all, int fd, struct origin *ret)
{
    const struct listener plain = {.all = all};
    fd_unblock(fd);
    prepare_connection(&plain, fd, ret);
}

// ---- accept -------------------------------------------------------------------------------------

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// A limited number per turn, so that a flood of connections does not occupy the loop.
static void take_by_accept(struct listener *l)
{
    turns_mark(l->poll.loop, "new connections");
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            take_connection(l, fd);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else if (is_shortage(errno)) {
            pause_accepting(l, strerror(errno));
            return;
        } // else: that client has disconnected already
    }
}

// ---- the end ------------------------------------------------------------------------------------

static void free_listener(struct listener *l)
{
    fd_close(l->fd);
    free(l->unlink_path);
    free(l->address);
    free(l);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    if (--l->n_open == 0)
        free_listener(l);
}

// The file goes first, so that no client finds a socket that nobody serves.
static void close_listener(struct listener *l)
{
    list_remove(&l->link);
    if (l->unlink_path && !l->lent)
        unix_file_remove(&l->file, l->unlink_path);
    if (!l->started) {
        free_listener(l);
        return;
    }
    if (l->polled)
        uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->retry, on_handle_closed);
}

// ---- connections that a parent hands over -------------------------------------------------------

// Each byte may bring descriptors. The end of the socket means that the parent has gone.
static void take_by_message(struct listener *l)
{
    int fds[FD_MAX_PASSED], n_fds = 0;
    char byte;
    ssize_t n = fd_receive(l->fd, &byte, 1, fds, &n_fds, FD_MAX_PASSED);
    for (int i = 0; i < n_fds; i++) {
        fd_unblock(fds[i]);
        take_connection(l, fds[i]);
    }
    if (n == -EAGAIN || n == -EWOULDBLOCK || n > 0)
        return;
    struct listeners *all = l->all;
    close_listener(l);
    all->orphaned(all);
}

// ---- life ---------------------------------------------------------------------------------------

// Takes over fd, also on failure. Does not accept yet: listeners_start() does.
static int listener_add(struct listeners *all, int fd, const char *name, const char *unlink_path,
                        bool tls, void (*take)(struct listener *l), struct error *e)
{
    cleanup(fd_close_p) int socket = fd;
    struct listener *l = calloc(1, sizeof *l);
    char *path = unlink_path ? strdup(unlink_path) : NULL;
    char *address = all->address ? strdup(all->address) : NULL;
    if (!l || (unlink_path && !path) || (all->address && !address)) {
        free(l);
        free(path);
        free(address);
        return error_no_memory(e, "a listening socket", sizeof *l);
    }
    *l = (struct listener){.all = all,
                           .fd = socket,
                           .unlink_path = path,
                           .address = address,
                           .tls = tls,
                           .lent = all->lent,
                           .take = take};
    if (path)
        l->file = unix_file_at(path);
    snprintf(l->name, sizeof l->name, "%s", name);
    fd_unblock(socket);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    steal_fd(&socket);
    list_append(&all->all, &l->link);
    return 0;
}

int listener_open_fd(struct listeners *all, int fd, bool tls, const char *name, struct error *e)
{
    char uri[LISTENER_URI_SIZE];
    int listening = 0;
    socklen_t length = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", name);
    if (!listening)
        return error_set(e, STATUS_PARAM_INVALID, "%s is not a socket that listens", name);
    if (!tls && !all->insecure && bind_is_public(fd, uri, sizeof uri))
        return bind_refuse_public(name, BIND_USE_TLS, e);
    if (tls && fd_is_unix(fd))
        return error_set(e, STATUS_PARAM_INVALID, "%s is a Unix socket, which needs no TLS", name);
    return listener_add(all, fd, name, NULL, tls, take_by_accept, e);
}

// Only Unix sockets can carry descriptors.
int listener_adopt(struct listeners *all, int fd, struct error *e)
{
    int domain = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "--adopt %d", fd);
    if (domain != AF_UNIX)
        return error_set(e, STATUS_PARAM_INVALID, "--adopt %d is not a Unix socket", fd);
    return listener_add(all, fd, "adopted connections", NULL, false, take_by_message, e);
}

int listener_add_bound(void *owner, int fd, const char *name, const char *unlink_path,
                       struct error *e)
{
    return listener_add(owner, fd, name, unlink_path, false, take_by_accept, e);
}

// Bound sockets are named tcp:….
int listener_add_tls(void *owner, int fd, const char *name, const char *unlink_path,
                     struct error *e)
{
    char tls[LISTENER_URI_SIZE];
    snprintf(tls, sizeof tls, "tls%s", strchr(name, ':'));
    return listener_add(owner, fd, tls, unlink_path, true, take_by_accept, e);
}

// Counts on when `ret` is full, so that the caller can tell.
unsigned listeners_find_public(const struct listeners *all, bool tls,
                               char (*ret)[LISTENER_URI_SIZE], unsigned max)
{
    const struct listener *l;
    char uri[LISTENER_URI_SIZE];
    unsigned n = 0;
    list_for_each (l, &all->all, link) {
        char *to = n < max ? ret[n] : uri;
        if (l->tls != tls || !bind_is_public(l->fd, to, LISTENER_URI_SIZE))
            continue;
        if (tls)
            memcpy(to, "tls", 3); // for tcp
        n++;
    }
    return n;
}

// Those that run already are left alone. A socket that has not started queues connections in the
// kernel.
void listeners_start(struct listeners *all)
{
    struct listener *l;
    list_for_each (l, &all->all, link) {
        if (l->started)
            continue;
        log_info("listening on %s", l->name);
        uv_timer_init(all->loop, &l->retry);
        l->retry.data = l;
        l->n_open = 1;
        l->started = true;
        listener_start(l);
    }
}

// ---- another process's --------------------------------------------------------------------------

int listener_take_over(struct listeners *all, const struct listener_view *v, struct error *e)
{
    all->address = v->address;
    all->lent = true;
    int r = listener_add(all, v->fd, v->name, v->unlink_path, v->tls, take_by_accept, e);
    all->address = NULL;
    all->lent = false;
    return r;
}

void listeners_own(struct listeners *all)
{
    struct listener *l;
    list_for_each (l, &all->all, link)
        l->lent = false;
}

unsigned listeners_count(const struct listeners *all)
{
    const struct listener *l;
    unsigned n = 0;
    list_for_each (l, &all->all, link)
        n++;
    return n;
}

const char *listeners_address(const struct listeners *all, unsigned i)
{
    const struct listener *l;
    list_for_each (l, &all->all, link)
        if (i-- == 0)
            return l->address;
    return NULL;
}

// NULL, too, if another server's socket is there by now.
static const char *path_of(const struct listener *l)
{
    return l->unlink_path && unix_file_is_at(&l->file, l->unlink_path) ? l->unlink_path : NULL;
}

int listeners_view(const struct listeners *all, listener_viewer *see, void *owner, struct error *e)
{
    const struct listener *l;
    int r = 0;
    list_for_each (l, &all->all, link)
        if (r == 0)
            r = see(owner,
                    &(struct listener_view){.fd = l->fd,
                                            .tls = l->tls,
                                            .name = l->name,
                                            .unlink_path = path_of(l),
                                            .address = l->address},
                    e);
    return r;
}

void listeners_pause(struct listeners *all)
{
    struct listener *l;
    all->paused = true;
    list_for_each (l, &all->all, link)
        if (l->polled)
            uv_poll_stop(&l->poll);
}

void listeners_resume(struct listeners *all)
{
    struct listener *l;
    all->paused = false;
    list_for_each (l, &all->all, link)
        listener_start(l);
}

void listeners_give_up(struct listeners *all)
{
    struct listener *l;
    list_for_each (l, &all->all, link)
        l->lent = true;
    listeners_close(all);
}

void listeners_join(struct listeners *all, struct listeners *more)
{
    struct listener *l;
    while ((l = list_first(&more->all, struct listener, link))) {
        list_remove(&l->link);
        l->all = all;
        list_append(&all->all, &l->link);
    }
}

bool listeners_close_address(struct listeners *all, const char *address)
{
    struct listener *l, *after;
    bool found = false;
    list_for_each_safe (l, after, &all->all, link)
        if (l->address && strcmp(l->address, address) == 0) {
            log_info("no longer listening on %s", l->name);
            close_listener(l);
            found = true;
        }
    return found;
}

void listeners_init(struct listeners *all, uv_loop_t *loop)
{
    *all = (struct listeners){.loop = loop};
    list_init(&all->all);
    list_init(&all->carriers);
}

void listeners_close(struct listeners *all)
{
    struct listener *l, *after;
    list_for_each_safe (l, after, &all->all, link)
        close_listener(l);
}

// A carrier may only go after the connections whose bytes it carries.
void listeners_close_carriers(struct listeners *all)
{
    struct listener_carrier *c;
    while ((c = list_first(&all->carriers, struct listener_carrier, link))) {
        list_remove(&c->link);
        c->close(c);
    }
}
