#include "server/upgrade/doorstep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "server/net/watch.h"
#include "server/turns.h"

#define MAX_GUESTS 256  // more are let in unseen
#define PATIENCE   1000 // ms for a HELLO
#define AGAIN      5    // ms between looks at one that has come in part

struct guest {
    struct list link;
    struct doorstep *at;
    int fd;
    struct origin origin;
    uv_poll_t poll;
    uv_timer_t timer;
    uint64_t until_ms;
    unsigned n_open; // handles
    bool said, dropped;
    rknnd_Hello hello;
};

// The loop has let go of the descriptor: from here on others may watch it.
static void on_closed(uv_handle_t *handle)
{
    struct guest *g = handle->data;
    if (--g->n_open > 0)
        return;
    if (g->dropped)
        fd_close(g->fd);
    else
        g->at->decide(g->at, g->fd, &g->origin, g->said ? &g->hello : NULL);
    free(g);
}

static void end_wait(struct guest *g)
{
    list_remove(&g->link);
    g->at->n--;
    uv_close((uv_handle_t *)&g->poll, on_closed);
    uv_close((uv_handle_t *)&g->timer, on_closed);
}

// What is there, and stays there for who will read it. False: more has to come. Whatever is no
// HELLO is let in, and told so.
static bool look(struct guest *g)
{
    uint8_t bytes[FRAME_HEADER_SIZE + FRAME_MESSAGE_MAX];
    struct frame_header h;
    struct error e;
    ssize_t n = recv(g->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        return n == 0 || (errno != EAGAIN && errno != EINTR);
    if (n < FRAME_HEADER_SIZE)
        return false;
    if (frame_header_read(bytes, &h, &e) < 0 || h.type != MESSAGE_HELLO || h.flags)
        return true;
    if ((size_t)n < FRAME_HEADER_SIZE + h.message_size)
        return false;
    struct bytes message = {bytes + FRAME_HEADER_SIZE, h.message_size};
    g->said = message_decode(rknnd_Hello_fields, message, &g->hello, &e) == 0;
    return true;
}

static void on_time(uv_timer_t *timer);

// Without a pause the loop would spin on bytes that are left where they are.
static void go_on(struct guest *g)
{
    uint64_t now = uv_now(g->at->loop);
    if (look(g) || now >= g->until_ms) {
        end_wait(g);
        return;
    }
    uv_poll_stop(&g->poll);
    uv_timer_start(&g->timer, on_time, AGAIN, 0);
}

static void on_time(uv_timer_t *timer)
{
    go_on(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    turns_mark(poll->loop, "the first message of a connection");
    go_on(poll->data);
}

static struct guest *guest_new(struct doorstep *d, int fd, const struct origin *origin)
{
    struct guest *g = d->n < MAX_GUESTS ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    *g = (struct guest){.at = d, .fd = fd, .origin = *origin};
    if (uv_poll_init(d->loop, &g->poll, fd) < 0) {
        free(g);
        return NULL;
    }
    uv_timer_init(d->loop, &g->timer);
    g->poll.data = g->timer.data = g;
    g->n_open = 2;
    g->until_ms = uv_now(d->loop) + PATIENCE;
    list_append(&d->all, &g->link);
    d->n++;
    return g;
}

void doorstep_wait(struct doorstep *d, int fd, const struct origin *origin)
{
    struct error e;
    fd_unblock(fd);
    struct guest *g = guest_new(d, fd, origin);
    if (!g) {
        d->decide(d, fd, origin, NULL);
        return;
    }
    uv_timer_start(&g->timer, on_time, PATIENCE, 0);
    if (watch_start(&g->poll, UV_READABLE, on_readable, &e) < 0)
        uv_timer_start(&g->timer, on_time, AGAIN, 0);
}

void doorstep_init(struct doorstep *d, uv_loop_t *loop)
{
    *d = (struct doorstep){.loop = loop};
    list_init(&d->all);
}

void doorstep_close(struct doorstep *d)
{
    struct guest *g, *after;
    list_for_each_safe (g, after, &d->all, link) {
        g->dropped = true;
        end_wait(g);
    }
}
