// Stored elements to floats and back.
//
//   load:   real   = (stored - zp) * scale                      (not quantized: zp 0, scale 1)
//   store:  stored = saturate(rint(real / scale + odd) + rest),  odd + rest = zp
//
// rint() rounds to nearest, ties to the even number. The two ways of rounding (graph_tensor.
// rounds_before_zp) differ in what is even: ONNX rounds real / scale, odd is 0 and the zero point
// is added behind; the chips round real / scale + zp, of which only the lowest bit of zp matters to
// a tie, so odd = zp & 1 goes in before rint() and the even rest behind. NaN becomes the lowest
// value of an int8, the zero point of other integers.
//
// Fast since every line of the int8 loops is one vector instruction in all variants that KERNEL
// makes; int8 and fp16 have loops of their own because most tensors are of these types. Other types
// go through macros, one loop for each. Tested by test_sim_cases_* and test_onnx_nodes, as the way
// of nearly all operators.
#include "npu/sim/simd/elements.h"

#include <math.h>

#include "npu/sim/simd/fp16.h"

// Memory that need not be aligned.
typedef int16_t unaligned_i16 __attribute__((aligned(1), may_alias));
typedef int32_t unaligned_i32 __attribute__((aligned(1), may_alias));
typedef int64_t unaligned_i64 __attribute__((aligned(1), may_alias));
typedef float unaligned_f32 __attribute__((aligned(1), may_alias));

bool element_type_known(enum tensor_type type)
{
    switch (type) {
    case TENSOR_FLOAT32:
    case TENSOR_FLOAT16:
    case TENSOR_INT8:
    case TENSOR_UINT8:
    case TENSOR_INT16:
    case TENSOR_INT32:
    case TENSOR_INT64:
    case TENSOR_BOOL:
        return true;
    default:
        return false;
    }
}

void element_forms_of_average(const struct graph_tensor *x, const struct graph_tensor *y,
                              struct element_form *from, struct element_form *to)
{
    *from = element_form(x);
    *to = element_form(y);
    if (from->quantized && to->quantized && from->scale == to->scale)
        from->scale = to->scale = 1;
}

// ---- loading ----

KERNEL(void, load_i8,
       (const int8_t *src, int64_t stride, size_t n, float scale, float zp, float *dst),
       (src, stride, n, scale, zp, dst))
{
    if (stride == 1)
        for (size_t i = 0; i < n; i++)
            dst[i] = ((float)src[i] - zp) * scale;
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = ((float)src[(int64_t)i * stride] - zp) * scale;
}

#define LOAD(c_type)                                                                               \
    do {                                                                                           \
        const c_type *p = src;                                                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            dst[i] = ((float)p[(int64_t)i * stride] - zp) * scale;                                 \
    } while (0)

void elements_load_strided(const struct element_form *form, const void *src, int64_t stride,
                           size_t n, float *dst)
{
    float scale = form->quantized ? form->scale : 1, zp = form->quantized ? (float)form->zp : 0;
    switch (form->type) {
    case TENSOR_INT8:
        load_i8(src, stride, n, scale, zp, dst);
        break;
    case TENSOR_FLOAT16:
        fp16_load(src, stride, n, dst);
        break;
    case TENSOR_FLOAT32:
        if (stride == 1)
            memmove(dst, src, n * sizeof *dst);
        else
            LOAD(unaligned_f32);
        break;
    case TENSOR_UINT8:
    case TENSOR_BOOL:
        LOAD(uint8_t);
        break;
    case TENSOR_INT16:
        LOAD(unaligned_i16);
        break;
    case TENSOR_INT32:
        LOAD(unaligned_i32);
        break;
    default:
        LOAD(unaligned_i64);
    }
}

void elements_load(const struct element_form *form, const void *src, size_t n, float *dst)
{
    elements_load_strided(form, src, 1, n, dst);
}

void elements_of_constant(const struct graph_tensor *t, float *dst)
{
    struct element_form form = element_form(t);
    if (!t->unpack) {
        elements_load(&form, t->data.data, t->n_elems, dst);
        return;
    }
    // The packed elements are no larger than the floats: unpack behind them, convert forwards.
    uint8_t *packed = (uint8_t *)dst + t->n_elems * sizeof(float) - t->size;
    graph_tensor_unpack(t, packed);
    elements_load(&form, packed, t->n_elems, dst);
}

// ---- storing ----

// Saturates; NaN becomes `none`.
static inline float clamp(float v, float low, float high, float none)
{
    v = v == v ? v : none;
    v = v < low ? low : v;
    return v > high ? high : v;
}

// Written so that each line is one vector instruction: a comparison that picks, as maxps does,
// makes NaN the lowest value.
static inline int8_t to_i8(float v, float step, int32_t odd, int32_t rest)
{
    float low = (float)(-128 - rest), high = (float)(127 - rest), steps = v * step + (float)odd;
    steps = steps > low ? steps : low;
    steps = steps < high ? steps : high;
    return (int8_t)((int32_t)rintf(steps) + rest);
}

KERNEL(void, store_i8,
       (int8_t *restrict dst, size_t n, float step, int32_t odd, int32_t rest,
        const float *restrict src),
       (dst, n, step, odd, rest, src))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = to_i8(src[i], step, odd, rest);
}

static void store_i8_strided(int8_t *dst, int64_t stride, size_t n, float step, int32_t odd,
                             int32_t rest, const float *src)
{
    for (size_t i = 0; i < n; i++)
        dst[(int64_t)i * stride] = to_i8(src[i], step, odd, rest);
}

// The bounds are the largest floats that the type holds. Contiguous elements have a loop of their
// own, which becomes vector instructions.
#define STORED(c_type, low, high) (c_type) clamp(rintf(src[i] * step + odd) + rest, low, high, zp)
#define STORE(c_type, low, high)                                                                   \
    do {                                                                                           \
        c_type *p = dst;                                                                           \
        if (stride == 1)                                                                           \
            for (size_t i = 0; i < n; i++)                                                         \
                p[i] = STORED(c_type, low, high);                                                  \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                p[(int64_t)i * stride] = STORED(c_type, low, high);                                \
    } while (0)

KERNEL(void, store_other,
       (const struct element_form *form, void *dst, int64_t stride, size_t n, float step,
        float rest, const float *src),
       (form, dst, stride, n, step, rest, src))
{
    float odd = (float)form->odd, zp = odd + rest;
    switch (form->type) {
    case TENSOR_FLOAT32:
        for (size_t i = 0; i < n; i++)
            ((unaligned_f32 *)dst)[(int64_t)i * stride] = src[i];
        break;
    case TENSOR_UINT8:
        STORE(uint8_t, 0, 255);
        break;
    case TENSOR_BOOL:
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)dst)[(int64_t)i * stride] = src[i] != 0;
        break;
    case TENSOR_INT16:
        STORE(unaligned_i16, -32768, 32767);
        break;
    case TENSOR_INT32:
        STORE(unaligned_i32, -2147483648.0f, 2147483520.0f);
        break;
    default:
        STORE(unaligned_i64, -9223372036854775808.0f, 9223371487098961920.0f);
    }
}

void elements_store_strided(const struct element_form *form, void *dst, int64_t stride, size_t n,
                            const float *src)
{
    float step = form->quantized ? 1 / form->scale : 1;
    int32_t rest = form->quantized ? form->zp - form->odd : 0;
    if (form->type == TENSOR_INT8 && stride == 1)
        store_i8(dst, n, step, form->odd, rest, src);
    else if (form->type == TENSOR_INT8)
        store_i8_strided(dst, stride, n, step, form->odd, rest, src);
    else if (form->type == TENSOR_FLOAT16)
        fp16_store(dst, stride, n, src);
    else if (form->type != TENSOR_FLOAT32 || stride != 1)
        store_other(form, dst, stride, n, step, (float)rest, src);
    else if (dst != src)
        memmove(dst, src, n * sizeof *src);
}

void elements_store(const struct element_form *form, void *dst, size_t n, const float *src)
{
    elements_store_strided(form, dst, 1, n, src);
}
