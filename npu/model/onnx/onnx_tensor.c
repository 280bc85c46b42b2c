// Tensors that ONNX files hold, as constants of the graph. Elements are in raw_data, little-endian,
// or in a typed field: floats and doubles as bytes, all else as varints. What is as wide as the
// graph's type stays in the file.
#include "npu/model/onnx/onnx_file.h"
#include "tensor/convert.h"

// Doubles and halves are taken as float32, uint64 as int64.
bool onnx_type_of(int32_t type, enum tensor_type *ret)
{
    static const struct {
        int32_t onnx;
        enum tensor_type type;
    } types[] = {
        {ONNX_FLOAT, TENSOR_FLOAT32}, {ONNX_UINT8, TENSOR_UINT8},    {ONNX_INT8, TENSOR_INT8},
        {ONNX_UINT16, TENSOR_UINT16}, {ONNX_INT16, TENSOR_INT16},    {ONNX_INT32, TENSOR_INT32},
        {ONNX_INT64, TENSOR_INT64},   {ONNX_BOOL, TENSOR_BOOL},      {ONNX_FLOAT16, TENSOR_FLOAT32},
        {ONNX_UINT32, TENSOR_UINT32}, {ONNX_DOUBLE, TENSOR_FLOAT32}, {ONNX_UINT64, TENSOR_INT64},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].onnx == type) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

static int refuse_size(const struct onnx_tensor *t, uint64_t there, uint64_t needed,
                       struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID, "tensor %s holds %llu of its %llu elements", t->name,
                     (unsigned long long)there, (unsigned long long)needed);
}

// Varints to elements of 1 to 8 bytes: little-endian, so the first bytes are the element.
static int narrow(const struct onnx_file *f, const struct onnx_tensor *t, struct graph_tensor *ret,
                  struct error *e)
{
    size_t element = tensor_type_size(ret->type);
    if (t->ints.n != ret->n_elems)
        return refuse_size(t, t->ints.n, ret->n_elems, e);
    uint8_t *data = pool_alloc(f->pool, ret->n_elems, element);
    if (!data)
        return error_no_memory(e, "a constant", ret->size);
    for (uint64_t i = 0; i < ret->n_elems; i++) {
        uint8_t wide[8];
        write_le64(wide, (uint64_t)t->ints.items[i]);
        memcpy(data + i * element, wide, element);
    }
    ret->data = (struct bytes){data, ret->size};
    return 0;
}

// Bytes in the file need not be aligned, hence memcpy().
static int round_doubles(const struct onnx_file *f, const struct onnx_tensor *t,
                         struct graph_tensor *ret, struct error *e)
{
    struct bytes from = t->raw.size ? t->raw : t->doubles;
    if (from.size / sizeof(double) != ret->n_elems || from.size % sizeof(double))
        return refuse_size(t, from.size / sizeof(double), ret->n_elems, e);
    float *to = pool_alloc(f->pool, ret->n_elems, sizeof *to);
    if (!to)
        return error_no_memory(e, "a constant", ret->size);
    for (uint64_t i = 0; i < ret->n_elems; i++) {
        double v;
        memcpy(&v, from.data + i * sizeof v, sizeof v);
        if (!convert_fits_float(v))
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s holds the double %.17g, and doubles are taken as floats",
                             t->name, v);
        to[i] = (float)v;
    }
    ret->data = (struct bytes){(const uint8_t *)to, ret->size};
    return 0;
}

// Two elements in a byte, the lower bits first; each becomes a byte.
static int widen_nibbles(const struct onnx_file *f, const struct onnx_tensor *t,
                         struct graph_tensor *ret, struct error *e)
{
    uint64_t n = ret->n_elems;
    if (t->raw.size != (n + 1) / 2)
        return refuse_size(t, t->raw.size * 2, n, e);
    uint8_t *to = pool_alloc(f->pool, n, 1);
    if (!to)
        return error_no_memory(e, "a constant", n);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t v = t->raw.data[i / 2] >> (i % 2 * 4) & 15;
        to[i] = t->type == ONNX_INT4 && v > 7 ? (uint8_t)(v | 0xf0) : v;
    }
    ret->data = (struct bytes){to, n};
    return 0;
}

// Numbers of 16 bits: the upper halves of floats (bfloat16), or halves.
static int widen_halves(const struct onnx_file *f, const struct onnx_tensor *t,
                        struct graph_tensor *ret, struct error *e)
{
    uint64_t n = ret->n_elems;
    if (t->raw.size ? t->raw.size != n * 2 : t->ints.n != n)
        return refuse_size(t, t->raw.size ? t->raw.size / 2 : t->ints.n, n, e);
    uint8_t *to = pool_alloc(f->pool, n, sizeof(float));
    if (!to)
        return error_no_memory(e, "a constant", ret->size);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t v = t->raw.size ? read_le16(t->raw.data + 2 * i) : (uint16_t)t->ints.items[i];
        write_le32(to + 4 * i, t->type == ONNX_BFLOAT16
                                   ? v << 16
                                   : float_bits(convert_fp16_to_float((uint16_t)v)));
    }
    ret->data = (struct bytes){to, ret->size};
    return 0;
}

// Types that are taken as a wider one, which holds all their values.
static bool is_widened(int32_t type, enum tensor_type *ret)
{
    const bool real = type == ONNX_BFLOAT16 || type == ONNX_FLOAT16;
    *ret = real ? TENSOR_FLOAT32 : type == ONNX_INT4 ? TENSOR_INT8 : TENSOR_UINT8;
    return real || type == ONNX_INT4 || type == ONNX_UINT4;
}

// Checks that the file has as many elements as the shape says, then points at them or converts
// them.
int onnx_tensor_constant(const struct onnx_file *f, const struct onnx_tensor *t,
                         struct graph_tensor *ret, struct error *e)
{
    *ret = (struct graph_tensor){
        .name = t->name, .constant = true, .n_dims = t->n_dims, .arena_offset = GRAPH_NO_OFFSET};
    if (t->external && f->nested)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s of a graph inside a node lies in another file: save the model "
                         "as one file",
                         t->name);
    if (t->external)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s lies in another file: open the model by its path, beside which "
                         "the file lies, or save it as one file",
                         t->name);
    bool widened = is_widened(t->type, &ret->type);
    if (!widened && !onnx_type_of(t->type, &ret->type))
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: element type %d is not supported",
                         t->name, t->type);
    ret->natural = t->type == ONNX_UINT64;
    for (uint32_t i = 0; i < t->n_dims; i++)
        ret->dims[i] = (uint32_t)t->dims[i];
    int r = graph_tensor_measure(ret, e);
    if (r < 0)
        return r;
    ret->nibbles = t->type == ONNX_INT4 || t->type == ONNX_UINT4;
    if (widened)
        return ret->nibbles ? widen_nibbles(f, t, ret, e) : widen_halves(f, t, ret, e);
    if (t->type == ONNX_DOUBLE)
        return round_doubles(f, t, ret, e);
    struct bytes data = t->raw.size ? t->raw : t->floats;
    bool packed = t->raw.size || ret->type == TENSOR_FLOAT32 || !ret->n_elems;
    if (!packed)
        return narrow(f, t, ret, e);
    if (data.size != ret->size)
        return refuse_size(t, data.size / tensor_type_size(ret->type), ret->n_elems, e);
    ret->data = data.data ? data : (struct bytes){(const uint8_t *)"", 0};
    return 0;
}
