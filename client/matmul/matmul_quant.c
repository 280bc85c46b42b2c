// rknn_matmul_set_quant_params, rknn_matmul_get_quant_params: real = (q - zero point) * scale.
//
//     A, C   one scale and zero point each (per layer)
//     B      one, or one per channel or group: matmul_n_scales() of them
//
// B's are sent to the server as all scales, then all zero points (MATMUL_SCALE_SIZE bytes for each
// pair).
#include <math.h>
#include <string.h>

#include "client/last_error.h"
#include "client/matmul/matmul.h"

static bool is_integer(enum tensor_type type)
{
    return type == TENSOR_INT4 || type == TENSOR_INT8 || type == TENSOR_INT16 ||
           type == TENSOR_INT32;
}

// Whether a zero point is a value of the type.
static bool quant_fits(enum tensor_type type, int32_t zp)
{
    int32_t max = type == TENSOR_INT4 ? 7 : type == TENSOR_INT8 ? 127 : INT32_MAX;
    return zp >= -max - 1 && zp <= max;
}

// Scales are finite and positive: NaN, infinity and 0 would make every result meaningless.
static int check_values(const rknn_quant_params *p, const struct matmul_matrix *x, uint32_t quant,
                        struct error *e)
{
    for (int32_t i = 0; i < p->scale_len; i++) {
        float scale = p->scale[i];
        int32_t zp = p->zp ? p->zp[i] : 0;
        if (!isfinite(scale) || scale <= 0)
            return error_set(e, STATUS_PARAM_INVALID, "scale %d of %s is %g, not above 0", i,
                             x->name, (double)scale);
        if (zp != 0 && !matmul_has_zero_points(quant))
            return error_set(e, STATUS_PARAM_INVALID,
                             "zero point %d of %s is %d; the context was made for symmetric "
                             "quantization (type %u)",
                             i, x->name, zp, quant);
        if (!quant_fits(x->type, zp))
            return error_set(e, STATUS_PARAM_INVALID, "zero point %d of %s is %d, too large for %s",
                             i, x->name, zp, tensor_type_name(x->type));
        if (!is_integer(x->type) && (scale != 1 || zp != 0))
            return error_set(e, STATUS_PARAM_INVALID,
                             "matrix %s is of real numbers (%s): it has scale 1 and zero point 0",
                             x->name, tensor_type_name(x->type));
    }
    return 0;
}

// B's may have the length of any shape of the context: the current shape may still change.
static bool length_is_possible(const struct matmul *m, uint32_t matrix, int32_t n)
{
    if (matrix != MATMUL_B)
        return n == 1;
    for (uint32_t i = 0; i < m->n_shapes; i++)
        if (n > 0 && (uint64_t)n == matmul_n_scales(&m->kind, &m->shapes[i]))
            return true;
    return false;
}

static int check_params(const struct matmul *m, uint32_t matrix, const rknn_quant_params *p,
                        struct error *e)
{
    const struct matmul_matrix *x = &m->matrices[matrix];
    if (!p->scale || !length_is_possible(m, matrix, p->scale_len))
        return error_set(e, STATUS_PARAM_INVALID, "matrix %s has %d scales at %p; it takes %llu",
                         x->name, p->scale_len, (void *)p->scale,
                         matrix == MATMUL_B ? (unsigned long long)matmul_n_scales(
                                                  &m->kind, &m->shapes[m->run.shape])
                                            : 1);
    if (p->zp && p->zp_len != p->scale_len)
        return error_set(e, STATUS_PARAM_INVALID, "matrix %s has %d scales and %d zero points",
                         x->name, p->scale_len, p->zp_len);
    return check_values(p, x, matrix == MATMUL_B ? m->kind.b_quant : m->kind.ac_quant, e);
}

// Missing zero points are 0.
static int set_scales(struct matmul *m, const rknn_quant_params *p, struct error *e)
{
    size_t n = (size_t)p->scale_len, half = n * sizeof(float);
    uint8_t *bytes = calloc(n, MATMUL_SCALE_SIZE);
    if (!bytes)
        return error_no_memory(e, "scales of B", n * MATMUL_SCALE_SIZE);
    memcpy(bytes, p->scale, half);
    if (p->zp)
        memcpy(bytes + half, p->zp, half);
    matmul_take_scales(m, (struct bytes){bytes, n * MATMUL_SCALE_SIZE});
    return 0;
}

static int set_params(struct matmul *m, const rknn_quant_params *p, struct error *e)
{
    uint32_t i;
    if (!p)
        return error_set(e, STATUS_PARAM_INVALID, "the parameters are NULL");
    int r = matmul_find(p->name, &i, e);
    if (r == 0)
        r = check_params(m, i, p, e);
    if (r < 0)
        return r;
    int32_t zp = p->zp ? p->zp[0] : 0;
    if (i == MATMUL_B)
        return set_scales(m, p, e);
    if (i == MATMUL_A) {
        m->run.a_scale = p->scale[0];
        m->run.a_zp = zp;
        matmul_touch_b(m); // what its columns add up to is wanted for zero points only
    } else {
        m->run.c_scale = p->scale[0];
        m->run.c_zp = zp;
        m->run.c_set = true;
    }
    return 0;
}

RKNN_EXPORT int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = matmul_enter(context, &c, &e);
    if (r == 0)
        r = set_params(c->matmul, params, &e);
    return last_error_keep("rknn_matmul_set_quant_params", r, &e);
}

// The scale that B's per-channel scales are normalised to: the largest.
static int get_scale(const struct matmul *m, const rknn_quant_params *p, float *ret,
                     struct error *e)
{
    uint32_t i;
    if (!p || !ret)
        return error_set(e, STATUS_PARAM_INVALID, "the parameters or the scale are NULL");
    int r = matmul_find(p->name, &i, e);
    if (r < 0)
        return r;
    if (i != MATMUL_B || matmul_scope(m->kind.b_quant) != MATMUL_PER_CHANNEL)
        return error_set(e, STATUS_PARAM_INVALID,
                         "matrix %s, B_quant_type %u: only B quantized per channel has a "
                         "normalised scale",
                         m->matrices[i].name, m->kind.b_quant);
    float largest = 0;
    for (size_t k = 0; k < m->scales.size / MATMUL_SCALE_SIZE; k++) {
        float scale;
        memcpy(&scale, m->scales.data + k * sizeof scale, sizeof scale);
        largest = scale > largest ? scale : largest;
    }
    *ret = largest;
    return 0;
}

RKNN_EXPORT int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params,
                                             float *scale)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = matmul_enter(ctx, &c, &e);
    if (r == 0)
        r = get_scale(c->matmul, params, scale, &e);
    return last_error_keep("rknn_matmul_get_quant_params", r, &e);
}
