// Connections: life, limits, heartbeats.
#include "server/net/connection.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/handle/dispatch.h"
#include "server/jobs/context.h"
#include "server/net/session.h"
#include "server/server.h"

// Queued answers that are not outputs of jobs; past that the client is not heard, and no large
// answer is made for it.
#define MAX_SMALL_BACKLOG (256u * 1024)

static bool has_room(const struct connection *c)
{
    return channel_backlog(&c->channel) <= c->held_bytes + MAX_SMALL_BACKLOG;
}

static bool is_ending(const struct connection *c)
{
    return c->channel.closing || c->state == CONNECTION_LEAVING;
}

// There is a large answer that can be begun.
static bool has_large(const struct connection *c)
{
    const struct request *r = list_first(&c->large, const struct request, turn);
    return r && !r->started && !is_ending(c) && has_room(c);
}

static void on_message(struct channel *channel, const struct frame_header *h, struct bytes message)
{
    struct connection *c = container_of(channel, struct connection, channel);
    c->payload_done = NULL;
    dispatch(c, h, message);
    connection_update_flow(c);
    if (h->payload_size > 0 && !c->payload_done)
        frame_reader_payload_skip(&channel->reader);
}

static void on_payload(struct channel *channel)
{
    struct connection *c = container_of(channel, struct connection, channel);
    if (c->payload_done)
        c->payload_done(c, c->payload_owner);
}

static void on_drained(struct channel *channel)
{
    struct connection *c = container_of(channel, struct connection, channel);
    struct server *s = c->server;
    if (c->state == CONNECTION_LEAVING)
        connection_close(c, "left");
    else
        connection_update_flow(c);
    server_check_drained(s);
}

static void on_turn(struct channel *channel)
{
    connection_start_large(container_of(channel, struct connection, channel));
}

static void on_lost(struct channel *channel, const struct error *why)
{
    connection_close(container_of(channel, struct connection, channel), why->text);
}

static const struct channel_ops ops = {
    .on_message = on_message,
    .on_payload = on_payload,
    .on_drained = on_drained,
    .on_turn = on_turn,
    .on_lost = on_lost,
};

struct connection *connection_new(struct server *s, struct transport *transport,
                                  const struct origin *origin)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        log_error("a connection was refused: out of memory");
        transport_close(transport);
        return NULL;
    }
    channel_init(&c->channel, transport, UINT64_MAX, origin->local, &ops);
    c->server = s;
    c->state = CONNECTION_FRESH;
    c->number = ++s->next_connection;
    c->since_ms = uv_now(s->loop);
    c->origin = *origin;
    list_init(&c->contexts);
    list_init(&c->requests);
    list_init(&c->large);
    list_init(&c->in_session);
    list_append(&s->connections, &c->link);
    s->n_connections++;
    log_debug("c%u connected (%s)", c->number, c->origin.text);
    return c;
}

static void on_closed(struct channel *channel)
{
    free(container_of(channel, struct connection, channel));
}

static void abandon_requests(struct connection *c)
{
    struct request *r;
    while ((r = list_first(&c->requests, struct request, link))) {
        r->connection = NULL;
        list_remove(&r->link);
        list_remove(&r->turn);
        c->n_requests--;
        if (r->abandoned)
            r->abandoned(r);
    }
}

void connection_close(struct connection *c, const char *why)
{
    struct server *s = c->server;
    struct context *x;
    log_debug("c%u closed (%s): %s", c->number, c->program[0] ? c->program : c->origin.text, why);
    list_remove(&c->link);
    s->n_connections--;
    abandon_requests(c);
    while ((x = list_first(&c->contexts, struct context, link)))
        context_close(x);
    uploads_disown(&s->uploads, c);
    connection_keep_model(c, NULL);
    if (c->session) {
        trace_add(&s->trace, TRACE_DISCONNECT, c->session->id, c->number, 0, NULL);
        c->session->n_connections--;
    }
    list_remove(&c->in_session);
    session_unref(steal_ptr(c->session));
    channel_close(&c->channel, on_closed);
    server_check_drained(s);
}

void connection_say_goodbye(struct connection *c, const char *reason)
{
    rknnd_Goodbye m = rknnd_Goodbye_init_zero;
    message_set_text(m.reason, reason);
    channel_send(&c->channel, message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields, &m, NULL,
                                            0, NULL, NULL));
}

void connection_leave(struct connection *c, const char *reason)
{
    if (c->state == CONNECTION_LEAVING)
        return;
    if (reason)
        connection_say_goodbye(c, reason);
    log_info("c%u (%s) is sent away: %s", c->number, c->origin.text,
             reason ? reason : "no agreement");
    c->state = CONNECTION_LEAVING;
    c->since_ms = uv_now(c->server->loop);
    channel_pause(&c->channel);
    if (channel_backlog(&c->channel) == 0)
        connection_close(c, "left");
}

void connection_keep_model(struct connection *c, struct model *m)
{
    struct model *old = c->offered;
    c->offered = m ? store_ref(m) : NULL;
    store_unref(old);
}

void connection_reply(struct connection *c, const struct frame_header *h,
                      const pb_msgdesc_t *fields, const void *message)
{
    channel_send(&c->channel,
                 message_frame(h->type, FRAME_REPLY, h->id, fields, message, NULL, 0, NULL, NULL));
    connection_update_flow(c);
}

void connection_reply_error(struct connection *c, const struct frame_header *h,
                            const struct error *e)
{
    log_debug("c%u %s refused: %s", c->number,
              message_row(h->type) ? message_row(h->type)->name : "unknown message", e->text);
    channel_send(&c->channel, message_error_frame(h->type, h->id, e));
    connection_update_flow(c);
}

void connection_receive(struct connection *c, const struct iovec *segments, int n_segments,
                        void (*done)(struct connection *c, void *owner), void *owner)
{
    c->payload_done = done;
    c->payload_owner = owner;
    frame_reader_payload_into(&c->channel.reader, segments, n_segments);
}

void connection_forget_payload(struct connection *c)
{
    c->payload_done = NULL;
    frame_reader_payload_forget(&c->channel.reader);
}

struct request *connection_find_request(struct connection *c, uint32_t id)
{
    struct request *r;
    list_for_each (r, &c->requests, link)
        if (r->id == id)
            return r;
    return NULL;
}

// A client that keeps to the announced limits and reads is never paused, so it can always cancel.
static bool is_too_busy(const struct connection *c)
{
    const struct options *o = c->server->options;
    return c->n_requests > o->max_inflight || c->held_bytes > o->max_inflight_bytes || !has_room(c);
}

void connection_start_large(struct connection *c)
{
    while (has_large(c)) {
        struct request *r = list_first(&c->large, struct request, turn);
        r->started = true;
        r->start(r);
    }
}

// What answers is in the middle of something: large answers begin in the connection's own turn.
void connection_update_flow(struct connection *c)
{
    if (is_ending(c))
        return;
    if (has_large(c))
        channel_wake(&c->channel);
    bool pause = is_too_busy(c);
    if (pause == c->channel.paused)
        return;
    if (pause) {
        channel_pause(&c->channel);
    } else {
        c->channel.last_heard_ms = uv_now(c->server->loop); // it was not listened to
        channel_resume(&c->channel);
    }
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool connection_is_unused(const struct connection *c, uint64_t now_ms)
{
    return c->state == CONNECTION_FRESH &&
           now_ms - c->since_ms > c->server->options->peer_timeout_ms;
}

uint64_t connection_silent_ms(const struct connection *c, uint64_t now_ms)
{
    return c->channel.paused ? 0 : now_ms - c->channel.last_heard_ms;
}

void connection_kill(struct connection *c, const char *reason)
{
    uint64_t now_ms = uv_now(c->server->loop);
    bool listens = connection_silent_ms(c, now_ms) <= c->server->options->heartbeat_ms;
    if (listens) {
        connection_leave(c, reason);
    } else {
        connection_say_goodbye(c, reason);
        connection_close(c, reason);
    }
}

static void ping(struct connection *c, uint64_t now_ms)
{
    rknnd_Ping m = {.token = now_ms};
    c->pinged_ms = now_ms;
    channel_send(&c->channel,
                 message_frame(MESSAGE_PING, 0, 0, rknnd_Ping_fields, &m, NULL, 0, NULL, NULL));
}

// One that has not answered gets no other, so that they do not pile up before a program that is
// stopped. One that we do not listen to cannot have answered, and wants to see that we live.
static bool wants_ping(const struct connection *c, uint64_t now_ms)
{
    const struct channel *ch = &c->channel;
    return channel_backlog(ch) == 0 &&
           now_ms - ch->last_sent_ms >= c->server->options->heartbeat_ms &&
           (ch->paused || ch->last_heard_ms >= c->pinged_ms);
}

// Who was sent away has a moment to take what is queued for him.
static bool takes_too_long(const struct connection *c, uint64_t now_ms)
{
    const struct options *o = c->server->options;
    uint64_t took_ms = later_of(c->channel.last_sent_ms, c->since_ms);
    return now_ms - took_ms > o->heartbeat_ms || now_ms - c->since_ms > o->peer_timeout_ms;
}

// Nobody goes for being silent or for taking nothing: his program may be stopped. Where the end of
// a link does not show by itself, his machine must answer.
void connection_sweep(struct connection *c, uint64_t now_ms)
{
    if (c->state == CONNECTION_LEAVING) {
        if (takes_too_long(c, now_ms))
            connection_close(c, "takes too long to leave");
    } else if (transport_is_gone(c->channel.transport, now_ms)) {
        log_info("c%u (%s, %s) is gone: its machine has not answered for %u ms", c->number,
                 c->program, c->origin.text, c->server->options->peer_timeout_ms);
        connection_close(c, "its machine does not answer");
    } else if (c->state == CONNECTION_FRESH) {
        if (c->origin.remote && connection_is_unused(c, now_ms))
            connection_close(c, "no HELLO in time");
    } else {
        connection_update_flow(c); // what jobs held and gave back makes room, too
        if (wants_ping(c, now_ms))
            ping(c, now_ms);
    }
}
