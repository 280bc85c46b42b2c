// What has come of a HELLO stays where it is, so a loop that watches for bytes would never rest.
// The set tells of new ones alone (EPOLLET), and the loop watches the set.
#include "server/upgrade/doorstep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/net/discard.h"
#include "server/net/watch.h"
#include "server/turns.h"

#define MAX_GUESTS 256  // more are let in unseen
#define PATIENCE   1000 // ms for a HELLO
#define AT_ONCE    16   // looks in a turn of the loop

struct guest {
    struct list link;
    int fd;
    struct origin origin;
    uint64_t until_ms;
};

// What is there, and stays there for who will read it. False: more has to come. Whatever is no
// HELLO is let in, and told so.
static bool look(int fd, rknnd_Hello *ret, bool *ret_said)
{
    uint8_t bytes[FRAME_HEADER_SIZE + FRAME_MESSAGE_MAX];
    struct frame_header h;
    struct error e;
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        return n == 0 || (errno != EAGAIN && errno != EINTR);
    if (n < FRAME_HEADER_SIZE)
        return false;
    if (frame_header_read(bytes, &h, &e) < 0 || h.type != MESSAGE_HELLO || h.flags)
        return true;
    if ((size_t)n < FRAME_HEADER_SIZE + h.message_size)
        return false;
    struct bytes message = {bytes + FRAME_HEADER_SIZE, h.message_size};
    *ret_said = message_decode(rknnd_Hello_fields, message, ret, &e) == 0;
    return true;
}

static void on_time(uv_timer_t *timer);

// All have the same patience, so the first is the next whose time is over.
static void set_timer(struct doorstep *d)
{
    const struct guest *first = list_first(&d->all, struct guest, link);
    uint64_t now = uv_now(d->loop);
    if (!first)
        uv_timer_stop(&d->timer);
    else
        uv_timer_start(&d->timer, on_time, first->until_ms > now ? first->until_ms - now : 0, 0);
}

// Nobody watches the descriptor from here on. It is the caller's.
static int take_out(struct doorstep *d, struct guest *g)
{
    int fd = g->fd;
    epoll_ctl(d->set, EPOLL_CTL_DEL, fd, NULL);
    list_remove(&g->link);
    d->n--;
    set_timer(d);
    return fd;
}

static void let_in(struct doorstep *d, struct guest *g, const rknnd_Hello *hello)
{
    int fd = take_out(d, g);
    d->decide(d, fd, &g->origin, hello);
    free(g);
}

static void on_time(uv_timer_t *timer)
{
    struct doorstep *d = container_of(timer, struct doorstep, timer);
    struct guest *first = list_first(&d->all, struct guest, link);
    if (first)
        let_in(d, first, NULL);
}

// One that has shut its end down will not say more.
static void on_news(uv_poll_t *poll, int status, int events)
{
    struct doorstep *d = container_of(poll, struct doorstep, poll);
    struct epoll_event all[AT_ONCE];
    (void)status, (void)events;
    turns_mark(poll->loop, "the first messages of connections");
    int n = epoll_wait(d->set, all, AT_ONCE, 0);
    for (int i = 0; i < n && d->set >= 0; i++) { // decide() may close it
        struct guest *g = all[i].data.ptr;
        rknnd_Hello hello;
        bool said = false;
        if (look(g->fd, &hello, &said) || all[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            let_in(d, g, said ? &hello : NULL);
    }
}

// Each step is tried again for the next one that comes.
static int open_set(struct doorstep *d)
{
    struct error e;
    if (d->set < 0) {
        cleanup(fd_close_p) int set = epoll_create1(EPOLL_CLOEXEC);
        if (set < 0 || uv_poll_init(d->loop, &d->poll, set) < 0)
            return -1;
        uv_timer_init(d->loop, &d->timer);
        d->set = steal_fd(&set);
    }
    if (uv_is_active((uv_handle_t *)&d->poll))
        return 0;
    return watch_start(&d->poll, UV_READABLE, on_news, &e);
}

static int add_guest(struct doorstep *d, int fd, const struct origin *origin)
{
    struct guest *g = d->n < MAX_GUESTS && open_set(d) == 0 ? calloc(1, sizeof *g) : NULL;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = g};
    if (!g || epoll_ctl(d->set, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(g);
        return -1;
    }
    *g = (struct guest){.fd = fd, .origin = *origin, .until_ms = uv_now(d->loop) + PATIENCE};
    list_append(&d->all, &g->link);
    d->n++;
    set_timer(d);
    return 0;
}

void doorstep_wait(struct doorstep *d, int fd, const struct origin *origin)
{
    fd_unblock(fd);
    if (add_guest(d, fd, origin) < 0)
        d->decide(d, fd, origin, NULL);
}

void doorstep_init(struct doorstep *d, uv_loop_t *loop)
{
    *d = (struct doorstep){.loop = loop, .set = -1};
    list_init(&d->all);
}

void doorstep_close(struct doorstep *d)
{
    struct guest *g, *after;
    list_for_each_safe (g, after, &d->all, link) {
        discard_socket(take_out(d, g));
        free(g);
    }
    if (d->set < 0)
        return;
    uv_close((uv_handle_t *)&d->poll, NULL);
    uv_close((uv_handle_t *)&d->timer, NULL);
    d->set = fd_close(d->set);
}
