// Floats stay where they are; other types are converted.
#include "quant/calibrate/quant_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tensor/observe/observation.h"

static float values_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = h >> 10 & 31, fraction = h & 1023;
    uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float f;
    if (exponent == 0)
        return (sign ? -1.0F : 1.0F) * (float)fraction / 16777216.0F;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static size_t values_size(rknn_tensor_type type)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
    case RKNN_TENSOR_INT32:
    case RKNN_TENSOR_UINT32:
        return 4;
    case RKNN_TENSOR_FLOAT16:
    case RKNN_TENSOR_INT16:
    case RKNN_TENSOR_UINT16:
        return 2;
    case RKNN_TENSOR_INT8:
    case RKNN_TENSOR_UINT8:
    case RKNN_TENSOR_BOOL:
        return 1;
    case RKNN_TENSOR_INT64:
        return 8;
    default:
        return 0;
    }
}

#define TAKE(type)                                                                                 \
    ({                                                                                             \
        type v_;                                                                                   \
        memcpy(&v_, at, sizeof v_);                                                                \
        v_;                                                                                        \
    })

static float values_one(const char *at, rknn_tensor_type type)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
        return TAKE(float);
    case RKNN_TENSOR_FLOAT16:
        return values_half(TAKE(uint16_t));
    case RKNN_TENSOR_INT32:
        return (float)TAKE(int32_t);
    case RKNN_TENSOR_UINT32:
        return (float)TAKE(uint32_t);
    case RKNN_TENSOR_INT16:
        return TAKE(int16_t);
    case RKNN_TENSOR_UINT16:
        return TAKE(uint16_t);
    case RKNN_TENSOR_INT64:
        return (float)TAKE(int64_t);
    case RKNN_TENSOR_INT8:
        return TAKE(int8_t);
    default:
        return TAKE(uint8_t);
    }
}

int quant_values_of_input(const rknn_input *input, const rknn_tensor_attr *attr,
                          struct quant_values *ret, struct error *e)
{
    size_t size = values_size(input->type);
    uint64_t n = size ? input->size / size : 0;
    if (!size || input->pass_through)
        return error_set(e, STATUS_INPUT_INVALID, "input %s: its type or form cannot be looked at",
                         attr->name);
    *ret = (struct quant_values){.n = n, .inner = 1};
    bool innermost = input->fmt == RKNN_TENSOR_NHWC && attr->n_dims == 4;
    if (attr->n_dims == 4 && attr->fmt == RKNN_TENSOR_NHWC)
        ret->n_channels = attr->dims[3];
    else if (attr->n_dims >= 2)
        ret->n_channels = attr->dims[1];
    if (ret->n_channels && !innermost && attr->dims[0])
        ret->inner = n / ret->n_channels / attr->dims[0];
    ret->own =
        n <= SIZE_MAX / sizeof *ret->own ? malloc((size_t)(n ? n : 1) * sizeof *ret->own) : NULL;
    if (!ret->own)
        return error_no_memory(e, "an input", n);
    for (uint64_t i = 0; i < n; i++)
        ret->own[i] = values_one((const char *)input->buf + i * size, input->type);
    ret->values = ret->own;
    return 0;
}

int quant_values_of_tensor(const rknnd_tensor *t, struct quant_values *ret, struct error *e)
{
    *ret = (struct quant_values){.values = t->data, .n = t->n_elems, .inner = 1};
    ret->n_channels = t->n_dims >= 2 ? t->dims[1] : 0;
    for (uint32_t i = 2; i < t->n_dims; i++)
        ret->inner *= t->dims[i];
    if (t->type == RKNN_TENSOR_FLOAT32 && t->qnt_type == RKNN_TENSOR_QNT_NONE)
        return 0;
    ret->values = ret->own = malloc(t->n_elems ? (size_t)t->n_elems * sizeof *ret->own : 1);
    if (!ret->own)
        return error_no_memory(e, "a tensor", t->n_elems);
    int r = rknnd_tensor_to_float(t, ret->own);
    return r < 0 ? error_set(e, r, "%s", rknnd_last_error()) : 0;
}

// By way of the words that a node would give out, so that there is one way to count.
int quant_values_count(const struct quant_values *v, bool sums, bool tails, uint32_t most,
                       struct observer *o, struct error *e)
{
    const struct observation_form f = observation_form_of(
        v->n, sums ? v->n_channels : 0, (uint32_t)sampling_stride(v->n, most), tails);
    struct sampling_layout l = {.n = v->n, .stride = f.stride};
    const size_t n = (size_t)observation_words(f); // hardly more than there are values
    uint64_t taken;
    cleanup(free_p) int32_t *words = malloc(n * sizeof *words);
    cleanup(free_p) double *means = calloc((size_t)f.n_channels + 1, sizeof *means);
    if (!words || !means)
        return error_no_memory(e, "values", n);
    const struct observer_bounds b = observer_bounds_of(v->values, (size_t)v->n);
    const struct observer seen = {
        .min = b.min, .max = b.max, .n = v->n, .n_bad = b.n_bad, .sums = means};
    struct sampling_tails t;
    sampling_tails_begin(&t, v->n, b.min, b.max, observation_tail_values(f, words));
    if (f.n_channels)
        observer_sum_of(v->values, v->n, v->inner, f.n_channels, means);
    sampling_lay(&l, v->n_channels, v->inner);
    sampling_pick_all(v->values, &l, observation_values(f, words));
    if (f.n_tails)
        sampling_tails_add(&t, v->values, v->n);
    observation_put(f, &seen, NULL, f.n_tails ? &t : NULL, words);
    return observation_take(o, words, n, &taken, e);
}
