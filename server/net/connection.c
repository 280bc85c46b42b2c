// Connections: life, limits, heartbeats.
//
//     connection_new()
//           v     HELLO           GOODBYE of the client
//         FRESH ---------> READY ------------------------> ENDING
//           |                |                                | (answers still go out)
//           | refused        | connection_leave()             | connection_leave()
//           v                v                                v
//        LEAVING: nothing is read any more; what is queued goes out
//           | all of it has gone, or takes too long
//           v
//        connection_close(), which may also come in any other state: the stream has ended
//
// connection_close() ends all that hangs on the connection from the inside out: first its requests
// are abandoned (which ends jobs), then the contexts, uploads and the session of it are given up
// (connection_ops.on_closing), then the channel closes. The struct itself is freed on the loop,
// when the channel's handles have closed.
//
// Reading stops (back-pressure) while a client has more requests, more bytes in job buffers or more
// unread answers than its limits allow, or has asked for more costly things (clients/rate.h). A
// client that keeps to what HELLO announced never notices.
#include "server/net/connection.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/metrics/metrics.h"
#include "server/turns.h"

// Queued answers that are not outputs of jobs; past that the client is not heard, and no large
// answer is made for it.
#define MAX_SMALL_BACKLOG (256u * 1024)

// What costs before there is a message (PROTOCOL.md).
#define NEW_US        50u
#define DESCRIPTOR_US 1u

// Queued answers. Outputs of jobs are not among them, since max-inflight-bytes limits those.
static uint64_t unread_bytes(const struct connection *c)
{
    uint64_t backlog = channel_backlog(&c->channel);
    return backlog > c->held_bytes ? backlog - c->held_bytes : 0;
}

// Whether its user may have more of them, on all connections together.
static bool user_has_room(const struct connection *c)
{
    return account_has_room(c->account, ACCOUNT_REPLIES);
}

// Whether the client reads its answers. One that has read all is not stopped by its user's others.
static bool has_room(const struct connection *c)
{
    uint64_t unread = unread_bytes(c);
    return unread <= MAX_SMALL_BACKLOG && (unread == 0 || user_has_room(c));
}

// Whether it may have something costly done now, as far as its own messages and those of all its
// user's connections are concerned. A user may have twice of what one connection may.
static bool may_ask_much(const struct connection *c)
{
    uint64_t now_ms = uv_now(c->all->loop);
    uint32_t percent = c->all->options->costly_percent;
    return rate_has(&c->rate, percent, now_ms) &&
           rate_has(&user_person(c->user)->rate, 2 * percent, now_ms);
}

// Whether it has asked for so much that it is not heard for a while. One that asks for nothing
// costly is not stopped by its user's others, once it has said HELLO.
static bool is_slowed(const struct connection *c)
{
    return !may_ask_much(c) &&
           (c->state == CONNECTION_FRESH ||
            rate_is_used(&c->rate, c->all->options->costly_percent, uv_now(c->all->loop)));
}

// For descriptors that have come.
static void connection_pay(struct connection *c)
{
    connection_spend(c, c->channel.transport->n_passed * DESCRIPTOR_US);
    c->channel.transport->n_passed = 0;
}

// Nothing is read any more, and nothing large is answered.
static bool is_ending(const struct connection *c)
{
    return c->channel.closing || c->state == CONNECTION_LEAVING;
}

// Room for a large answer, and somebody who takes it.
static bool connection_has_room(const struct requests *requests)
{
    const struct connection *c = requests->connection;
    return !is_ending(c) && has_room(c) && user_has_room(c) && may_ask_much(c);
}

static void connection_requests_changed(struct requests *requests)
{
    struct connection *c = requests->connection;
    connection_update_flow(c);
    c->all->ops->on_less(c->all);
}

static void connection_request_spends(struct requests *requests, uint16_t type)
{
    struct connection *c = requests->connection;
    connection_spend(c, c->all->ops->answer_cost_us(type));
}

static void connection_request_failed(struct requests *requests, int code)
{
    metrics_count_error(requests->connection->all->metrics, code);
}

static const struct requests_ops requests_ops = {
    .has_room = connection_has_room,
    .spend = connection_request_spends,
    .changed = connection_requests_changed,
    .failed = connection_request_failed,
};

// The handler names the payload's destination or refuses; a payload without one is read and
// dropped, so that the stream stays in step.
static void on_message(struct channel *channel, const struct frame_header *h, struct bytes message)
{
    struct connection *c = container_of(channel, struct connection, channel);
    c->payload_done = NULL;
    c->all->ops->on_message(c, h, message);
    connection_update_flow(c);
    if (h->payload_size > 0 && !c->payload_done)
        frame_reader_payload_skip(&channel->reader);
}

static void on_payload(struct channel *channel)
{
    struct connection *c = container_of(channel, struct connection, channel);
    void (*done)(struct connection * c, void *owner) = c->payload_done;
    c->payload_done = NULL;
    if (done)
        done(c, c->payload_owner);
    connection_update_flow(c);
}

// All that waited has been written: the end of one that is leaving.
static void on_drained(struct channel *channel)
{
    struct connection *c = container_of(channel, struct connection, channel);
    struct connections *all = c->all;
    if (c->state == CONNECTION_LEAVING)
        connection_close(c, "left");
    else
        connection_update_flow(c);
    all->ops->on_less(all);
}

static void on_turn(struct channel *channel)
{
    struct connection *c = container_of(channel, struct connection, channel);
    connection_pay(c);
    requests_start_large(&c->requests);
    if (!list_empty(&c->requests.large))
        connection_update_flow(c); // others may have taken what there was
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

#define ROUNDS_MS 1 // of what connections have to do, in a turn of the loop
#define REFILL_MS 5 // after which those that are slowed are looked at again

static void on_refill(uv_timer_t *timer)
{
    struct connections *all = container_of(timer, struct connections, refill);
    struct connection *c;
    struct list slowed;
    turns_mark(timer->loop, "connections that have asked for much");
    list_init(&slowed);
    list_move(&slowed, &all->slowed);
    while ((c = list_first(&slowed, struct connection, slowed))) {
        list_remove(&c->slowed);
        connection_update_flow(c);
    }
}

// The first ones to be slowed are the first ones to go on.
static void wait_for_refill(struct connection *c)
{
    struct connections *all = c->all;
    if (!list_empty(&c->slowed))
        return;
    list_append(&all->slowed, &c->slowed);
    if (!uv_is_active((uv_handle_t *)&all->refill))
        uv_timer_start(&all->refill, on_refill, REFILL_MS, 0);
}

void connections_init(struct connections *all, uv_loop_t *loop)
{
    *all = (struct connections){.loop = loop};
    list_init(&all->all);
    list_init(&all->left);
    list_init(&all->slowed);
    uv_timer_init(loop, &all->refill);
    rounds_init(&all->rounds, loop, ROUNDS_MS);
}

static struct connection *connection_behind(const struct connections *all, struct connection *c)
{
    struct list *next = c->link.next;
    return next == &all->all ? NULL : container_of(next, struct connection, link);
}

void connections_sweep_begin(struct connections *all)
{
    all->unswept = list_first(&all->all, struct connection, link);
}

struct connection *connections_sweep_next(struct connections *all)
{
    struct connection *c = all->unswept;
    if (c)
        all->unswept = connection_behind(all, c);
    return c;
}

void connections_close(struct connections *all)
{
    passed_sweep(&all->left, true);
    uv_close((uv_handle_t *)&all->refill, NULL);
    rounds_close(&all->rounds);
}

void connection_spend(struct connection *c, uint32_t us)
{
    uint64_t now_ms = uv_now(c->all->loop);
    uint32_t percent = c->all->options->costly_percent;
    if (us == 0)
        return;
    rate_spend(&c->rate, percent, now_ms, us);
    rate_spend(&user_person(c->user)->rate, 2 * percent, now_ms, us);
}

// The channel takes payloads of any size: dispatch checks them against max-payload with a better
// error.
struct connection *connection_new(struct connections *all, struct transport *transport,
                                  const struct origin *origin, struct user *user)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        log_error("a connection was refused: out of memory");
        transport_close(transport);
        return NULL;
    }
    channel_init(&c->channel, transport, UINT64_MAX, origin->local, &ops);
    c->all = all;
    c->services = all->services;
    c->state = CONNECTION_FRESH;
    c->number = ++all->last_number;
    c->since_ms = uv_now(all->loop);
    c->origin = *origin;
    c->user = user_ref(user);
    c->account = &user->account;
    transport_line_up(transport, &all->rounds, &user_person(user)->line);
    list_init(&c->contexts);
    requests_init(&c->requests, &requests_ops, c, &c->channel);
    list_init(&c->in_session);
    list_init(&c->slowed);
    list_append(&all->all, &c->link);
    all->n++;
    log_debug("c%u connected (%s)", c->number, c->origin.text);
    rate_spend(&user_person(user)->rate, 2 * all->options->costly_percent, c->since_ms, NEW_US);
    connection_update_flow(c);
    return c;
}

static void on_closed(struct channel *channel)
{
    free(container_of(channel, struct connection, channel));
}

// The order is explained in the head; `c` stays until the loop has closed the channel.
void connection_close(struct connection *c, const char *why)
{
    struct connections *all = c->all;
    log_debug("c%u closed (%s): %s", c->number, c->program[0] ? c->program : c->origin.text, why);
    if (all->unswept == c)
        all->unswept = connection_behind(all, c);
    list_remove(&c->link);
    list_remove(&c->slowed);
    all->n--;
    requests_abandon(&c->requests);
    connection_pay(c);
    transport_line_up(c->channel.transport, NULL, NULL); // which is the user's, who may go
    struct user *user = user_ref(c->user);
    all->ops->on_closing(c);
    passed_leave(&c->passed, user, transport_passes(c->channel.transport), &all->left);
    user_unref(user);
    channel_close(&c->channel, on_closed);
    all->ops->on_less(all);
}

void connection_say_goodbye(struct connection *c, const char *reason)
{
    rknnd_Goodbye m = rknnd_Goodbye_init_zero;
    message_set_text(m.reason, reason);
    channel_send(&c->channel, message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields, &m, NULL,
                                            0, NULL, NULL));
}

// Reading stops, and queued answers go out; connection_sweep() limits how long that may take.
void connection_leave(struct connection *c, const char *reason)
{
    if (c->state == CONNECTION_LEAVING)
        return;
    if (reason)
        connection_say_goodbye(c, reason);
    log_info("c%u (%s) is refused: %s", c->number, c->origin.text,
             reason ? reason : "no agreement");
    c->state = CONNECTION_LEAVING;
    c->since_ms = uv_now(c->all->loop);
    channel_pause(&c->channel);
    if (channel_backlog(&c->channel) == 0)
        connection_close(c, "left");
}

int connection_identify(struct connection *c, struct users *users, struct error *e)
{
    struct origin origin = c->origin;
    struct user *user;
    const char *identity = transport_identity(c->channel.transport);
    if (!*identity)
        return 0;
    snprintf(origin.identity, sizeof origin.identity, "%s", identity);
    snprintf(origin.text, sizeof origin.text, "tls %s, %s", identity, c->origin.source);
    int r = user_get(users, &origin, NULL, &user, e);
    if (r < 0)
        return r;
    r = account_charge(&user->account, ACCOUNT_CONNECTIONS, 1, e);
    if (r < 0) {
        user_unref(user);
        return r;
    }
    account_count(c->account, ACCOUNT_REPLIES, &c->unread_bytes, 0);
    account_refund(c->account, ACCOUNT_CONNECTIONS, 1);
    transport_line_up(c->channel.transport, &c->all->rounds, &user_person(user)->line);
    user_unref(c->user);
    c->user = user;
    c->account = &user->account;
    c->origin = origin;
    return 0;
}

int connection_join(struct connection *c, struct session *session, struct error *e)
{
    account_refund(c->account, ACCOUNT_CONNECTIONS, 1);
    int r = account_charge(&session->account, ACCOUNT_CONNECTIONS, 1, e);
    if (r < 0) {
        account_count(c->account, ACCOUNT_CONNECTIONS, &(uint64_t){0}, 1);
        return r;
    }
    account_count(c->account, ACCOUNT_REPLIES, &c->unread_bytes, 0);
    c->account = &session->account;
    c->session = session;
    session->n_connections++;
    list_append(&session->connections, &c->in_session);
    return 0;
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
    metrics_count_error(c->all->metrics, e->code);
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

// What a request holds it has before its payload is there: one that is larger than all that may be
// held is read to its end, or it would wait for itself.
static bool holds_too_much(const struct connection *c)
{
    return !c->payload_done && c->held_bytes > c->all->options->max_inflight_bytes;
}

// Whether reading stops. A client that keeps to the announced limits and reads is never paused, so
// it can always cancel.
static bool is_too_busy(const struct connection *c)
{
    return c->requests.n > c->all->options->max_inflight || holds_too_much(c) || !has_room(c) ||
           is_slowed(c);
}

// Large answers are begun in the connection's own turn, because whoever calls this is in the middle
// of something.
void connection_update_flow(struct connection *c)
{
    if (c->channel.closing)
        return;
    account_count(c->account, ACCOUNT_REPLIES, &c->unread_bytes, unread_bytes(c));
    if (is_ending(c))
        return;
    if (requests_have_large(&c->requests))
        channel_wake(&c->channel);
    else if (is_slowed(c) || (!list_empty(&c->requests.large) && !may_ask_much(c)))
        wait_for_refill(c);
    bool pause = is_too_busy(c);
    if (pause == c->channel.paused)
        return;
    if (pause) {
        channel_pause(&c->channel);
    } else {
        c->channel.last_heard_ms = uv_now(c->all->loop); // it was not listened to
        channel_resume(&c->channel);
    }
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool connection_is_unused(const struct connection *c, uint64_t now_ms)
{
    return c->state == CONNECTION_FRESH && now_ms - c->since_ms > c->all->options->peer_timeout_ms;
}

bool connection_is_unknown(const struct connection *c)
{
    return c->origin.tls && c->state == CONNECTION_FRESH &&
           !*transport_identity(c->channel.transport);
}

// One that is paused is not listened to, and so not silent.
uint64_t connection_silent_ms(const struct connection *c, uint64_t now_ms)
{
    return c->channel.paused ? 0 : now_ms - c->channel.last_heard_ms;
}

// A client that was heard lately will read the goodbye and go. One that was not may be stopped, and
// would keep its connection until it continues: it is closed at once.
void connection_kill(struct connection *c, const char *reason)
{
    uint64_t now_ms = uv_now(c->all->loop);
    bool listens = connection_silent_ms(c, now_ms) <= c->all->options->heartbeat_ms;
    if (listens) {
        connection_leave(c, reason);
    } else {
        connection_say_goodbye(c, reason);
        connection_close(c, reason);
    }
}

static void connection_ping(struct connection *c, uint64_t now_ms)
{
    rknnd_Ping m = {.token = now_ms};
    c->pinged_ms = now_ms;
    channel_send(&c->channel,
                 message_frame(MESSAGE_PING, 0, 0, rknnd_Ping_fields, &m, NULL, 0, NULL, NULL));
}

// A client that has not answered the last ping gets no other, so that pings do not pile up before a
// stopped program. One that we do not listen to (paused) cannot have answered, and needs to see
// that we are alive.
static bool wants_ping(const struct connection *c, uint64_t now_ms)
{
    const struct channel *ch = &c->channel;
    return channel_backlog(ch) == 0 && now_ms - ch->last_sent_ms >= c->all->options->heartbeat_ms &&
           (ch->paused || ch->last_heard_ms >= c->pinged_ms);
}

// One that leaves may take what is queued for it, while it takes something in every heartbeat, and
// peer-timeout-ms in all.
static bool takes_too_long(const struct connection *c, uint64_t now_ms)
{
    const struct options *o = c->all->options;
    uint64_t took_ms = later_of(c->channel.last_sent_ms, c->since_ms);
    return now_ms - took_ms > o->heartbeat_ms || now_ms - c->since_ms > o->peer_timeout_ms;
}

// A program that passes us its own end of the connection, and ends, leaves it open: we have it
// ourselves, or it lies in the socket, where we do not read it while its answers are not taken.
static bool is_left_over(const struct connection *c, uint64_t now_ms)
{
    const struct channel *ch = &c->channel;
    uint64_t silent_ms =
        channel_backlog(ch) > 0 ? now_ms - ch->last_sent_ms : connection_silent_ms(c, now_ms);
    return silent_ms > c->all->options->peer_timeout_ms && origin_is_gone(&c->origin);
}

// Nobody is closed for being silent or for not reading: the program may be stopped by a debugger.
// Where the end of a link does not show by itself, the other machine has to answer; and from there
// HELLO must come in time, as everywhere where TLS comes first.
void connection_sweep(struct connection *c, uint64_t now_ms)
{
    if (c->state == CONNECTION_LEAVING) {
        if (takes_too_long(c, now_ms))
            connection_close(c, "takes too long to leave");
    } else if (transport_is_gone(c->channel.transport, now_ms)) {
        log_info("c%u (%s, %s) is gone: its machine has not answered for %u ms", c->number,
                 c->program, c->origin.text, c->all->options->peer_timeout_ms);
        connection_close(c, "its machine does not answer");
    } else if (is_left_over(c, now_ms)) {
        connection_close(c, "its program has ended");
    } else if (c->state == CONNECTION_FRESH) {
        if ((c->origin.remote || c->origin.tls) && connection_is_unused(c, now_ms))
            connection_close(c, "no HELLO in time");
    } else {
        connection_update_flow(c); // what jobs held and gave back makes room, too
        if (wants_ping(c, now_ms))
            connection_ping(c, now_ms);
    }
}
