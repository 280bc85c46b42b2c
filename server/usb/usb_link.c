// The blocks of one end of a USB link and the transfers that carry them. Common to the board
// (usb_board.c) and the PC (usb_host.c), which only submit transfers and report their ends.
//
//     receiving   empty_in ──► transfer ──► came ──► ops->take() ──► empty_in
//     sending     empty_out ──► mux_fill() ──► made ──► transfer ──► empty_out
//
// Every block is in exactly one queue or one transfer, so no queue can overflow. All of it runs on
// the loop's thread. The ends of transfers only queue blocks and submit the next ones; the mux does
// its work in on_turn(), an idle handle that runs once per turn of the loop.
#include "server/usb/usb_link.h"

#include <assert.h>

// ---- blocks -------------------------------------------------------------------------------------

static void usb_link_put(struct usb_link_queue *q, uint8_t *block, size_t size)
{
    assert(q->n < USB_LINK_BLOCKS);
    q->blocks[(q->first + q->n++) % USB_LINK_BLOCKS] = (struct usb_link_block){block, size};
}

static struct usb_link_block usb_link_take(struct usb_link_queue *q)
{
    struct usb_link_block b = q->blocks[q->first];
    assert(q->n > 0);
    q->first = (q->first + 1) % USB_LINK_BLOCKS;
    q->n--;
    return b;
}

static void move_all(struct usb_link_queue *from, struct usb_link_queue *to)
{
    while (from->n > 0)
        usb_link_put(to, usb_link_take(from).data, 0);
}

// ---- transfers ----------------------------------------------------------------------------------

// Puts the transfer's block back among the empty ones.
static void give_back(struct usb_link_transfer *t, struct usb_link_queue *empty)
{
    if (t->block)
        usb_link_put(empty, t->block, 0);
    t->block = NULL;
}

// Submits a block; if that is refused, the block becomes empty again. What it held is lost then, so
// submit() makes the whole link start over.
static bool usb_link_start_transfer(struct usb_link *c, struct usb_link_transfer *t,
                                    struct usb_link_block b, struct usb_link_queue *empty)
{
    t->block = b.data;
    t->busy = true;
    if (c->ops->submit(c, t, b.size))
        return true;
    t->busy = false;
    give_back(t, empty);
    return false;
}

// Submits every idle receiving transfer: the peer cannot send while none is under way.
static void receive_more(struct usb_link *c)
{
    for (size_t i = 0; i < USB_LINK_TRANSFERS && c->up && c->empty_in.n > 0; i++)
        if (!c->receiving[i]->busy)
            usb_link_start_transfer(
                c, c->receiving[i],
                (struct usb_link_block){usb_link_take(&c->empty_in).data, MUX_BLOCK}, &c->empty_in);
}

static struct usb_link_transfer *idle_sender(struct usb_link *c)
{
    for (size_t i = 0; i < USB_LINK_TRANSFERS && c->up; i++)
        if (!c->sending[i]->busy)
            return c->sending[i];
    return NULL;
}

// False: nothing more can be sent now.
static bool send_made(struct usb_link *c)
{
    struct usb_link_transfer *t = c->made.n > 0 ? idle_sender(c) : NULL;
    return t && usb_link_start_transfer(c, t, usb_link_take(&c->made), &c->empty_out);
}

// Fills and submits a block that may lend its last bytes. It is not made ahead of time: the memory
// is borrowed only until submit() returns.
static bool send_lent(struct usb_link *c)
{
    struct usb_link_transfer *t = c->empty_out.n > 0 ? idle_sender(c) : NULL;
    if (!t)
        return false;
    struct usb_link_block b = usb_link_take(&c->empty_out);
    b.size = mux_fill_and_lend(&c->mux, b.data, &t->lent);
    if (b.size > 0)
        return usb_link_start_transfer(c, t, b, &c->empty_out);
    usb_link_put(&c->empty_out, b.data, 0);
    return false;
}

static void send_all(struct usb_link *c)
{
    while (c->lends ? send_lent(c) : send_made(c))
        continue;
}

// A receiving transfer ended. Blocks of a link that has stopped meanwhile are dropped.
void usb_link_received(struct usb_link *c, struct usb_link_transfer *t, size_t size)
{
    t->busy = false;
    if (c->up && size > 0 && t->block) {
        usb_link_put(&c->came, t->block, size);
        t->block = NULL;
    }
    give_back(t, &c->empty_in);
    receive_more(c);
    usb_link_wake(&c->mux);
}

void usb_link_sent(struct usb_link *c, struct usb_link_transfer *t)
{
    t->busy = false;
    give_back(t, &c->empty_out);
    send_all(c);
    usb_link_wake(&c->mux);
}

// ---- the turn -----------------------------------------------------------------------------------

// Fills one empty block from the mux. False: nothing to send, or no block is free.
static bool make_block(struct usb_link *c)
{
    if (!c->up || c->empty_out.n == 0)
        return false;
    struct usb_link_block b = usb_link_take(&c->empty_out);
    b.size = mux_fill(&c->mux, b.data);
    usb_link_put(b.size > 0 ? &c->made : &c->empty_out, b.data, b.size);
    return b.size > 0;
}

// Handles the blocks that are there now, not those that come meanwhile, so that sending gets its
// turn.
static void work_off(struct usb_link *c)
{
    for (unsigned n = c->came.n; n > 0 && c->came.n > 0; n--) {
        struct usb_link_block b = usb_link_take(&c->came);
        c->ops->take(c, (struct bytes){b.data, b.size});
        usb_link_put(&c->empty_in, b.data, 0);
        receive_more(c);
    }
}

// Fills blocks as long as they can be sent at once, and one ahead; then the loop looks for
// transfers that have ended. False: nothing is left to do before the next wake-up.
static bool make_blocks(struct usb_link *c)
{
    bool made;
    do
        made = make_block(c);
    while (made && send_made(c));
    return made && c->made.n > 0;
}

// One turn: receive, then send. The idle handle stops when there is nothing to do, else the loop
// would spin.
static void on_turn(uv_idle_t *turn)
{
    struct usb_link *c = container_of(turn, struct usb_link, turn);
    bool more = false;
    work_off(c);
    if (c->lends)
        send_all(c);
    else
        more = make_blocks(c);
    if (c->came.n == 0 && !more)
        uv_idle_stop(turn);
}

void usb_link_wake(struct mux *m)
{
    struct usb_link *c = container_of(m, struct usb_link, mux);
    if (!c->closing)
        uv_idle_start(&c->turn, on_turn);
}

// ---- life ---------------------------------------------------------------------------------------

void usb_link_init(struct usb_link *c, uv_loop_t *loop, bool host, const struct mux_ops *mux_ops,
                   const struct usb_link_ops *ops)
{
    *c = (struct usb_link){.ops = ops};
    mux_init(&c->mux, host, mux_ops);
    uv_idle_init(loop, &c->turn);
}

void usb_link_use(struct usb_link *c, uint8_t (*in)[MUX_BLOCK], uint8_t (*out)[MUX_BLOCK])
{
    c->came = c->made = c->empty_in = c->empty_out = (struct usb_link_queue){.n = 0};
    for (size_t i = 0; i < USB_LINK_BLOCKS; i++) {
        usb_link_put(&c->empty_in, in[i], 0);
        usb_link_put(&c->empty_out, out[i], 0);
    }
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++)
        c->receiving[i]->block = c->sending[i]->block = NULL;
}

void usb_link_start(struct usb_link *c)
{
    c->up = true;
    receive_more(c);
    usb_link_wake(&c->mux);
}

void usb_link_stop(struct usb_link *c)
{
    c->up = false;
    move_all(&c->came, &c->empty_in);
    move_all(&c->made, &c->empty_out);
    mux_stop(&c->mux);
}

static void on_turn_closed(uv_handle_t *handle)
{
    struct usb_link *c = container_of((uv_idle_t *)handle, struct usb_link, turn);
    c->ops->closed(c);
}

void usb_link_close(struct usb_link *c)
{
    c->closing = true;
    usb_link_stop(c);
    uv_close((uv_handle_t *)&c->turn, on_turn_closed);
}
