// Both ends of a cable in one loop; what moves blocks between them is a queue in memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/usb/usb_link.h"

#define TO_SEND 10000000u // bytes

struct end {
    struct usb_link link;
    struct end *peer;
    struct usb_link_transfer receiving[USB_LINK_TRANSFERS], sending[USB_LINK_TRANSFERS];
    // Under way, in order of submission.
    struct usb_link_transfer *listens[USB_LINK_TRANSFERS], *sends[USB_LINK_TRANSFERS];
    size_t sizes[USB_LINK_TRANSFERS], n_listens, n_sends;
    struct mux_channel channel;
    uint32_t sent, received;
    bool refuses, closed;
    uint8_t lent[MUX_BLOCK]; // valid until the next transfer is submitted
    size_t n_lent;           // bytes so far
    uint8_t in[USB_LINK_BLOCKS][MUX_BLOCK], out[USB_LINK_BLOCKS][MUX_BLOCK];
};

static struct end *pc, *board;

static struct end *end_of(struct usb_link *c)
{
    return container_of(c, struct end, link);
}

static uint8_t byte_at(uint32_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

// ---- a channel that sends TO_SEND bytes each way ------------------------------------------------

static bool accept_channel(struct mux *m, uint32_t number)
{
    struct end *end = end_of(container_of(m, struct usb_link, mux));
    mux_accept(m, &end->channel, number);
    mux_ready(&end->channel);
    return true;
}

static void make(struct end *end, uint8_t *into, size_t n)
{
    for (size_t i = 0; i < n; i++)
        into[i] = byte_at(end->sent++);
}

// What fills its block is lent, but for some first bytes.
static int pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    struct end *end = container_of(ch, struct end, channel);
    size_t n = TO_SEND - end->sent < size ? TO_SEND - end->sent : size;
    size_t copied = end->sent % 1000;
    if (n < size || n < copied || !mux_lend(ch, (struct bytes){end->lent, n - copied}))
        copied = n;
    make(end, into, copied);
    make(end, end->lent, n - copied);
    return (int)n;
}

static void push(struct mux_channel *ch, struct bytes data)
{
    struct end *end = container_of(ch, struct end, channel);
    for (uint32_t i = 0; i < data.size; i++)
        assert_int_equal(data.data[i], byte_at(end->received + i));
    end->received += (uint32_t)data.size;
    mux_consumed(ch, data.size);
}

static void channel_closed(struct mux_channel *ch)
{
    (void)ch;
}

static const struct mux_ops mux_ops = {accept_channel, pull, push, channel_closed, usb_link_wake};

// ---- transfers ----------------------------------------------------------------------------------

static bool submit(struct usb_link *c, struct usb_link_transfer *t, size_t size)
{
    struct end *end = end_of(c);
    bool receives = t >= end->receiving && t < end->receiving + USB_LINK_TRANSFERS;
    assert_true(t->busy);
    assert_true(t->block);
    if (end->refuses && end == board)
        mux_refuse(&c->mux); // as usb_board.c does
    if (end->refuses)
        return false;
    if (receives) {
        assert_int_equal(size, MUX_BLOCK);
        end->listens[end->n_listens++] = t;
    } else {
        memcpy(t->block + size, t->lent.data ? t->lent.data : end->lent, t->lent.size);
        end->n_lent += t->lent.size;
        end->sizes[end->n_sends] = size + t->lent.size;
        end->sends[end->n_sends++] = t;
    }
    memset(end->lent, 0xee, sizeof end->lent);
    return true;
}

static struct usb_link_transfer *first(struct usb_link_transfer **all, size_t *n)
{
    struct usb_link_transfer *t = all[0];
    memmove(all, all + 1, --*n * sizeof *all);
    return t;
}

// At most `most` blocks from one end to the other.
static bool carry(struct end *from, size_t most)
{
    struct end *to = from->peer;
    size_t n = 0;
    for (; n < most && from->n_sends > 0 && to->n_listens > 0; n++) {
        size_t size = from->sizes[0];
        struct usb_link_transfer *out = first(from->sends, &from->n_sends);
        struct usb_link_transfer *in = first(to->listens, &to->n_listens);
        memmove(from->sizes, from->sizes + 1, from->n_sends * sizeof *from->sizes);
        memcpy(in->block, out->block, size);
        usb_link_sent(&from->link, out);
        usb_link_received(&to->link, in, size);
    }
    return n > 0;
}

static void take(struct usb_link *c, struct bytes block)
{
    struct error e;
    if (mux_receive(&c->mux, block, &e) < 0)
        fail_msg("%s", e.text);
}

static void closed(struct usb_link *c)
{
    end_of(c)->closed = true;
}

static const struct usb_link_ops usb_link_ops = {submit, take, closed};

// ---- the rig ------------------------------------------------------------------------------------

static struct end *new_end(uv_loop_t *loop, bool host)
{
    struct end *end = calloc(1, sizeof *end);
    assert_non_null(end);
    usb_link_init(&end->link, loop, host, &mux_ops, &usb_link_ops);
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        end->link.receiving[i] = &end->receiving[i];
        end->link.sending[i] = &end->sending[i];
    }
    end->link.lends = !host;
    usb_link_use(&end->link, end->in, end->out);
    return end;
}

static void plug_in(uint64_t nonce)
{
    board->sent = board->received = pc->sent = pc->received = 0;
    mux_start(&board->link.mux, 0);
    usb_link_start(&board->link);
    mux_start(&pc->link.mux, nonce);
    usb_link_start(&pc->link);
}

static void end_transfers(struct end *end)
{
    while (end->n_listens > 0)
        usb_link_received(&end->link, first(end->listens, &end->n_listens), 0);
    while (end->n_sends > 0)
        usb_link_sent(&end->link, first(end->sends, &end->n_sends));
}

static void pull_out(void)
{
    usb_link_stop(&pc->link);
    usb_link_stop(&board->link);
    end_transfers(pc);
    end_transfers(board);
}

// Until the PC's end has received so much.
static void run_until(uv_loop_t *loop, uint32_t received, size_t burst)
{
    struct error e;
    for (unsigned idle = 0; pc->received < received; idle++) {
        assert_cmp(idle, <, 10);
        if (pc->link.mux.state == MUX_UP && !pc->channel.mux) {
            assert_int_equal(mux_open(&pc->link.mux, &pc->channel, &e), 0);
            mux_ready(&pc->channel);
        }
        for (int i = 0; i < 3; i++)
            uv_run(loop, UV_RUN_NOWAIT);
        bool any = carry(pc, burst);
        any |= carry(board, burst);
        idle = any ? 0 : idle;
    }
}

// Nothing is left to do: an idle handle that stayed would keep a processor busy.
static void assert_rests(uv_loop_t *loop)
{
    for (int i = 0; i < 20; i++) {
        uv_run(loop, UV_RUN_NOWAIT);
        carry(pc, USB_LINK_TRANSFERS);
        carry(board, USB_LINK_TRANSFERS);
    }
    assert_false(uv_is_active((uv_handle_t *)&pc->link.turn));
    assert_false(uv_is_active((uv_handle_t *)&board->link.turn));
}

static void assert_no_block_is_lost(const struct end *end)
{
    assert_int_equal(end->link.empty_in.n, USB_LINK_BLOCKS);
    assert_int_equal(end->link.empty_out.n, USB_LINK_BLOCKS);
}

// ---- tests --------------------------------------------------------------------------------------

static void everything_arrives(void **state)
{
    uv_loop_t *loop = *state;
    for (size_t burst = 1; burst <= USB_LINK_TRANSFERS; burst++) {
        plug_in(burst);
        run_until(loop, TO_SEND, burst);
        assert_rests(loop);
        assert_int_equal(board->received, TO_SEND);
        assert_int_equal(pc->n_lent, 0);
        assert_in_range(board->n_lent, burst * TO_SEND / 10 * 9, burst * TO_SEND);
        pull_out();
        assert_no_block_is_lost(pc);
        assert_no_block_is_lost(board);
    }
}

// Out in the middle, with blocks at every stage; the next conversation knows nothing of them.
static void out_and_in(void **state)
{
    uv_loop_t *loop = *state;
    for (uint32_t i = 1; i < 40; i++) {
        plug_in(100 + i);
        run_until(loop, i * 100000, 1 + i % USB_LINK_TRANSFERS);
        pull_out();
        assert_no_block_is_lost(pc);
        assert_no_block_is_lost(board);
    }
    plug_in(1000);
    run_until(loop, TO_SEND, USB_LINK_TRANSFERS);
    pull_out();
}

// What cannot be submitted is tried again when something happens, not all the time.
static void refused_transfers(void **state)
{
    uv_loop_t *loop = *state;
    struct end *ends[] = {pc, board};
    for (size_t i = 0; i < 2; i++) {
        ends[i]->refuses = true;
        plug_in(2000 + i);
        assert_rests(loop);
        assert_int_equal(ends[i]->n_listens + ends[i]->n_sends, 0);
        pull_out();
        assert_no_block_is_lost(ends[i]);
        ends[i]->refuses = false;
    }
    plug_in(3000);
    run_until(loop, TO_SEND / 2, 2);
    board->refuses = true;
    assert_rests(loop);
    pull_out();
    assert_no_block_is_lost(board);
}

static int set_up(void **state)
{
    static uv_loop_t loop;
    uv_loop_init(&loop);
    pc = new_end(&loop, true);
    board = new_end(&loop, false);
    pc->peer = board;
    board->peer = pc;
    *state = &loop;
    return 0;
}

static int tear_down(void **state)
{
    uv_loop_t *loop = *state;
    usb_link_close(&pc->link);
    usb_link_close(&board->link);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_true(pc->closed);
    assert_true(board->closed);
    free(pc);
    free(board);
    return uv_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_arrives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(out_and_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_transfers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
