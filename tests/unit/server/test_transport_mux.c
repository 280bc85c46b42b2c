// Channels of frames straight on channels of a cable: order, back-pressure, closing in callbacks, a
// cable that is pulled out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/channel.h"
#include "server/net/transport_mux.h"

#define MAX_SIDES 4
#define ROOM      (8u << 20)

// The board's end of a stream.
struct side {
    struct channel channel;
    unsigned messages, payloads, drained, lost, closed;
    bool in_order;
    struct iovec into[FRAME_MAX_SEGMENTS];
    int n_into;
    unsigned pause_at, close_at; // counts of messages
    bool close_drained;
};

// The PC's end: plain bytes.
struct stream {
    struct mux_channel channel;
    uint8_t *out, *in;
    size_t n_out, sent, n_in;
    bool closed;
};

struct rig {
    uv_loop_t loop;
    struct mux pc, board;
    struct side sides[MAX_SIDES];
    struct stream streams[MAX_SIDES];
    unsigned n_sides, n_streams;
};

// ---- the board's end ----------------------------------------------------------------------------

static void on_channel_closed(struct channel *c)
{
    container_of(c, struct side, channel)->closed++;
}

static void got_message(struct channel *c, const struct frame_header *h, struct bytes message)
{
    struct side *s = container_of(c, struct side, channel);
    rknnd_Ping m;
    assert_int_equal(message_decode(rknnd_Ping_fields, message, &m, NULL), 0);
    s->in_order &= m.token == s->messages;
    s->messages++;
    if (h->payload_size > 0)
        frame_reader_payload_into(&c->reader, s->into, s->n_into);
    if (s->messages == s->pause_at)
        channel_pause(c);
    if (s->messages == s->close_at)
        channel_close(c, on_channel_closed);
}

static void got_payload(struct channel *c)
{
    container_of(c, struct side, channel)->payloads++;
}

static void got_drained(struct channel *c)
{
    struct side *s = container_of(c, struct side, channel);
    s->drained++;
    if (s->close_drained)
        channel_close(c, on_channel_closed);
}

static void got_lost(struct channel *c, const struct error *why)
{
    assert_cmp(why->code, <, 0);
    assert_true(why->text[0]);
    container_of(c, struct side, channel)->lost++;
}

static const struct channel_ops channel_ops = {.on_message = got_message,
                                               .on_payload = got_payload,
                                               .on_drained = got_drained,
                                               .on_lost = got_lost};

static bool accept_side(struct mux *m, uint32_t number)
{
    struct rig *r = container_of(m, struct rig, board);
    struct transport *transport = transport_mux_accept(m, number, &r->loop);
    assert_non_null(transport);
    if (r->n_sides == MAX_SIDES) {
        transport_close(transport);
        return true;
    }
    struct side *s = &r->sides[r->n_sides++];
    s->in_order = true;
    channel_init(&s->channel, transport, 64 << 20, false, &channel_ops);
    return true;
}

// ---- the PC's end -------------------------------------------------------------------------------

static int pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    struct stream *s = container_of(ch, struct stream, channel);
    size_t n = s->n_out - s->sent < size ? s->n_out - s->sent : size;
    memcpy(into, s->out + s->sent, n);
    s->sent += n;
    return (int)n;
}

static void push(struct mux_channel *ch, struct bytes data)
{
    struct stream *s = container_of(ch, struct stream, channel);
    assert_cmp(data.size, <=, ROOM - s->n_in);
    memcpy(s->in + s->n_in, data.data, data.size);
    s->n_in += data.size;
    mux_consumed(ch, data.size);
}

static void closed(struct mux_channel *ch)
{
    container_of(ch, struct stream, channel)->closed = true;
}

static void wake(struct mux *m)
{
    (void)m;
}

static const struct mux_ops pc_ops = {.pull = pull, .push = push, .closed = closed, .wake = wake};
static const struct mux_ops board_ops = {.open = accept_side,
                                         .pull = transport_mux_pull,
                                         .push = transport_mux_push,
                                         .closed = transport_mux_closed,
                                         .wake = wake};

// ---- the rig ------------------------------------------------------------------------------------

static size_t n_lent; // bytes

static bool carry(struct mux *from, struct mux *to)
{
    static uint8_t block[MUX_BLOCK];
    struct error e;
    struct bytes lent;
    size_t size = mux_fill_and_lend(from, block, &lent);
    if (lent.size > 0)
        memcpy(block + size, lent.data, lent.size);
    size += lent.size;
    n_lent += lent.size;
    if (size > 0 && mux_receive(to, (struct bytes){block, size}, &e) < 0)
        fail_msg("%s", e.text);
    return size > 0;
}

static void settle(struct rig *r)
{
    bool any;
    do {
        any = carry(&r->pc, &r->board);
        any |= carry(&r->board, &r->pc);
        any |= uv_run(&r->loop, UV_RUN_NOWAIT) != 0;
    } while (any);
}

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    uv_loop_init(&r->loop);
    mux_init(&r->pc, true, &pc_ops);
    mux_init(&r->board, false, &board_ops);
    mux_start(&r->board, 0);
    mux_start(&r->pc, 1);
    settle(r);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    mux_stop(&r->pc);
    mux_stop(&r->board);
    for (unsigned i = 0; i < r->n_sides; i++)
        if (!r->sides[i].channel.closing)
            channel_close(&r->sides[i].channel, on_channel_closed);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < r->n_sides; i++)
        assert_int_equal(r->sides[i].closed, 1);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    for (unsigned i = 0; i < r->n_streams; i++) {
        free(r->streams[i].out);
        free(r->streams[i].in);
    }
    free(r);
    return 0;
}

static struct stream *open_stream(struct rig *r)
{
    struct stream *s = &r->streams[r->n_streams++];
    struct error e;
    s->out = malloc(ROOM);
    s->in = malloc(ROOM);
    assert_true(s->out);
    assert_true(s->in);
    assert_int_equal(mux_open(&r->pc, &s->channel, &e), 0);
    settle(r);
    return s;
}

static struct frame_out *ping_and(uint64_t token, struct iovec payload,
                                  void (*release)(void *owner), void *owner)
{
    rknnd_Ping m = {token};
    return message_frame(MESSAGE_PING, 0, 1, rknnd_Ping_fields, &m, &payload,
                         payload.iov_len > 0 ? 1 : 0, release, owner);
}

static struct frame_out *ping(uint64_t token, struct iovec payload)
{
    return ping_and(token, payload, NULL, NULL);
}

static void say(struct stream *s, uint64_t token, struct iovec payload)
{
    struct frame_out *f = ping(token, payload);
    assert_true(f);
    assert_cmp(f->total, <=, ROOM - s->n_out);
    memcpy(s->out + s->n_out, f->head, f->head_size);
    memcpy(s->out + s->n_out + f->head_size, payload.iov_base, payload.iov_len);
    s->n_out += f->total;
    frame_out_free(f);
    mux_ready(&s->channel);
}

static void say_many(struct stream *s, unsigned n)
{
    static uint8_t nothing;
    for (unsigned i = 0; i < n; i++)
        say(s, i, (struct iovec){&nothing, 0});
}

static struct iovec pattern(size_t size)
{
    uint8_t *data = malloc(size);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 13));
    return (struct iovec){data, size};
}

// ---- tests --------------------------------------------------------------------------------------

static void payload_arrives_in_place(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    struct iovec data = pattern(3 << 20), into = {calloc(1, data.iov_len), data.iov_len};
    r->sides[0].into[0] = into;
    r->sides[0].n_into = 1;
    say(s, 0, data);
    say(s, 1, (struct iovec){data.iov_base, 0});
    settle(r);
    assert_int_equal(r->sides[0].payloads, 1);
    assert_int_equal(r->sides[0].messages, 2);
    assert_memory_equal(into.iov_base, data.iov_base, data.iov_len);
    free(data.iov_base);
    free(into.iov_base);
}

// More pieces than are read in one turn of the loop: the rest comes in the next ones.
static void payload_in_many_pieces(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    struct side *side = &r->sides[0];
    struct iovec data = pattern(FRAME_MAX_SEGMENTS * 200);
    uint8_t *into = calloc(1, data.iov_len);
    side->n_into = FRAME_MAX_SEGMENTS;
    for (size_t i = 0; i < FRAME_MAX_SEGMENTS; i++)
        side->into[i] = (struct iovec){into + i * 200, 200};
    say(s, 0, data);
    assert_true(carry(&r->pc, &r->board));
    assert_int_equal(side->payloads, 0);
    settle(r);
    assert_int_equal(side->payloads, 1);
    assert_memory_equal(into, data.iov_base, data.iov_len);
    free(data.iov_base);
    free(into);
}

static void spoil(void *data)
{
    const struct iovec *v = data;
    memset(v->iov_base, 0xee, v->iov_len);
}

// Without a copy, and nothing is read after its frame has been released.
static void answers_go_out(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    struct channel *c = &r->sides[0].channel;
    const size_t size = (3 << 20) + 20000; // what is left for the last block would be worth lending
    struct iovec data = pattern(size), expected = pattern(size);
    struct frame_out *f = ping_and(5, data, spoil, &data);
    size_t head_size = f->head_size, total = f->total;
    channel_send(c, f);
    assert_int_equal(channel_backlog(c), total);
    n_lent = 0;
    settle(r);
    assert_in_range(n_lent, total - 2 * MUX_BLOCK, total);
    assert_int_equal(channel_backlog(c), 0);
    assert_int_equal(r->sides[0].drained, 1);
    assert_int_equal(s->n_in, total);
    assert_memory_equal(s->in + head_size, expected.iov_base, expected.iov_len);
    free(data.iov_base);
    free(expected.iov_base);
}

// Who pauses gets no more than a window, and holds up nobody else.
static void paused_side_gets_a_window(void **state)
{
    struct rig *r = *state;
    struct stream *slow = open_stream(r), *quick = open_stream(r);
    unsigned many = 100000;
    r->sides[0].pause_at = 3;
    say_many(slow, many);
    say_many(quick, 10);
    settle(r);
    assert_int_equal(r->sides[0].messages, 3);
    assert_int_equal(r->sides[1].messages, 10);
    assert_cmp(slow->sent, <, slow->n_out);
    assert_in_range(slow->sent, MUX_WINDOW / 2, MUX_WINDOW + MUX_BLOCK);
    channel_resume(&r->sides[0].channel);
    assert_int_equal(r->sides[0].messages, 3); // from the loop, not from inside
    settle(r);
    assert_int_equal(r->sides[0].messages, many);
    assert_true(r->sides[0].in_order);
}

static void pauses_at_random(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    struct side *side = &r->sides[0];
    unsigned many = 20000;
    say_many(s, many);
    for (unsigned i = 1; side->messages < many; i++) {
        side->pause_at = side->messages + 1 + i * 7919 % 500;
        settle(r);
        channel_resume(&side->channel);
    }
    assert_true(side->in_order);
    assert_int_equal(side->lost, 0);
}

static void closed_by_a_message(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    r->sides[0].close_at = 2;
    say_many(s, 5000);
    settle(r);
    assert_int_equal(r->sides[0].messages, 2);
    assert_int_equal(r->sides[0].closed, 1);
    assert_int_equal(r->sides[0].lost, 0);
    assert_true(s->closed);
}

// A last word arrives before the end.
static void closed_when_drained(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    struct iovec data = pattern(200000);
    struct frame_out *f = ping(1, data);
    size_t total = f->total;
    r->sides[0].close_drained = true;
    channel_send(&r->sides[0].channel, f);
    settle(r);
    assert_int_equal(s->n_in, total);
    assert_true(s->closed);
    assert_int_equal(r->sides[0].closed, 1);
    free(data.iov_base);
}

// What came before the end is valid.
static void peer_closes(void **state)
{
    struct rig *r = *state;
    struct stream *s = open_stream(r);
    r->sides[0].pause_at = 2;
    say_many(s, 10);
    settle(r);
    r->sides[0].pause_at = 0;
    channel_resume(&r->sides[0].channel);
    mux_close(&s->channel);
    settle(r);
    assert_int_equal(r->sides[0].messages, 10);
    assert_int_equal(r->sides[0].lost, 1);
}

static void unplugged(void **state)
{
    struct rig *r = *state;
    struct stream *paused = open_stream(r), *busy = open_stream(r);
    struct iovec data = pattern(1 << 20);
    r->sides[0].pause_at = 1;
    say_many(paused, 2000);
    settle(r);
    channel_send(&r->sides[1].channel, ping(1, data));
    assert_true(carry(&r->board, &r->pc));
    assert_cmp(busy->n_in, >, 0);
    mux_stop(&r->board);
    settle(r);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(r->sides[i].lost, 1);
    channel_resume(&r->sides[0].channel);
    channel_send(&r->sides[1].channel, ping(2, data)); // dropped
    settle(r);
    assert_int_equal(r->sides[0].lost, 1);
    assert_int_equal(channel_backlog(&r->sides[1].channel), 0);
    free(data.iov_base);
}

static void refused_at_once(void **state)
{
    struct rig *r = *state;
    struct error e;
    static uint8_t nothing;
    struct stream last = {.out = &nothing};
    for (unsigned i = 0; i < MAX_SIDES; i++)
        open_stream(r);
    assert_int_equal(mux_open(&r->pc, &last.channel, &e), 0);
    settle(r);
    assert_true(last.closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(payload_arrives_in_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(payload_in_many_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_go_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paused_side_gets_a_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pauses_at_random, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed_by_a_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed_when_drained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_closes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unplugged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
