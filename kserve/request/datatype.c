// Names of the protocol's datatypes beside those of the RKNN API. What only one of them has is in
// the table, too, so that it can be refused by its name.
#include "kserve/request/datatype.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/convert.h"

#define MAX_NUMBER 400 // characters; longer ones are refused

static const struct datatype types[] = {
    {"BOOL", 1, false, false, RKNN_TENSOR_BOOL},
    {"UINT8", 1, false, false, RKNN_TENSOR_UINT8},
    {"UINT16", 2, false, false, RKNN_TENSOR_UINT16},
    {"UINT32", 4, false, false, RKNN_TENSOR_UINT32},
    {"UINT64", 8, false, false, RKNN_TENSOR_TYPE_MAX},
    {"INT8", 1, false, true, RKNN_TENSOR_INT8},
    {"INT16", 2, false, true, RKNN_TENSOR_INT16},
    {"INT32", 4, false, true, RKNN_TENSOR_INT32},
    {"INT64", 8, false, true, RKNN_TENSOR_INT64},
    {"FP16", 2, true, true, RKNN_TENSOR_FLOAT16},
    {"BF16", 2, true, true, RKNN_TENSOR_BFLOAT16},
    {"FP32", 4, true, true, RKNN_TENSOR_FLOAT32},
    {"FP64", 8, true, true, RKNN_TENSOR_TYPE_MAX},
};
#define N_TYPES (sizeof types / sizeof *types)

const struct datatype *datatype_find(const char *name, size_t n)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0)
            return &types[i];
    return NULL;
}

const struct datatype *datatype_of(rknn_tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].rknn == type && type != RKNN_TENSOR_TYPE_MAX)
            return &types[i];
    return NULL;
}

// ---- numbers ------------------------------------------------------------------------------------

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); // ties to even
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// The place of a real type's value in memory; -1: it overflows.
static int real_put(const struct datatype *t, double v, void *to)
{
    float f = (float)v;
    if (t->size == 8) {
        memcpy(to, &v, sizeof v);
        return 0;
    }
    if (isinf(f))
        return -1;
    if (t->size == 4) {
        memcpy(to, &f, sizeof f);
        return 0;
    }
    bool fp16 = t->rknn == RKNN_TENSOR_FLOAT16;
    uint16_t half = fp16 ? convert_float_to_fp16(f) : to_bf16(f);
    memcpy(to, &half, sizeof half);
    return isinf(fp16 ? convert_fp16_to_float(half) : from_bf16(half)) ? -1 : 0;
}

// A whole number, which may be written with a fraction or an exponent that comes to nothing (1.0,
// 2e3) as far as doubles are exact.
static bool parse_whole(const char *text, bool *ret_negative, uint64_t *ret)
{
    *ret_negative = *text == '-';
    text += *ret_negative;
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (*end == 0)
        return errno == 0;
    double v = strtod(text, &end);
    if (*end || v != floor(v) || v > 9007199254740992.0)
        return false;
    *ret = (uint64_t)v;
    return true;
}

static bool put_whole(const struct datatype *t, const char *text, void *to)
{
    bool negative;
    uint64_t v;
    if (!parse_whole(text, &negative, &v))
        return false;
    unsigned bits = t->size * 8U - t->is_signed;
    uint64_t most = t->rknn == RKNN_TENSOR_BOOL ? 1 : bits == 64 ? UINT64_MAX : (1ULL << bits) - 1;
    if (negative ? v > (t->is_signed ? most + 1 : 0) : v > most)
        return false;
    v = negative ? -v : v;
    memcpy(to, &v, t->size); // little-endian, as all that this runs on
    return true;
}

bool datatype_put(const struct datatype *t, const char *number, size_t n, void *to)
{
    char text[MAX_NUMBER + 1];
    if (n > MAX_NUMBER)
        return false;
    memcpy(text, number, n);
    text[n] = 0;
    if (!t->real)
        return put_whole(t, text, to);
    double v = strtod(text, NULL);
    return !isinf(v) && real_put(t, v, to) == 0;
}

// ---- text ---------------------------------------------------------------------------------------

// As few digits as give the same number again.
static size_t print_real(double v, int digits, int most, char *ret)
{
    if (isnan(v))
        return (size_t)snprintf(ret, DATATYPE_TEXT_SIZE, "NaN");
    if (isinf(v))
        return (size_t)snprintf(ret, DATATYPE_TEXT_SIZE, v < 0 ? "-Infinity" : "Infinity");
    int n = snprintf(ret, DATATYPE_TEXT_SIZE, "%.*g", digits, v);
    bool same = most > 9 ? strtod(ret, NULL) == v : strtof(ret, NULL) == (float)v;
    if (!same)
        n = snprintf(ret, DATATYPE_TEXT_SIZE, "%.*g", most, v);
    return (size_t)n;
}

static double real_of(const struct datatype *t, const void *element)
{
    uint16_t half;
    double v;
    float f;
    switch (t->size) {
    case 2:
        memcpy(&half, element, sizeof half);
        f = t->rknn == RKNN_TENSOR_FLOAT16 ? convert_fp16_to_float(half) : from_bf16(half);
        return (double)f;
    case 8:
        memcpy(&v, element, sizeof v);
        return v;
    default:
        memcpy(&f, element, sizeof f);
        return (double)f;
    }
}

static size_t print_number(const struct datatype *t, const void *element, char *ret)
{
    double v = real_of(t, element);
    return t->size == 8   ? print_real(v, 15, 17, ret)
           : t->size == 2 ? print_real(v, 5, 9, ret)
                          : print_real(v, 7, 9, ret);
}

static uint64_t whole_of(const struct datatype *t, const void *element)
{
    uint64_t v = 0;
    unsigned unused = 64 - t->size * 8U;
    memcpy(&v, element, t->size);
    return t->is_signed ? (uint64_t)((int64_t)(v << unused) >> unused) : v;
}

double datatype_value(const struct datatype *t, const void *element)
{
    if (t->real)
        return real_of(t, element);
    uint64_t v = whole_of(t, element);
    return t->is_signed ? (double)(int64_t)v : (double)v;
}

size_t datatype_print(const struct datatype *t, const void *element,
                      char ret[static DATATYPE_TEXT_SIZE])
{
    if (t->real)
        return print_number(t, element, ret);
    uint64_t v = whole_of(t, element);
    if (t->rknn == RKNN_TENSOR_BOOL)
        return (size_t)snprintf(ret, DATATYPE_TEXT_SIZE, v ? "true" : "false");
    if (t->is_signed)
        return (size_t)snprintf(ret, DATATYPE_TEXT_SIZE, "%" PRId64, (int64_t)v);
    return (size_t)snprintf(ret, DATATYPE_TEXT_SIZE, "%" PRIu64, v);
}
