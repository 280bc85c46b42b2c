// The graph form: memory, and the elements of constants. Reading a graph is safe from any thread
// once it is built; building it is for one.
#include "npu/model/graph.h"
#include <math.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/convert.h"

void graph_done(struct graph *g)
{
    pool_done(&g->pool);
    *g = (struct graph){0};
}

int graph_make_room(struct graph *g, uint64_t room, struct error *e)
{
    struct graph_tensor *tensors = pool_alloc(&g->pool, room, sizeof *tensors);
    if (!tensors)
        return error_no_memory(e, "the graph", 0);
    if (g->n_tensors)
        memcpy(tensors, g->tensors, g->n_tensors * sizeof *tensors);
    g->tensors = tensors;
    return 0;
}

// Dimensions are untrusted: their product is checked, and limited to 32 bits. That of an empty
// tensor's other dimensions is, too: strides and loops are made of them.
int graph_tensor_measure(struct graph_tensor *t, struct error *e)
{
    uint64_t n = 1, others = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i]; // no more than others, which fits
        if (__builtin_mul_overflow(others, t->dims[i] ? t->dims[i] : 1, &others))
            return error_set(e, STATUS_MODEL_INVALID, "tensor %s: its size overflows", t->name);
    }
    if (others > UINT32_MAX || !tensor_bytes(t->type, n, &t->size))
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: %llu elements of %s are too much",
                         t->name, (unsigned long long)others, tensor_type_name(t->type));
    t->n_elems = n;
    return 0;
}

// Packed constants (weights, as a rule) are unpacked each time that they are asked for.
void graph_tensor_unpack(const struct graph_tensor *t, void *dst)
{
    if (t->unpack)
        t->unpack(t, dst);
    else
        memcpy(dst, t->data.data, t->size);
}

// Stored elements as they are, without scale; src may overlap the end of dst (and must not end
// before it).
static void graph_load(enum tensor_type type, const uint8_t *src, uint64_t n, float *dst)
{
#define EACH(size, number)                                                                         \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        const uint8_t *p = src + i * (size);                                                       \
        dst[i] = (number);                                                                         \
    }                                                                                              \
    break
    switch (type) {
    case TENSOR_FLOAT32:
        memmove(dst, src, n * sizeof *dst);
        break;
    case TENSOR_FLOAT16:
        EACH(2, convert_fp16_to_float(read_le16(p)));
    case TENSOR_INT8:
        EACH(1, (float)(int8_t)*p);
    case TENSOR_UINT8:
    case TENSOR_BOOL:
        EACH(1, (float)*p);
    case TENSOR_INT16:
        EACH(2, (float)(int16_t)read_le16(p));
    case TENSOR_INT32:
        EACH(4, (float)(int32_t)read_le32(p));
    default:
        EACH(8, (float)(int64_t)read_le64(p));
    }
#undef EACH
}

// real = (stored - zp) * scale where the tensor is quantized. No memory beyond dst is needed.
void graph_tensor_floats(const struct graph_tensor *t, float *dst)
{
    const uint8_t *src = t->data.data;
    if (t->unpack) {
        // The packed elements are no larger than the floats: unpack behind them, convert forwards.
        uint8_t *packed = (uint8_t *)dst + t->n_elems * sizeof(float) - t->size;
        graph_tensor_unpack(t, packed);
        src = packed;
    }
    graph_load(t->type, src, t->n_elems, dst);
    for (uint64_t i = 0; t->quantized && i < t->n_elems; i++)
        dst[i] = (dst[i] - (float)t->zp) * t->scale;
}

// int32 or int64, unpacked; the bound is the room that dst has.
int graph_tensor_ints(const struct graph_tensor *t, int64_t *dst, uint32_t max, uint32_t *ret_n,
                      struct error *e)
{
    bool wide = t->type == TENSOR_INT64;
    if (!t->constant || t->unpack || t->n_elems > max || (!wide && t->type != TENSOR_INT32))
        return error_set(e, STATUS_MODEL_INVALID,
                         "%s is not a constant of at most %u integers of 32 or 64 bits", t->name,
                         max);
    for (uint64_t i = 0; i < t->n_elems; i++)
        dst[i] = wide ? (int64_t)read_le64(t->data.data + 8 * i)
                      : (int32_t)read_le32(t->data.data + 4 * i);
    *ret_n = (uint32_t)t->n_elems;
    return 0;
}

// Contiguous tensors: channels-last images as N, H, W, C, others in the order of their dimensions.
void graph_tensor_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS])
{
    if (t->channels_last) {
        int64_t c = t->dims[1], h = t->dims[2], w = t->dims[3];
        strides[0] = h * w * c;
        strides[1] = 1;
        strides[2] = w * c;
        strides[3] = c;
        return;
    }
    int64_t step = 1;
    for (uint32_t i = t->n_dims; i-- > 0;) {
        strides[i] = step;
        step *= t->dims[i];
    }
}

bool graph_tensor_split(const struct graph_tensor *t, const uint32_t *dims, uint32_t n,
                        int64_t strides[GRAPH_MAX_DIMS])
{
    int64_t own[GRAPH_MAX_DIMS], stride = 0;
    uint32_t i = t->n_dims, left = 1; // of the own dimension that is being divided
    graph_tensor_strides(t, own);
    for (uint32_t k = n; k-- > 0;) {
        strides[k] = stride;
        if (dims[k] == 1)
            continue;
        while (left == 1 && i > 0) {
            left = t->dims[--i];
            stride = own[i];
        }
        if (dims[k] == 0 || left % dims[k])
            return false;
        strides[k] = stride;
        stride *= dims[k];
        left /= dims[k];
    }
    while (left == 1 && i > 0)
        left = t->dims[--i];
    return left == 1;
}

int graph_refuse(const struct graph_node *n, struct error *e, const char *format, ...)
{
    char words[320];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return error_set(e, STATUS_MODEL_INVALID, "node %s (%s): %s", n->name, n->type, words);
}

float graph_nearest(enum graph_nearest_mode nearest, float at)
{
    const double half = floor((double)at) + 0.5;
    const double place = fabs((double)at - half) <= 1e-6 ? half : (double)at;
    switch (nearest) {
    case NEAREST_ROUND_DOWN:
        return (float)ceil(place - 0.5);
    case NEAREST_ROUND_UP:
        return (float)floor(place + 0.5);
    case NEAREST_FLOOR:
        return floorf(at);
    default:
        return ceilf(at);
    }
}
