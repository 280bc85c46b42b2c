// Reads and writes matrices for product_run.c, one row at a time, in the layouts of
// rknn_matmul_api.h:
//
// normal:   rows of K contiguous elements
// native:   [K / unit][M][unit], blocks of columns; matmul_at() gives the element's index
// int4:     two to a byte, the lower half first
//
// Integers of C are saturate(rint(value + zp)), ties to even. Buffers of the program need not be
// aligned, hence the unaligned types.
// Tests: test_sim_matmul; the conformance programs of matmul.
#include "npu/sim/matmul/product_data.h"

#include <math.h>
#include <string.h>

#include "npu/sim/simd/elements.h"

// ---- a block's row ----

// Shifting left and back extends the sign of 4 bits.
KERNEL(void, unpack_int4, (const uint8_t *restrict src, size_t n, int8_t *restrict dst),
       (src, n, dst))
{
    for (size_t i = 0; i < n / 2; i++) {
        dst[2 * i] = (int8_t)((int8_t)(src[i] << 4) >> 4);
        dst[2 * i + 1] = (int8_t)((int8_t)src[i] >> 4);
    }
}

KERNEL(void, matrix_widen, (const int8_t *restrict src, size_t n, float *restrict dst),
       (src, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

// `at` counts elements. Two int4 share a byte, but rows and blocks start at whole bytes: their
// widths are multiples of 32.
static void read_int8(enum tensor_type type, const uint8_t *data, uint64_t at, size_t n,
                      int8_t *dst)
{
    if (type == TENSOR_INT4)
        unpack_int4(data + at / 2, n, dst);
    else
        memcpy(dst, data + at, n);
}

// In chunks, so that unpacked int8 stay in the L1 cache.
static void read_floats(enum tensor_type type, const uint8_t *data, uint64_t at, size_t n,
                        float *dst)
{
    int8_t integers[ELEMENTS_CHUNK];
    if (type == TENSOR_FLOAT16) {
        elements_load(&(struct element_form){.type = type}, data + 2 * at, n, dst);
        return;
    }
    for (size_t i = 0, part; i < n; i += part) {
        part = n - i < ELEMENTS_CHUNK ? n - i : ELEMENTS_CHUNK;
        read_int8(type, data, at + i, part, integers);
        matrix_widen(integers, part, dst + i);
    }
}

void product_read_floats(const struct matmul_matrix *x, const void *data, uint32_t row, uint32_t n,
                         float *dst)
{
    for (uint32_t r = row; r < row + n; r++)
        for (uint32_t c = 0; c < x->columns; c += x->block_columns, dst += x->block_columns)
            read_floats(x->type, data, matmul_at(x, r, c), x->block_columns, dst);
}

void product_read_int8(const struct matmul_matrix *x, const void *data, uint32_t row, uint32_t n,
                       int8_t *dst)
{
    for (uint32_t r = row; r < row + n; r++)
        for (uint32_t c = 0; c < x->columns; c += x->block_columns, dst += x->block_columns)
            read_int8(x->type, data, matmul_at(x, r, c), x->block_columns, dst);
}

// ---- writing ----

typedef int32_t unaligned_i32 __attribute__((aligned(1), may_alias));
typedef int16_t unaligned_i16 __attribute__((aligned(1), may_alias));
typedef float unaligned_f32 __attribute__((aligned(1), may_alias));

// The comparison with `low` is false for NaN, so NaN becomes the lowest value.
static inline double to_integer(double v, double zp, double low, double high)
{
    double stored = rint(v + zp);
    stored = stored > low ? stored : low;
    return stored < high ? stored : high;
}

KERNEL(void, write_i32, (unaligned_i32 *restrict dst, size_t n, const double *src, double zp),
       (dst, n, src, zp))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)to_integer(src[i], zp, INT32_MIN, INT32_MAX);
}

KERNEL(void, write_i16, (unaligned_i16 *restrict dst, size_t n, const double *src, double zp),
       (dst, n, src, zp))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int16_t)to_integer(src[i], zp, INT16_MIN, INT16_MAX);
}

KERNEL(void, write_i8, (int8_t *restrict dst, size_t n, const double *src, double zp),
       (dst, n, src, zp))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int8_t)to_integer(src[i], zp, INT8_MIN, INT8_MAX);
}

KERNEL(void, write_f32, (unaligned_f32 *restrict dst, size_t n, const double *src), (dst, n, src))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

// Rounds twice, double to float32 to fp16.
static void write_f16(uint8_t *dst, size_t n, const double *src)
{
    float floats[ELEMENTS_CHUNK];
    for (size_t i = 0, part; i < n; i += part) {
        part = n - i < ELEMENTS_CHUNK ? n - i : ELEMENTS_CHUNK;
        write_f32(floats, part, src + i);
        elements_store(&(struct element_form){.type = TENSOR_FLOAT16}, dst + 2 * i, part, floats);
    }
}

// One row of C; `values` are x->columns doubles, already in quantized units.
void product_write(const struct matmul_matrix *x, void *data, uint32_t row, const double *values,
                   int32_t zp)
{
    size_t n = x->block_columns, size = tensor_type_size(x->type);
    for (uint32_t c = 0; c < x->columns; c += x->block_columns, values += n) {
        uint8_t *dst = (uint8_t *)data + matmul_at(x, row, c) * size;
        switch (x->type) {
        case TENSOR_INT32:
            write_i32((unaligned_i32 *)dst, n, values, zp);
            break;
        case TENSOR_INT16:
            write_i16((unaligned_i16 *)dst, n, values, zp);
            break;
        case TENSOR_INT8:
            write_i8((int8_t *)dst, n, values, zp);
            break;
        case TENSOR_FLOAT16:
            write_f16(dst, n, values);
            break;
        default:
            write_f32((unaligned_f32 *)dst, n, values);
        }
    }
}
