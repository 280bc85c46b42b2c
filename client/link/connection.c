// Writing and reading a connection's socket. There is no event loop: the thread that makes a call
// polls the socket itself until its request is done, and meanwhile handles whatever else comes on
// it (heartbeats, answers to other requests, parts). The lock is held throughout (connection.h).
//
//     caller ─► connection_send() ─► write_some() ──► socket
//     caller ◄─ connection_wait() ◄─ connection_turn(): poll, read_some() ◄── socket
//                                                         └─► incoming_take() (incoming.c)
#include "client/link/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/net/tcp.h"
#include "client/link/incoming.h"
#include "client/record/record.h"
#include "client/wait_end.h"

#define WRITE_VECTORS  64
#define READS_PER_TURN 16

int connection_new(int fd, bool share, const char *uri, struct connection **ret, struct error *e)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        fd_close(fd);
        return error_no_memory(e, "a connection", sizeof *c);
    }
    pthread_mutex_init(&c->lock, NULL);
    fd_widen(fd);
    stream_init(&c->stream, fd, false);
    if (share)
        stream_share(&c->stream);
    c->acknowledges = !fd_is_unix(fd);
    snprintf(c->uri, sizeof c->uri, "%s", uri);
    frame_reader_init(&c->reader, 0);
    c->reader.drop_fd = fd_close_passed;
    frame_queue_init(&c->out);
    list_init(&c->waiting);
    list_init(&c->link);
    c->next_id = 1;
    c->looked_ms = c->last_sent_ms = clock_ms();
    *ret = c;
    return 0;
}

// Ends every request with the connection's own error. Requests are the callers' memory: after this
// the connection refers to none.
static void finish_all(struct connection *c)
{
    struct request *r, *after;
    list_for_each_safe (r, after, &c->waiting, link)
        incoming_finish(c, r, STATUS_DEVICE_UNAVAILABLE, &c->why);
    c->incoming = c->held = NULL;
}

// The first reason counts. After a Goodbye, `why` already has the server's words.
void connection_lose(struct connection *c, const struct error *why)
{
    if (c->lost)
        return;
    c->lost = true;
    if (!c->leaving)
        error_set(&c->why, STATUS_DEVICE_UNAVAILABLE, "server %s: %s", c->uri, why->text);
    stream_close(&c->stream);
    frame_queue_done(&c->out);
    finish_all(c);
}

static int connection_broke(const struct connection *c, int why, struct error *e)
{
    const char *words = stream_why(&c->stream);
    return words ? error_set(e, STATUS_DEVICE_UNAVAILABLE, "the connection broke: %s", words)
                 : error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, why, "the connection broke");
}

// Reads into the frame reader once, as `receive` does, and takes apart what came. False: nothing.
// *ret_more: the read was full, so that there may be more.
static bool read_once(struct connection *c, stream_receiver *receive, bool *ret_more)
{
    struct error e;
    void *space;
    size_t size = frame_reader_space(&c->reader, &space);
    struct frame_reader *f = &c->reader;
    *ret_more = false;
    ssize_t n = receive(&c->stream, space, size, f->fds, &f->n_fds, FRAME_READER_FDS);
    if (n == -EAGAIN || n == -EWOULDBLOCK || n == -EINTR)
        return false;
    int r = 0;
    if (n < 0)
        r = connection_broke(c, (int)-n, &e);
    else if (n == 0)
        r = error_set(&e, STATUS_DEVICE_UNAVAILABLE, "it closed the connection");
    if (n > 0) {
        c->silence_ms = 0;
        frame_reader_fill(&c->reader, (size_t)n);
        r = incoming_take(c, &e);
    }
    if (r < 0)
        connection_lose(c, &e);
    *ret_more = r == 0 && (size_t)n == size;
    return true;
}

// Reads on where a held payload stopped the stream: it goes where its request's payload() says.
static void connection_settle(struct connection *c)
{
    struct error e;
    if (c->held && incoming_settle(c, &e) < 0)
        connection_lose(c, &e);
}

// Reads without blocking, a bounded number of times, so that writing gets its turn. Stops at a
// payload that is held: nothing behind it can be read before it is taken.
static void read_some(struct connection *c)
{
    bool more = true;
    stream_wake(&c->stream);
    connection_settle(c);
    for (int i = 0; i < READS_PER_TURN && more && !c->lost && !c->held; i++)
        read_once(c, stream_receive, &more);
}

// Sends what the socket takes now, without blocking.
static void write_some(struct connection *c)
{
    struct iovec iov[WRITE_VECTORS];
    const int *fds;
    int n_fds, n_iov;
    while (!c->lost && (n_iov = frame_queue_peek(&c->out, iov, WRITE_VECTORS, &fds, &n_fds)) > 0) {
        ssize_t n = stream_send(&c->stream, iov, n_iov, fds, n_fds);
        if (n == -EAGAIN || n == -EWOULDBLOCK)
            return;
        if (n < 0) {
            struct error e;
            read_some(c); // its last words
            connection_broke(c, (int)-n, &e);
            connection_lose(c, &e);
            return;
        }
        c->last_sent_ms = clock_ms();
        frame_queue_sent(&c->out, (size_t)n);
    }
}

// Queues a frame and sends what goes of it.
static void connection_queue(struct connection *c, struct frame_out *f)
{
    struct error e;
    if (f) {
        frame_queue_push(&c->out, f);
        write_some(c);
    } else {
        error_set(&e, STATUS_MALLOC_FAIL, "no memory for a frame");
        connection_lose(c, &e);
    }
}

// When the server's silence, or ours, next calls for something.
// A Ping goes out after half a heartbeat without sending anything; silence is checked once per
// heartbeat. While output is waiting, that counts as sending.
static uint64_t heartbeat_due(const struct connection *c)
{
    const rknnd_Limits *l = &c->peer.limits;
    if (!l->heartbeat_ms)
        return CLOCK_FOREVER;
    uint64_t listen = c->looked_ms + l->heartbeat_ms;
    uint64_t ping = c->last_sent_ms + l->heartbeat_ms / 2;
    return ping < listen && !c->out.bytes ? ping : listen;
}

// Adds the time since the last look to the server's silence, one heartbeat at most: if this program
// was stopped (SIGSTOP, a debugger, a suspended machine), the time says nothing about the server.
static void count_silence(struct connection *c, uint64_t now)
{
    uint64_t since = now - c->looked_ms, max = c->peer.limits.heartbeat_ms;
    c->silence_ms += since < max ? since : max;
    c->looked_ms = now;
}

static void connection_heartbeat(struct connection *c, uint64_t now)
{
    const rknnd_Limits *l = &c->peer.limits;
    if (c->lost || !l->heartbeat_ms)
        return;
    count_silence(c, now);
    // What came since the last look is still in the socket, so it is read before the verdict.
    if (c->silence_ms >= l->peer_timeout_ms)
        read_some(c);
    if (!c->lost && c->silence_ms >= l->peer_timeout_ms) {
        struct error e;
        error_set(&e, STATUS_DEVICE_UNAVAILABLE, "silent for %u ms", l->peer_timeout_ms);
        connection_lose(c, &e);
    }
    if (c->lost || c->out.bytes || now < c->last_sent_ms + l->heartbeat_ms / 2)
        return;
    rknnd_Ping ping = {.token = now};
    connection_queue(c, message_frame(MESSAGE_PING, 0, c->next_id++, rknnd_Ping_fields, &ping, NULL,
                                      0, NULL, NULL));
}

// Posted bytes lie in shared memory for the relay to fetch; they need no POLLOUT (stream.h).
static struct pollfd what_to_poll(struct connection *c)
{
    uint64_t need = frame_reader_need(&c->reader);
    bool more = c->out.bytes > stream_posted(&c->stream);
    return (struct pollfd){c->stream.fd, stream_events(&c->stream, need, more), 0};
}

// Whether reading itself may wait for what comes next, which is what most calls wait for: poll()
// before it would be one more call into the kernel for each answer.
static bool may_wait_in_read(const struct connection *c, const struct pollfd *p, uint64_t now,
                             uint64_t due)
{
    return stream_may_wait(&c->stream) && p->events == POLLIN && due >= now + STREAM_WAIT_MS;
}

// False: nothing came.
static bool read_soon(struct connection *c)
{
    bool more, came = read_once(c, stream_receive_soon, &more);
    if (more)
        read_some(c);
    return came;
}

// One turn: heartbeats, then wait until the socket is usable or `until`, then read and write. True:
// nothing came, and the program wants the wait to end.
static bool connection_turn(struct connection *c, uint64_t until)
{
    uint64_t now = clock_ms();
    connection_settle(c);
    connection_heartbeat(c, now);
    if (c->lost)
        return false;
    uint64_t due = heartbeat_due(c);
    uint64_t left = c->reader.payload_left;
    // The end of a large TCP payload shorter than a segment may wait for our delayed ACK; ask for
    // it now.
    if (c->acknowledges && left > 0 && left < TCP_SEGMENT_MAX)
        tcp_acknowledge(c->stream.fd);
    struct pollfd p = what_to_poll(c);
    due = interrupt_before(now, due < until ? due : until);
    if (may_wait_in_read(c, &p, now, due))
        return !read_soon(c) && interrupt_asked();
    if (poll(&p, 1, clock_poll_ms(now, due)) <= 0)
        return interrupt_asked();
    if (stream_is_shared(&c->stream) || stream_has_input(&c->stream) || (p.revents & ~POLLOUT))
        read_some(c);
    if (c->out.bytes)
        write_some(c);
    return false;
}

// Who waits here cannot leave before the answer, so the program's wish costs the connection.
static void turn_or_lose(struct connection *c, uint64_t until)
{
    struct error e;
    if (!connection_turn(c, until))
        return;
    error_set(&e, STATUS_DEVICE_UNAVAILABLE,
              "the program has interrupted a call that had to be answered; open the context again");
    connection_lose(c, &e);
}

// Order: the recording comes first, since what cannot be recorded must not be sent (record.h).
int connection_send(struct connection *c, struct request *r, const void *message,
                    const struct iovec *segments, int n_segments, struct error *e)
{
    if (c->lost || c->leaving) {
        *e = c->why;
        return e->code;
    }
    r->id = c->next_id++;
    r->answered = r->done = r->part = false;
    struct frame_out *f = message_frame(r->type, 0, r->id, message_row(r->type)->request, message,
                                        segments, n_segments, NULL, NULL);
    if (f && record_request(c->record, r->type, f, e) < 0) {
        frame_out_free(f);
        return e->code;
    }
    if (f && r->send_fd && (f->fds[0] = fcntl(*r->send_fd, F_DUPFD_CLOEXEC, 3)) < 0) {
        frame_out_free(f);
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "file descriptor %d", *r->send_fd);
    }
    if (f && r->send_fd)
        f->n_fds = 1;
    list_append(&c->waiting, &r->link);
    connection_queue(c, f);
    while (!c->lost && c->out.bytes > stream_posted(&c->stream))
        turn_or_lose(c, CLOCK_FOREVER);
    if (c->lost) {
        *e = c->why;
        return e->code;
    }
    return 0;
}

// Lets the request whose part has come serve it (a custom operator's callback). The lock may be
// given up inside. True: there was one.
static bool connection_serve(struct connection *c)
{
    struct request *r = steal_ptr(c->to_serve);
    if (r)
        r->serve(r);
    return r;
}

// Turns the connection until *there (a flag of `r`) or the request's end. Other threads' requests
// are served on the way. Without `until` it ends only with the answer or the connection, or, if the
// request `may_leave` the caller, with the program's wish.
static int wait_until(struct connection *c, struct request *r, const bool *there, bool may_leave,
                      uint64_t until, struct error *e)
{
    while (!*there && !r->done) {
        if (connection_serve(c))
            continue;
        bool late = until != CLOCK_FOREVER && clock_ms() >= until;
        // also late: it may be us who slept
        if (!may_leave)
            turn_or_lose(c, until);
        else if (connection_turn(c, until))
            return error_set(e, STATUS_FAIL,
                             "the program has interrupted the wait for server %s; the run goes on",
                             c->uri);
        if (late && !*there && !r->done && !c->to_serve)
            return error_set(e, STATUS_TIMEOUT, "server %s has not answered %s in time", c->uri,
                             message_row(r->type)->name);
    }
    if (r->done && r->status < 0)
        *e = r->error;
    return r->done ? r->status : 0;
}

int connection_wait(struct connection *c, struct request *r, uint64_t until, struct error *e)
{
    return wait_until(c, r, &r->done, false, until, e);
}

void connection_look(struct connection *c)
{
    if (!c->lost)
        read_some(c);
}

int connection_wait_answer(struct connection *c, struct request *r, uint64_t until, struct error *e)
{
    return wait_until(c, r, &r->answered, true, until, e);
}

int connection_wait_part(struct connection *c, struct request *r, uint64_t until, struct error *e)
{
    return wait_until(c, r, &r->part, false, until, e);
}

// The reader may already have the payload's beginning; that is handled first, then the rest is
// waited for.
static int finish_held(struct connection *c, struct request *r, struct error *e)
{
    if (incoming_take(c, e) < 0)
        connection_lose(c, e);
    return connection_wait(c, r, CLOCK_FOREVER, e);
}

int connection_take(struct connection *c, struct request *r, const struct iovec *segments, int n,
                    struct error *e)
{
    assert(c->held == r);
    c->held = NULL;
    c->incoming = r;
    frame_reader_payload_into(&c->reader, segments, n);
    return finish_held(c, r, e);
}

int connection_drop(struct connection *c, struct request *r, struct error *e)
{
    assert(c->held == r);
    c->held = NULL;
    c->incoming = r;
    frame_reader_payload_skip(&c->reader);
    return finish_held(c, r, e);
}

// Nobody gets an error here: a failure ends the connection, and the next call on it reports that.
void connection_tell(struct connection *c, uint16_t type, const void *message,
                     const struct iovec *segments, int n_segments)
{
    struct error e;
    if (c->lost)
        return;
    struct frame_out *f = message_frame(type, 0, c->next_id++, message_row(type)->request, message,
                                        segments, n_segments, NULL, NULL);
    if (f && record_request(c->record, type, f, &e) < 0) {
        frame_out_free(f);
        connection_lose(c, &e);
        return;
    }
    connection_queue(c, f);
    while (!c->lost && c->out.bytes)
        turn_or_lose(c, CLOCK_FOREVER);
}

int connection_call(struct connection *c, struct request *r, const void *message, struct error *e)
{
    int s = connection_send(c, r, message, NULL, 0, e);
    return s < 0 ? s : connection_wait(c, r, CLOCK_FOREVER, e);
}

void connection_tend(struct connection *c)
{
    if (!c->lost)
        read_some(c);
    if (!c->lost)
        write_some(c);
    connection_heartbeat(c, clock_ms());
}

void connection_attend(struct connection *c, struct pollfd *ret)
{
    connection_tend(c);
    connection_serve(c);
    *ret = what_to_poll(c);
}

// Only between frames: a half-written one would make it unreadable. Nobody waits for it to be sent.
static void say_goodbye(struct connection *c)
{
    rknnd_Goodbye m = {.reason = "closed"};
    if (!c->lost && !c->out.bytes && c->peer.version) {
        connection_queue(c, message_frame(MESSAGE_GOODBYE, 0, c->next_id++, rknnd_Goodbye_fields,
                                          &m, NULL, 0, NULL, NULL));
        stream_finish(&c->stream);
    }
}

void connection_free(struct connection *c)
{
    if (!c)
        return;
    say_goodbye(c);
    record_leave(c->record);
    finish_all(c);
    frame_queue_done(&c->out);
    frame_reader_done(&c->reader);
    stream_close(&c->stream);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
