// The ends of a cable.
#include "server/cable.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/log.h"

static void on_turn(uv_prepare_t *turn)
{
    struct cable *c = container_of(turn, struct cable, turn);
    while (c->woken && !c->closing) {
        c->woken = false;
        c->refill(c);
    }
}

void cable_wake(struct cable *c)
{
    c->woken = true;
}

static void on_wake(struct mux *m)
{
    cable_wake(container_of(m, struct cable, mux));
}

static struct mux_channel *on_open(struct mux *m)
{
    struct cable *c = container_of(m, struct cable, mux);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        log_warn("usb: a connection was refused: %s", strerror(errno));
        return NULL;
    }
    struct mux_channel *ch = pump_new(&c->pumps, pair[0]);
    if (ch)
        c->take(c, pair[1]);
    else
        fd_close(pair[1]);
    return ch;
}

static const struct mux_ops ops = {
    .open = on_open,
    .pull = pump_pull,
    .push = pump_push,
    .closed = pump_closed,
    .wake = on_wake,
};

void cable_init(struct cable *c, uv_loop_t *loop, bool host)
{
    mux_init(&c->mux, host, &ops);
    pumps_init(&c->pumps, loop);
    uv_prepare_init(loop, &c->turn);
    uv_prepare_start(&c->turn, on_turn);
}

static void check_closed(struct cable *c)
{
    if (c->turn_closed && c->pumps.n == 0)
        c->closed(c);
}

static void on_turn_closed(uv_handle_t *handle)
{
    struct cable *c = container_of((uv_prepare_t *)handle, struct cable, turn);
    c->turn_closed = true;
    check_closed(c);
}

static void on_pumps_gone(struct pumps *p)
{
    check_closed(container_of(p, struct cable, pumps));
}

void cable_close(struct cable *c, void (*closed)(struct cable *c))
{
    c->closing = true;
    c->closed = closed;
    c->pumps.idle = on_pumps_gone;
    mux_stop(&c->mux);
    pumps_close(&c->pumps);
    uv_close((uv_handle_t *)&c->turn, on_turn_closed);
}
