// What quantizing while running needs (ConvInteger and MatMulInteger networks of ONNX):
//
//   DynamicQuantize   y = saturate(rint(x / scale) + zp), uint8, with the scale and the zero point
//                     that the range of x gives, in float32 as ONNX defines it
//   SignedBytes       y = x, or x - 128 where x is uint8, as the convolution's kernels take bytes;
//                     an image gets its padding, which is the zero point of this run
//
// Elements stay where they are in memory: both sides have the same order.
// Tests: test_onnx_nodes, test_onnx_against.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/kernel.h"

// ---- DynamicQuantize ----

#define LANES 16 // minima and maxima that are kept apart, so that the loop becomes vectors

KERNEL(void, dynamic_range, (const float *restrict x, size_t n, float *ret_low, float *ret_high),
       (x, n, ret_low, ret_high))
{
    float low[LANES] = {0}, high[LANES] = {0};
    size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k]; // NaN changes nothing
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    for (size_t i = whole; i < n; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    for (size_t k = 1; k < LANES; k++) {
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
    }
    *ret_low = low[0];
    *ret_high = high[0];
}

// 1.5 * 2^23: added to a float below 2^22 it leaves the nearest integer (ties to even) in the low
// bits. What is larger is clamped before. NaN becomes the lowest number.
#define TO_INTEGER 12582912.0f

KERNEL(void, dynamic_store,
       (const float *restrict x, size_t n, float scale, float zero, uint8_t *restrict y),
       (x, n, scale, zero, y))
{
    for (size_t i = 0; i < n; i++) {
        float v = x[i] / scale;
        v = v > -256 ? v : -256;
        v = v < 256 ? v : 256;
        v = (v + TO_INTEGER) - TO_INTEGER + zero;
        v = v > 0 ? v : 0;
        v = v < 255 ? v : 255;
        y[i] = (uint8_t)(int32_t)v;
    }
}

static int dynamic_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0),
                              *scale = step_output(s, 1), *zp = step_output(s, 2);
    bool fits = x->type == TENSOR_FLOAT32 && y->type == TENSOR_UINT8 && x->n_elems == y->n_elems &&
                x->channels_last == y->channels_last &&
                (!scale || (scale->type == TENSOR_FLOAT32 && scale->n_elems == 1)) &&
                (!zp || (zp->type == TENSOR_UINT8 && zp->n_elems == 1));
    return fits ? 0 : step_refuse(s, e, "its input does not fit its outputs");
}

// Zeros alone would have scale 0 by ONNX's formula: it is 1, as in ONNX Runtime.
static int dynamic_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const float *x = run_input(s, r, 0);
    size_t n = step_input(s, 0)->n_elems;
    float low, high;
    dynamic_range(x, n, &low, &high);
    float scale = high > low ? (high - low) / 255 : 1;
    float zero = scale > 0 ? rintf(0 - low / scale) : 0;
    zero = zero > 0 ? zero : 0;
    zero = zero < 255 ? zero : 255;
    if (scale > 0)
        dynamic_store(x, n, scale, zero, run_output(s, r, 0));
    else
        memset(run_output(s, r, 0), 0, n);
    if (step_output(s, 1))
        memcpy(run_output(s, r, 1), &scale, sizeof scale);
    if (step_output(s, 2))
        *(uint8_t *)run_output(s, r, 2) = (uint8_t)zero;
    return 0;
}

const struct op op_dynamic_quantize = {.prepare = dynamic_prepare, .run = dynamic_run};

// ---- SignedBytes ----

static int signed_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *zp = step_input(s, 1), *y = step_output(s, 0);
    bool byte = x->type == TENSOR_INT8 || x->type == TENSOR_UINT8;
    bool same = x->n_elems == y->n_elems && !s->node->lines[0] && !s->node->lines[1];
    bool image = x->n_dims == 4 && x->channels_last && x->dims[0] == y->dims[0] &&
                 x->dims[1] == y->dims[1] &&
                 (uint64_t)x->dims[2] + s->node->lines[0] <= y->dims[2] &&
                 (uint64_t)x->dims[3] + s->node->lines[1] <= y->dims[3];
    if (byte && y->type == TENSOR_INT8 && y->n_dims == 4 && y->channels_last &&
        (!zp || (zp->type == x->type && zp->n_elems == 1)) && (same || image))
        return 0;
    return step_refuse(s, e, "its input does not fit its output");
}

KERNEL(void, signed_copy, (const uint8_t *restrict x, size_t n, uint8_t moved, uint8_t *restrict y),
       (x, n, moved, y))
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] ^ moved;
}

static int signed_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const uint8_t *from = run_input(s, r, 0);
    uint8_t *to = run_output(s, r, 0), moved = x->type == TENSOR_UINT8 ? 0x80 : 0;
    if (x->n_elems == y->n_elems) {
        signed_copy(from, x->n_elems, moved, to);
        return 0;
    }
    uint8_t zero = (step_input(s, 1) ? *(const uint8_t *)run_input(s, r, 1) : 0) ^ moved;
    size_t channels = x->dims[1], line = x->dims[3] * channels, wide = y->dims[3] * channels,
           left = s->node->lines[1] * channels, top = s->node->lines[0], high = y->dims[2];
    for (size_t n = 0; n < x->dims[0]; n++)
        for (size_t i = 0; i < high; i++, to += wide) {
            if (i < top || i >= top + x->dims[2]) {
                memset(to, zero, wide);
                continue;
            }
            memset(to, zero, left);
            signed_copy(from, line, moved, to + left);
            memset(to + left + line, zero, wide - left - line);
            from += line;
        }
    return 0;
}

const struct op op_signed_bytes = {.prepare = signed_prepare, .run = signed_run};
