// QuantizeLinear of floats into an int8 tensor of ONNX: y = saturate(rint(x / scale) + zp), the
// quotient of floats rounded to even before the zero point is added. Multiplying by 1 / scale alone
// would round another way now and then (quotient.h). NaN becomes zp. So does one whose bytes are
// nobody's real numbers (an output of the model), instead of the reference operator (ref_quant.c):
// there bytes without sign are those with sign, 128 more. Tested by test_onnx_against,
// test_onnx_parts and test_sim_int8.
#include <math.h>
#include <string.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/ops/quotient.h"
#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

static int quantize_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    if (x->type != TENSOR_FLOAT32 || y->type != TENSOR_INT8 || !y->quantized ||
        x->n_elems != y->n_elems || x->channels_last != y->channels_last)
        return step_refuse(s, e, "it makes 8-bit numbers of floats");
    return 0;
}

static inline int8_t quantize_stored(float quotient, float zp)
{
    float v = rintf(quotient) + zp;
    v = v == v ? v : zp;
    v = v < -128 ? -128 : v;
    return (int8_t)(v > 127 ? 127 : v);
}

KERNEL(void, quantize_divide, (const float *x, int8_t *y, size_t n, float scale, float zp),
       (x, y, n, scale, zp))
{
    for (size_t i = 0; i < n; i++)
        y[i] = quantize_stored(x[i] / scale, zp);
}

KERNEL(void, quantize_multiply, (const float *x, int8_t *y, size_t n, float scale, float zp),
       (x, y, n, scale, zp))
{
    float inverse = 1 / scale;
    for (size_t i = 0; i < n; i++)
        y[i] = quantize_stored(quotient(x[i], scale, inverse), zp);
}

#ifdef KERNEL_AVX512
// 16 at once: the conversion rounds to even, the last instruction saturates. What lies beyond 1024
// steps saturates whatever it is, and is bounded first, since infinity less infinity is none.
KERNEL_AVX512 static size_t quantize_many(const float *x, int8_t *y, size_t n, float scale,
                                          int32_t zp)
{
    const __m512 by = _mm512_set1_ps(scale), inverse = _mm512_set1_ps(1 / scale);
    const float far = 1024 * scale;
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES) {
        __m512 v = avx512_between(-far, far, _mm512_loadu_ps(x + i));
        __m512 q = _mm512_mul_ps(v, inverse);
        q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, by, v), inverse, q);
        q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, by, v), inverse, q);
        __mmask16 numbers = _mm512_cmp_ps_mask(q, q, _CMP_ORD_Q);
        __m512i steps = _mm512_maskz_cvtps_epi32(numbers, q);
        steps = _mm512_add_epi32(steps, _mm512_set1_epi32(zp));
        _mm_storeu_si128((void *)(y + i), _mm512_cvtsepi32_epi8(steps));
    }
    return i;
}
#else
static size_t quantize_many(const float *x, int8_t *y, size_t n, float scale, int32_t zp)
{
    (void)x, (void)y, (void)n, (void)scale, (void)zp;
    return 0;
}
#endif

#ifdef KERNEL_AVX2
// The same of 8: whole steps, the zero point among them.
AVX2_INLINE __m256i quantize_eight(const float *x, float scale, float inverse, int32_t zp)
{
    const __m256 by = _mm256_set1_ps(scale), far = _mm256_set1_ps(1024 * scale),
                 inverses = _mm256_set1_ps(inverse);
    __m256 v = _mm256_loadu_ps(x);
    v = _mm256_min_ps(far, _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), far), v));
    __m256 q = _mm256_mul_ps(v, inverses);
    q = _mm256_fmadd_ps(_mm256_fnmadd_ps(q, by, v), inverses, q);
    q = _mm256_fmadd_ps(_mm256_fnmadd_ps(q, by, v), inverses, q);
    q = _mm256_and_ps(q, _mm256_cmp_ps(q, q, _CMP_ORD_Q));
    return _mm256_add_epi32(_mm256_cvtps_epi32(q), _mm256_set1_epi32(zp));
}

// 32 at once, which avx2_store_packed() saturates.
KERNEL_AVX2 static size_t quantize_some(const float *x, int8_t *y, size_t n, float scale,
                                        int32_t zp)
{
    const float inverse = 1 / scale;
    size_t i = 0;
    for (; i + 4 * AVX2_LANES <= n; i += 4 * AVX2_LANES) {
        __m256i v[4];
        for (size_t k = 0; k < 4; k++)
            v[k] = quantize_eight(x + i + k * AVX2_LANES, scale, inverse, zp);
        avx2_store_packed(v, y + i);
    }
    return i;
}
#else
static size_t quantize_some(const float *x, int8_t *y, size_t n, float scale, int32_t zp)
{
    (void)x, (void)y, (void)n, (void)scale, (void)zp;
    return 0;
}
#endif

static void quantize_all(const float *from, int8_t *to, size_t n, float scale, int32_t zp)
{
    bool fast = quotient_is_fast(scale);
    size_t done = 0;
    if (fast && kernel_has_avx512())
        done = quantize_many(from, to, n, scale, zp);
    else if (fast && kernel_has_avx2())
        done = quantize_some(from, to, n, scale, zp);
    (fast ? quantize_multiply : quantize_divide)(from + done, to + done, n - done, scale,
                                                 (float)zp);
}

static int quantize_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct graph_tensor *y = step_output(s, 0);
    quantize_all(run_input(s, r, 0), run_output(s, r, 0), y->n_elems, y->scale, y->zp);
    return 0;
}

const struct op op_quantize = {.prepare = quantize_prepare, .run = quantize_run};

// ---- bytes of no real numbers ----

static bool quantize_is_single(const struct graph_tensor *t, enum tensor_type type)
{
    return t->constant && !t->unpack && !t->quantized && t->n_elems == 1 && t->type == type;
}

bool op_quantize_bytes_fits(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_QUANTIZE || n->n_inputs < 2 ||
        n->n_outputs != 1 || n->inputs[0] < 0 || n->inputs[1] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    const int32_t zp = n->n_inputs > 2 ? n->inputs[2] : -1;
    return x->type == TENSOR_FLOAT32 && !x->quantized && !x->constant && !x->unpack &&
           (y->type == TENSOR_INT8 || y->type == TENSOR_UINT8) && !y->quantized &&
           x->n_elems == y->n_elems && x->channels_last == y->channels_last &&
           quantize_is_single(&g->tensors[n->inputs[1]], TENSOR_FLOAT32) &&
           (zp < 0 || quantize_is_single(&g->tensors[zp], y->type));
}

static int quantize_bytes_prepare(struct step *s, struct error *e)
{
    return op_quantize_bytes_fits(s->plan->graph, s->node)
               ? 0
               : step_refuse(s, e, "its scale and zero point do not fit its input");
}

KERNEL(void, quantize_without_sign, (uint8_t * y, size_t n), (y, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] ^= 0x80;
}

static int quantize_bytes_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct graph_tensor *y = step_output(s, 0), *zp = step_input(s, 2);
    const bool natural = y->type == TENSOR_UINT8;
    const uint8_t byte = zp ? *zp->data.data : 0;
    uint8_t *to = run_output(s, r, 0);
    float scale;
    memcpy(&scale, step_input(s, 1)->data.data, sizeof scale);
    quantize_all(run_input(s, r, 0), (int8_t *)to, y->n_elems, scale,
                 natural ? byte - 128 : (int8_t)byte);
    if (natural)
        quantize_without_sign(to, y->n_elems);
    return 0;
}

const struct op op_quantize_bytes = {.prepare = quantize_bytes_prepare, .run = quantize_bytes_run};
