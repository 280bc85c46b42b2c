// QuantizeLinear and DequantizeLinear of ONNX: q = saturate(round(x / scale) + zp), x = (q - zp) *
// scale, with one scale, or one for each index on an axis. What a DequantizeLinear was made of is
// noted in l->origins for onnx_qdq.c.
//
// A dequantized weight is not computed: its tensor is packed (graph_tensor.unpack), so that an int8
// model takes the memory of its int8 weights. onnx_unpacked() makes it real where an operator needs
// that.
#include "npu/model/onnx/onnx_lower.h"

// With a single scale there is no axis: 0.
static int take_axis(const struct onnx_lowering *l, int64_t *ret, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    *ret = 0;
    if (onnx_in(l, 1)->n_elems == 1)
        return 0;
    return onnx_axis(l, onnx_int(l, "axis", 1), x->n_dims, ret, e);
}

static bool is_quantized(enum tensor_type type)
{
    return type == TENSOR_INT8 || type == TENSOR_UINT8 || type == TENSOR_INT16 ||
           type == TENSOR_UINT16;
}

// The type is the zero point's; uint8 without one.
int onnx_lower_quantize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *zp = onnx_in(l, 2);
    enum tensor_type type = zp ? zp->type : TENSOR_UINT8;
    const int64_t said = onnx_int(l, "output_dtype", 0), precision = onnx_int(l, "precision", 0);
    int64_t axis;
    if (said && !zp && !onnx_type_of((int32_t)said, &type))
        return onnx_refuse(l, e, "element type %lld is not supported", (long long)said);
    if (precision && precision != ONNX_FLOAT)
        return onnx_refuse(l, e, "a precision other than floats is not supported");
    if (zp && zp->nibbles)
        return onnx_refuse(l, e, "numbers of 4 bits are supported as constants alone");
    if (!is_quantized(type))
        return onnx_refuse(l, e, "its type %s is not supported", tensor_type_name(type));
    if (onnx_int(l, "block_size", 0))
        return onnx_refuse(l, e, "numbers in blocks are supported as constants alone");
    int r = take_axis(l, &axis, e);
    if (r == 0)
        r = onnx_shape(l, 0, type, x->n_dims, x->dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_QUANTIZE, 3, &axis, 1, e);
}

static int note_origin(struct onnx_lowering *l, int64_t axis, struct error *e)
{
    if (!pool_reserve(&l->g->pool, l->origins, l->n_origins, l->room_origins, l->n_origins + 1))
        return error_no_memory(e, "the graph", 0);
    l->origins[l->n_origins++] = (struct onnx_origin){.tensor = l->out[0],
                                                      .q = l->in[0],
                                                      .scale = l->in[1],
                                                      .zp = l->n_in > 2 ? l->in[2] : -1,
                                                      .axis = axis};
    return 0;
}

// ---- constants ----

// A dequantized constant stays what the file holds until somebody needs the real numbers.
struct packing {
    struct graph_tensor q, scale, zp; // zp: no elements without one
    uint32_t axis, block; // block: so many elements of the axis share a scale; 0: all, or one
};

// Element i of an 8-, 16- or 32-bit integer constant.
static int64_t number(const struct graph_tensor *t, uint64_t i)
{
    const uint8_t *at = t->data.data + i * tensor_type_size(t->type);
    switch (t->type) {
    case TENSOR_INT8:
        return (int8_t)*at;
    case TENSOR_UINT8:
        return *at;
    case TENSOR_INT16:
        return (int16_t)read_le16(at);
    case TENSOR_UINT16:
        return read_le16(at);
    default:
        return (int32_t)read_le32(at);
    }
}

// Which scale element i has; `behind` is the number of elements for one index of the axis.
static uint64_t scale_of(const struct packing *p, uint64_t i, uint64_t behind)
{
    uint64_t dim = p->q.n_dims ? p->q.dims[p->axis] : 1;
    if (!p->block)
        return p->scale.n_elems == 1 ? 0 : i / behind % p->scale.n_elems;
    uint64_t blocks = (dim + p->block - 1) / p->block;
    return (i / behind / dim * blocks + i / behind % dim / p->block) * behind + i % behind;
}

// x = (q - zp) * scale
static void unpack(const struct graph_tensor *t, void *dst)
{
    const struct packing *p = t->packing;
    float *real = dst;
    uint64_t behind = 1;
    for (uint32_t i = p->axis + 1; i < p->q.n_dims; i++)
        behind *= p->q.dims[i];
    for (uint64_t i = 0; i < p->q.n_elems; i++) {
        uint64_t k = scale_of(p, i, behind);
        int64_t zp = p->zp.n_elems ? number(&p->zp, k) : 0;
        float scale;
        memcpy(&scale, p->scale.data.data + k * sizeof scale, sizeof scale);
        real[i] = (float)((double)(number(&p->q, i) - zp) * (double)scale);
    }
}

// Everything must be constant, and scales be as the data with fewer elements on the axis.
static int check_blocks(const struct onnx_lowering *l, int64_t axis, int64_t block, struct error *e)
{
    const struct graph_tensor *q = onnx_in(l, 0), *scale = onnx_in(l, 1), *zp = onnx_in(l, 2);
    bool fits = q->constant && scale->constant && scale->type == TENSOR_FLOAT32 && !q->unpack &&
                !scale->unpack && q->n_dims == scale->n_dims && block > 0 && block <= UINT32_MAX &&
                (!zp || (zp->constant && zp->type == q->type && zp->n_elems == scale->n_elems));
    for (uint32_t i = 0; i < q->n_dims && fits; i++)
        fits = scale->dims[i] ==
               (i == axis ? (q->dims[i] + (uint64_t)block - 1) / (uint64_t)block : q->dims[i]);
    return fits ? 0
                : onnx_refuse(l, e,
                              "with a block_size its inputs must be constants, a scale (of "
                              "FP32) for each block of %lld on axis %lld",
                              (long long)block, (long long)axis);
}

// Whether everything is constant, and there is one scale, or one for each index on the axis.
static bool can_pack(const struct onnx_lowering *l, int64_t axis)
{
    const struct graph_tensor *q = onnx_in(l, 0), *scale = onnx_in(l, 1), *zp = onnx_in(l, 2);
    return q->constant && scale->constant && scale->type == TENSOR_FLOAT32 && !q->unpack &&
           !scale->unpack &&
           (scale->n_elems == 1 || (axis < q->n_dims && scale->n_elems == q->dims[axis])) &&
           (!zp || (zp->constant && zp->type == q->type && zp->n_elems == scale->n_elems));
}

static int pack(struct onnx_lowering *l, int64_t axis, int64_t block, struct error *e)
{
    struct packing *p = pool_alloc(&l->g->pool, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a constant", sizeof *p);
    *p = (struct packing){.q = *onnx_in(l, 0),
                          .scale = *onnx_in(l, 1),
                          .axis = (uint32_t)axis,
                          .block = (uint32_t)block};
    if (onnx_in(l, 2))
        p->zp = *onnx_in(l, 2);
    struct graph_tensor *y = &l->g->tensors[l->out[0]];
    y->constant = true;
    y->channels_last = false;
    y->data = p->q.data;
    y->unpack = unpack;
    y->packing = p;
    return 0;
}

int onnx_unpacked(struct onnx_lowering *l, int32_t tensor, struct error *e)
{
    struct graph_tensor *t = &l->g->tensors[tensor];
    if (!t->constant || !t->unpack)
        return 0;
    l->folded += t->size;
    uint8_t *data = l->folded > ONNX_FOLDED_MAX ? NULL : pool_alloc(&l->g->pool, t->size, 1);
    if (!data)
        return error_no_memory(e, "a constant", t->size);
    unpack(t, data);
    t->unpack = NULL;
    t->data = (struct bytes){data, t->size};
    return 0;
}

// ---- DequantizeLinear ----

int onnx_lower_dequantize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t axis, block = onnx_int(l, "block_size", 0);
    enum tensor_type type = onnx_in(l, 1)->type;
    const int64_t said = onnx_int(l, "output_dtype", 0);
    if (!(is_quantized(x->type) || x->type == TENSOR_INT32))
        return onnx_refuse(l, e, "its type %s is not supported", tensor_type_name(x->type));
    if (said && (!onnx_type_of((int32_t)said, &type) || type != onnx_in(l, 1)->type))
        return onnx_refuse(l, e, "an output_dtype other than its scale's type is not supported");
    int r = take_axis(l, &axis, e);
    if (r == 0)
        r = onnx_shape(l, 0, onnx_in(l, 1)->type, x->n_dims, x->dims, e);
    if (r == 0 && block) { // int8 kernels have one scale for a channel: it is no origin of theirs
        r = onnx_axis(l, onnx_int(l, "axis", 1), x->n_dims, &axis, e);
        if (r == 0)
            r = check_blocks(l, axis, block, e);
        return r < 0 ? r : pack(l, axis, block, e);
    }
    if (r == 0)
        r = note_origin(l, axis, e);
    if (r == 0 && can_pack(l, axis))
        return pack(l, axis, 0, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_DEQUANTIZE, 3, &axis, 1, e);
}
