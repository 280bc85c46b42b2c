// Channels over one USB link: packets and blocks, the order in which channels send, and credit.
//
//     block (one USB transfer, at most MUX_BLOCK bytes):   packet packet ... [PAD]
//
//     packet:  0         4      5   6        8
//              | channel | type | 0 | length | data ... |      little-endian
//
// HELLO, RESTART and PAD use channel 0. HELLO and RESTART count only as the first packet of a
// block. Called on the loop's thread only; does no I/O and takes no memory. What the peer sends is
// untrusted: it is checked and refused by an error, never asserted.
#include "server/usb/mux.h"

#include <assert.h>
#include <string.h>

#define HEADER      8u // channel, type, 0, length
#define HELLO_SIZE  20u
#define CREDIT_SIZE 4u
#define CONTENT     (MUX_BLOCK - 2 * HEADER) // leaves room for a PAD
#define WORTHWHILE  512u                     // bytes of data for which a packet is begun
#define SHORTEST    65u                      // bytes of a block
#define MAGIC       0x584d4b52u              // "RKMX"

enum packet_type {
    PACKET_PAD,
    PACKET_HELLO,
    PACKET_OPEN,
    PACKET_DATA,
    PACKET_CREDIT,
    PACKET_CLOSE,
    PACKET_RESTART
};

void mux_init(struct mux *m, bool host, const struct mux_ops *ops)
{
    *m = (struct mux){.ops = ops, .host = host};
    list_init(&m->all);
    list_init(&m->ready);
}

static void mux_wake(struct mux *m)
{
    if (m->state != MUX_DOWN)
        m->ops->wake(m);
}

// ---- channels -----------------------------------------------------------------------------------

// Fills in a channel and adds it to the mux. The owner's struct is only borrowed until closed().
static void mux_enlist(struct mux *m, struct mux_channel *ch, uint32_t number, bool announced)
{
    *ch = (struct mux_channel){
        .mux = m, .number = number, .announced = announced, .credit = m->window};
    list_init(&ch->turn);
    list_append(&m->all, &ch->link);
    m->n_channels++;
}

// Whether the channel's owed credit is worth a packet. Credit is returned a quarter of the window
// at a time, so that few packets carry it; n_owing counts the channels for which this is true.
static bool mux_owes(const struct mux_channel *ch)
{
    return ch->owed >= MUX_WINDOW / 4;
}

static struct mux_channel *of_turn(struct list *turn)
{
    return container_of(turn, struct mux_channel, turn);
}

// Takes a channel out of all lists; ch->mux == NULL then tells late callers that it is closed.
static void mux_forget(struct mux_channel *ch)
{
    struct mux *m = ch->mux;
    m->n_owing -= mux_owes(ch);
    list_remove(&ch->turn);
    list_remove(&ch->link);
    m->n_channels--;
    ch->mux = NULL;
}

// Remembers that the peer has to be told. The CLOSE goes with the next block that is filled;
// has_room() keeps `closes` from overflowing.
static void tell_closed(struct mux *m, uint32_t number)
{
    assert(m->n_closes < MUX_CHANNELS);
    m->closes[m->n_closes++] = number;
}

// Closes a channel from this side or the peer's. closed() may free the struct.
static void end_channel(struct mux_channel *ch)
{
    struct mux *m = ch->mux;
    mux_forget(ch);
    m->ops->closed(ch);
}

// Takes the first each time instead of iterating: closed() may close other channels.
static void close_all(struct mux *m)
{
    struct mux_channel *ch;
    while ((ch = list_first(&m->all, struct mux_channel, link)))
        end_channel(ch);
    m->n_closes = 0;
}

// Open channels and closes not yet told share one bound, so that tell_closed() always has room:
// each close replaces a channel.
static bool has_room(const struct mux *m)
{
    return m->n_channels + m->n_closes < MUX_CHANNELS;
}

int mux_open(struct mux *m, struct mux_channel *ch, struct error *e)
{
    assert(m->host);
    if (m->state != MUX_UP)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the board is not connected");
    if (!has_room(m))
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%u connections share the cable already",
                         MUX_CHANNELS);
    mux_enlist(m, ch, m->next++, false);
    mux_ready(ch);
    return 0;
}

void mux_accept(struct mux *m, struct mux_channel *ch, uint32_t number)
{
    assert(!m->host);
    mux_enlist(m, ch, number, true);
}

// Inserts a channel into the ready list, which is sorted by rank (bytes sent when its turn began).
// A channel that goes on with its turn comes before those of equal rank, a new one behind them. One
// that was idle for long counts as at most MUX_SAVED behind, so that it cannot use up the link to
// catch up.
static void mux_queue(struct mux_channel *ch, bool goes_on)
{
    struct mux *m = ch->mux;
    struct list *after = &m->ready;
    if (m->sent > MUX_SAVED && ch->sent < m->sent - MUX_SAVED)
        ch->sent = m->sent - MUX_SAVED;
    goes_on &= ch->sent - ch->rank < MUX_TURN;
    if (!goes_on)
        ch->rank = ch->sent;
    while (after->prev != &m->ready && of_turn(after->prev)->rank + goes_on > ch->rank)
        after = after->prev;
    list_append(after, &ch->turn);
}

void mux_ready(struct mux_channel *ch)
{
    if (!ch->mux)
        return;
    ch->ready = true;
    if ((ch->credit > 0 || !ch->announced) && list_empty(&ch->turn)) {
        mux_queue(ch, false);
        mux_wake(ch->mux);
    }
}

// Moves bytes from `held` to `owed`; wakes the sender when that crosses the threshold of
// mux_owes().
void mux_consumed(struct mux_channel *ch, size_t n)
{
    if (!ch->mux)
        return;
    bool owed = mux_owes(ch);
    assert(n <= ch->held);
    ch->held -= (uint32_t)n;
    ch->owed += (uint32_t)n;
    if (mux_owes(ch) && !owed) {
        ch->mux->n_owing++;
        mux_wake(ch->mux);
    }
}

void mux_close(struct mux_channel *ch)
{
    struct mux *m = ch->mux;
    if (!m)
        return;
    if (ch->announced)
        tell_closed(m, ch->number);
    mux_forget(ch);
    mux_wake(m);
}

// ---- life ---------------------------------------------------------------------------------------

// Begins a new conversation. Numbers may be reused: the nonce of HELLO separates it from the old
// one.
static void start_over(struct mux *m, uint64_t nonce)
{
    close_all(m);
    m->nonce = nonce;
    m->next = 1;
    m->state = MUX_GREETING;
    m->say_hello = m->say_restart = false;
}

void mux_start(struct mux *m, uint64_t nonce)
{
    start_over(m, nonce);
    m->say_hello = m->host;
    mux_wake(m);
}

void mux_refuse(struct mux *m)
{
    start_over(m, 0);
    m->say_restart = true;
    mux_wake(m);
}

void mux_stop(struct mux *m)
{
    m->state = MUX_DOWN;
    close_all(m);
}

// ---- receiving ----------------------------------------------------------------------------------

struct packet {
    uint32_t channel;
    uint8_t type;
    struct bytes data;
};

static int mux_bad(const char *what, struct error *e)
{
    return error_set(e, STATUS_FAIL, "the other end of the cable sent %s", what);
}

// Takes the next packet off *block. False: the block ends within a header or within the data.
static bool next_packet(struct bytes *block, struct packet *ret)
{
    struct bytes data;
    if (block->size < HEADER || !bytes_slice(*block, HEADER, read_le16(block->data + 6), &data))
        return false;
    *ret = (struct packet){read_le32(block->data), block->data[4], data};
    bytes_slice(*block, HEADER + data.size, block->size - HEADER - data.size, block);
    return true;
}

// Linear: channels are connections of programs, of which there are a few.
static struct mux_channel *mux_find(struct mux *m, uint32_t number)
{
    struct mux_channel *ch;
    list_for_each (ch, &m->all, link)
        if (ch->number == number)
            return ch;
    return NULL;
}

// HELLO: magic (4), version (2), 0 (2), window (4), nonce (8). The board copies the PC's nonce into
// its answer; the PC ignores an answer with another nonce, which is left over from before.
static int take_hello(struct mux *m, struct bytes data, struct error *e)
{
    if (data.size < HELLO_SIZE || read_le32(data.data) != MAGIC)
        return mux_bad("a greeting that is none of rknnd's", e);
    if (read_le16(data.data + 4) != MUX_VERSION)
        return error_set(e, STATUS_FAIL,
                         "the other end of the cable speaks version %u, this one version %u; "
                         "install the same version of rknnd on both",
                         read_le16(data.data + 4), MUX_VERSION);
    uint64_t nonce = read_le64(data.data + 12);
    if (m->host && nonce != m->nonce)
        return 0; // of an earlier conversation
    if (!m->host) {
        start_over(m, nonce);
        m->say_hello = true;
    }
    m->window = read_le32(data.data + 8);
    m->state = MUX_UP;
    mux_wake(m);
    return 0;
}

static int take_open(struct mux *m, uint32_t number, struct error *e)
{
    if (m->host || number == 0 || mux_find(m, number))
        return mux_bad("an OPEN that cannot be", e);
    if (!has_room(m))
        return mux_bad("more channels than there may be", e);
    if (!m->ops->open(m, number))
        tell_closed(m, number);
    mux_wake(m);
    return 0;
}

// DATA beyond the credit that was given is refused: the receiver's buffers are sized by the window.
static int take_data(struct mux_channel *ch, struct bytes data, struct error *e)
{
    if (data.size > MUX_WINDOW - ch->held - ch->owed)
        return mux_bad("more than it has credit for", e);
    ch->held += (uint32_t)data.size;
    ch->mux->ops->push(ch, data);
    return 0;
}

// Credit above the peer's window would let `credit` overflow or be meaningless; it is refused. A
// channel that had run out of credit while it had something to send becomes ready again.
static int take_credit(struct mux_channel *ch, struct bytes data, struct error *e)
{
    if (data.size != CREDIT_SIZE || read_le32(data.data) > ch->mux->window - ch->credit)
        return mux_bad("credit that cannot be", e);
    ch->credit += read_le32(data.data);
    if (ch->ready)
        mux_ready(ch);
    return 0;
}

// Packets for a channel that was closed here are ignored: they were on their way when it closed.
static int take_packet(struct mux *m, const struct packet *p, struct error *e)
{
    if (p->type == PACKET_PAD)
        return 0;
    if (p->type == PACKET_OPEN)
        return take_open(m, p->channel, e);
    struct mux_channel *ch = mux_find(m, p->channel);
    switch (p->type) {
    case PACKET_DATA:
        return ch ? take_data(ch, p->data, e) : 0;
    case PACKET_CREDIT:
        return ch ? take_credit(ch, p->data, e) : 0;
    case PACKET_CLOSE:
        if (ch)
            end_channel(ch);
        return 0;
    default:
        return mux_bad("a packet of an unknown type", e);
    }
}

// Until HELLO is through, anything but HELLO or RESTART is left over from an earlier owner of the
// link and is skipped.
int mux_receive(struct mux *m, struct bytes block, struct error *e)
{
    struct packet p;
    bool first = true;
    while (block.size > 0 && m->state != MUX_DOWN) {
        if (!next_packet(&block, &p))
            return m->state == MUX_UP ? mux_bad("half a packet", e) : 0;
        int r = 0;
        if (first && p.type == PACKET_HELLO)
            r = take_hello(m, p.data, e);
        else if (first && m->host && p.type == PACKET_RESTART)
            r = mux_bad("a wish to start over", e);
        else if (m->state == MUX_UP)
            r = take_packet(m, &p, e);
        if (r < 0)
            return r;
        first = false;
    }
    return 0;
}

// ---- sending ------------------------------------------------------------------------------------

// A block that is being filled.
struct filling {
    uint8_t *block;
    size_t used;
};

// Bytes of data that one more packet may have. CONTENT leaves room for the header of a PAD.
static size_t mux_room(const struct filling *f)
{
    return f->used + HEADER < CONTENT ? CONTENT - f->used - HEADER : 0;
}

// Writes a packet's header and counts its data as used; returns where the data goes.
static uint8_t *mux_begin(struct filling *f, uint32_t channel, enum packet_type type, size_t size)
{
    uint8_t *header = f->block + f->used;
    write_le32(header, channel);
    header[4] = (uint8_t)type;
    header[5] = 0;
    write_le16(header + 6, (uint16_t)size);
    f->used += HEADER + size;
    return header + HEADER;
}

static void put_hello(struct mux *m, struct filling *f)
{
    uint8_t *p = mux_begin(f, 0, PACKET_HELLO, HELLO_SIZE);
    write_le32(p, MAGIC);
    write_le16(p + 4, MUX_VERSION);
    write_le16(p + 6, 0);
    write_le32(p + 8, MUX_WINDOW);
    write_le64(p + 12, m->nonce);
    m->say_hello = false;
}

static void put_closes(struct mux *m, struct filling *f)
{
    while (m->n_closes > 0 && mux_room(f) > 0)
        mux_begin(f, m->closes[--m->n_closes], PACKET_CLOSE, 0);
}

// What does not fit stays owed and goes with a later block.
static void put_credit(struct mux *m, struct filling *f)
{
    struct mux_channel *ch;
    list_for_each (ch, &m->all, link) {
        if (m->n_owing == 0 || mux_room(f) < CREDIT_SIZE)
            return;
        if (!mux_owes(ch))
            continue;
        write_le32(mux_begin(f, ch->number, PACKET_CREDIT, CREDIT_SIZE), ch->owed);
        ch->owed = 0;
        m->n_owing--;
    }
}

// Lets the channel's owner read its data directly to its place in the block, then writes the header
// in front of it. pull() may close channels, this one included, so ch->mux is checked again after
// it.
static void put_data(struct mux *m, struct mux_channel *ch, struct filling *f)
{
    uint32_t number = ch->number;
    size_t want = size_min(mux_room(f), ch->credit);
    // Only data that reaches the end of the block may be lent: what is sent from elsewhere comes
    // last.
    m->fills = want == mux_room(f);
    int n = want > 0 ? m->ops->pull(ch, f->block + f->used + HEADER, want) : 0;
    if (n < 0) {
        mux_begin(f, number, PACKET_CLOSE, 0);
        end_channel(ch);
        return;
    }
    if (!ch->mux && m->lent) { // the lent memory was the channel's: it may be gone
        n -= (int)m->lent->size;
        *m->lent = (struct bytes){0};
    }
    if (n > 0)
        mux_begin(f, number, PACKET_DATA, (size_t)n);
    if (!ch->mux)
        return;
    ch->credit -= (uint32_t)n;
    ch->sent += (uint32_t)n;
    // A short read means that there is no more for now; the owner calls mux_ready() again.
    ch->ready = (size_t)n == want;
    if (ch->ready && ch->credit > 0 && list_empty(&ch->turn))
        mux_queue(ch, true);
}

// Fills the rest of the block with data, the channel of the lowest rank first. OPEN precedes a
// channel's first data in the same block, so that opening costs no round trip.
static void put_channels(struct mux *m, struct filling *f)
{
    struct mux_channel *ch;
    while (mux_room(f) >= WORTHWHILE && (ch = list_first(&m->ready, struct mux_channel, turn))) {
        list_remove(&ch->turn);
        m->sent = ch->sent > m->sent ? ch->sent : m->sent;
        if (!ch->announced)
            mux_begin(f, ch->number, PACKET_OPEN, 0);
        ch->announced = true;
        put_data(m, ch, f);
    }
}

// Makes the transfer end with a short packet: no multiple of 64 bytes, which divides the packet
// sizes of all speeds. It is longer than 64 bytes because of a fault in dummy_hcd, the controller
// in virtual machines (tests/vm/guest/board.py).
static void mux_pad(struct filling *f)
{
    if (f->used >= SHORTEST && f->used % 64 != 0)
        return;
    size_t size = f->used + HEADER < SHORTEST ? SHORTEST - f->used - HEADER : 0;
    memset(mux_begin(f, 0, PACKET_PAD, size), 0, size);
}

// Order: control first (RESTART, HELLO, CLOSE, CREDIT), so that it never waits behind data.
static size_t mux_fill_block(struct mux *m, uint8_t *block)
{
    struct filling f = {block, 0};
    if (m->state == MUX_DOWN)
        return 0;
    if (m->say_restart)
        mux_begin(&f, 0, PACKET_RESTART, 0);
    m->say_restart = false;
    if (m->say_hello)
        put_hello(m, &f);
    if (m->state == MUX_UP) {
        put_closes(m, &f);
        put_credit(m, &f);
        put_channels(m, &f);
    }
    if (f.used > 0)
        mux_pad(&f);
    return f.used;
}

size_t mux_fill(struct mux *m, uint8_t *block)
{
    m->lent = NULL;
    return mux_fill_block(m, block);
}

bool mux_lend(struct mux_channel *ch, struct bytes data)
{
    struct mux *m = ch->mux;
    if (!m || !m->lent || !m->fills)
        return false;
    *m->lent = data;
    return true;
}

size_t mux_fill_and_lend(struct mux *m, uint8_t *block, struct bytes *ret_lent)
{
    *ret_lent = (struct bytes){0};
    m->lent = ret_lent;
    size_t size = mux_fill_block(m, block);
    m->lent = NULL;
    assert(ret_lent->size == 0 || size == CONTENT);
    return size - ret_lent->size;
}
