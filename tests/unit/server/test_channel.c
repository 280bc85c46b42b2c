// The channel over a socket pair: order, back-pressure, fds, one report of loss, clean close.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "server/net/channel.h"
#include "server/net/transport_socket.h"

struct side {
    struct channel channel;
    unsigned messages, payloads, lost, closed, drained, turns;
    unsigned work; // that a message costs more than others
    uint64_t tokens[64];
    size_t pause_after;
    uint8_t *into;
    int fd_seen;
    uint64_t fd_token; // of the message that brought it
};

static void got_message(struct channel *c, const struct frame_header *h, struct bytes message)
{
    struct side *s = container_of(c, struct side, channel);
    rknnd_Ping m;
    assert_int_equal(message_decode(rknnd_Ping_fields, message, &m, NULL), 0);
    s->tokens[s->messages++ % 64] = m.token;
    int fd = frame_reader_take_fd(&c->reader);
    if (fd >= 0) {
        s->fd_seen = fd;
        s->fd_token = m.token;
    }
    if (h->payload_size > 0)
        frame_reader_payload_into(&c->reader, &(struct iovec){s->into, h->payload_size}, 1);
    if (s->messages == s->pause_after)
        channel_pause(c);
    channel_spend(c, s->work);
}

static void got_payload(struct channel *c)
{
    container_of(c, struct side, channel)->payloads++;
}

static void got_drained(struct channel *c)
{
    container_of(c, struct side, channel)->drained++;
}

static void got_lost(struct channel *c, const struct error *why)
{
    struct side *s = container_of(c, struct side, channel);
    assert_cmp(why->code, <, 0);
    assert_true(why->text[0]);
    s->lost++;
}

static void got_closed(struct channel *c)
{
    container_of(c, struct side, channel)->closed++;
}

static void got_turn(struct channel *c)
{
    container_of(c, struct side, channel)->turns++;
}

static const struct channel_ops ops = {.on_message = got_message,
                                       .on_payload = got_payload,
                                       .on_drained = got_drained,
                                       .on_turn = got_turn,
                                       .on_lost = got_lost};

struct fixture {
    uv_loop_t loop;
    struct side a, b;
    int b_fd;
};

static int set_up(void **state)
{
    static struct fixture f;
    int pair[2];
    struct transport *transports[2];
    memset(&f, 0, sizeof f);
    f.a.fd_seen = f.b.fd_seen = -1;
    uv_loop_init(&f.loop);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(transport_socket_new(&f.loop, pair[i], &transports[i], NULL), 0);
    channel_init(&f.a.channel, transports[0], 64 << 20, true, &ops);
    channel_init(&f.b.channel, transports[1], 64 << 20, true, &ops);
    f.b_fd = pair[1];
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (!f->a.channel.closing)
        channel_close(&f->a.channel, got_closed);
    if (!f->b.channel.closing)
        channel_close(&f->b.channel, got_closed);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->a.closed + f->b.closed, 2);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return 0;
}

static struct frame_out *ping(uint64_t token, const struct iovec *payload, void (*release)(void *),
                              void *owner)
{
    rknnd_Ping m = {token};
    return message_frame(MESSAGE_PING, 0, 1, rknnd_Ping_fields, &m, payload, payload ? 1 : 0,
                         release, owner);
}

static void run_until(struct fixture *f, const unsigned *counter, unsigned value)
{
    for (int i = 0; i < 100000 && *counter < value; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(*counter, value);
}

static void count(void *owner)
{
    ++*(unsigned *)owner;
}

static void large_payload_arrives_in_place(void **state)
{
    struct fixture *f = *state;
    size_t size = 20 << 20;
    uint8_t *data = malloc(size);
    unsigned released = 0;
    f->b.into = calloc(1, size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 13));
    channel_send(&f->a.channel, ping(7, &(struct iovec){data, size}, count, &released));
    assert_cmp(channel_backlog(&f->a.channel), >, 0);
    assert_int_equal(released, 0);
    channel_send(&f->a.channel, ping(8, NULL, NULL, NULL));
    run_until(f, &f->b.messages, 2);
    assert_int_equal(f->b.payloads, 1);
    assert_int_equal(released, 1);
    assert_int_equal(f->a.drained, 1);
    assert_memory_equal(f->b.into, data, size);
    assert_int_equal(f->b.tokens[1], 8);
    free(data);
    free(f->b.into);
}

static void pause_holds_back_what_was_read_already(void **state)
{
    struct fixture *f = *state;
    f->b.pause_after = 3;
    for (uint64_t i = 0; i < 10; i++)
        channel_send(&f->a.channel, ping(i, NULL, NULL, NULL));
    run_until(f, &f->b.messages, 3);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->b.messages, 3);
    channel_resume(&f->b.channel);
    assert_int_equal(f->b.messages, 3); // from the loop, not from inside
    run_until(f, &f->b.messages, 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(f->b.tokens[i], i);
}

static void a_turn_ends(void **state)
{
    struct fixture *f = *state;
    unsigned n = 3 * CHANNEL_TURN + 1;
    for (uint64_t i = 0; i < n; i++)
        channel_send(&f->a.channel, ping(i, NULL, NULL, NULL));
    for (unsigned done = 0; done < n; done = f->b.messages) {
        run_until(f, &f->b.turns, f->b.turns + 1);
        assert_cmp(f->b.messages - done, <=, CHANNEL_TURN);
    }
    assert_int_equal(f->b.messages, n);
    f->b.work = CHANNEL_TURN / 2;
    for (uint64_t i = 0; i < 5; i++)
        channel_send(&f->a.channel, ping(i, NULL, NULL, NULL));
    for (unsigned done = n; done < n + 5; done = f->b.messages) {
        run_until(f, &f->b.turns, f->b.turns + 1);
        assert_cmp(f->b.messages - done, <=, 2);
    }
    unsigned turns = f->b.turns;
    channel_wake(&f->b.channel);
    assert_int_equal(f->b.turns, turns); // from the loop, not from inside
    run_until(f, &f->b.turns, turns + 1);
}

static void fds_come_with_their_message(void **state)
{
    struct fixture *f = *state;
    int memory = fd_memory("test", 4096, NULL);
    struct frame_out *frame = ping(1, NULL, NULL, NULL);
    frame->fds[frame->n_fds++] = dup(memory);
    channel_send(&f->a.channel, ping(0, NULL, NULL, NULL));
    channel_send(&f->a.channel, frame);
    assert_int_equal(pwrite(memory, "hello", 5, 0), 5);
    run_until(f, &f->b.messages, 2);
    char text[6] = "";
    assert_cmp(f->b.fd_seen, >=, 0);
    assert_int_equal(f->b.fd_token, 1);
    assert_int_equal(pread(f->b.fd_seen, text, 5, 0), 5);
    assert_string_equal(text, "hello");
    assert_true(fcntl(f->b.fd_seen, F_GETFD) & FD_CLOEXEC);
    close(f->b.fd_seen);
    close(memory);
}

static void peer_that_closes_is_reported_once(void **state)
{
    struct fixture *f = *state;
    unsigned released = 0;
    channel_close(&f->b.channel, got_closed);
    run_until(f, &f->a.lost, 1);
    static uint8_t byte;
    channel_send(&f->a.channel, ping(1, &(struct iovec){&byte, 1}, count, &released));
    assert_int_equal(released, 1);
    for (int i = 0; i < 3; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->a.lost, 1);
}

static void paused_side_notices_that_its_peer_goes(void **state)
{
    struct fixture *f = *state;
    channel_pause(&f->a.channel);
    channel_close(&f->b.channel, got_closed);
    run_until(f, &f->a.lost, 1);
}

static void garbage_loses_the_channel(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send(f->b_fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0), 27);
    run_until(f, &f->a.lost, 1);
    assert_int_equal(f->a.messages, 0);
    assert_non_null(strstr(f->a.channel.why.text, "does not speak"));
}

static void close_drops_what_is_queued(void **state)
{
    struct fixture *f = *state;
    size_t size = 8 << 20;
    uint8_t *data = calloc(1, size);
    f->b.into = calloc(1, size);
    unsigned released = 0;
    channel_send(&f->a.channel, ping(1, &(struct iovec){data, size}, count, &released));
    channel_close(&f->a.channel, got_closed);
    assert_int_equal(released, 1);
    free(data);
    run_until(f, &f->a.closed, 1);
    run_until(f, &f->b.lost, 1);
    free(f->b.into);
}

// ---- a peer that is as fast as we are -----------------------------------------------------------

#define MUCH (64u << 20) // bytes
#define TURN (8u << 20)  // that are no turn's any more

struct endless {
    struct transport transport;
    uint8_t first[FRAME_HEADER_SIZE + 64];
    size_t n_first, received, sent;
};

static ssize_t receive_all(struct transport *t, void *buffer, size_t size, int *fds, int *n_fds,
                           int max_fds)
{
    struct endless *s = container_of(t, struct endless, transport);
    size_t n = s->n_first ? s->n_first : size;
    (void)fds, (void)n_fds, (void)max_fds;
    assert_cmp(n, <=, size);
    if (s->n_first)
        memcpy(buffer, s->first, n);
    s->n_first = 0;
    s->received += n;
    return (ssize_t)n;
}

static ssize_t send_all(struct transport *t, const struct iovec *iov, int n_iov, const int *fds,
                        int n_fds)
{
    size_t n = 0;
    (void)fds, (void)n_fds;
    for (int i = 0; i < n_iov; i++)
        n += iov[i].iov_len;
    container_of(t, struct endless, transport)->sent += n;
    return (ssize_t)n;
}

static void nothing(struct transport *t)
{
    (void)t;
}

static void watch_nothing(struct transport *t, int events)
{
    (void)t, (void)events;
}

// The kernel's calls go on as long as the other end does.
static void a_turn_ends_beside_a_peer_that_is_as_fast(void **state)
{
    static const struct transport_ops as_fast = {
        .send = send_all, .receive = receive_all, .watch = watch_nothing, .wake = nothing};
    struct fixture *f = *state;
    struct endless peer = {.transport = {.ops = &as_fast, .loop = &f->loop}};
    struct side side = {.into = malloc(MUCH)};
    struct iovec payload = {side.into, MUCH}, iov[8];
    const int *fds;
    int n_fds;
    struct frame_queue q;
    frame_queue_init(&q);
    frame_queue_push(&q, ping(7, &payload, NULL, NULL));
    frame_queue_peek(&q, iov, 8, &fds, &n_fds);
    peer.n_first = iov[0].iov_len;
    memcpy(peer.first, iov[0].iov_base, peer.n_first);
    channel_init(&side.channel, &peer.transport, UINT64_MAX, false, &ops);
    peer.transport.ready(&peer.transport, 0, UV_READABLE);
    assert_int_equal(side.messages, 1);
    assert_cmp(peer.received, <, TURN);
    channel_send(&side.channel, ping(8, &payload, NULL, NULL));
    peer.transport.ready(&peer.transport, 0, UV_WRITABLE);
    assert_cmp(peer.sent, <, 2 * TURN);
    frame_queue_done(&q);
    frame_queue_done(&side.channel.out);
    free(side.into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_payload_arrives_in_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pause_holds_back_what_was_read_already, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_turn_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fds_come_with_their_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_that_closes_is_reported_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paused_side_notices_that_its_peer_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(garbage_loses_the_channel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(close_drops_what_is_queued, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_turn_ends_beside_a_peer_that_is_as_fast, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
