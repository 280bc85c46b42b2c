// The cable's multiplexer against any peer. Input: a first byte (which end), then blocks, each
// behind its length in two bytes; a length of 0 fetches a block instead.
#include <stdlib.h>

#include "server/usb/mux.h"

#define MAX_CHANNELS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct mux mux;
    struct mux_channel channels[MAX_CHANNELS];
    size_t unconsumed[MAX_CHANNELS];
    unsigned n;
};

static size_t index_of(const struct mux_channel *ch)
{
    const struct run *r = container_of(ch->mux, struct run, mux);
    return (size_t)(ch - r->channels);
}

static bool open_channel(struct mux *m, uint32_t number)
{
    struct run *r = container_of(m, struct run, mux);
    if (r->n == MAX_CHANNELS)
        return false;
    mux_accept(m, &r->channels[r->n++], number);
    return true;
}

static int pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    memset(into, 1, size);
    return ch->number % 3 == 2 ? -1 : (int)(size > 1000 ? 1000 : size);
}

static void push(struct mux_channel *ch, struct bytes data)
{
    struct run *r = container_of(ch->mux, struct run, mux);
    size_t i = index_of(ch);
    r->unconsumed[i] += data.size;
    if (r->unconsumed[i] > MUX_WINDOW)
        abort();
    if (ch->number % 2)
        return;
    size_t n = r->unconsumed[i];
    r->unconsumed[i] = 0;
    mux_consumed(ch, n);
}

static void closed(struct mux_channel *ch)
{
    if (ch->mux)
        abort();
}

static void wake(struct mux *m)
{
    (void)m;
}

static void fetch(struct run *r)
{
    static uint8_t block[MUX_BLOCK];
    size_t n = mux_fill(&r->mux, block);
    if (n >= MUX_BLOCK || (n > 0 && n % 64 == 0))
        abort();
}

static bool step(struct run *r, struct bytes *rest)
{
    struct bytes block;
    if (rest->size < 2)
        return false;
    size_t size = read_le16(rest->data);
    if (!bytes_slice(*rest, 2, size, &block))
        return false;
    bytes_slice(*rest, 2 + size, rest->size - 2 - size, rest);
    if (size == 0)
        fetch(r);
    else if (mux_receive(&r->mux, block, NULL) < 0)
        mux_refuse(&r->mux);
    for (unsigned i = 0; i < r->n; i++)
        mux_ready(&r->channels[i]);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mux_ops ops = {open_channel, pull, push, closed, wake};
    static struct run r;
    struct bytes rest = {data, size};
    if (size == 0)
        return 0;
    memset(&r, 0, sizeof r);
    mux_init(&r.mux, data[0] & 1, &ops);
    mux_start(&r.mux, 7);
    bytes_slice(rest, 1, size - 1, &rest);
    while (step(&r, &rest))
        if (r.mux.host && r.mux.state == MUX_UP && r.n < MAX_CHANNELS)
            mux_open(&r.mux, &r.channels[r.n++], NULL);
    mux_stop(&r.mux);
    return 0;
}
