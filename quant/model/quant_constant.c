// A tensor's elements are in raw_data, or in a list of its type. Those that lay in another file are
// raw_data, too (quant_external.h).
#include "quant/model/quant_constant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int quant_constant_finite(const Quant__Tensor *t, const float *v, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s: element %zu is not a finite number", quant_text(t->name),
                             i);
    return 0;
}

int quant_constant_floats(const Quant__Tensor *t, float **ret, struct error *e)
{
    size_t n = quant_constant_count(t);
    if (t->data_type != QUANT_FLOAT || (!n && t->n_dims > QUANT_MAX_DIMS))
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: it is not float32",
                         quant_text(t->name));
    cleanup(free_p) void *data = NULL;
    const void *from = NULL;
    if (t->has_raw_data && t->raw_data.len == n * 4) {
        from = t->raw_data.data;
    } else if (!t->has_raw_data && t->n_float_data == n) {
        from = t->float_data;
    } else {
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: its elements are not %zu floats",
                         quant_text(t->name), n);
    }
    if (!data && !(data = malloc(n ? n * 4 : 1)))
        return error_no_memory(e, "a weight", n * 4);
    if (from && n)
        memcpy(data, from, n * 4);
    int r = quant_constant_finite(t, data, n, e);
    if (r == 0)
        *ret = steal_ptr(data);
    return r;
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
