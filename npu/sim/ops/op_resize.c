// Resize of images (channels last) in height and width: nearest, linear, cubic.
//
//   y[i, j] = Σ_a Σ_b wy[i][a] * wx[j][b] * x[at_y[i][a], at_x[j][b]]
//
// with 1, 2 or 4 taps in each dimension, whose positions and weights are worked out once
// (make_tap). Cubic is separable: an input line is first stretched to the output's width, then
// output lines are sums of up to four stretched lines, which are kept, since neighbours share them:
//
//   input line -> widen_line() -> [line at % LINES] --- weigh_lines() -> output line
//
// Nearest of one form copies pixels. Linear in floats is to the last bit what ONNX Runtime makes of
// them on x86 (blend_line): behind it a DynamicQuantizeLinear may make a whole step of such a bit.
// Linear int8 whose weights are sixteenths (images made 2, 4 or 8 times larger) stays in 16-bit
// integers: sums of stored elements times 256, rounded to nearest by a shift, halves to even or as
// the node says; the same result as in floats. All else in floats, rounded as elements_store()
// does. Tested by test_sim_cases_moves, _float16 and _edges, by test_onnx_nodes, and to the bit by
// test_onnx_images.
#include <math.h>
#include <string.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"

// Positions and weights of the input lines (or columns) of one output line (or column).
struct tap {
    uint32_t at[4];
    float weight[4];
    int16_t sixteenths[2];
};

#define LINES 4 // that an output line is made of, at most
#define LANES 8 // elements of small pixels that are worked on together, and may be written too much

struct resize {
    uint32_t n_taps;
    size_t line;         // elements of an output line
    size_t kept;         // of a line that is kept: stretched, or an input line as it is (blended)
    size_t right;        // where right pixels begin in a kept line that is spread; 0: none is
    float *columns[2];   // weights of the left and right pixels, of each element
    size_t element;      // bytes of an output element
    struct tap *taps[2]; // of lines, of columns
    bool raw;            // nearest without conversion
    bool blended;        // linear in floats
    bool stored;         // of bytes by sixteenths: real numbers would give the same
    int16_t *halves; // enum graph_halves of the elements of a line, of each phase; NULL: to even
    uint64_t scratch;
};

// The input coordinate of output `out` in height (i 0) or width (i 1): ONNX's
// coordinate_transformation_mode.
static float resize_source(const struct graph_resize *r, int i, uint32_t out, uint32_t n_out,
                           uint32_t n_in)
{
    float scale = r->scale[i] > 0 ? r->scale[i] : (float)n_out / (float)n_in, x = (float)out;
    // Halves between two pixels are chosen by: 8 of 16 pixels from 7 is 3.5, not a float below.
    bool exact = r->mode == INTERPOLATE_NEAREST && r->scale[i] <= 0;
    if (exact && r->coordinates == COORDINATES_ASYMMETRIC)
        return (float)((double)out * n_in / n_out);
    if (exact && r->coordinates == COORDINATES_HALF_PIXEL)
        return (float)((2.0 * out + 1) * n_in / (2.0 * n_out) - 0.5);
    float last = scale * (float)n_in - 1; // align_corners: in the same fractions
    switch (r->coordinates) {
    case COORDINATES_ALIGN_CORNERS:
        return n_out > 1 ? x * (float)(n_in - 1) / (r->scale[i] > 0 ? last : (float)(n_out - 1))
                         : 0;
    case COORDINATES_ASYMMETRIC:
        return x / scale;
    case COORDINATES_HALF_PIXEL_NN:
        return (x + 0.5f) / scale;
    case COORDINATES_PYTORCH_HALF_PIXEL:
        return n_out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    default:
        return (x + 0.5f) / scale - 0.5f;
    }
}

// Clamped to the image: the edge repeats.
static uint32_t resize_inside(float at, uint32_t n)
{
    return at < 0 ? 0 : at > (float)(n - 1) ? n - 1 : (uint32_t)at;
}

// Keys' cubic kernel with parameter a, at distances 1 + t, t, 1 - t, 2 - t.
static void cubic_weights(float a, float t, float *w)
{
    float d[4] = {1 + t, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++) {
        float x = d[i];
        w[i] = i == 1 || i == 2 ? ((a + 2) * x - (a + 3)) * x * x + 1
                                : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    }
}

// Drops taps outside the image and scales the others to a sum of 1.
static void exclude_outside(struct tap *t, float low, uint32_t n)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        float at = low - 1 + (float)i;
        t->weight[i] = at < 0 || at >= (float)n ? 0 : t->weight[i];
        sum += t->weight[i];
    }
    for (int i = 0; i < 4; i++)
        t->weight[i] /= sum;
}

// At the edge and outside the nearest pixel alone. Where both are the last one they have a half
// each, as in ONNX Runtime: the sum of four products is another one then (blend_line).
static void linear_tap(struct tap *t, float at, uint32_t n)
{
    uint32_t low = resize_inside(at, n);
    float off = at < 0 ? 0 : at - (float)low;
    bool last = low + 1 >= n;
    t->at[0] = low;
    t->at[1] = last ? low : low + 1;
    t->weight[1] = last ? 0.5f : off;
    t->weight[0] = 1 - t->weight[1];
}

static void make_tap(const struct graph_resize *r, int i, struct tap *t, uint32_t out,
                     uint32_t n_out, uint32_t n_in)
{
    float at = resize_source(r, i, out, n_out, n_in), low = floorf(at);
    *t = (struct tap){.weight = {1}};
    switch (r->mode) {
    case INTERPOLATE_NEAREST:
        t->at[0] = resize_inside(graph_nearest(r->nearest, at), n_in);
        break;
    case INTERPOLATE_LINEAR:
        linear_tap(t, at, n_in);
        break;
    default:
        for (int k = 0; k < 4; k++)
            t->at[k] = resize_inside(low - 1 + (float)k, n_in);
        cubic_weights(r->cubic_a, at - low, t->weight);
        if (r->exclude_outside)
            exclude_outside(t, low, n_in);
    }
}

// Same type and quantization: stored values mean the same on both sides.
static bool same_form(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return x->type == y->type && x->quantized == y->quantized && x->scale == y->scale &&
           x->zp == y->zp;
}

// Whether all weights are multiples of 1/16, as for factors of 2, 4 and 8; sets them.
static bool weigh_sixteenths(struct tap *taps, uint32_t n)
{
    for (uint32_t o = 0; o < n; o++)
        for (int k = 0; k < 2; k++) {
            float weight = taps[o].weight[k] * 16;
            if (weight < 0 || weight > 16 || weight != floorf(weight))
                return false;
            taps[o].sixteenths[k] = (int16_t)weight;
        }
    return true;
}

// Whether sums of stored elements round as those of real numbers: ties go to even in both.
static bool adds_stored(const struct graph_tensor *x, const struct graph_tensor *y,
                        const struct resize *p)
{
    int32_t zp = y->quantized ? y->zp : 0;
    return p->n_taps == 2 && y->type == TENSOR_INT8 && same_form(x, y) &&
           element_form(y).odd == (zp & 1) && weigh_sixteenths(p->taps[0], y->dims[2]) &&
           weigh_sixteenths(p->taps[1], y->dims[3]);
}

// With fewer channels than LANES a kept line has the left and the right pixel of each output pixel,
// so that all elements of a line are blended alike.
static int spread_columns(struct step *s, struct resize *p, struct error *e)
{
    size_t channels = step_output(s, 0)->dims[1];
    p->right = p->line + LANES;
    p->kept = 2 * p->line + LANES;
    for (int k = 0; k < 2; k++) {
        p->columns[k] = step_alloc(s, p->line, sizeof *p->columns[k]);
        if (!p->columns[k])
            return error_no_memory(e, "a step", p->line * sizeof *p->columns[k]);
        for (size_t i = 0; i < p->line; i++)
            p->columns[k][i] = p->taps[1][i / channels].weight[k];
    }
    return 0;
}

// How halves are rounded, for each element of the lines of each phase.
static int take_halves(struct step *s, struct resize *p, struct error *e)
{
    const struct graph_resize *r = &s->node->resize;
    const struct graph_tensor *y = step_output(s, 0);
    if (!p->stored || !r->halves)
        return 0;
    p->halves = step_alloc(s, r->phases[0] * p->line, sizeof *p->halves);
    if (!p->halves)
        return error_no_memory(e, "a step", r->phases[0] * p->line * sizeof *p->halves);
    for (size_t i = 0; i < r->phases[0] * p->line; i++) {
        size_t line = i / p->line, column = i % p->line / y->dims[1] % r->phases[1];
        p->halves[i] = (int16_t)r->halves[line * r->phases[1] + column];
    }
    return 0;
}

static int resize_prepare(struct step *s, struct error *e)
{
    static const uint32_t counts[] = {1, 2, 4};
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct resize *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (x->n_dims != 4 || y->n_dims != 4 || !x->channels_last || !y->channels_last ||
        x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] || !x->n_elems || !y->n_elems ||
        !element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "only height and width of images can be resized");
    p->n_taps = counts[s->node->resize.mode];
    p->raw = p->n_taps == 1 && same_form(x, y);
    for (int i = 0; i < 2; i++) {
        uint32_t n_out = y->dims[2 + i];
        p->taps[i] = step_alloc(s, n_out, sizeof *p->taps[i]);
        if (!p->taps[i])
            return error_no_memory(e, "a step", n_out * sizeof *p->taps[i]);
        for (uint32_t o = 0; o < n_out; o++)
            make_tap(&s->node->resize, i, &p->taps[i][o], o, n_out, x->dims[2 + i]);
    }
    p->stored = adds_stored(x, y, p);
    p->blended = p->n_taps == 2 && !p->stored;
    p->line = (size_t)y->dims[3] * y->dims[1];
    size_t in_line = (size_t)x->dims[3] * x->dims[1];
    p->kept = p->blended ? in_line : p->line;
    p->element = tensor_type_size(y->type);
    int r = take_halves(s, p, e);
    if (r == 0 && p->blended && y->dims[1] < LANES)
        r = spread_columns(s, p, e);
    if (r < 0)
        return r;
    // Kept lines, then an input line (or an output line that is blended), in floats or 16 bits.
    uint64_t last = p->blended && p->line > in_line ? p->line : in_line;
    uint64_t values = LINES * (uint64_t)(p->kept + LANES) + last + LANES;
    return step_scratch(s, values * sizeof(float), &p->scratch, e);
}

// n elements, each the sum of its taps: two at once, which are the most usual.
static inline __attribute__((always_inline)) void resize_weigh(const float *const *from,
                                                               const float *weights,
                                                               uint32_t n_taps, size_t n,
                                                               float *restrict to)
{
    const float *first = from[0], *second = from[1];
    float w = weights[0], v = weights[1];
    if (n_taps == 1)
        for (size_t i = 0; i < n; i++)
            to[i] = first[i] * w;
    else
        for (size_t i = 0; i < n; i++)
            to[i] = first[i] * w + second[i] * v;
    for (uint32_t k = 2; k < n_taps; k++) {
        const float *more = from[k];
        for (size_t i = 0; i < n; i++)
            to[i] += more[i] * weights[k];
    }
}

KERNEL(void, weigh_lines,
       (const float *const *from, const float *weights, uint32_t n_taps, size_t n,
        float *restrict to),
       (from, weights, n_taps, n, to))
{
    resize_weigh(from, weights, n_taps, n, to);
}

// An input line stretched to n_out pixels of `channels` elements.
KERNEL(void, widen_line,
       (const struct resize *p, const float *line, size_t n_out, size_t channels,
        float *restrict out),
       (p, line, n_out, channels, out))
{
    for (size_t o = 0; o < n_out; o++, out += channels) {
        const struct tap *t = &p->taps[1][o];
        const float *from[LINES];
        for (int k = 0; k < LINES; k++)
            from[k] = line + t->at[k] * channels;
        resize_weigh(from, t->weight, p->n_taps, channels, out);
    }
}

// ---- linear, in floats ----

typedef float floats __attribute__((vector_size(LANES * sizeof(float))));

// An output line of n_out pixels from two input lines. Each of four pixels by the product of both
// its weights, then their sum from the left, without fused operations: ONNX Runtime's order. LANES
// elements at once: what a pixel writes too much the next one overwrites, inside the line.
KERNEL(void, blend_line,
       (const struct tap *row, const struct tap *columns, const float *upper, const float *lower,
        size_t n_out, size_t channels, float *restrict out),
       (row, columns, upper, lower, n_out, channels, out))
{
    const float *end = out + n_out * channels;
    for (size_t o = 0; o < n_out; o++, out += channels) {
        const struct tap *t = &columns[o];
        size_t left = t->at[0] * channels, right = t->at[1] * channels, i = 0;
        float a = row->weight[0] * t->weight[0], b = row->weight[0] * t->weight[1],
              c = row->weight[1] * t->weight[0], d = row->weight[1] * t->weight[1];
        size_t most = (size_t)(end - out) / LANES * LANES;
        for (; i < channels && i < most; i += LANES) {
            floats v, w, x, y;
            memcpy(&v, upper + left + i, sizeof v);
            memcpy(&w, upper + right + i, sizeof w);
            memcpy(&x, lower + left + i, sizeof x);
            memcpy(&y, lower + right + i, sizeof y);
            v = v * a + w * b + x * c + y * d;
            memcpy(out + i, &v, sizeof v);
        }
        for (; i < channels; i++)
            out[i] = upper[left + i] * a + upper[right + i] * b + lower[left + i] * c +
                     lower[right + i] * d;
    }
}

// The left and the right pixels of an output line. Fewer channels than LANES, which are moved at
// once, as above; single ones would be moved too slowly so.
KERNEL(void, spread_line,
       (const struct tap *columns, const float *line, size_t n_out, size_t channels, float *left,
        float *right),
       (columns, line, n_out, channels, left, right))
{
    for (size_t o = 0; o < n_out && channels == 1; o++) {
        left[o] = line[columns[o].at[0]];
        right[o] = line[columns[o].at[1]];
    }
    for (size_t o = 0; o < n_out && channels > 1; o++, left += channels, right += channels) {
        memcpy(left, line + columns[o].at[0] * channels, LANES * sizeof *left);
        memcpy(right, line + columns[o].at[1] * channels, LANES * sizeof *right);
    }
}

// As blend_line(), of lines that are spread.
KERNEL(void, blend_spread,
       (const struct resize *p, const struct tap *row, const float *upper, const float *lower,
        float *restrict out),
       (p, row, upper, lower, out))
{
    const float *left = p->columns[0], *right = p->columns[1], *upper_right = upper + p->right,
                *lower_right = lower + p->right;
    float high = row->weight[0], low = row->weight[1];
    for (size_t i = 0; i < p->line; i++)
        out[i] = upper[i] * (high * left[i]) + upper_right[i] * (high * right[i]) +
                 lower[i] * (low * left[i]) + lower_right[i] * (low * right[i]);
}

// ---- stored numbers ----

KERNEL(void, load_stored, (const int8_t *restrict x, size_t n, int16_t *restrict y), (x, n, y))
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i];
}

// Unsigned, so that overflow is defined: bytes behind a pixel may be anything.
typedef uint16_t lanes __attribute__((vector_size(LANES * sizeof(uint16_t))));

// As widen_line(), LANES elements at once. What a pixel writes too much the next one overwrites.
KERNEL(void, widen_stored,
       (const struct resize *p, const int16_t *line, size_t n_out, size_t channels,
        int16_t *restrict out),
       (p, line, n_out, channels, out))
{
    for (size_t o = 0; o < n_out; o++, out += channels) {
        const struct tap *t = &p->taps[1][o];
        const int16_t *first = line + t->at[0] * channels, *second = line + t->at[1] * channels;
        for (size_t i = 0; i < channels; i += LANES) {
            lanes a, b;
            memcpy(&a, first + i, sizeof a);
            memcpy(&b, second + i, sizeof b);
            a = a * (uint16_t)t->sixteenths[0] + b * (uint16_t)t->sixteenths[1];
            memcpy(out + i, &a, sizeof a);
        }
    }
}

// Two lines of sixteenths to bytes, halves as told; `zero`: the zero point as such a sum.
KERNEL(void, weigh_towards,
       (const int16_t *first, const int16_t *second, const struct tap *t, const int16_t *halves,
        int16_t zero, size_t n, int8_t *restrict to),
       (first, second, t, halves, zero, n, to))
{
    int16_t w = t->sixteenths[0], v = t->sixteenths[1];
    for (size_t i = 0; i < n; i++) {
        int16_t sum = (int16_t)(first[i] * w + second[i] * v);
        int16_t odd = (sum >> 8) & 1, up = (int16_t)((sum > zero) ^ halves[i]);
        int16_t more = halves[i] == HALVES_EVEN ? odd : up;
        to[i] = (int8_t)((int16_t)(sum + 127 + more) >> 8);
    }
}

// Two lines of sixteenths to bytes, ties to even.
KERNEL(void, weigh_stored,
       (const int16_t *first, const int16_t *second, const struct tap *t, size_t n,
        int8_t *restrict to),
       (first, second, t, n, to))
{
    int16_t w = t->sixteenths[0], v = t->sixteenths[1];
    for (size_t i = 0; i < n; i++) {
        int16_t sum = (int16_t)(first[i] * w + second[i] * v);
        int16_t odd = (sum >> 8) & 1;
        to[i] = (int8_t)((int16_t)(sum + 127 + odd) >> 8);
    }
}

// ---- lines ----

// The input lines that the last output lines were made of, stretched to its width unless they are
// blended. Those of one output line are neighbours, so that each has a place of its own.
struct lines {
    uint8_t *lines;
    bool there[LINES];
    uint32_t at[LINES];
};

// `values`: scratch for the input line.
static void make_line(const struct step *s, const struct resize *p, const uint8_t *from,
                      void *values, void *line)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t n = (size_t)x->dims[3] * x->dims[1];
    struct element_form form, unused;
    if (p->stored) {
        load_stored((const int8_t *)from, n, values);
        widen_stored(p, values, y->dims[3], y->dims[1], line);
        return;
    }
    element_forms_of_average(x, y, &form, &unused);
    elements_load(&form, from, n, p->blended && !p->right ? line : values);
    if (p->right)
        spread_line(p->taps[1], values, y->dims[3], y->dims[1], line, (float *)line + p->right);
    else if (!p->blended)
        widen_line(p, values, y->dims[3], y->dims[1], line);
}

// Input line `at` in the form that is kept: from an earlier output line, or made now.
static const void *find_line(const struct step *s, const struct resize *p, struct lines *l,
                             const uint8_t *image, uint32_t at)
{
    const struct graph_tensor *x = step_input(s, 0);
    uint32_t slot = at % LINES;
    size_t element = p->stored ? sizeof(int16_t) : sizeof(float);
    size_t pitch = (p->kept + LANES) * element;
    uint8_t *line = l->lines + slot * pitch;
    if (l->there[slot] && l->at[slot] == at)
        return line;
    make_line(s, p, image + at * (x->size / x->dims[0] / x->dims[2]), l->lines + LINES * pitch,
              line);
    l->there[slot] = true;
    l->at[slot] = at;
    return line;
}

static void resize_stored(const struct step *s, const struct resize *p, struct lines *l,
                          const uint8_t *image, uint32_t oy, uint8_t *dst)
{
    const struct tap *t = &p->taps[0][oy];
    const int16_t *first = find_line(s, p, l, image, t->at[0]);
    const int16_t *second = find_line(s, p, l, image, t->at[1]);
    const struct graph_tensor *y = step_output(s, 0);
    if (!p->halves) {
        weigh_stored(first, second, t, p->line, (int8_t *)dst);
        return;
    }
    int16_t zero = (int16_t)((y->quantized ? y->zp : 0) * 256);
    const int16_t *halves = p->halves + oy % s->node->resize.phases[0] * p->line;
    weigh_towards(first, second, t, halves, zero, p->line, (int8_t *)dst);
}

static bool plain_floats(const struct element_form *to, const void *dst)
{
    return to->type == TENSOR_FLOAT32 && !to->quantized && (uintptr_t)dst % sizeof(float) == 0;
}

static void resize_blended(const struct step *s, const struct resize *p, struct lines *l,
                           const uint8_t *image, uint32_t oy, uint8_t *dst)
{
    const struct graph_tensor *y = step_output(s, 0);
    const struct tap *t = &p->taps[0][oy];
    const float *upper = find_line(s, p, l, image, t->at[0]);
    const float *lower = find_line(s, p, l, image, t->at[1]);
    struct element_form unused, to;
    element_forms_of_average(step_input(s, 0), y, &unused, &to);
    float *room = (float *)(void *)l->lines + LINES * (p->kept + LANES);
    bool plain = plain_floats(&to, dst);
    float *out = plain ? (float *)(void *)dst : room;
    if (p->right)
        blend_spread(p, t, upper, lower, out);
    else
        blend_line(t, p->taps[1], upper, lower, y->dims[3], y->dims[1], out);
    if (!plain)
        elements_store(&to, dst, p->line, out);
}

// One output line in floats. Taps of weight 0 are left out, and their lines not made.
static void resize_line(const struct step *s, const struct resize *p, struct lines *l,
                        const uint8_t *image, uint32_t oy, uint8_t *dst)
{
    const struct tap *t = &p->taps[0][oy];
    const float *from[LINES] = {0};
    float out[ELEMENTS_CHUNK], weights[LINES] = {0};
    uint32_t n_taps = 0;
    struct element_form unused, to;
    element_forms_of_average(step_input(s, 0), step_output(s, 0), &unused, &to);
    for (uint32_t k = 0; k < p->n_taps; k++)
        if (t->weight[k] != 0) {
            from[n_taps] = find_line(s, p, l, image, t->at[k]);
            weights[n_taps++] = t->weight[k];
        }
    if (plain_floats(&to, dst)) {
        weigh_lines(from, weights, n_taps, p->line, (float *)(void *)dst);
        return;
    }
    for (size_t done = 0; done < p->line; done += ELEMENTS_CHUNK) {
        size_t n = p->line - done < ELEMENTS_CHUNK ? p->line - done : ELEMENTS_CHUNK;
        weigh_lines(from, weights, n_taps, n, out);
        elements_store(&to, dst + done * p->element, n, out);
        for (uint32_t k = 0; k < n_taps; k++)
            from[k] += n;
    }
}

// Nearest, without conversion.
static void copy_line(const struct step *s, const struct resize *p, const uint8_t *image,
                      uint32_t oy, uint8_t *dst)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t pixel = x->dims[1] * tensor_type_size(x->type);
    const uint8_t *line = image + p->taps[0][oy].at[0] * x->dims[3] * pixel;
    for (uint32_t ox = 0; ox < y->dims[3]; ox++, dst += pixel)
        memcpy(dst, line + p->taps[1][ox].at[0] * pixel, pixel);
}

static int resize_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct resize *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t line = p->line * p->element;
    const uint8_t *image = run_input(s, r, 0);
    uint8_t *dst = run_output(s, r, 0);
    for (uint32_t n = 0; n < x->dims[0]; n++, image += x->size / x->dims[0]) {
        struct lines lines = {.lines = run_scratch(r, p->scratch)};
        for (uint32_t oy = 0; oy < y->dims[2]; oy++, dst += line) {
            if (p->raw)
                copy_line(s, p, image, oy, dst);
            else if (p->stored)
                resize_stored(s, p, &lines, image, oy, dst);
            else if (p->blended)
                resize_blended(s, p, &lines, image, oy, dst);
            else
                resize_line(s, p, &lines, image, oy, dst);
        }
    }
    return 0;
}

const struct op op_resize = {.prepare = resize_prepare, .run = resize_run};
