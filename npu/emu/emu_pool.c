// The PPU with its own reads (PPU_RDMA): pools of int8.
//
//     max, min   over the window; pads never win
//     average    rne(Σ x * RW * RH / 2^32)          RW, RH: reciprocals, 2^16 / width and height
//
// What a window reaches beyond the tile counts in an average with the value that a register gives.
// Averages with pads at the top or left are refused: what files' other registers say of those is
// not known well enough.
// rne() rounds to nearest, ties to even. Tests: test_emulator.
#include <stdlib.h>

#include "npu/emu/emu_unit.h"

enum { AVERAGE, MAXIMUM, MINIMUM };

struct pool {
    uint32_t in[3], out[3]; // channels, height, width
    uint32_t kernel[2], stride[2], top, left;
    uint32_t method;
    int32_t fill; // of an average
    uint64_t reciprocal;
    struct emu_cube source, target;
};

static uint32_t size_of(const struct emu_unit *u, enum emu_register reg)
{
    return emu_get_field(u, reg, 12, 0) + 1;
}

// In bytes, of whole atoms.
static int64_t stride_of(const struct emu_unit *u, enum emu_register reg)
{
    return emu_get(u, reg);
}

static int check_pool(const struct emu_unit *u, const struct pool *p, struct error *e)
{
    if (emu_get_field(u, EMU_POOL_FORMAT, 2, 0))
        return emu_refuse(u, EMU_POOL_FORMAT, "not int8", e);
    if (emu_get(u, EMU_POOL_SRC_FORMAT) != u->chip->pool_format)
        return emu_refuse(u, EMU_POOL_SRC_FORMAT, "not int8", e);
    if (p->method > MINIMUM)
        return emu_refuse(u, EMU_POOL_MODE, "no method of pooling that is known", e);
    if (p->method == AVERAGE && emu_get(u, EMU_POOL_PAD))
        return emu_refuse(u, EMU_POOL_PAD, "an average with pads", e);
    int r = emu_check_shape(u, p->in, e);
    return r < 0 ? r : emu_check_shape(u, p->out, e);
}

static void decode_pool(const struct emu_unit *u, struct pool *p)
{
    uint32_t lanes = u->chip->atom;
    *p = (struct pool){
        .in = {size_of(u, EMU_POOL_IN_CHANNEL), size_of(u, EMU_POOL_IN_HEIGHT),
               size_of(u, EMU_POOL_IN_WIDTH)},
        .out = {size_of(u, EMU_POOL_OUT_CHANNEL), size_of(u, EMU_POOL_OUT_HEIGHT),
                size_of(u, EMU_POOL_OUT_WIDTH)},
        .stride = {emu_get_field(u, EMU_POOL_KERNEL, 23, 20) + 1,
                   emu_get_field(u, EMU_POOL_KERNEL, 19, 16) + 1},
        .kernel = {emu_get_field(u, EMU_POOL_KERNEL, 11, 8) + 1,
                   emu_get_field(u, EMU_POOL_KERNEL, 3, 0) + 1},
        .top = emu_get_field(u, EMU_POOL_PAD, 6, 4),
        .left = emu_get_field(u, EMU_POOL_PAD, 2, 0),
        .method = emu_get_field(u, EMU_POOL_MODE, 1, 0),
        .fill = emu_signed(emu_get(u, EMU_POOL_PAD_VALUE), 19),
        .reciprocal = (uint64_t)emu_get_field(u, EMU_POOL_RECIP_WIDTH, 16, 0) *
                      emu_get_field(u, EMU_POOL_RECIP_HEIGHT, 16, 0),
        .source = {emu_get(u, EMU_POOL_SRC_ADDR), stride_of(u, EMU_POOL_SRC_SURF_STRIDE),
                   stride_of(u, EMU_POOL_SRC_LINE_STRIDE), lanes, lanes, 1, false},
    };
    int64_t gap = emu_get_field(u, EMU_POOL_MODE, 28, 16);
    p->target = (struct emu_cube){emu_get(u, EMU_POOL_DST_ADDR),
                                  stride_of(u, EMU_POOL_DST_SURF_STRIDE),
                                  (p->out[2] + gap) * lanes,
                                  lanes,
                                  lanes,
                                  1,
                                  false};
}

static int8_t pool_window(const struct pool *p, const int8_t *x, uint32_t oy, uint32_t ox)
{
    int64_t sum = 0;
    int best = p->method == MAXIMUM ? INT8_MIN : INT8_MAX;
    for (uint32_t i = 0; i < p->kernel[0] * p->kernel[1]; i++) {
        int64_t row = (int64_t)oy * p->stride[0] + i / p->kernel[1] - p->top;
        int64_t column = (int64_t)ox * p->stride[1] + i % p->kernel[1] - p->left;
        if (row < 0 || column < 0 || row >= p->in[1] || column >= p->in[2]) {
            sum += p->fill;
            continue;
        }
        int v = x[row * p->in[2] + column];
        sum += v;
        if (p->method == MAXIMUM ? v > best : v < best)
            best = v;
    }
    if (p->method != AVERAGE)
        return (int8_t)best;
    int64_t half = (int64_t)1 << 31, v = sum * (int64_t)p->reciprocal, r = (v + half) >> 32;
    if ((v & 0xffffffff) == half)
        r &= ~(int64_t)1;
    return (int8_t)r; // wraps, as the chip does
}

static int run_pool(const struct emu_unit *u, const struct pool *p, int8_t *in, int8_t *out,
                    struct error *e)
{
    size_t plane = (size_t)p->out[1] * p->out[2];
    int r = emu_cube_read(u->memory, &p->source, p->in, in, e);
    if (r < 0)
        return r;
    for (uint32_t c = 0; c < p->out[0]; c++)
        for (uint32_t y = 0; y < p->out[1]; y++)
            for (uint32_t x = 0; x < p->out[2]; x++)
                out[c * plane + (size_t)y * p->out[2] + x] =
                    pool_window(p, in + (size_t)c * p->in[1] * p->in[2], y, x);
    return emu_cube_write(u->memory, &p->target, p->out, out, e);
}

int emu_pool_run(const struct emu_unit *u, struct error *e)
{
    struct pool p;
    decode_pool(u, &p);
    int r = check_pool(u, &p, e);
    if (r < 0)
        return r;
    if (p.out[0] > p.in[0])
        return emu_refuse(u, EMU_POOL_OUT_CHANNEL, "more channels than there are to pool", e);
    int8_t *in = malloc((size_t)p.in[0] * p.in[1] * p.in[2]);
    int8_t *out = malloc((size_t)p.out[0] * p.out[1] * p.out[2]);
    r = in && out ? run_pool(u, &p, in, out, e) : error_no_memory(e, "a pool's cubes", 0);
    free(in);
    free(out);
    return r;
}
