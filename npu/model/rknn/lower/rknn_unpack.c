// Unpacks constants of a .rknn file to packed [O, I, kh, kw] (weights) or [N, C, H, W] elements.
// Called through graph_tensor.unpack when the executor prepares a node. The packing has been
// checked against the size of the data by rknn_weights.c, so nothing is checked here. The source
// layouts:
//
//      PACKED_BLOCKS      per block of O2 outputs: main blocks, then the tail; each [H][W][O2][I2]
//      PACKED_ROWS        [O1][ky][O2][kx * 4 + c, padded to 16]
//      PACKED_TAP_PAIRS   [C / I2][ky][kx][pairs of channels: w0 w1 nz0 nz1]
//      PACKED_TAP_SINGLE  [C / I2][ky][kx][channels: w nz]
//      PACKED_NC1HWC2     [N][C1][plane][C2]
#include "npu/model/rknn/lower/rknn_weights.h"

#include "base/bytes.h"

// Where channels go, and which: those of a block that are before or behind are left out.
struct target {
    const struct rknn_packing *p;
    uint8_t *dst;
    uint32_t o_end, i_begin, i_end;
};

// n contiguous elements, to places `step` elements apart. Constant element sizes let the compiler
// use plain loads and stores instead of calls of memcpy().
static void spread(uint8_t *restrict dst, size_t step, const uint8_t *restrict src, size_t n,
                   size_t element)
{
    if (element == 1)
        for (size_t i = 0; i < n; i++)
            dst[i * step] = src[i];
    else if (element == 2)
        for (size_t i = 0; i < n; i++)
            memcpy(dst + i * step * 2, src + i * 2, 2);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(dst + i * step * element, src + i * element, element);
}

// One [H][W][O2][I2] block whose channels start at o, i. Returns the position behind it.
static const uint8_t *unpack_block(const struct target *t, const struct rknn_block *b, uint32_t o,
                                   uint32_t i, const uint8_t *src)
{
    const struct rknn_packing *p = t->p;
    size_t taps = (size_t)p->kh * p->kw;
    size_t row = (size_t)(t->i_end - t->i_begin) * taps * p->element;
    uint32_t before = i < t->i_begin ? t->i_begin - i : 0;
    uint32_t o_n = o < t->o_end ? t->o_end - o : 0, i_n = i < t->i_end ? t->i_end - i : 0;
    o_n = o_n < b->o2 ? o_n : b->o2;
    i_n = i_n < b->i2 ? i_n : b->i2;
    for (uint32_t o2 = 0; o2 < o_n && before < i_n; o2++)
        for (size_t tap = 0; tap < taps; tap++) {
            const uint8_t *from = src + ((tap * b->o2 + o2) * b->i2 + before) * p->element;
            size_t first = i + before - t->i_begin;
            uint8_t *to = t->dst + (o + o2) * row + (first * taps + tap) * p->element;
            spread(to, taps, from, i_n - before, p->element);
        }
    return src + taps * b->o2 * b->i2 * p->element;
}

// For each block of outputs all of its main input blocks, then its tail of inputs: the memory's
// order.
static const uint8_t *unpack_rows(const struct target *t, const struct rknn_block *main,
                                  const struct rknn_block *tail, uint32_t o, const uint8_t *src)
{
    for (uint32_t o1 = 0; o1 < main->o1; o1++, o += main->o2) {
        uint32_t i = 0;
        for (uint32_t i1 = 0; i1 < main->i1; i1++, i += main->i2)
            src = unpack_block(t, main, o, i, src);
        for (uint32_t i1 = 0; i1 < tail->i1; i1++, i += tail->i2)
            src = unpack_block(t, tail, o, i, src);
    }
    return src;
}

// The upper blocks (main, input tail), then the lower ones (output tail, corner).
static void unpack_blocks(const struct target *t, const uint8_t *src)
{
    const struct rknn_packing *p = t->p;
    src = unpack_rows(t, &p->main, &p->input_tail, 0, src);
    unpack_rows(t, &p->output_tail, &p->corner, p->main.o1 * p->main.o2, src);
}

// PACKED_ROWS; int8 only.
static void unpack_pixel_rows(const struct target *t, const uint8_t *src)
{
    const struct rknn_packing *p = t->p;
    uint8_t *dst = t->dst;
    size_t row = align_up((size_t)p->kw * 4, 16);
    for (uint32_t o = 0; o < t->o_end; o++)
        for (uint32_t i = t->i_begin; i < t->i_end; i++)
            for (uint32_t y = 0; y < p->kh; y++) {
                size_t block = (size_t)(o / p->main.o2) * p->kh + y;
                const uint8_t *from = src + (block * p->main.o2 + o % p->main.o2) * row + i;
                for (uint32_t x = 0; x < p->kw; x++)
                    *dst++ = from[4 * x];
            }
}

// The offsets of weight and zero point of one channel and tap. Both kinds have two bytes per
// channel, in blocks of I2 channels; channels past the main blocks are in a tail with its own I2.
static void find_tap(const struct rknn_packing *p, uint32_t channel, uint32_t tap, size_t *ret_w,
                     size_t *ret_nz)
{
    const struct rknn_block *b = &p->main;
    size_t taps = (size_t)p->kh * p->kw, at = 0;
    if (channel >= b->i1 * b->i2) {
        at = (size_t)b->i1 * b->i2 * taps * 2;
        channel -= b->i1 * b->i2;
        b = &p->input_tail;
    }
    size_t inside = channel % b->i2;
    at += (channel / b->i2 * taps + tap) * b->i2 * 2;
    if (p->kind == PACKED_TAP_PAIRS) {
        *ret_w = at + inside / 2 * 4 + inside % 2;
        *ret_nz = *ret_w + 2;
    } else {
        *ret_w = at + inside * 2;
        *ret_nz = *ret_w + 1;
    }
}

static void unpack_taps(const struct rknn_packing *p, const uint8_t *src, uint8_t *dst)
{
    size_t w, nz;
    for (uint32_t c = 0; c < p->o; c++)
        for (uint32_t tap = 0; tap < p->kh * p->kw; tap++) {
            find_tap(p, c, tap, &w, &nz);
            *dst++ = src[w];
        }
}

void rknn_unpack_tap_nz(const struct rknn_packing *p, const uint8_t *src, int16_t *nz)
{
    size_t at_w, at_nz;
    for (uint32_t c = 0; c < p->o; c++)
        for (uint32_t tap = 0; tap < p->kh * p->kw; tap++) {
            find_tap(p, c, tap, &at_w, &at_nz);
            int8_t stored = (int8_t)src[at_nz];
            *nz++ = stored == -128 ? 128 : stored; // +128 does not fit a byte
        }
}

// PACKED_NC1HWC2: channel c is element c % C2 of plane c / C2.
static void unpack_planes(const struct rknn_packing *p, const uint8_t *src, uint8_t *dst)
{
    size_t pixels = (size_t)p->kh * p->kw;
    for (uint32_t n = 0; n < p->o; n++)
        for (uint32_t c = 0; c < p->i; c++) {
            size_t at = ((size_t)n * p->c1 + c / p->c2) * p->plane;
            for (size_t i = 0; i < pixels; i++, dst += p->element)
                memcpy(dst, src + ((at + i) * p->c2 + c % p->c2) * p->element, p->element);
        }
}

void rknn_unpack(const struct graph_tensor *t, void *dst)
{
    const struct rknn_packing *p = t->packing;
    // Depthwise weights are packed as one output with all channels as inputs.
    struct target all = {p, dst, p->depthwise ? 1 : p->o, 0, p->depthwise ? p->o : p->i};
    switch (p->kind) {
    case PACKED_BLOCKS:
        unpack_blocks(&all, t->data.data);
        break;
    case PACKED_ROWS:
        unpack_pixel_rows(&all, t->data.data);
        break;
    case PACKED_TAP_PAIRS:
    case PACKED_TAP_SINGLE:
        unpack_taps(p, t->data.data, dst);
        break;
    case PACKED_NC1HWC2:
        unpack_planes(p, t->data.data, dst);
    }
}

void rknn_unpack_spare(const struct rknn_packing *p, const uint8_t *src, uint32_t columns,
                       uint8_t *dst)
{
    struct target spare = {p, dst, p->o, p->i, columns};
    if (p->kind == PACKED_BLOCKS)
        unpack_blocks(&spare, src);
    else if (p->kind == PACKED_ROWS)
        unpack_pixel_rows(&spare, src);
}
