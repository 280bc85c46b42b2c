// The HTTP library talks to strangers, so it has a process of its own, which gets nothing but
// listening sockets and a socket pair to ask the daemon with. It asks one question at a time;
// answers go out without waiting, and a process that says anything unexpected is ended and started
// again, with the same listening sockets: its clients see a connection that closes.
//
// The process, the poll on its socket and the pipe of its log close one by one; n_open counts them,
// and only when all have gone the next one starts.
#include "server/metrics/http_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/discard.h"
#include "base/net/uri.h"
#include "server/handle/services.h"
#include "server/listen/bind.h"
#include "server/metrics/metrics_share.h"
#include "server/net/watch.h"
#include "server/runner/plain_environment.h"

#define PROGRAM   "rknnd-http"
#define AGAIN_MS  1000  // from its end to its next start
#define RETIRE_MS 15000 // for who is connected when another daemon takes over

// ---- answers ------------------------------------------------------------------------------------

// The text in a memfd: however long it is, the answer fits the socket's buffer.
static int make_file(const struct snapshot *copy, struct http_answer *ret)
{
    void *map;
    struct error e;
    int fd = fd_memory_sealed("metrics", copy->size, 0, &map, &e);
    if (fd < 0) {
        log_warn("no metrics: %s", e.text);
        return fd;
    }
    memcpy(map, copy->data, copy->size);
    munmap(map, copy->size);
    ret->size = copy->size;
    return fd;
}

// What does not fit is not waited for: the process has one question under way at most.
static void answer_ready(const struct http *h, uint32_t number)
{
    struct http_answer a = {.number = number, .yes = h->services->serving};
    fd_send(h->fd, &(struct iovec){&a, sizeof a}, 1, NULL, 0);
}

// A snapshot_asker's told().
static void answer_metrics(struct snapshot_asker *asker, struct snapshot *copy,
                           const struct error *e)
{
    struct http *h = container_of(asker, struct http, asker);
    struct http_answer a = {.number = h->asked};
    cleanup(fd_close_p) int file = -1;
    if (copy)
        file = make_file(copy, &a);
    else
        log_warn("no metrics: %s", e->text);
    a.yes = file >= 0;
    fd_send(h->fd, &(struct iovec){&a, sizeof a}, 1, &file, file >= 0);
}

// A question that was not answered in time may be followed by another one.
static void answer_question(struct http *h, const struct http_ask *question)
{
    if (question->what != HTTP_ASK_METRICS) {
        answer_ready(h, question->number);
        return;
    }
    list_remove(&h->asker.link);
    h->asked = question->number;
    h->asker.told = answer_metrics;
    snapshots_get(&h->services->metrics_share->all, &h->asker);
}

static void on_question(uv_poll_t *poll, int status, int events)
{
    struct http *h = container_of(poll, struct http, poll);
    struct http_ask question;
    int passed[FD_MAX_IN_MESSAGE], n_passed = 0;
    (void)status, (void)events;
    ssize_t n = fd_receive(h->fd, &question, sizeof question, passed, &n_passed, FD_MAX_IN_MESSAGE);
    bool is_sane = discard_fds(passed, n_passed); // it has strangers to talk to
    if (n == sizeof question && is_sane)
        answer_question(h, &question);
    else if (n != -EAGAIN) {
        uv_poll_stop(poll); // it ends; one that does not would ask in vain from here on
        child_kill(&h->child);
    }
}

// ---- the process --------------------------------------------------------------------------------

static void on_again(uv_timer_t *timer);

static void on_part_closed(struct http *h)
{
    if (--h->n_open > 0)
        return;
    h->fd = fd_close(h->fd);
    if (!h->ending) {
        uv_timer_start(&h->again, on_again, AGAIN_MS, 0);
        return;
    }
    if (!h->closed)
        uv_timer_stop(&h->again);
    h->ended(h);
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_part_closed(container_of((uv_poll_t *)handle, struct http, poll));
}

static void on_log_closed(struct worker_log *l)
{
    on_part_closed(container_of(l, struct http, log));
}

static void on_child_closed(struct child *c)
{
    on_part_closed(container_of(c, struct http, child));
}

// The process has ended, or never began.
static void close_parts(struct http *h)
{
    list_remove(&h->asker.link);
    if (h->watched)
        uv_close((uv_handle_t *)&h->poll, on_poll_closed);
    h->watched = false;
    worker_log_close(&h->log, on_log_closed);
    child_close(&h->child, on_child_closed);
}

static void on_exited(struct child *c, int code, int number)
{
    struct http *h = container_of(c, struct http, child);
    if (!h->ending)
        log_warn(PROGRAM " ended (exit code %d, signal %d); another one starts", code, number);
    close_parts(h);
}

static int pass_sockets(const struct http *h, struct error *e)
{
    const struct iovec iov = {(char[]){0}, 1};
    int fds[HTTP_MAX_SOCKETS];
    for (unsigned i = 0; i < h->n_sockets; i++)
        fds[i] = h->sockets[i].fd;
    ssize_t n = fd_send(h->fd, &iov, 1, fds, (int)h->n_sockets);
    return n == 1 ? 0 : error_set_errno(e, STATUS_FAIL, (int)-n, PROGRAM);
}

static int watch_process(struct http *h, struct error *e)
{
    int r = uv_poll_init(h->loop, &h->poll, h->fd);
    if (r < 0)
        return error_set(e, STATUS_FAIL, PROGRAM ": %s", uv_strerror(r));
    h->watched = true;
    h->n_open++;
    return watch_start(&h->poll, UV_READABLE, on_question, e);
}

// It talks to strangers, and has as little of the daemon's environment as workers have. Only its
// start reads the array.
static int start_child(struct http *h, int theirs, int log, struct error *e)
{
    char program[4200];
    cleanup(free_environment) char **environment = plain_environment();
    if (!environment)
        return error_no_memory(e, PROGRAM, 0);
    snprintf(program, sizeof program, "%s/" PROGRAM, h->folder);
    const struct child_words words = {.program = program,
                                      .args = (char *[]){(char *)PROGRAM, NULL},
                                      .environment = environment,
                                      .fd = theirs,
                                      .log_fd = log,
                                      .exited = on_exited};
    int r = child_start(&h->child, &words, e);
    return r < 0 ? error_prefix(e, "%s", program) : 0;
}

// When a part fails those that there are close, and it is tried again.
static int start_process(struct http *h, struct error *e)
{
    int ends[2], log;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, PROGRAM);
    cleanup(fd_close_p) int ours = ends[0], theirs = ends[1];
    int r = worker_log_init(&h->log, h->loop, &log, e);
    if (r < 0)
        return r;
    worker_log_set_name(&h->log, "HTTP");
    h->fd = steal_fd(&ours);
    fd_take_urgent(h->fd);
    child_init(&h->child, h->loop);
    h->n_open = 2;
    r = start_child(h, theirs, log, e);
    fd_close(log);
    if (r == 0)
        r = watch_process(h, e);
    if (r == 0)
        r = pass_sockets(h, e);
    if (r == 0)
        return 0;
    child_kill(&h->child);
    close_parts(h);
    return r;
}

static void on_again(uv_timer_t *timer)
{
    struct http *h = container_of(timer, struct http, again);
    struct error e;
    if (start_process(h, &e) == 0)
        return;
    log_warn("no HTTP: %s", e.text);
    if (h->n_open == 0)
        uv_timer_start(&h->again, on_again, AGAIN_MS, 0);
}

// ---- life ---------------------------------------------------------------------------------------

void http_init(struct http *h, uv_loop_t *loop, const struct services *services)
{
    *h = (struct http){.loop = loop, .services = services, .fd = -1};
    list_init(&h->asker.link);
    uv_timer_init(loop, &h->again);
}

// A bind_taker.
static int take_socket(void *owner, int socket, const char *name, const char *unlink_path,
                       struct error *e)
{
    struct http *h = owner;
    cleanup(fd_close_p) int fd = socket;
    char *path = unlink_path ? strdup(unlink_path) : NULL;
    if (unlink_path && !path)
        return error_no_memory(e, "HTTP", strlen(unlink_path));
    if (h->n_sockets == HTTP_MAX_SOCKETS) {
        free(path);
        return error_set(e, STATUS_PARAM_INVALID, "more than %d addresses", HTTP_MAX_SOCKETS);
    }
    // Its library would have the kernel close them, for as long as that takes.
    if (fd_is_unix(fd))
        fd_refuse_passed(fd);
    h->sockets[h->n_sockets++] = (struct http_socket){
        .fd = steal_fd(&fd),
        .unlink_path = path,
        .file = path ? unix_file_at(path) : (struct unix_file){.inode = 0},
    };
    log_info("HTTP on %s: /metrics, /healthz, /readyz", name);
    return 0;
}

static int http_address(const char *text, struct uri *ret, struct error *e)
{
    const struct uri_scheme *const schemes[] = {&uri_unix, &uri_tcp};
    return uri_parse(text, schemes, 2, ret, e);
}

int http_check(const char *text, bool insecure, struct error *e)
{
    struct uri uri;
    int r = http_address(text, &uri, e);
    if (r == 0 && uri.scheme == &uri_tcp)
        r = bind_check_tcp(&uri, insecure ? NULL : BIND_USE_PROXY, e);
    return r < 0 ? error_prefix(e, "http") : 0;
}

int http_listen(struct http *h, const char *text, const char *socket_group, bool insecure,
                struct error *e)
{
    struct uri uri;
    int r = http_address(text, &uri, e);
    if (r == 0 && uri.scheme == &uri_unix)
        r = bind_unix(uri.text, socket_group, take_socket, h, e);
    else if (r == 0)
        r = bind_tcp(&uri, insecure ? NULL : BIND_USE_PROXY, take_socket, h, e);
    return r < 0 ? error_prefix(e, "http") : 0;
}

int http_take_over(struct http *h, int fd, const char *name, const char *unlink_path,
                   struct error *e)
{
    h->lent = true;
    return take_socket(h, fd, name, unlink_path, e);
}

void http_own(struct http *h)
{
    h->lent = false;
}

int http_start(struct http *h, const char *folder, struct error *e)
{
    h->folder = folder;
    return h->n_sockets > 0 ? start_process(h, e) : 0;
}

void http_start_later(struct http *h, const char *folder)
{
    h->folder = folder;
    if (h->n_sockets > 0)
        on_again(&h->again);
}

static void close_sockets(struct http *h)
{
    for (unsigned i = 0; i < h->n_sockets; i++) {
        if (h->sockets[i].unlink_path && !h->lent)
            unix_file_remove(&h->sockets[i].file, h->sockets[i].unlink_path);
        free(h->sockets[i].unlink_path);
        fd_close(h->sockets[i].fd);
    }
    h->n_sockets = 0;
}

static void on_patience_ended(uv_timer_t *timer)
{
    child_kill(&container_of(timer, struct http, again)->child);
}

void http_give_up(struct http *h)
{
    const struct http_answer retire = {.number = HTTP_RETIRE};
    h->lent = h->ending = true;
    close_sockets(h);
    uv_timer_stop(&h->again);
    if (h->n_open == 0)
        return;
    if (fd_send(h->fd, &(struct iovec){(void *)&retire, sizeof retire}, 1, NULL, 0) < 0)
        child_kill(&h->child);
    uv_timer_start(&h->again, on_patience_ended, RETIRE_MS, 0);
}

bool http_is_open(const struct http *h)
{
    return h->n_open > 0;
}

void http_close(struct http *h)
{
    if (h->closed)
        return;
    h->ending = h->closed = true;
    close_sockets(h);
    child_kill(&h->child); // its end closes the rest
    uv_close((uv_handle_t *)&h->again, NULL);
}
