// Numbers from one type to another: fp16, and quantization, each rounded once.
//
//   stored = round(real / scale + zp), saturated; for inputs real = (x - mean) / std
//
// All of it is done in doubles. Rounding: to nearest, ties to the even stored value (with zp in it,
// as the NPU does), decided by the exact quotient, not by the double nearest to it: where that
// looks like a tie, the remainder n - q * d, which one fused multiply-add gives exactly, tells on
// which side the exact one is. Most numbers are far from any tie, which their product with 1 / d
// tells: only the others are divided. To fp16 from a double goes through a float rounded to odd,
// since rounding to nearest twice would not be rounding to nearest.
//
//   float   | s | 8 exponent, bias 127 | 23 fraction |
//   fp16    | s | 5 exponent, bias 15  | 10 fraction |     below 2^-14 in units of 2^-24
//
// Why it is fast: the conversions of fp16 and of blocks have no branches, so loops over them become
// vectors; inputs of one byte are converted by a table (convert_input.c).
//
// Tests: test_tensor_convert, every number against exact integer arithmetic.
#include "tensor/convert_inner.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

// ---- fp16

float convert_fp16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, fraction = h & 0x3ff, exponent = h >> 10 & 0x1f;
    float small = (float)(int32_t)fraction * 0x1p-24f;
    uint32_t rebias = exponent == 0x1f ? 0xff - 0x1f : 127 - 15;
    uint32_t normal = (exponent + rebias) << 23 | fraction << 13;
    return bits_float(sign | (exponent ? normal : float_bits(small)));
}

// Rounded to nearest, ties to even.
uint16_t convert_float_to_fp16(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    // Below 2^-14 fp16 is subnormal, in units of 2^-24, which are the units of a float near 0.5:
    // adding 0.5 makes the FPU round to them.
    uint32_t small = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t huge = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00; // NaN, or infinite when rounded
    uint32_t fp16 = magnitude < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (magnitude >= 0x47800000 ? huge : fp16));
}

// To float, with the last bit set if anything was lost: rounding that to fp16 is then rounding
// once.
float convert_round_to_odd(double x)
{
    float f = (float)x;
    uint32_t u = float_bits(f);
    if ((double)f == x || isnan(x) || (u & 1))
        return f;
    return bits_float(fabs(x) > fabs((double)f) ? u + 1 : u - 1);
}

// ---- quantization

// How an integer type stores a real value: round(value / scale + zp), within [min, max].
struct quantizer {
    double scale, zp, min, max;
};

static struct quantizer convert_quantizer(const struct tensor_attr *a)
{
    static const double range[TENSOR_TYPE_COUNT][2] = {
        [TENSOR_INT8] = {INT8_MIN, INT8_MAX},
        [TENSOR_UINT8] = {0, UINT8_MAX},
        [TENSOR_INT16] = {INT16_MIN, INT16_MAX},
    };
    bool affine = a->qnt == TENSOR_QNT_AFFINE;
    return (struct quantizer){affine ? (double)a->scale : 1, affine ? a->zp : 0, range[a->type][0],
                              range[a->type][1]};
}

// Quantizes n / d (the scale is in d) as if the quotient were exact. Only where the double quotient
// is a tie can the exact one be on the other side of it; the sign of the remainder tells. NaN
// becomes zp.
static double convert_quantize(double n, double d, const struct quantizer *q)
{
    double quotient = n / d;
    if (isnan(quotient))
        quotient = 0;
    double low = q->min - q->zp - 1, high = q->max - q->zp + 1;
    quotient = quotient < low ? low : quotient > high ? high : quotient;
    int64_t whole = (int64_t)quotient;
    double rest = fabs(quotient - (double)whole);
    double beyond = rest == 0.5 ? fma(-fabs(quotient), fabs(d), fabs(n)) : 0;
    bool up = rest > 0.5 ||
              (rest == 0.5 && (beyond > 0 || (beyond == 0 && (whole + (int64_t)q->zp) % 2 != 0)));
    double stored = (double)(up ? whole + (quotient > 0 ? 1 : -1) : whole) + q->zp;
    return stored < q->min ? q->min : stored > q->max ? q->max : stored;
}

#define BLOCK   64
#define ROUNDER 0x1.8p52        // doubles near it have units of 1
#define FAR     (0.5 - 0x1p-20) // from a whole number; products are off by less than 2^-35 there

// The same of at most BLOCK numbers x[i] - mean, by products where these tell.
static void convert_quantize_block(const double *x, double mean, double d,
                                   const struct quantizer *q, size_t n, double *restrict ret)
{
    const double zp = q->zp, min = q->min, max = q->max, low = min - zp - 1, high = max - zp + 1;
    const double inverse = 1 / d;
    uint64_t near[BLOCK], any = !isnormal(inverse);
    for (size_t i = 0; i < n; i++) {
        double v = (x[i] - mean) * inverse;
        v = v == v ? v : 0;
        v = v < low ? low : v;
        v = v > high ? high : v;
        v += zp;
        double whole = v + ROUNDER - ROUNDER;
        near[i] = double_bits(FAR - fabs(v - whole)) >> 63;
        any |= near[i];
        whole = whole < min ? min : whole;
        ret[i] = whole > max ? max : whole;
    }
    for (size_t i = 0; any && i < n; i++)
        if (near[i] || !isnormal(inverse))
            ret[i] = convert_quantize(x[i] - mean, d, q);
}

// ---- arrays of numbers. Strides are in elements; nothing needs to be aligned.

#define LOAD(type, value)                                                                          \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v;                                                                                    \
        memcpy(&v, src + i * stride * sizeof v, sizeof v);                                         \
        ret[i] = (double)(value);                                                                  \
    }                                                                                              \
    break

void convert_load(enum tensor_type type, const uint8_t *src, size_t stride, size_t n, double *ret)
{
    switch (type) {
    case TENSOR_FLOAT32:
        LOAD(float, v);
    case TENSOR_FLOAT16:
        LOAD(uint16_t, convert_fp16_to_float(v));
    case TENSOR_INT8:
        LOAD(int8_t, v);
    case TENSOR_UINT8:
    case TENSOR_BOOL:
        LOAD(uint8_t, v);
    case TENSOR_INT16:
        LOAD(int16_t, v);
    case TENSOR_UINT16:
        LOAD(uint16_t, v);
    case TENSOR_INT32:
        LOAD(int32_t, v);
    case TENSOR_UINT32:
        LOAD(uint32_t, v);
    default: // TENSOR_INT64
        LOAD(int64_t, v);
    }
}

bool convert_fits_float(double v)
{
    return !isfinite(v) || (isfinite((float)v) && (v != trunc(v) || (double)(float)v == v));
}

#define STORE(type, value)                                                                         \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v = (type)(value);                                                                    \
        memcpy(dst + i * stride * sizeof v, &v, sizeof v);                                         \
    }                                                                                              \
    break

#define QUANTIZE(type)                                                                             \
    for (size_t at = 0; at < n; at += BLOCK) {                                                     \
        double block[BLOCK];                                                                       \
        size_t some = n - at < BLOCK ? n - at : BLOCK;                                             \
        convert_quantize_block(x + at, mean, d, &q, some, block);                                  \
        for (size_t i = 0; i < some; i++) {                                                        \
            type v = (type)block[i];                                                               \
            memcpy(dst + (at + i) * stride * sizeof v, &v, sizeof v);                              \
        }                                                                                          \
    }                                                                                              \
    break

// Stores (x[i] - mean) / std in the type and quantization of `a`.
void convert_store(const struct tensor_attr *a, const double *x, double mean, double std,
                   uint8_t *dst, size_t stride, size_t n)
{
    struct quantizer q = convert_quantizer(a);
    double d = std * q.scale;
    switch (a->type) {
    case TENSOR_FLOAT32:
        STORE(float, (x[i] - mean) / std);
    case TENSOR_FLOAT16:
        STORE(uint16_t, convert_float_to_fp16(convert_round_to_odd((x[i] - mean) / std)));
    case TENSOR_INT8:
        QUANTIZE(int8_t);
    case TENSOR_UINT8:
        QUANTIZE(uint8_t);
    default: // TENSOR_INT16
        QUANTIZE(int16_t);
    }
}

// ---- types

bool convert_has_arithmetic(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 || type == TENSOR_FLOAT16 || type == TENSOR_INT16 ||
           type == TENSOR_INT8 || type == TENSOR_UINT8;
}

static bool convert_is_float(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 || type == TENSOR_FLOAT16;
}

bool convert_is_quantized(const struct tensor_attr *a)
{
    return a->qnt != TENSOR_QNT_NONE && !convert_is_float(a->type) && (a->zp != 0 || a->scale != 1);
}
