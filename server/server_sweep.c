// Sweeping: heartbeats and timeouts of all connections and uploads, some connections at a time,
// since a ping costs as much as any other answer and there may be thousands due.
#include "server/server.h"

#define SWEEP_AT_ONCE 32 // connections

// Twice in a heartbeat, so that a silence is noticed at most half a heartbeat late.
static uint64_t sweep_interval(const struct server *s)
{
    return s->options->heartbeat_ms / 2;
}

// A daemon that was stopped or starved of CPU time has not read anything. Clients must not be
// blamed for that: what they sent in time may still be in the socket.
static void excuse_silence(struct server *s, uint64_t now_ms)
{
    struct connection *c;
    if (now_ms - s->swept_ms > sweep_interval(s) + s->options->peer_timeout_ms / 2)
        list_for_each (c, &s->connections.all, link)
            c->since_ms = now_ms;
    s->swept_ms = now_ms;
}

static void on_swept(struct server *s)
{
    uploads_sweep(&s->uploads, uv_now(s->loop));
    describes_continue(&s->describes);
    server_tell_left(s);
    passed_sweep(&s->connections.left, false);
    bool alone = list_empty(&s->connections.all) && list_empty(&s->uploads.all) &&
                 list_empty(&s->connections.left);
    if (alone)
        uv_timer_stop(&s->sweep);
    if (alone || !s->options->threads)
        heap_look(&s->heap, uv_now(s->loop), alone);
}

// Those that have come meanwhile are the last ones.
static void on_turn(struct rounds_place *place)
{
    struct server *s = container_of(place, struct server, sweep_place);
    struct connection *c;
    turns_mark(s->loop, "heartbeats");
    for (int i = 0; i < SWEEP_AT_ONCE; i++) {
        if (!(c = connections_sweep_next(&s->connections))) {
            on_swept(s);
            return;
        }
        server_tell_unread(s, c);
        connection_sweep(c, uv_now(s->loop));
    }
    rounds_wait(&s->connections.rounds, &s->sweep_line, place);
}

// One that has not come to its end yet goes on.
static void on_timer(uv_timer_t *timer)
{
    struct server *s = container_of(timer, struct server, sweep);
    excuse_silence(s, uv_now(s->loop));
    if (rounds_waits(&s->sweep_place))
        return;
    connections_sweep_begin(&s->connections);
    rounds_wait(&s->connections.rounds, &s->sweep_line, &s->sweep_place);
}

void server_init_sweep(struct server *s)
{
    uv_timer_init(s->loop, &s->sweep);
    rounds_line_init(&s->sweep_line);
    rounds_place_init(&s->sweep_place, on_turn);
}

void server_close_sweep(struct server *s)
{
    rounds_leave(&s->sweep_place);
    rounds_line_done(&s->sweep_line);
    uv_close((uv_handle_t *)&s->sweep, NULL);
}

void server_start_sweep(struct server *s)
{
    if (uv_is_active((uv_handle_t *)&s->sweep))
        return;
    s->swept_ms = uv_now(s->loop);
    uv_timer_start(&s->sweep, on_timer, sweep_interval(s), sweep_interval(s));
}
