// The ends of a cable.
#include "server/cable.h"

static void on_turn(uv_idle_t *turn)
{
    struct cable *c = container_of(turn, struct cable, turn);
    uv_idle_stop(turn);
    c->refill(c);
}

void cable_wake(struct mux *m)
{
    struct cable *c = container_of(m, struct cable, mux);
    if (!c->closing)
        uv_idle_start(&c->turn, on_turn);
}

void cable_init(struct cable *c, uv_loop_t *loop, bool host, const struct mux_ops *ops)
{
    mux_init(&c->mux, host, ops);
    uv_idle_init(loop, &c->turn);
}

static void on_turn_closed(uv_handle_t *handle)
{
    struct cable *c = container_of((uv_idle_t *)handle, struct cable, turn);
    c->closed(c);
}

void cable_close(struct cable *c, void (*closed)(struct cable *c))
{
    c->closing = true;
    c->closed = closed;
    mux_stop(&c->mux);
    uv_close((uv_handle_t *)&c->turn, on_turn_closed);
}
