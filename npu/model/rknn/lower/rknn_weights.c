// How constants are packed in a .rknn file: finds out which of rknn_packing_kind it is.
// rknn_unpack.c then moves the data.
//
// The native shape of a weight (layout 65) is one, two or four blocks of six numbers [O1, I1, H, W,
// O2, I2]:
//
//                  inputs ->
//      outputs     main          input tail
//         |        output tail   corner
//
// Each block has O1 * O2 output and I1 * I2 input channels; tails have smaller O2 or I2. The same
// shape is used for packings that take more bytes, so the size of the data decides. All numbers are
// untrusted: products are checked for overflow, and the data must be large enough.
#include "npu/model/rknn/lower/rknn_weights.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define ROW_UNIT  16 // PACKED_ROWS: bytes to which a row is padded
#define ROW_PIXEL 4  // PACKED_ROWS: bytes of one pixel
#define DATA_UNIT 64 // bytes to which files pad data

// Bytes of an element; types other than these have been refused, or have 4.
static size_t element_size(uint8_t type)
{
    return type == RKNN_I8 || type == RKNN_U8 ? 1 : type == RKNN_F16 || type == RKNN_I16 ? 2 : 4;
}

// Adds the elements of a block to *sum. False: overflow of 64 bits.
static bool block_elements(const struct rknn_block *b, uint64_t *sum)
{
    uint64_t n = b->o1;
    const uint32_t factors[] = {b->i1, b->h, b->w, b->o2, b->i2};
    for (int i = 0; i < 5; i++)
        if (__builtin_mul_overflow(n, factors[i], &n))
            return false;
    return !__builtin_add_overflow(*sum, n, sum);
}

// Of two blocks the second may be a tail of inputs or of outputs: it is one of outputs if it packs
// as many input channels as the first.
static bool continues_outputs(const struct rknn_block *a, const struct rknn_block *b)
{
    return a->i1 == b->i1 && a->i2 == b->i2 && a->i1 != 0;
}

// The blocks of the native shape. Each repeats the kernel's size, which must be the logical one.
static int read_blocks(struct rknn_packing *p, const struct rknn_tensor *t, struct error *e)
{
    struct rknn_block b[4] = {0};
    if (t->n_native != 6 && t->n_native != 12 && t->n_native != 24)
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: a packing of %u numbers is not known",
                         t->name, t->n_native);
    memcpy(b, t->native, t->n_native * sizeof *t->native);
    for (uint32_t i = 0; i < t->n_native / 6; i++)
        if (b[i].h != p->kh || b[i].w != p->kw)
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s: its packing is for a kernel of %ux%u, not %ux%u", t->name,
                             b[i].h, b[i].w, p->kh, p->kw);
    p->main = b[0];
    if (t->n_native == 24) {
        p->input_tail = b[1];
        p->output_tail = b[2];
        p->corner = b[3];
    } else if (t->n_native == 12) {
        *(continues_outputs(&b[0], &b[1]) ? &p->output_tail : &p->input_tail) = b[1];
    }
    return 0;
}

// Every logical element must have a place, and neighbouring blocks must agree on their rows, as the
// data alternate between them. *n: elements of all blocks. Depthwise weights are packed as one
// output whose inputs are the channels.
static int check_coverage(const struct rknn_packing *p, const struct rknn_tensor *t, uint64_t *n,
                          struct error *e)
{
    uint64_t o_channels = p->depthwise ? 1 : p->o, i_channels = p->depthwise ? p->o : p->i;
    uint64_t rows = (uint64_t)p->main.o1 * p->main.o2, columns = (uint64_t)p->main.i1 * p->main.i2;
    rows += (uint64_t)p->output_tail.o1 * p->output_tail.o2;
    columns += (uint64_t)p->input_tail.i1 * p->input_tail.i2;
    *n = 0;
    bool fits = block_elements(&p->main, n) && block_elements(&p->input_tail, n) &&
                block_elements(&p->output_tail, n) && block_elements(&p->corner, n);
    bool tail_rows =
        !p->input_tail.i1 || (p->input_tail.o1 == p->main.o1 && p->input_tail.o2 == p->main.o2);
    bool corner_rows =
        !p->corner.i1 || (p->corner.o1 == p->output_tail.o1 && p->corner.o2 == p->output_tail.o2);
    if (!fits || !tail_rows || !corner_rows || rows < o_channels || columns < i_channels)
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: its packing does not hold %llux%llu channels", t->name,
                         (unsigned long long)o_channels, (unsigned long long)i_channels);
    return 0;
}

// PACKED_ROWS: bytes of one kernel row, 4 bytes per pixel, padded to 16.
static uint64_t row_bytes(const struct rknn_packing *p)
{
    return align_up((uint64_t)p->kw * ROW_PIXEL, ROW_UNIT);
}

// Whether `size` is `bytes`, plus at most the padding to 64 bytes.
static bool is_padded(uint64_t size, uint64_t bytes)
{
    return size >= bytes && size - bytes < DATA_UNIT;
}

// PACKED_ROWS is for int8 weights of up to 4 input channels (first layers). The rows come alone, or
// with as many bytes again behind them, whose meaning is not known and which are ignored.
static bool is_rows(const struct rknn_packing *p, const struct rknn_tensor *t)
{
    uint64_t rows = (uint64_t)p->main.o1 * p->main.o2 * p->kh * row_bytes(p);
    return !p->depthwise && p->element == 1 && p->main.i2 == ROW_PIXEL && p->i <= ROW_PIXEL &&
           t->n_native == 6 && (is_padded(t->data.size, rows) || is_padded(t->data.size, 2 * rows));
}

// Which of the packings it is follows from the size of the data: blocks have exactly their
// elements, weights with interleaved zero points twice as many bytes, rows their own size.
static int find_kind(struct rknn_packing *p, const struct rknn_tensor *t, const struct chip *chip,
                     struct error *e)
{
    uint64_t n, size = t->data.size;
    int r = check_coverage(p, t, &n, e);
    if (r < 0)
        return r;
    if (n > size / p->element)
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: %llu bytes are there, %llu needed",
                         t->name, (unsigned long long)size, (unsigned long long)n * p->element);
    bool taps = p->depthwise && p->element == 1 && is_padded(size, 2 * n);
    if (taps && chip->taps != CHIP_TAPS_NONE)
        p->kind = chip->taps == CHIP_TAPS_SINGLE ? PACKED_TAP_SINGLE : PACKED_TAP_PAIRS;
    else if (is_padded(size, n * p->element))
        p->kind = PACKED_BLOCKS;
    else if (chip->packs_rows && is_rows(p, t))
        p->kind = PACKED_ROWS;
    else
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: a packing that takes %llu bytes where its blocks have %llu is "
                         "not known",
                         t->name, (unsigned long long)size, (unsigned long long)n * p->element);
    return 0;
}

// What o and i are follows from the use: the file's shapes differ.
int rknn_weight_packing(struct rknn_packing *p, const struct rknn_tensor *t,
                        const struct chip *chip, enum rknn_weight_use use, struct error *e)
{
    if (t->layout != RKNN_WEIGHT || t->n_dims != 4 || (t->type != RKNN_I8 && t->type != RKNN_F16))
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: layout %u, type %u with %u dimensions is not known", t->name,
                         t->layout, t->type, t->n_dims);
    bool depthwise = use == WEIGHT_DEPTHWISE || use == WEIGHT_DEPTHWISE_TRANSPOSED;
    bool outputs_first = use == WEIGHT_PLAIN || use == WEIGHT_DEPTHWISE_TRANSPOSED;
    *p = (struct rknn_packing){.o = t->dims[!outputs_first],
                               .i = depthwise ? 1 : t->dims[outputs_first],
                               .kh = t->dims[2],
                               .kw = t->dims[3],
                               .depthwise = depthwise,
                               .element = element_size(t->type)};
    int r = read_blocks(p, t, e);
    return r < 0 ? r : find_kind(p, t, chip, e);
}

// ---- room for input channels that are not there ----

// What is there, *n elements of each output; *ret stays NULL where there is no such room.
static int take_spare(const struct rknn_packing *p, const struct rknn_tensor *t, uint8_t **ret,
                      size_t *n, struct error *e)
{
    uint64_t columns = (uint64_t)p->main.i1 * p->main.i2;
    columns += (uint64_t)p->input_tail.i1 * p->input_tail.i2;
    if (p->depthwise || columns == p->i)
        return 0;
    size_t taps = (size_t)p->kh * p->kw, size;
    if (columns > UINT32_MAX || __builtin_mul_overflow(columns - p->i, taps, n) ||
        __builtin_mul_overflow(*n * p->element, p->o, &size) || size > t->data.size)
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: room for %llu input channels, where it has %u, is not known",
                         t->name, (unsigned long long)columns, p->i);
    *ret = calloc(1, size);
    if (!*ret)
        return error_no_memory(e, "a weight", size);
    rknn_unpack_spare(p, t->data.data, (uint32_t)columns, *ret);
    return 0;
}

static bool same_elements(const uint8_t *v, size_t n, size_t element)
{
    for (size_t i = 1; i < n; i++)
        if (memcmp(v, v + i * element, element) != 0)
            return false;
    return true;
}

// Of a grouped convolution: padding is constant, weights would not be.
int rknn_check_spare(const struct rknn_packing *p, const struct rknn_tensor *t, struct error *e)
{
    size_t n = 0;
    cleanup(free_p) uint8_t *spare = NULL;
    int r = take_spare(p, t, &spare, &n, e);
    if (r < 0 || !spare)
        return r;
    for (uint32_t o = 0; o < p->o; o++)
        if (!same_elements(spare + o * n * p->element, n, p->element))
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s: it is packed for more than the %u input channels of a "
                             "group, which is not known",
                             t->name, p->i);
    return 0;
}

int rknn_check_spare_zeros(const struct rknn_packing *p, const struct rknn_tensor *t,
                           const int16_t *nz, bool zeros, struct error *e)
{
    size_t n = 0;
    cleanup(free_p) uint8_t *spare = NULL;
    int r = take_spare(p, t, &spare, &n, e);
    if (r < 0 || !spare)
        return r;
    for (uint32_t o = 0; o < p->o; o++)
        for (size_t i = 0; i < n; i++) {
            int8_t w = (int8_t)spare[o * n + i];
            if (w != (int8_t)-nz[o] && !(zeros && w == 0))
                return error_set(e, STATUS_MODEL_INVALID,
                                 "weight %s: channels that its input does not have are padded with "
                                 "%d, not with the zero point %d",
                                 t->name, w, -nz[o]);
        }
    return 0;
}

int rknn_check_halves(const struct rknn_packing *p, const struct rknn_tensor *t, struct error *e)
{
    enum { NO_SIGN = 0x7fff, INFINITE = 0x7c00 };
    uint32_t largest = 0;
    for (size_t i = 0; i + 2 <= t->data.size; i += 2) {
        uint32_t w = read_le16(t->data.data + i) & NO_SIGN;
        largest = w > largest ? w : largest;
    }
    if (largest >= INFINITE)
        return error_set(
            e, STATUS_MODEL_INVALID,
            "weight %s: it has infinite numbers, or what is none (0x%04x): what the NPU "
            "makes of these is not known",
            t->name, largest);
    size_t n = 0;
    cleanup(free_p) uint8_t *spare = NULL;
    int r = take_spare(p, t, &spare, &n, e);
    for (size_t i = 0; r == 0 && spare && i < n * p->o; i++)
        if (read_le16(spare + 2 * i) & NO_SIGN)
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s: channels that its input does not have are padded with "
                             "0x%04x, not with 0",
                             t->name, read_le16(spare + 2 * i));
    return r;
}

// Pixels of each of `all` columns that make up the data, `pixels` of them at least. 0: not known.
static uint64_t plane_of(uint64_t size, uint64_t all, uint64_t pixels, bool rounded)
{
    const uint64_t unit = 64;
    uint64_t exact, plane = size / all;
    if (__builtin_mul_overflow(all, pixels, &exact) || size < exact)
        return 0;
    if (rounded && size - exact < unit && size % unit == 0)
        return pixels;
    return plane == pixels || plane * all == size ? plane : 0;
}

// Native shape [N, C1, H, W, C2]. A plane of H * W pixels may be padded: its length follows from
// the size of the data, where that is not rounded.
int rknn_plane_packing(struct rknn_packing *p, const struct rknn_tensor *t, bool rounded,
                       struct error *e)
{
    const uint32_t *n = t->native;
    if (t->n_native != 5 || t->n_dims != 4 || !n[4] || (uint64_t)n[1] * n[4] < t->dims[1])
        return error_set(e, STATUS_MODEL_INVALID, "constant %s: its native shape is not known",
                         t->name);
    size_t element = element_size(t->type);
    uint64_t columns = (uint64_t)n[1] * n[4], all;
    if (__builtin_mul_overflow(columns, t->dims[0], &all) || !all)
        return error_set(e, STATUS_MODEL_INVALID, "constant %s is empty", t->name);
    uint64_t pixels = (uint64_t)t->dims[2] * t->dims[3], bytes = 0;
    bool fits = !__builtin_mul_overflow(all, element, &bytes);
    uint64_t plane = fits ? plane_of(t->data.size, bytes, pixels, rounded) : 0;
    if (!plane || plane > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "constant %s: %zu bytes are too few, or no whole planes", t->name,
                         t->data.size);
    *p = (struct rknn_packing){.kind = PACKED_NC1HWC2,
                               .o = t->dims[0],
                               .i = t->dims[1],
                               .kh = t->dims[2],
                               .kw = t->dims[3],
                               .element = element,
                               .c1 = n[1],
                               .c2 = n[4],
                               .plane = (uint32_t)plane};
    return 0;
}
