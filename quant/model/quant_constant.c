// A tensor's elements are in raw_data, or in a list of its type. Those that lay in another file are
// raw_data, too (quant_external.h).
#include "quant/model/quant_constant.h"

#include <math.h>
#include <string.h>

#include "base/each_cpu.h"

// Where a float tensor's elements are; NULL: they are not as many as its shape says.
static const void *constant_floats_at(const Quant__Tensor *t, size_t n)
{
    if (t->has_raw_data)
        return t->raw_data.len == n * 4 ? t->raw_data.data : NULL;
    return t->n_float_data == n ? t->float_data : NULL;
}

// Whether one of them is no finite number. Its exponent says so, and that is found in integers,
// many at a time. The elements may lie anywhere.
FOR_EACH_CPU static bool constant_some_not_finite(const char *at, size_t n)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, at + i * sizeof v, sizeof v);
        bad |= (v & exponent) == exponent;
    }
    return bad;
}

// The first element that is no finite number; n: there is none.
static size_t constant_not_finite(const char *at, size_t n)
{
    bool some = constant_some_not_finite(at, n);
    for (size_t i = 0; i < n && some; i++) {
        float v;
        memcpy(&v, at + i * sizeof v, sizeof v);
        if (!isfinite(v))
            return i;
    }
    return n;
}

static bool constant_is_float(const Quant__Tensor *t, size_t n)
{
    return t->data_type == QUANT_FLOAT && (n || t->n_dims <= QUANT_MAX_DIMS);
}

bool quant_constant_is_infinite(const Quant__Tensor *t)
{
    size_t n = quant_constant_count(t);
    const char *from = constant_is_float(t, n) ? constant_floats_at(t, n) : NULL;
    bool infinite = false;
    for (size_t i = 0; i < n && from; i++) {
        float v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        if (isnan(v))
            return false;
        infinite |= !isfinite(v);
    }
    return infinite;
}

int quant_constant_floats(const Quant__Tensor *t, const float **ret, struct error *e)
{
    size_t n = quant_constant_count(t);
    if (!constant_is_float(t, n))
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: it is not float32",
                         quant_text(t->name));
    const void *from = constant_floats_at(t, n);
    if (!from && n)
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: its elements are not %zu floats",
                         quant_text(t->name), n);
    size_t bad = constant_not_finite(from, n);
    if (bad < n)
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: element %zu is not a finite number",
                         quant_text(t->name), bad);
    *ret = from;
    return 0;
}

bool quant_constant_ints(const Quant__Tensor *t, int64_t *ret, size_t room, size_t *ret_n)
{
    size_t n = quant_constant_count(t);
    bool wide = t->data_type == QUANT_INT64;
    if (n > room || (!wide && t->data_type != QUANT_INT32))
        return false;
    if (t->has_raw_data && t->raw_data.len != n * (wide ? 8 : 4))
        return false;
    if (!t->has_raw_data && (wide ? t->n_int64_data : t->n_int32_data) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int32_t narrow = 0;
        if (!t->has_raw_data)
            ret[i] = wide ? t->int64_data[i] : t->int32_data[i];
        else if (wide)
            memcpy(&ret[i], t->raw_data.data + i * 8, 8);
        else
            memcpy(&narrow, t->raw_data.data + i * 4, 4);
        if (t->has_raw_data && !wide)
            ret[i] = narrow;
    }
    *ret_n = n;
    return true;
}
