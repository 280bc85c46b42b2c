// Integer convolutions with AVX512-VNNI: packing the weights, and the way through the image.
// conv_vnni.h has formula and layout, conv_vnni_sum.c the inner loops.
//
// Each line is copied once, raised by 128, to a ring of padded lines. 1x1 convolutions without
// stride see the image as one long line (`flat`), of which a chunk is copied at a time.
//
// Sums become outputs in registers where conv_requantize.c knows how, but for the last few pixels:
// a vector of theirs would write behind the tensor, so their sums are kept for conv_epilogue().
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include "npu/sim/conv/conv_vnni.h"

#include "base/bytes.h"

#define MAX_SUMS       4096 // sums that are kept: they stay in the L1 cache
#define PIXEL_MULTIPLE 48   // pixels of a chunk: 16, 12, 8 and 6, which a tile has, divide it
#define ALIGNMENT      64
#define MOST_TWICE     16 // inputs of a group
#define BEHIND         3  // bytes behind a chunk that may be read: the rest of a quad

static size_t vnni_n_vectors(const struct conv *c)
{
    return (c->oc + c->vnni->lanes - 1) / c->vnni->lanes;
}

static size_t vnni_inputs(const struct conv *c)
{
    return c->ic / c->window.groups;
}

static bool vnni_has_nz(const struct step *s, const struct conv *c)
{
    for (uint32_t o = 0; o < c->oc; o++)
        if (s->node->quant->nz[o])
            return true;
    return false;
}

// Whether zero points fit twice an int8, together with any weight.
static bool vnni_nz_fits_weights(const struct step *s, const struct conv *c)
{
    for (uint32_t o = 0; o < c->oc; o++)
        if (s->node->quant->nz[o] < -INT8_MAX - 1 || s->node->quant->nz[o] > INT8_MAX)
            return false;
    return true;
}

// Whether no vector has channels of several groups, nor a quad inputs of these.
static bool vnni_groups_are_apart(const struct conv *c)
{
    return c->oc / c->window.groups % VNNI_LANES == 0 && vnni_inputs(c) % 4 == 0;
}

// Filters that give one channel each would be multiplied with 15 others' inputs. Where many inputs
// are multiplied twice, oneDNN is faster if it has more than a product of matrices.
static bool vnni_fits_groups(const struct step *s, const struct conv *c)
{
    bool twice = vnni_has_nz(s, c) && !vnni_groups_are_apart(c);
    return VNNI_RAISE && conv_vnni_has_dot() && c->oc > c->window.groups &&
           conv_segments(c) * (twice ? 2 : 1) <= VNNI_SEGMENTS &&
           (!twice || (vnni_nz_fits_weights(s, c) &&
                       (vnni_inputs(c) <= MOST_TWICE || !conv_dnn_has_kernel(s, c))));
}

bool conv_vnni_fits(const struct step *s, const struct conv *c)
{
    if (c->window.groups > 1)
        return vnni_fits_groups(s, c);
    return (conv_vnni_has_dot() || conv_split_fits(s, c)) && conv_segments(c) <= VNNI_SEGMENTS;
}

// ---- preparation ----

// The last pixels of the output, behind which there is less memory than their vectors write.
static size_t vnni_tail_pixels(const struct conv *c)
{
    size_t written = vnni_n_vectors(c) * c->vnni->lanes;
    size_t rest = (written + c->oc - 1) / c->oc - 1, pixels = conv_pixels(c);
    return rest < pixels ? rest : pixels;
}

static void vnni_describe_lines(const struct conv *c, struct conv_vnni *v)
{
    bool pixel = c->window.kernel[0] * c->window.kernel[1] == 1;
    size_t line = (size_t)conv_lines_bytes_size(c);
    const uint32_t *pad = c->window.pad, *stride = c->window.stride;
    v->flat = pixel && !pad[0] && !pad[1] && !pad[2] && !pad[3] && stride[0] * stride[1] == 1 &&
              c->ih == c->oh && c->iw == c->ow;
    v->next_window = align_up((v->flat ? v->chunk : c->ow) + CONV_LANES, CONV_LANES);
    if (!v->window_sums || v->flat)
        return;
    v->row_sums = align_up(line, ALIGNMENT);
    v->more = v->row_sums - line + v->n_windows * v->next_window * sizeof(int32_t);
}

// The inputs of the groups that channels [from, from + n_vectors) are of.
static void vnni_take_inputs(const struct conv *c, struct vnni_block *b)
{
    size_t outputs = c->oc / c->window.groups, end = b->from + b->n_vectors * c->vnni->lanes;
    size_t first = b->from / outputs, last = ((end < c->oc ? end : c->oc) - 1) / outputs;
    b->group = first;
    b->input = first * vnni_inputs(c);
    b->quads = ((last + 1 - first) * vnni_inputs(c) + 3) / 4;
}

// The block of so many vectors that begins there, or less at the end.
static struct vnni_block vnni_block_at(const struct conv *c, size_t from, size_t most)
{
    size_t left = vnni_n_vectors(c) - from / c->vnni->lanes;
    struct vnni_block b = {.from = from, .n_vectors = left < most ? left : most};
    vnni_take_inputs(c, &b);
    return b;
}

// How many vectors blocks of groups have: so that there is least to be multiplied, in few blocks.
static size_t vnni_choose_vectors(const struct conv *c)
{
    size_t best = 1, least = SIZE_MAX;
    for (size_t n = VNNI_VECTORS; n; n--) {
        size_t products = 0;
        for (size_t from = 0; from < c->oc; from += n * c->vnni->lanes) {
            struct vnni_block b = vnni_block_at(c, from, n);
            products += b.n_vectors * b.quads;
        }
        if (products < least) {
            least = products;
            best = n;
        }
    }
    return best;
}

static void vnni_describe_window(const struct step *s, const struct conv *c, struct conv_vnni *v)
{
    bool groups = c->window.groups > 1;
    v->split = !conv_vnni_has_dot();
    v->lanes = v->split ? SPLIT_LANES : VNNI_LANES;
    v->max_vectors = v->split ? SPLIT_VECTORS : groups ? vnni_choose_vectors(c) : VNNI_VECTORS;
    v->n_windows = vnni_groups_are_apart(c) ? c->window.groups : 1;
    v->twice = groups && v->n_windows == 1 && vnni_has_nz(s, c);
    v->has_nz = !v->twice && vnni_has_nz(s, c);
    v->n_segments = conv_segments(c) * (v->twice ? 2 : 1);
    v->segment = conv_segment_size(c);
    v->quads = (v->segment + 3) / 4;
    v->n_blocks = (vnni_n_vectors(c) + v->max_vectors - 1) / v->max_vectors;
    bool alone = v->n_blocks == 1 || VNNI_LEAVES;
    bool spare = !v->split && !groups && v->has_nz && alone && c->oc % VNNI_LANES;
    v->spare = spare ? (int)(c->oc % VNNI_LANES) : -1;
    v->window_sums = v->has_nz && !spare;
    v->chunk = MAX_SUMS / c->oc < PIXEL_MULTIPLE
                   ? PIXEL_MULTIPLE
                   : MAX_SUMS / c->oc / PIXEL_MULTIPLE * PIXEL_MULTIPLE;
    vnni_describe_lines(c, v);
    if (c->requant.kind != REQUANT_NONE && !c->requant.in_doubles && !c->requant.own_bias &&
        conv_vnni_requantizes(&c->requant))
        v->n_whole = conv_pixels(c) - vnni_tail_pixels(c);
}

// A weight as it is multiplied the first time, and the second one. nz: what is added to it.
static int32_t vnni_weight(int32_t w, int32_t nz, bool second)
{
    int32_t sum = w + nz, fits = sum < INT8_MIN ? INT8_MIN : sum > INT8_MAX ? INT8_MAX : sum;
    return second ? sum - fits : fits;
}

// Weights of one channel, whose first input is byte `at` of a segment. The memory is zeroed: bytes
// of a last quad that are not in the segment are multiplied by 0, as inputs of other groups are.
static uint8_t *vnni_pack_channel(const struct conv *c, const struct vnni_block *b, const int8_t *w,
                                  int32_t nz, size_t at, bool second, uint8_t *to)
{
    const struct conv_vnni *v = c->vnni;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1], ic = vnni_inputs(c);
    size_t next = b->n_vectors * v->lanes * 4, n = conv_segments(c), together = taps / n;
    for (size_t tap = 0; tap < taps; tap++) {
        uint8_t *segment = to + tap / together * b->quads * next;
        size_t byte = at + tap % together * ic;
        for (size_t i = 0; i < ic; i++, byte++)
            segment[byte / 4 * next + byte % 4] =
                (uint8_t)vnni_weight(w[i * taps + tap], nz, second);
    }
    return to + n * b->quads * next;
}

// The spare channel, which counts the window sum.
static void vnni_pack_ones(const struct conv *c, size_t n_vectors, uint8_t *to)
{
    const struct conv_vnni *v = c->vnni;
    size_t next = n_vectors * v->lanes * 4;
    for (size_t i = 0; i < v->n_segments; i++, to += v->quads * next)
        for (size_t byte = 0; byte < v->segment; byte++)
            to[byte / 4 * next + byte % 4] = 1;
}

// Of an image's line, or of a chunk of pixels.
static size_t vnni_line_size(const struct conv *c)
{
    const struct conv_vnni *v = c->vnni;
    return v->flat ? v->chunk * c->ic + BEHIND : (size_t)conv_lines_bytes_size(c);
}

// The high parts of a line are behind all that is there for others. `weights`: n packed ones.
static int vnni_pack_split(struct step *s, const struct conv *c, const int8_t *weights, size_t n,
                           struct error *e)
{
    struct conv_vnni *v = c->vnni;
    size_t line = vnni_line_size(c);
    v->limit = conv_split_limit(weights, n);
    int r = conv_split_match(s, v, e);
    if (v->limit < UINT8_MAX)
        v->more = v->high = align_up(line + v->more, ALIGNMENT);
    v->more = align_up(line + v->more + SPLIT_BEHIND, ALIGNMENT) - line;
    return r;
}

// Blocks of one group are as large as each other, as far as that goes.
static size_t vnni_make_blocks(const struct conv *c)
{
    struct conv_vnni *v = c->vnni;
    size_t vectors = vnni_n_vectors(c), from = 0, quads = 0;
    for (size_t i = 0; i < v->n_blocks; i++) {
        size_t n_vectors = vectors / v->n_blocks + (i < vectors % v->n_blocks);
        v->blocks[i] = vnni_block_at(c, from, c->window.groups > 1 ? v->max_vectors : n_vectors);
        if (c->window.groups == 1)
            v->blocks[i].quads = v->quads;
        from += v->blocks[i].n_vectors * v->lanes;
        quads += v->blocks[i].n_vectors * v->blocks[i].quads;
    }
    return quads * v->n_segments * v->lanes;
}

static void vnni_pack_block(const struct step *s, const struct conv *c, const int8_t *w,
                            const struct vnni_block *b, uint8_t *to)
{
    size_t inputs = vnni_inputs(c), outputs = c->oc / c->window.groups;
    size_t n = inputs * (size_t)c->window.kernel[0] * c->window.kernel[1];
    for (size_t i = 0; i < b->n_vectors * c->vnni->lanes && b->from + i < c->oc; i++) {
        size_t o = b->from + i, at = o / outputs * inputs - b->input;
        int32_t nz = c->vnni->twice ? s->node->quant->nz[o] : 0;
        uint8_t *second = vnni_pack_channel(c, b, w + o * n, nz, at, false, to + 4 * i);
        if (c->vnni->twice)
            vnni_pack_channel(c, b, w + o * n, nz, at, true, second);
    }
}

static int vnni_pack(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    struct conv_vnni *v = c->vnni;
    v->blocks = step_alloc(s, v->n_blocks, sizeof *v->blocks);
    if (!v->blocks)
        return error_no_memory(e, "a weight", v->n_blocks * sizeof *v->blocks);
    size_t size = 4 * vnni_make_blocks(c);
    uint8_t *to = step_alloc(s, 1, size);
    if (!to)
        return error_no_memory(e, "a weight", size);
    for (size_t i = 0; i < v->n_blocks; i++) {
        struct vnni_block *b = &v->blocks[i];
        b->weights = to;
        vnni_pack_block(s, c, w, b, to);
        to += b->n_vectors * v->lanes * 4 * b->quads * v->n_segments;
    }
    const struct vnni_block *last = &v->blocks[v->n_blocks - 1];
    if (v->spare >= 0)
        vnni_pack_ones(c, last->n_vectors, (uint8_t *)last->weights + 4 * (c->oc - last->from));
    return v->split ? vnni_pack_split(s, c, (const int8_t *)v->blocks[0].weights, size, e) : 0;
}

// Sums come complete: the bias that is left to conv_epilogue() is 0.
static int vnni_take_constants(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    struct conv_vnni *v = c->vnni;
    size_t n = vnni_inputs(c) * (size_t)c->window.kernel[0] * c->window.kernel[1];
    v->bias = step_alloc(s, c->oc + CONV_LANES, sizeof *v->bias);
    v->nz = step_alloc(s, c->oc + CONV_LANES, sizeof *v->nz);
    if (!v->bias || !v->nz)
        return error_no_memory(e, "a bias", c->oc * sizeof *v->bias);
    for (size_t o = 0; o < c->oc; o++) {
        uint32_t sum = 0, zp = (uint32_t)c->x_zp + VNNI_RAISE;
        int16_t nz = s->node->quant->nz[o];
        for (size_t i = 0; i < n; i++)
            sum += (uint32_t)(w[o * n + i] + nz);
        v->nz[o] = nz;
        v->bias[o] = (int32_t)((uint32_t)c->bias[o] - zp * sum);
    }
    memset(c->bias, 0, (c->oc + CONV_MORE) * sizeof *c->bias);
    return 0;
}

int conv_vnni_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    c->vnni = step_alloc(s, 1, sizeof *c->vnni);
    if (!c->vnni)
        return error_no_memory(e, "a step", sizeof *c->vnni);
    vnni_describe_window(s, c, c->vnni);
    int r = vnni_take_constants(s, c, w, e);
    return r < 0 ? r : vnni_pack(s, c, w, e);
}

int conv_vnni_scratch(struct step *s, struct conv *c, struct error *e)
{
    const struct conv_vnni *v = c->vnni;
    uint64_t sums = (uint64_t)v->chunk * c->oc + CONV_LANES, line = conv_lines_bytes_size(c);
    uint64_t windows = (uint64_t)v->n_windows * v->next_window;
    int r = step_scratch(s, sums * sizeof(int32_t), &c->sums_at, e);
    if (r == 0 && v->flat)
        r = step_scratch(s, (uint64_t)v->chunk * c->ic + BEHIND + v->more, &c->image_lines_at, e);
    if (r == 0 && __builtin_add_overflow(line, v->more, &line))
        line = UINT64_MAX;
    if (r == 0 && !v->flat)
        r = conv_lines_scratch(s, c, line, &c->image_lines_at, e);
    return r < 0 ? r : step_scratch(s, windows * sizeof(int32_t), &c->window_at, e);
}

// ---- running ----

struct vnni_run {
    const struct step *s;
    const struct conv *c;
    struct run *r;
    struct requant_job requant;
    int32_t *sums;
    size_t first, n; // pixels of the output: done ones, and those whose sums are kept
};

static void vnni_flush(struct vnni_run *w)
{
    conv_epilogue(w->s, w->c, w->r, w->sums, w->first, w->n);
    w->first += w->n;
    w->n = 0;
}

static void vnni_move_segments(struct vnni_pixels *p, ptrdiff_t by)
{
    for (size_t i = 0; by && i < p->n_segments; i++)
        p->segments[i] += by;
}

// The last channels first: what they write too much is the first channels of the next pixel, which
// overwrite it.
static void vnni_sum_blocks(const struct vnni_run *w, struct vnni_pixels *p, size_t n)
{
    const struct conv_vnni *v = w->c->vnni;
    int32_t *windows = p->window_sums;
    size_t input = 0; // the segments'
    p->first = w->first + w->n;
    for (size_t i = v->n_blocks; i--;) {
        const struct vnni_block *b = &v->blocks[i];
        vnni_move_segments(p, (ptrdiff_t)b->input - (ptrdiff_t)input);
        input = b->input;
        p->window_sums = windows + (v->n_windows > 1 ? b->group * v->next_window : 0);
        p->quads = b->quads;
        p->weights = b->weights;
        p->order = v->paired ? &b->order : NULL;
        p->bias = v->bias + b->from;
        p->nz = v->has_nz ? v->nz + b->from : NULL;
        p->from = b->from;
        p->sums = w->sums + w->n * p->channels + b->from;
        (v->split ? conv_split_sum : conv_vnni_sum)(p, n, b->n_vectors);
    } // the first block's group and input are 0
}

// How many pixels can be computed now, and whether in registers to the end. Several blocks take
// turns on a chunk while its part of the image is in the L1 cache.
static size_t vnni_choose_pixels(const struct vnni_run *w, struct vnni_pixels *p)
{
    const struct conv_vnni *v = w->c->vnni;
    size_t at_once = w->first < v->n_whole ? v->n_whole - w->first : 0;
    p->requant = at_once ? &w->requant : NULL;
    return at_once && (v->n_blocks == 1 || at_once < v->chunk) ? at_once : v->chunk - w->n;
}

static void vnni_sum_line(struct vnni_run *w, struct vnni_pixels *p, size_t n)
{
    for (size_t done = 0, count; done < n; done += count) {
        count = vnni_choose_pixels(w, p);
        count = n - done < count ? n - done : count;
        vnni_sum_blocks(w, p, count);
        vnni_move_segments(p, (ptrdiff_t)(count * p->pitch));
        p->window_sums += count;
        *(p->requant ? &w->first : &w->n) += count;
        if (w->n == w->c->vnni->chunk)
            vnni_flush(w);
    }
}

// ---- lines ----

KERNEL(void, vnni_raise, (const int8_t *restrict x, size_t n, uint8_t *restrict to), (x, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)x[i] ^ VNNI_RAISE;
}

// The sums of each group, n of the first one's pixels' windows, that b describes.
static void vnni_sum_bytes(const struct conv *c, struct vnni_bytes b, size_t n, int32_t *sums)
{
    const struct conv_vnni *v = c->vnni;
    for (size_t i = 0; i < v->n_windows; i++, b.x += vnni_inputs(c), sums += v->next_window)
        (v->split ? conv_split_sum_bytes : conv_vnni_sum_bytes)(&b, n, sums);
}

// What of a line lies behind its bytes.
static void vnni_finish_line(const struct conv *c, uint8_t *line)
{
    const struct conv_vnni *v = c->vnni;
    struct vnni_bytes b = {.x = line,
                           .n_segments = conv_segments(c) / c->window.kernel[0],
                           .segment = v->segment,
                           .apart = (size_t)c->window.dilation[1] * c->ic,
                           .pitch = (size_t)c->window.stride[1] * c->ic,
                           .pixel = vnni_inputs(c)};
    if (v->window_sums)
        vnni_sum_bytes(c, b, c->ow, (int32_t *)(line + v->row_sums));
    if (v->high)
        conv_split(line, vnni_line_size(c), v->limit, line + v->high);
}

static void vnni_load_line(const struct conv_lines *l, const int8_t *x, void *line)
{
    const struct conv *c = l->c;
    uint8_t *to = line, zero = (uint8_t)c->x_zp ^ VNNI_RAISE;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    memset(to, zero, before);
    vnni_raise(x, n, to + before);
    memset(to + before + n, zero, (size_t)c->window.pad[3] * c->ic + BEHIND);
    vnni_finish_line(c, line);
}

static struct conv_lines vnni_make_lines(const struct conv *c, struct run *r)
{
    size_t size = (size_t)conv_lines_bytes_size(c) + c->vnni->more;
    struct conv_lines l = conv_lines(c, size, run_scratch(r, c->image_lines_at));
    l.load = vnni_load_line;
    memset(l.border, (uint8_t)c->x_zp ^ VNNI_RAISE, size);
    vnni_finish_line(c, l.border);
    return l;
}

static void vnni_find_segments(const struct conv *c, const void *const *rows, struct vnni_pixels *p)
{
    size_t n = conv_segments(c), each = n / c->window.kernel[0];
    size_t apart = (size_t)c->window.dilation[1] * c->ic;
    for (size_t i = 0; i < p->n_segments; i++)
        p->segments[i] = (const uint8_t *)rows[i % n / each] + i % each * apart;
}

// The window sums of a group whose rows' sums are there in each line.
KERNEL(void, vnni_add_rows,
       (const struct conv *c, const void *const *rows, size_t at, int32_t *sums),
       (c, rows, at, sums))
{
    size_t n = c->ow;
    for (size_t i = 0; i < n; i++)
        sums[i] = ((const int32_t *)((const uint8_t *)rows[0] + at))[i];
    for (uint32_t k = 1; k < c->window.kernel[0]; k++) {
        const int32_t *more = (const int32_t *)((const uint8_t *)rows[k] + at);
        for (size_t i = 0; i < n; i++)
            sums[i] += more[i];
    }
}

static void vnni_sum_lines(struct vnni_run *w, struct vnni_pixels *p, const int8_t *image)
{
    const struct conv *c = w->c;
    const struct conv_vnni *v = c->vnni;
    const void *rows[VNNI_SEGMENTS];
    int32_t *windows = run_scratch(w->r, c->window_at);
    struct conv_lines lines = vnni_make_lines(c, w->r);
    for (uint32_t n = 0; n < c->n; n++) {
        conv_lines_begin(&lines, image + (size_t)n * c->ih * c->iw * c->ic);
        for (uint32_t y = 0; y < c->oh; y++) {
            conv_lines_find(&lines, y, rows);
            vnni_find_segments(c, rows, p);
            for (size_t i = 0, next = v->next_window; v->window_sums && i < v->n_windows; i++)
                vnni_add_rows(c, rows, v->row_sums + i * next * sizeof *windows,
                              windows + i * next);
            p->window_sums = windows;
            vnni_sum_line(w, p, c->ow);
        }
    }
}

// Whether the kernel can take pixels from the image itself: as they are, and in whole quads.
static bool vnni_takes_image(const struct conv *c)
{
    return !VNNI_RAISE && !c->vnni->split && c->ic % 4 == 0;
}

// All pixels are one line, chunk by chunk.
static void vnni_sum_flat(struct vnni_run *w, struct vnni_pixels *p, const int8_t *image)
{
    const struct conv *c = w->c;
    int32_t *windows = run_scratch(w->r, c->window_at);
    uint8_t *raised = run_scratch(w->r, c->image_lines_at);
    size_t max = c->vnni->chunk;
    const bool takes_image = vnni_takes_image(c);
    memset(raised + max * c->ic, 0, BEHIND);
    for (size_t left = conv_pixels(c), n; left; left -= n, image += n * c->ic) {
        const uint8_t *x = takes_image ? (const uint8_t *)image : raised;
        n = left < max ? left : max;
        struct vnni_bytes b = {.x = x,
                               .n_segments = 1,
                               .segment = c->vnni->segment,
                               .pitch = c->ic,
                               .pixel = c->vnni->segment};
        if (!takes_image)
            vnni_raise(image, n * c->ic, raised);
        if (c->vnni->window_sums)
            vnni_sum_bytes(c, b, n, windows);
        if (c->vnni->high)
            conv_split(raised, n * c->ic, c->vnni->limit, raised + c->vnni->high);
        for (size_t i = 0; i < p->n_segments; i++) // of one tap
            p->segments[i] = x;
        p->window_sums = windows;
        vnni_sum_line(w, p, n);
    }
}

void conv_vnni_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image)
{
    const struct conv_vnni *v = c->vnni;
    struct vnni_pixels p = {.n_segments = v->n_segments,
                            .high = v->high,
                            .pitch = (size_t)c->window.stride[1] * c->ic,
                            .spare = v->spare,
                            .channels = c->oc};
    struct vnni_run w = {.s = s, .c = c, .r = r, .sums = run_scratch(r, c->sums_at)};
    if (v->n_whole)
        conv_requantize_begin(s, c, r, &w.requant);
    if (v->flat)
        vnni_sum_flat(&w, &p, image);
    else
        vnni_sum_lines(&w, &p, image);
    if (w.n)
        vnni_flush(&w);
}
