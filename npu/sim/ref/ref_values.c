// Stored tensors to 64-bit numbers and back.
//
//   load:   integers as they are; with `dequantize` real = (stored - zp) * scale
//   store:  integers wrap; floats are rounded to the type; quantized ones are
//           saturate(rint(real / scale + zp)), in doubles
//
// Both go through the tensor in planes of two dimensions, the inner one contiguous among the
// numbers; where the outer one is contiguous in memory (images that have their channels last), a
// few columns at a time, so that the lines of memory that are read for one row are still there for
// the next one. The type is asked once for each row of those, in which each loop is plain enough
// for compilers to make vectors of it.
//
// Tests: test_onnx_nodes, test_sim_cases_reduce, _index and _edges.
#include "npu/sim/ref/ref_values.h"

#include <math.h>

#include "npu/sim/simd/fp16.h"
#include "npu/sim/simd/kernel.h"

#define COLUMNS 64 // of a plane at a time

typedef int16_t unaligned_i16 __attribute__((aligned(1), may_alias));
typedef uint16_t unaligned_u16 __attribute__((aligned(1), may_alias));
typedef int32_t unaligned_i32 __attribute__((aligned(1), may_alias));
typedef uint32_t unaligned_u32 __attribute__((aligned(1), may_alias));
typedef int64_t unaligned_i64 __attribute__((aligned(1), may_alias));
typedef float unaligned_f32 __attribute__((aligned(1), may_alias));

bool ref_is_dequantized(const struct graph_node *n, const struct graph_tensor *t)
{
    return n->ref.dequantize && t->quantized;
}

bool ref_is_real(const struct graph_node *n, const struct graph_tensor *t)
{
    return t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16 || ref_is_dequantized(n, t);
}

// ---- rows of at most COLUMNS elements, `step` apart in memory ----

#define LOAD(c_type, member)                                                                       \
    for (size_t i = 0; i < n; i++)                                                                 \
        dst[i].member = ((const c_type *)src)[(int64_t)i * step];                                  \
    break

KERNEL(void, load_row,
       (enum tensor_type type, const void *src, int64_t step, size_t n,
        union ref_value *restrict dst),
       (type, src, step, n, dst))
{
    float halves[COLUMNS];
    switch (type) {
    case TENSOR_FLOAT32:
        LOAD(unaligned_f32, r);
    case TENSOR_FLOAT16:
        fp16_load(src, step, n, halves);
        for (size_t i = 0; i < n; i++)
            dst[i].r = (double)halves[i];
        break;
    case TENSOR_INT8:
        LOAD(int8_t, i);
    case TENSOR_UINT8:
        LOAD(uint8_t, i);
    case TENSOR_BOOL:
        for (size_t i = 0; i < n; i++)
            dst[i].i = ((const uint8_t *)src)[(int64_t)i * step] != 0;
        break;
    case TENSOR_INT16:
        LOAD(unaligned_i16, i);
    case TENSOR_UINT16:
        LOAD(unaligned_u16, i);
    case TENSOR_INT32:
        LOAD(unaligned_i32, i);
    case TENSOR_UINT32:
        LOAD(unaligned_u32, i);
    default:
        LOAD(unaligned_i64, i);
    }
}

KERNEL(void, row_dequantize, (const struct graph_tensor *t, size_t n, union ref_value *v),
       (t, n, v))
{
    const double scale = (double)t->scale;
    const int64_t zp = t->zp;
    for (size_t i = 0; i < n; i++)
        v[i].r = (double)(v[i].i - zp) * scale;
}

// rint: ties to even. NaN becomes the lowest value.
KERNEL(void, row_quantize,
       (const struct graph_tensor *t, const union ref_value *restrict v, size_t n,
        union ref_value *restrict ret),
       (t, v, n, ret))
{
    const double low = t->type == TENSOR_UINT8 ? 0 : t->type == TENSOR_INT8 ? INT8_MIN : INT16_MIN;
    const double high = t->type == TENSOR_UINT8  ? UINT8_MAX
                        : t->type == TENSOR_INT8 ? INT8_MAX
                                                 : INT16_MAX;
    const double scale = (double)t->scale, zp = t->zp;
    for (size_t i = 0; i < n; i++) {
        double stored = rint(v[i].r / scale + zp);
        stored = stored > low ? stored : low;
        ret[i].i = (int32_t)(stored < high ? stored : high);
    }
}

#define STORE(c_type, expression)                                                                  \
    for (size_t i = 0; i < n; i++)                                                                 \
        ((c_type *)dst)[(int64_t)i * step] = (c_type)(expression);                                 \
    break

KERNEL(void, store_row,
       (enum tensor_type type, void *dst, int64_t step, size_t n,
        const union ref_value *restrict src),
       (type, dst, step, n, src))
{
    float halves[COLUMNS];
    switch (type) {
    case TENSOR_FLOAT32:
        STORE(unaligned_f32, src[i].r);
    case TENSOR_FLOAT16:
        for (size_t i = 0; i < n; i++)
            halves[i] = (float)src[i].r;
        fp16_store(dst, step, n, halves);
        break;
    case TENSOR_BOOL:
        STORE(uint8_t, src[i].i != 0);
    case TENSOR_INT8:
    case TENSOR_UINT8:
        STORE(uint8_t, src[i].i);
    case TENSOR_INT16:
    case TENSOR_UINT16:
        STORE(unaligned_u16, src[i].i);
    case TENSOR_INT32:
    case TENSOR_UINT32:
        STORE(unaligned_u32, src[i].i);
    default:
        STORE(unaligned_i64, src[i].i);
    }
}

// ---- whole tensors ----

// Operand 0: the numbers; operand 1: as it is stored.
static struct nd values_nd(const struct graph_tensor *t)
{
    struct graph_tensor plain = *t;
    int64_t strides[GRAPH_MAX_DIMS];
    struct nd nd;
    plain.channels_last = false;
    nd_init(&nd, &plain);
    graph_tensor_strides(t, strides);
    nd_add(&nd, strides);
    nd_simplify(&nd);
    nd_split_inner(&nd);
    return nd;
}

// A part of a plane: rows of at most COLUMNS elements.
struct part {
    size_t rows, columns;
    int64_t row[2], column; // strides: of numbers and elements; of elements
};

static void load_part(const struct graph_node *n, const struct graph_tensor *t,
                      const struct part *p, const uint8_t *src, union ref_value *dst)
{
    const int64_t size = (int64_t)tensor_type_size(t->type);
    for (size_t i = 0; i < p->rows; i++, dst += p->row[0], src += p->row[1] * size) {
        load_row(t->type, src, p->column, p->columns, dst);
        if (ref_is_dequantized(n, t))
            row_dequantize(t, p->columns, dst);
    }
}

static void store_part(const struct graph_node *n, const struct graph_tensor *t,
                       const struct part *p, uint8_t *dst, const union ref_value *src)
{
    union ref_value quantized[COLUMNS];
    const int64_t size = (int64_t)tensor_type_size(t->type);
    const bool reals = ref_is_dequantized(n, t);
    for (size_t i = 0; i < p->rows; i++, src += p->row[0], dst += p->row[1] * size) {
        if (reals)
            row_quantize(t, src, p->columns, quantized);
        store_row(t->type, dst, p->column, p->columns, reals ? quantized : src);
    }
}

// Either way: `to` or `from` is NULL.
static void values_move(const struct graph_node *n, const struct graph_tensor *t, uint8_t *to,
                        const uint8_t *from, union ref_value *values)
{
    struct nd nd = values_nd(t);
    struct nd_position at;
    const int64_t size = (int64_t)tensor_type_size(t->type);
    const uint32_t inner = nd.n_dims - 1, outer = inner - 1;
    const size_t columns = nd_inner(&nd);
    struct part p = {.rows = (size_t)nd.dims[outer],
                     .row = {nd.strides[0][outer], nd.strides[1][outer]},
                     .column = nd_stride(&nd, 1)};
    nd.n_dims--;
    for (nd_start(&nd, &at); !at.end; nd_next(&nd, &at))
        for (size_t c = 0; c < columns; c += COLUMNS) {
            const int64_t stored = (at.offset[1] + (int64_t)c * p.column) * size;
            p.columns = columns - c < COLUMNS ? columns - c : COLUMNS;
            if (to)
                store_part(n, t, &p, to + stored, values + at.offset[0] + c);
            else
                load_part(n, t, &p, from + stored, values + at.offset[0] + c);
        }
}

void ref_load(const struct graph_node *n, const struct graph_tensor *t, const uint8_t *src,
              union ref_value *dst)
{
    values_move(n, t, NULL, src, dst);
}

void ref_store(const struct graph_node *n, const struct graph_tensor *t, uint8_t *dst,
               const union ref_value *src)
{
    values_move(n, t, dst, NULL, (union ref_value *)(uintptr_t)src);
}
