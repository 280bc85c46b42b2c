// ArgMax: y[o, i] = the smallest k for which x[o, k, i] is the largest along the axis.
//
// int8 tensors are compared as stored, since a positive scale keeps their order; all others, and
// what has many channels behind each other, as floats. ELEMENTS_CHUNK outputs at a time, so that
// the best values and their indices stay in the first cache while k runs outside, and the inner
// loop over neighbours becomes vector instructions:
//
//   k ->  [ x0 x1 x2 … ]   best[i] = max, found[i] = k where it grew
//         [ x0 x1 x2 … ]
//
// Reals whose channels are the axis and lie behind each other: TURNED pixels are transposed and
// compared as above; where channels are too many for that, pixel by pixel, LANES channels at a
// time.
//
// Ties go to the first, as ONNX has it; comparisons with NaN are false, so NaN is found at index 0
// only. Tested by test_sim_cases_reduce, _edges and test_onnx_nodes.
#include <string.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"
#include "npu/sim/simd/avx512.h"
#include "tensor/transpose.h"

#define LANES       8  // channels that are compared at once
#define TURNED      64 // pixels
#define MOST_TURNED 64 // channels: what is transposed stays in the first cache

// The tensor along the axis: places outside, of numbers that are compared, and inside.
struct arg_max {
    bool raw;
    bool pixels; // reals of at least LANES channels, which are the axis
    bool floats; // … that are stored as floats; others are loaded, some pixels at a time
    struct element_form form;
    struct plain in; // neither
    size_t outer, size, inner;
    size_t outer_step, step, inner_step; // elements
    struct plain out;
};

// Channels that lie behind each other and are many are compared as reals; stored ones, which are
// reals, too, with AVX512.
static bool has_many_channels(const struct step *s, const struct arg_max *p)
{
    const struct graph_tensor *x = step_input(s, 0);
    return !x->constant && x->channels_last && s->node->axis == 1 && p->size >= LANES &&
           p->size <= ELEMENTS_CHUNK;
}

static void take_raw(const struct step *s, struct arg_max *p)
{
    const struct graph_tensor *x = step_input(s, 0);
    bool stored = x->type == TENSOR_INT8 && x->scale >= 0;
    p->raw = stored && p->size <= INT16_MAX && (!x->channels_last || s->node->axis == 1) &&
             !(kernel_has_avx512() && has_many_channels(s, p));
    p->form = element_form(x);
    if (stored)
        p->form.scale = 1;
    if (!p->raw || !x->channels_last)
        return;
    p->inner *= p->outer; // pixels
    p->outer = 1;
    p->step = 1;
    p->inner_step = p->size;
}

// Channels that lie behind each other.
static void take_pixels(const struct step *s, struct arg_max *p)
{
    const struct graph_tensor *x = step_input(s, 0);
    p->floats = x->type == TENSOR_FLOAT32 && !x->quantized;
    p->pixels = !p->raw && element_type_known(x->type) &&
                (has_many_channels(s, p) ||
                 (p->floats && !x->constant && x->channels_last && s->node->axis == 1 &&
                  p->size >= LANES && p->size <= INT32_MAX));
}

static int arg_max_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct arg_max *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (s->node->axis < 0 || (uint32_t)s->node->axis >= x->n_dims || !x->n_elems)
        return step_refuse(s, e, "it has no valid axis, or nothing to work on");
    struct nd_axis a = nd_axis(x, (uint32_t)s->node->axis);
    p->outer = a.outer;
    p->size = a.size;
    p->inner = p->step = a.inner;
    p->outer_step = a.size * a.inner;
    p->inner_step = 1;
    if (y->n_elems != a.outer * a.inner)
        return step_refuse(s, e, "its output has not the size of its reduced input");
    take_raw(s, p);
    take_pixels(s, p);
    int r = p->raw || p->pixels ? 0 : plain_input(s, 0, &p->in, e);
    return r < 0 ? r : plain_output(s, 0, &p->out, e);
}

// The first of the largest, for each of n neighbours.
#define ARG_MAX(type, counter)                                                                     \
    do {                                                                                           \
        type best[ELEMENTS_CHUNK];                                                                 \
        counter found[ELEMENTS_CHUNK];                                                             \
        for (size_t i = 0; i < n; i++) {                                                           \
            best[i] = x[i * between];                                                              \
            found[i] = 0;                                                                          \
        }                                                                                          \
        for (size_t k = 1; k < p->size; k++)                                                       \
            for (size_t i = 0; i < n; i++) {                                                       \
                type v = x[i * between + k * p->step], last = best[i];                             \
                found[i] = v > last ? (counter)k : found[i];                                       \
                best[i] = v > last ? v : last;                                                     \
            }                                                                                      \
        for (size_t i = 0; i < n; i++)                                                             \
            index[i] = (float)found[i];                                                            \
    } while (0)

static inline __attribute__((always_inline)) void
arg_max_i8(const struct arg_max *p, const int8_t *x, size_t between, size_t n, float *index)
{
    ARG_MAX(int8_t, int16_t);
}

// Where the stride is a constant that the compiler knows, many elements are loaded at once.
KERNEL(void, compare_stored, (const struct arg_max *p, const int8_t *x, size_t n, float *index),
       (p, x, n, index))
{
    switch (p->inner_step) {
    case 1:
        arg_max_i8(p, x, 1, n, index);
        break;
    case 2:
        arg_max_i8(p, x, 2, n, index);
        break;
    case 4:
        arg_max_i8(p, x, 4, n, index);
        break;
    default:
        arg_max_i8(p, x, p->inner_step, n, index);
    }
}

KERNEL(void, compare_real, (const struct arg_max *p, const float *x, size_t n, float *index),
       (p, x, n, index))
{
    const size_t between = 1;
    ARG_MAX(float, int32_t);
}

typedef float reals __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t counts __attribute__((vector_size(LANES * sizeof(int32_t))));

// Where another lane is larger, or as large and found before: takes that.
static inline __attribute__((always_inline)) void lanes_join(reals *best, counts *found,
                                                             const reals *v, const counts *k)
{
    counts take = (*v > *best) | ((*v == *best) & (*k < *found));
    *found = (*k & take) | (*found & ~take);
    *best = (reals)(((counts)*v & take) | ((counts)*best & ~take));
}

#define LANES_JOIN(best, found, ...)                                                               \
    do {                                                                                           \
        reals v_ = __builtin_shufflevector(best, best, __VA_ARGS__);                               \
        counts k_ = __builtin_shufflevector(found, found, __VA_ARGS__);                            \
        lanes_join(&(best), &(found), &v_, &k_);                                                   \
    } while (0)

// Each of n pixels of `size` channels. Lane i has the best of the channels i, i + LANES, … so far,
// and begins with the first one, so that of comparisons with NaN comes what the order of channels
// gives. The last LANES channels are compared together, some of them again.
KERNEL(void, compare_pixels, (const float *x, size_t size, size_t n, float *index),
       (x, size, n, index))
{
    const counts in_order = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < n; i++, x += size) {
        reals best = (reals){0} + x[0];
        counts found = {0};
        for (size_t k = 0; k < size; k += LANES) {
            size_t at = k + LANES <= size ? k : size - LANES;
            reals v;
            memcpy(&v, x + at, sizeof v);
            counts take = v > best;
            found = ((in_order + (int32_t)at) & take) | (found & ~take);
            best = (reals)(((counts)v & take) | ((counts)best & ~take));
        }
        LANES_JOIN(best, found, 4, 5, 6, 7, 0, 1, 2, 3);
        LANES_JOIN(best, found, 2, 3, 0, 1, 6, 7, 4, 5);
        LANES_JOIN(best, found, 1, 0, 3, 2, 5, 4, 7, 6);
        index[i] = (float)found[0];
    }
}

// The same of few channels, many pixels at once.
static void compare_turned(const float *x, size_t size, size_t n, float *index)
{
    float turned[TURNED * MOST_TURNED];
    for (size_t i = 0, count; i < n; i += count) {
        count = n - i < TURNED ? n - i : TURNED;
        transpose_matrix(x + i * size, (ptrdiff_t)(size * sizeof *x), turned,
                         (ptrdiff_t)(count * sizeof *turned), count, size, sizeof *x);
        compare_real(&(struct arg_max){.size = size, .step = count}, turned, count, index + i);
    }
}

#ifdef KERNEL_AVX512
// Without optimization GCC 14 has macros for some intrinsics, with conversions of their own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
// 16 channels from k on; what the pixel does not have is no larger than anything.
AVX512_INLINE __m512 arg_max_load(const float *x, size_t size, size_t k)
{
    const __m512 least = _mm512_set1_ps(-INFINITY);
    return size - k >= AVX512_LANES ? _mm512_loadu_ps(x + k)
                                    : _mm512_mask_loadu_ps(least, AVX512_TAIL(size - k), x + k);
}

// The same with AVX512: the largest of a pixel is looked for once more. Of NaN vmaxps leaves the
// second operand.
KERNEL_AVX512 static void compare_pixels_512(const float *x, size_t size, size_t n, float *index)
{
    for (size_t i = 0; i < n; i++, x += size) {
        __m512 largest = _mm512_set1_ps(-INFINITY);
        uint32_t found = 0, k = 0;
        for (size_t at = 0; at < size; at += AVX512_LANES)
            largest = _mm512_max_ps(arg_max_load(x, size, at), largest);
        largest = _mm512_max_ps(largest, _mm512_shuffle_f32x4(largest, largest, 0x4e));
        largest = _mm512_max_ps(largest, _mm512_shuffle_f32x4(largest, largest, 0xb1));
        largest = _mm512_max_ps(largest, _mm512_permute_ps(largest, 0x4e));
        largest = _mm512_max_ps(largest, _mm512_permute_ps(largest, 0xb1));
        for (; x[0] >= -INFINITY && !found; k += AVX512_LANES)
            found = _mm512_cmp_ps_mask(arg_max_load(x, size, k), largest, _CMP_EQ_OQ);
        index[i] = (float)(found ? k - AVX512_LANES + (uint32_t)__builtin_ctz(found) : 0);
    }
}
#pragma GCC diagnostic pop
#else
#define compare_pixels_512 compare_pixels
#endif

static void compare_channels(const float *x, size_t size, size_t n, float *index)
{
    if (kernel_has_avx512())
        compare_pixels_512(x, size, n, index);
    else if (size <= MOST_TURNED)
        compare_turned(x, size, n, index);
    else
        compare_pixels(x, size, n, index);
}

static void compare_image(const struct arg_max *p, const uint8_t *x, float *index)
{
    const size_t n = p->outer * p->inner, element = tensor_type_size(p->form.type),
                 together = ELEMENTS_CHUNK / p->size;
    float values[ELEMENTS_CHUNK];
    if (p->floats) {
        compare_channels((const float *)(const void *)x, p->size, n, index);
        return;
    }
    for (size_t i = 0, count; i < n; i += count) {
        count = n - i < together ? n - i : together;
        elements_load(&p->form, x + i * p->size * element, count * p->size, values);
        compare_channels(values, p->size, count, index + i);
    }
}

static int arg_max_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct arg_max *p = s->state;
    float *index = plain_values(s, r, &p->out);
    if (p->pixels) {
        compare_image(p, run_input(s, r, 0), index);
        plain_store(s, r, &p->out);
        return 0;
    }
    const float *real = p->raw ? NULL : plain_load(s, r, &p->in);
    const int8_t *stored = p->raw ? run_input(s, r, 0) : NULL;
    for (size_t o = 0; o < p->outer; o++)
        for (size_t i = 0; i < p->inner; i += ELEMENTS_CHUNK) {
            size_t n = p->inner - i < ELEMENTS_CHUNK ? p->inner - i : ELEMENTS_CHUNK;
            size_t at = o * p->outer_step + i * p->inner_step;
            if (p->raw)
                compare_stored(p, stored + at, n, index + o * p->inner + i);
            else
                compare_real(p, real + at, n, index + o * p->inner + i);
        }
    plain_store(s, r, &p->out);
    return 0;
}

const struct op op_arg_max = {.prepare = arg_max_prepare, .run = arg_max_run};
