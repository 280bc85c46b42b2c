// The cable's multiplexer: two ends with random traffic between them, and what a peer can do wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/usb/mux.h"
#include "tests/support/seed.h"

#define MAX_BLOCKS 16

// One end of a stream. Byte i of what it sends is a function of its key and i.
struct stream {
    struct mux_channel channel;
    struct list link;
    bool open;
    uint64_t key, peer_key; // 0: not known yet
    uint64_t sent, received, to_send;
    size_t unconsumed;
    bool ends; // after to_send
    bool lends, lends_and_closes;
};

struct end {
    struct mux mux;
    struct list streams;
    unsigned n_opened, n_closed, n_woken;
    bool refuses;
    uint8_t blocks[MAX_BLOCKS][MUX_BLOCK]; // on their way to the other end
    size_t sizes[MAX_BLOCKS], first, n;
};

struct rig {
    struct end pc, board;
    uint64_t random, nonce;
};

static uint32_t draw(struct rig *r, uint32_t below)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->random >> 33) % below;
}

static uint8_t byte_at(uint64_t key, uint64_t i)
{
    return (uint8_t)((key + i) * 2654435761u >> 11);
}

// ---- streams ------------------------------------------------------------------------------------

// Numbers are given in order, so both ends know the keys of the n-th channel of a conversation.
static void set_keys(struct stream *s, uint32_t number, bool host)
{
    s->key = number * 2u + host + 1000;
    s->peer_key = number * 2u + !host + 1000;
}

// What is lent is nowhere else.
static void lend(struct mux_channel *ch, uint8_t *bytes, size_t n)
{
    static uint8_t elsewhere[MUX_BLOCK];
    memcpy(elsewhere, bytes, n);
    if (mux_lend(ch, (struct bytes){elsewhere, n}))
        memset(bytes, 0xee, n);
}

static int pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    struct stream *s = container_of(ch, struct stream, channel);
    uint64_t left = s->to_send - s->sent;
    size_t n = left < size ? (size_t)left : size;
    if (n == 0 && s->ends)
        return -1;
    for (size_t i = 0; i < n; i++)
        into[i] = byte_at(s->key, s->sent + i);
    s->sent += n;
    if (s->lends && n == size && n > 16)
        lend(ch, into + 16, n - 16);
    if (s->lends_and_closes && mux_lend(ch, (struct bytes){into + 16, n - 16}))
        mux_close(ch);
    return (int)n;
}

static void push(struct mux_channel *ch, struct bytes data)
{
    struct stream *s = container_of(ch, struct stream, channel);
    if (s->key == 0)
        set_keys(s, ch->number, ch->mux->host);
    for (size_t i = 0; i < data.size; i++)
        assert_int_equal(data.data[i], byte_at(s->peer_key, s->received + i));
    s->received += data.size;
    s->unconsumed += data.size;
    assert_cmp(s->unconsumed, <=, MUX_WINDOW);
}

static void free_stream(struct stream *s)
{
    list_remove(&s->link);
    free(s);
}

static struct end *end_of(struct mux *m)
{
    return container_of(m, struct end, mux);
}

static struct stream *new_stream(struct end *end)
{
    struct stream *s = calloc(1, sizeof *s);
    assert_non_null(s);
    list_append(&end->streams, &s->link);
    s->open = true;
    end->n_opened++;
    return s;
}

static bool accept_stream(struct mux *m, uint32_t number)
{
    if (!end_of(m)->refuses)
        mux_accept(m, &new_stream(end_of(m))->channel, number);
    return !end_of(m)->refuses;
}

static void closed(struct mux_channel *ch)
{
    struct stream *s = container_of(ch, struct stream, channel);
    assert_null(ch->mux);
    s->open = false;
}

static void wake(struct mux *m)
{
    end_of(m)->n_woken++;
}

static const struct mux_ops ops = {accept_stream, pull, push, closed, wake};

// ---- the rig ------------------------------------------------------------------------------------

static void init_end(struct end *end, bool host)
{
    memset(end, 0, sizeof *end);
    list_init(&end->streams);
    mux_init(&end->mux, host, &ops);
}

static struct rig *rig_new(uint64_t seed)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->random = seed;
    r->nonce = seed;
    init_end(&r->pc, true);
    init_end(&r->board, false);
    return r;
}

static void rig_free(struct rig *r)
{
    struct stream *s;
    mux_stop(&r->pc.mux);
    mux_stop(&r->board.mux);
    while ((s = list_first(&r->pc.streams, struct stream, link)))
        free_stream(s);
    while ((s = list_first(&r->board.streams, struct stream, link)))
        free_stream(s);
    free(r);
}

// What SET_INTERFACE does: both ends start over and nothing that was under way arrives.
static void plug(struct rig *r)
{
    r->pc.n = r->board.n = 0;
    mux_stop(&r->board.mux);
    mux_start(&r->board.mux, 0);
    mux_stop(&r->pc.mux);
    mux_start(&r->pc.mux, ++r->nonce);
}

static bool fill(struct end *end)
{
    if (end->n == MAX_BLOCKS)
        return false;
    size_t at = (end->first + end->n) % MAX_BLOCKS;
    struct bytes lent;
    end->sizes[at] = mux_fill_and_lend(&end->mux, end->blocks[at], &lent);
    if (lent.size > 0)
        memcpy(end->blocks[at] + end->sizes[at], lent.data, lent.size);
    end->sizes[at] += lent.size;
    if (end->sizes[at] == 0)
        return false;
    assert_cmp(end->sizes[at], <, MUX_BLOCK);
    assert_cmp(end->sizes[at], >, 64);
    assert_int_not_equal(end->sizes[at] % 64, 0);
    end->n++;
    return true;
}

static bool deliver(struct end *from, struct end *to)
{
    struct error e;
    if (from->n == 0)
        return false;
    struct bytes block = {from->blocks[from->first], from->sizes[from->first]};
    from->first = (from->first + 1) % MAX_BLOCKS;
    from->n--;
    if (mux_receive(&to->mux, block, &e) < 0)
        fail_msg("%s", e.text);
    return true;
}

static void give_keys(struct end *end)
{
    struct stream *s;
    list_for_each (s, &end->streams, link)
        if (s->key == 0 && s->channel.number != 0)
            set_keys(s, s->channel.number, end->mux.host);
}

static bool consume(struct end *end)
{
    struct stream *s;
    bool any = false;
    list_for_each (s, &end->streams, link) {
        any |= s->unconsumed > 0;
        mux_consumed(&s->channel, s->unconsumed);
        s->unconsumed = 0;
    }
    return any;
}

static void settle(struct rig *r)
{
    bool any;
    do {
        any = fill(&r->pc);
        any |= fill(&r->board);
        any |= deliver(&r->pc, &r->board);
        give_keys(&r->board);
        any |= deliver(&r->board, &r->pc);
        any |= consume(&r->pc);
        any |= consume(&r->board);
    } while (any);
}

// What the PC has to say goes to the board, which does not answer. Whether that was anything.
static bool send_up(struct rig *r)
{
    bool any = fill(&r->pc);
    any |= deliver(&r->pc, &r->board);
    return any;
}

static struct stream *open_stream(struct rig *r)
{
    struct error e;
    struct stream *s = new_stream(&r->pc);
    assert_int_equal(mux_open(&r->pc.mux, &s->channel, &e), 0);
    set_keys(s, s->channel.number, true);
    return s;
}

static struct stream *peer_of(struct rig *r, const struct stream *s)
{
    struct stream *p;
    list_for_each (p, &r->board.streams, link)
        if (p->key == s->peer_key)
            return p;
    return NULL;
}

// ---- tests --------------------------------------------------------------------------------------

static void send(struct stream *s, uint64_t n)
{
    s->to_send += n;
    mux_ready(&s->channel);
}

static void bytes_arrive(void **state)
{
    (void)state;
    struct rig *r = rig_new(1);
    plug(r);
    settle(r);
    struct stream *s = open_stream(r);
    settle(r);
    struct stream *p = peer_of(r, s);
    assert_non_null(p);
    send(s, 3 * MUX_WINDOW + 17);
    send(p, 64);
    settle(r);
    assert_int_equal(p->received, 3 * MUX_WINDOW + 17);
    assert_int_equal(s->received, 64);
    s->ends = true;
    mux_ready(&s->channel);
    settle(r);
    assert_false(s->open);
    assert_false(p->open);
    rig_free(r);
}

// Who does not consume is sent one window and no more; others are not held up.
static void back_pressure(void **state)
{
    (void)state;
    struct rig *r = rig_new(2);
    plug(r);
    settle(r);
    struct stream *slow = open_stream(r), *quick = open_stream(r);
    send(slow, 10 * MUX_WINDOW);
    for (int i = 0; i < 100; i++)
        while (send_up(r))
            give_keys(&r->board);
    assert_int_equal(peer_of(r, slow)->received, MUX_WINDOW);
    send(quick, 1000);
    while (send_up(r))
        ;
    assert_int_equal(peer_of(r, quick)->received, 1000);
    settle(r);
    assert_int_equal(peer_of(r, slow)->received, 10 * MUX_WINDOW);
    rig_free(r);
}

// The peer is told, and the sender woken, for a quarter of the window; not for each piece of it.
static void credit_comes_by_quarters(void **state)
{
    (void)state;
    struct rig *r = rig_new(3);
    plug(r);
    settle(r);
    struct stream *s = open_stream(r), *p;
    settle(r);
    p = peer_of(r, s);
    send(s, MUX_WINDOW);
    while (send_up(r))
        ;
    assert_int_equal(p->unconsumed, MUX_WINDOW);
    for (unsigned i = 1, woken = r->board.n_woken; i <= 16; i++) {
        mux_consumed(&p->channel, MUX_WINDOW / 16);
        assert_int_equal(r->board.n_woken, woken + i / 4);
        assert_int_equal(fill(&r->board), i % 4 == 0);
    }
    p->unconsumed = 0;
    settle(r);
    rig_free(r);
}

// A channel whose credit ends before its block does cannot lend: more comes behind its bytes.
static void lent_to_a_peer_that_takes_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_new(4);
    plug(r);
    settle(r);
    struct stream *one = open_stream(r), *other = open_stream(r);
    one->lends = other->lends = true;
    send(one, 10 * MUX_WINDOW);
    send(other, 10 * MUX_WINDOW);
    while (send_up(r))
        give_keys(&r->board);
    assert_int_equal(peer_of(r, one)->received, MUX_WINDOW);
    assert_int_equal(peer_of(r, other)->received, MUX_WINDOW);
    settle(r);
    assert_int_equal(peer_of(r, one)->received, 10 * MUX_WINDOW);
    assert_int_equal(peer_of(r, other)->received, 10 * MUX_WINDOW);
    rig_free(r);
}

// What it lent goes with it.
static void closed_while_it_lends(void **state)
{
    (void)state;
    struct rig *r = rig_new(3);
    plug(r);
    settle(r);
    struct stream *s = open_stream(r), *other = open_stream(r);
    settle(r);
    struct bytes lent;
    s->lends_and_closes = true;
    send(s, 2 * MUX_BLOCK);
    send(other, 100);
    r->pc.sizes[r->pc.first] = mux_fill_and_lend(&r->pc.mux, r->pc.blocks[r->pc.first], &lent);
    assert_int_equal(lent.size, 0);
    r->pc.n = 1;
    struct stream *p = peer_of(r, s);
    assert_true(deliver(&r->pc, &r->board));
    assert_int_equal(p->received, 16);
    settle(r);
    assert_false(p->open);
    assert_int_equal(peer_of(r, other)->received, 100);
    rig_free(r);
}

static bool all_arrived(struct rig *r, struct stream **streams, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (peer_of(r, streams[i])->received < streams[i]->to_send)
            return false;
    return true;
}

// One of the PC's blocks, and what it brings about.
static void step(struct rig *r)
{
    assert_true(fill(&r->pc));
    assert_true(deliver(&r->pc, &r->board));
    consume(&r->board);
    while (fill(&r->board) && deliver(&r->board, &r->pc))
        continue;
}

// The PC's end has `n` streams, and, if they may be many, one that always has more to send and has
// had the cable for itself.
static struct rig *rig_with_streams(struct stream **streams, unsigned n, bool bulk)
{
    struct rig *r = rig_new(n);
    plug(r);
    settle(r);
    struct stream *large = open_stream(r);
    for (unsigned i = 0; i < n; i++)
        streams[i] = open_stream(r);
    settle(r);
    if (bulk)
        send(large, UINT32_MAX);
    while (bulk && large->sent < 2 * MUX_SAVED)
        step(r);
    return r;
}

// What a channel sends is in the very next block, whatever another one has to send.
static void next_block(void **state)
{
    (void)state;
    struct stream *small;
    struct rig *r = rig_with_streams(&small, 1, true);
    send(small, 100);
    step(r);
    assert_int_equal(peer_of(r, small)->received, 100);
    rig_free(r);
}

// How many blocks it takes until `n` streams, which begin at once, have each sent `size` bytes.
static unsigned count_blocks(unsigned n, size_t size, bool bulk)
{
    struct stream *streams[8];
    struct rig *r = rig_with_streams(streams, n, bulk);
    unsigned blocks = 0;
    for (unsigned i = 0; i < n; i++)
        send(streams[i], size);
    for (; !all_arrived(r, streams, n); blocks++)
        step(r);
    rig_free(r);
    return blocks;
}

// Who has sent little does not wait for a bulk transfer. That costs programs who go on sending at
// most what one of them sends.
static void beside_bulk(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, 5000, 8192, 150528, 1228800, 4000000};
    for (unsigned n = 1; n <= 8; n++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned alone = count_blocks(n, sizes[i], false);
            size_t bulk = sizes[i] > MUX_SAVED ? sizes[i] - MUX_SAVED + MUX_TURN : 0;
            unsigned most = alone + 1 + (unsigned)(bulk / (MUX_BLOCK - 1024)); // what a block holds
            assert_in_range(count_blocks(n, sizes[i], true), alone, most);
        }
}

// Two that always have something to send get the same, from whenever on; who was away is ahead by
// what is kept for him.
static void same_shares(void **state)
{
    (void)state;
    struct stream *streams[3];
    struct rig *r = rig_with_streams(streams, 3, false);
    const uint64_t some = 8 * MUX_SAVED;
    send(streams[0], UINT32_MAX);
    while (streams[0]->sent < some)
        step(r);
    send(streams[1], UINT32_MAX);
    while (streams[0]->sent < 2 * some)
        step(r);
    assert_in_range(streams[1]->sent, some, some + MUX_SAVED + MUX_TURN);
    send(streams[2], UINT32_MAX);
    while (streams[0]->sent < 3 * some)
        step(r);
    assert_in_range(streams[2]->sent, some, some + MUX_SAVED + MUX_TURN);
    assert_in_range(streams[1]->sent, 2 * some - MUX_TURN, 2 * some + MUX_SAVED + 2 * MUX_TURN);
    rig_free(r);
}

// Pictures of several programs are sent one after the other.
static void one_after_the_other(void **state)
{
    (void)state;
    struct stream *streams[4];
    struct rig *r = rig_with_streams(streams, 4, true);
    for (unsigned i = 0; i < 4; i++)
        send(streams[i], MUX_TURN);
    for (unsigned n_done = 0, n_begun; n_done < 4;) {
        step(r);
        n_done = n_begun = 0;
        for (unsigned i = 0; i < 4; i++) {
            n_begun += streams[i]->sent > 0;
            n_done += streams[i]->sent == MUX_TURN;
        }
        assert_cmp(n_begun, <=, n_done + 1);
    }
    rig_free(r);
}

static void refused(void **state)
{
    (void)state;
    struct rig *r = rig_new(4);
    struct error e;
    struct mux_channel ch;
    assert_int_equal(mux_open(&r->pc.mux, &ch, &e), STATUS_DEVICE_UNAVAILABLE); // no cable
    plug(r);
    settle(r);
    r->board.refuses = true;
    struct stream *s = open_stream(r);
    send(s, 10000);
    settle(r);
    assert_false(s->open);
    rig_free(r);
}

// Blocks of an earlier conversation are not mistaken for the new one's.
static void stale_blocks(void **state)
{
    (void)state;
    struct rig *r = rig_new(5);
    plug(r);
    settle(r);
    struct stream *s = open_stream(r);
    settle(r);
    send(peer_of(r, s), 5000);
    assert_true(fill(&r->board));
    mux_stop(&r->pc.mux);
    assert_false(s->open);
    mux_start(&r->pc.mux, ++r->nonce);
    assert_true(deliver(&r->board, &r->pc)); // dropped
    assert_int_equal(r->pc.mux.state, MUX_GREETING);
    settle(r);
    assert_int_equal(r->pc.mux.state, MUX_UP);
    s = open_stream(r);
    send(s, 100);
    settle(r);
    struct stream *p, *last = NULL;
    list_for_each (p, &r->board.streams, link)
        last = p;
    assert_non_null(last);
    assert_true(last->open);
    assert_int_equal(last->received, 100);
    rig_free(r);
}

static struct stream *draw_stream(struct rig *r, struct end *end)
{
    struct stream *s, *ret = NULL;
    unsigned n = 0;
    list_for_each (s, &end->streams, link)
        if (s->open && s->key != 0 && draw(r, ++n) == 0)
            ret = s;
    return ret;
}

static void act(struct rig *r)
{
    struct end *end = draw(r, 2) ? &r->pc : &r->board, *other = end == &r->pc ? &r->board : &r->pc;
    struct stream *s = draw_stream(r, end);
    switch (draw(r, 12)) {
    case 0:
        if (r->pc.mux.state == MUX_UP)
            open_stream(r);
        break;
    case 1:
    case 2:
        if (s)
            send(s, draw(r, 4) ? draw(r, 300) : draw(r, 200000));
        break;
    case 3:
        if (s && draw(r, 4) == 0) {
            s->open = false;
            mux_close(&s->channel);
        }
        break;
    case 4:
        if (s && draw(r, 4) == 0) {
            s->ends = true;
            mux_ready(&s->channel);
        }
        break;
    case 5:
        consume(end);
        break;
    case 6:
        if (draw(r, 400) == 0)
            plug(r);
        break;
    case 7:
    case 8:
        fill(end);
        break;
    default:
        deliver(end, other);
        give_keys(&r->board);
    }
}

static void check_complete(struct rig *r)
{
    struct stream *s;
    list_for_each (s, &r->pc.streams, link) {
        if (!s->open)
            continue;
        struct stream *p = peer_of(r, s);
        assert_non_null(p);
        assert_true(p->open);
        assert_int_equal(p->received, s->to_send);
        assert_int_equal(s->received, p->to_send);
    }
}

// Streams of an earlier conversation have keys that a later one uses again.
static void forget_closed(struct end *end)
{
    struct stream *s, *after;
    list_for_each_safe (s, after, &end->streams, link)
        if (!s->open)
            free_stream(s);
}

static void random_traffic(void **state)
{
    (void)state;
    SEED_EACH (seed, 60) {
        struct rig *r = rig_new(seed * 7919);
        plug(r);
        for (int i = 0; i < 4000; i++) {
            act(r);
            forget_closed(&r->pc);
            forget_closed(&r->board);
        }
        settle(r);
        forget_closed(&r->pc);
        forget_closed(&r->board);
        check_complete(r);
        rig_free(r);
    }
}

// ---- a peer that is wrong -----------------------------------------------------------------------

static const uint8_t hello[] = {0, 0, 0, 0, 1, 0, 20, 0, 'R', 'K', 'M', 'X', 1, 0,
                                0, 0, 0, 0, 1, 0, 7,  0, 0,   0,   0,   0,   0, 0};

static void wrong_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint8_t block[24];
        size_t size;
    } rows[] = {
        {"half a header", {1, 0, 0, 0, 2}, 5},
        {"data that is not there", {1, 0, 0, 0, 3, 0, 9, 0, 1}, 9},
        {"an unknown type", {1, 0, 0, 0, 9, 0, 0, 0}, 8},
        {"a channel 0", {0, 0, 0, 0, 2, 0, 0, 0}, 8},
        {"a channel twice", {1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, 16},
        {"too much credit", {1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 4, 0, 1, 0, 0, 0}, 20},
        {"credit of another size", {1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 1, 0, 0}, 17},
        {"another version", {0, 0, 0, 0, 1, 0, 20, 0, 'R', 'K', 'M', 'X', 2, 0}, 28},
        {"another greeting", {0, 0, 0, 0, 1, 0, 20, 0, 'R', 'K', 'M', 'Y', 1, 0}, 28},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig *r = rig_new(i);
        struct error e;
        uint8_t block[32] = {0};
        memcpy(block, rows[i].block, sizeof rows[i].block);
        mux_start(&r->board.mux, 0);
        assert_int_equal(mux_receive(&r->board.mux, (struct bytes){hello, sizeof hello}, &e), 0);
        assert_int_equal(r->board.mux.state, MUX_UP);
        if (mux_receive(&r->board.mux, (struct bytes){block, rows[i].size}, &e) != STATUS_FAIL)
            fail_msg("%s was taken", rows[i].what);
        rig_free(r);
    }
}

static void too_much_data(void **state)
{
    (void)state;
    struct rig *r = rig_new(6);
    struct error e;
    uint8_t block[8 + 16384] = {1, 0, 0, 0, 3, 0, 0, 64};
    static const uint8_t open[] = {1, 0, 0, 0, 2, 0, 0, 0};
    mux_start(&r->board.mux, 0);
    assert_int_equal(mux_receive(&r->board.mux, (struct bytes){hello, sizeof hello}, &e), 0);
    assert_int_equal(mux_receive(&r->board.mux, (struct bytes){open, sizeof open}, &e), 0);
    struct stream *s = list_first(&r->board.streams, struct stream, link);
    set_keys(s, 1, false);
    for (unsigned i = 0; i < MUX_WINDOW / 16384; i++) {
        for (size_t k = 0; k < 16384; k++)
            block[8 + k] = byte_at(s->peer_key, s->received + k);
        assert_int_equal(mux_receive(&r->board.mux, (struct bytes){block, sizeof block}, &e), 0);
    }
    assert_int_equal(mux_receive(&r->board.mux, (struct bytes){block, sizeof block}, &e),
                     STATUS_FAIL);
    rig_free(r);
}

// As many channels as fit, and no more until one is closed and the board has been told.
static void full(void **state)
{
    (void)state;
    struct rig *r = rig_new(8);
    struct mux_channel another;
    struct error e;
    plug(r);
    settle(r);
    struct stream *s = NULL;
    for (unsigned i = 0; i < MUX_CHANNELS; i++)
        s = open_stream(r);
    assert_int_equal(mux_open(&r->pc.mux, &another, &e), STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(e.text, "1024 connections"));
    settle(r);
    mux_close(&s->channel);
    s->open = false;
    assert_int_equal(mux_open(&r->pc.mux, &another, &e), STATUS_DEVICE_UNAVAILABLE);
    settle(r);
    open_stream(r);
    rig_free(r);
}

// The board asks for a new start, and the PC's end hears it.
static void restart(void **state)
{
    (void)state;
    struct rig *r = rig_new(8);
    struct error e;
    plug(r);
    settle(r);
    struct stream *s = open_stream(r);
    settle(r);
    mux_refuse(&r->board.mux);
    assert_true(fill(&r->board));
    struct bytes block = {r->board.blocks[r->board.first], r->board.sizes[r->board.first]};
    assert_int_equal(mux_receive(&r->pc.mux, block, &e), STATUS_FAIL);
    plug(r);
    assert_false(s->open);
    settle(r);
    assert_int_equal(r->pc.mux.state, MUX_UP);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive),
        cmocka_unit_test(back_pressure),
        cmocka_unit_test(credit_comes_by_quarters),
        cmocka_unit_test(lent_to_a_peer_that_takes_nothing),
        cmocka_unit_test(closed_while_it_lends),
        cmocka_unit_test(next_block),
        cmocka_unit_test(refused),
        cmocka_unit_test(beside_bulk),
        cmocka_unit_test(same_shares),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(stale_blocks),
        cmocka_unit_test(random_traffic),
        cmocka_unit_test(wrong_blocks),
        cmocka_unit_test(too_much_data),
        cmocka_unit_test(full),
        cmocka_unit_test(restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
