// Stored outputs as real values, and in the forms in which programs want them.
//
//   real = (stored - zp) * scale      in doubles, then rounded once, to float or fp16, ties to even
//
// Layout and type change in one pass, a row of one channel at a time (convert_layout.c has the
// layouts). Tests: test_tensor_convert (stored_values_become_real,
// large_integers_are_rounded_once).
#include <string.h>

#include "tensor/convert_inner.h"

#include "base/bytes.h"

static void output_int64_to_float(const uint8_t *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, src + i * sizeof v, sizeof v);
        dst[i] = (float)v;
    }
}

int convert_to_float(const struct tensor_attr *attr, const void *src, size_t src_size, float *dst,
                     size_t n, struct error *e)
{
    size_t element = tensor_type_size(attr->type), wanted;
    bool quantized = convert_is_quantized(attr);
    bool known = convert_has_arithmetic(attr->type) ||
                 (attr->type >= TENSOR_UINT16 && attr->type <= TENSOR_BOOL);
    if (!known || (quantized && attr->qnt != TENSOR_QNT_AFFINE))
        return error_set(e, STATUS_OUTPUT_INVALID, "output \"%s\" of %s, quantization %s, as float",
                         attr->name, tensor_type_name(attr->type), tensor_qnt_name(attr->qnt));
    if (!tensor_bytes(attr->type, attr->n_elems, &wanted) || src_size != wanted ||
        n != attr->n_elems)
        return error_set(e, STATUS_OUTPUT_INVALID,
                         "output \"%s\" has %u elements (%s), not %zu from %zu bytes", attr->name,
                         attr->n_elems, tensor_type_name(attr->type), n, src_size);
    if (attr->type == TENSOR_INT64 && !quantized) {
        output_int64_to_float(src, dst, n);
        return 0;
    }
    if (attr->type == TENSOR_FLOAT32 && !quantized) {
        if (n)
            memcpy(dst, src, src_size);
        return 0;
    }
    const uint8_t *p = src;
    double zp = quantized ? attr->zp : 0, scale = quantized ? (double)attr->scale : 1;
    for (size_t done = 0; done < n; done += CONVERT_CHUNK) {
        double x[CONVERT_CHUNK];
        size_t part = n - done < CONVERT_CHUNK ? n - done : CONVERT_CHUNK;
        convert_load(attr->type, p + done * element, 1, part, x);
        for (size_t i = 0; i < part; i++)
            dst[done + i] = (float)((x[i] - zp) * scale);
    }
    return 0;
}

// ---- forms

struct output {
    const struct tensor_attr *attr;
    struct convert_strides from, to;
    enum tensor_type type; // wanted
    double scale, zp;
};

static void output_store(enum tensor_type type, const double *x, size_t n, uint8_t *dst,
                         size_t stride)
{
    for (size_t i = 0; i < n; i++) {
        float f = (float)x[i];
        uint16_t h = convert_float_to_fp16(convert_round_to_odd(x[i]));
        if (type == TENSOR_FLOAT32)
            memcpy(dst + i * stride * sizeof f, &f, sizeof f);
        else
            memcpy(dst + i * stride * sizeof h, &h, sizeof h);
    }
}

static void output_convert_row(const struct output *o, const uint8_t *src, uint8_t *dst, size_t n)
{
    size_t element = tensor_type_size(o->attr->type), wanted = tensor_type_size(o->type);
    for (size_t done = 0; done < n; done += CONVERT_CHUNK) {
        double x[CONVERT_CHUNK];
        size_t part = n - done < CONVERT_CHUNK ? n - done : CONVERT_CHUNK;
        convert_load(o->attr->type, src + done * o->from.column * element, o->from.column, part, x);
        for (size_t i = 0; i < part; i++)
            x[i] = (x[i] - o->zp) * o->scale;
        output_store(o->type, x, part, dst + done * o->to.column * wanted, o->to.column);
    }
}

static void output_clear_row(const struct output *o, uint8_t *dst, size_t n)
{
    size_t element = tensor_type_size(o->type);
    for (size_t i = 0; i < n; i++)
        memset(dst + i * o->to.column * element, 0, element);
}

static void output_convert_image(const struct output *o, const uint32_t dims[4], const uint8_t *src,
                                 uint8_t *dst)
{
    const struct convert_strides *f = &o->from, *t = &o->to;
    size_t element = tensor_type_size(o->attr->type), wanted = tensor_type_size(o->type);
    size_t channels = (size_t)align_up(dims[1], t->c2);
    for (size_t h = 0; h < dims[2]; h++)
        for (size_t c = 0; c < channels; c++) {
            size_t s = h * f->row + c / f->c2 * f->block + c % f->c2 * f->channel;
            size_t d = h * t->row + c / t->c2 * t->block + c % t->c2 * t->channel;
            if (c < dims[1])
                output_convert_row(o, src + s * element, dst + d * wanted, dims[3]);
            else
                output_clear_row(o, dst + d * wanted, dims[3]);
        }
}

static int output_check(const struct tensor_attr *a, const struct convert_form *to, struct error *e)
{
    if ((to->type == TENSOR_FLOAT32 || to->type == TENSOR_FLOAT16) &&
        convert_has_arithmetic(a->type) &&
        (!convert_is_quantized(a) || a->qnt == TENSOR_QNT_AFFINE))
        return 0;
    return error_set(
        e, STATUS_OUTPUT_INVALID, "output \"%s\" of %s (quantization %s) cannot be had as %s",
        a->name, tensor_type_name(a->type), tensor_qnt_name(a->qnt), tensor_type_name(to->type));
}

int convert_output(const struct tensor_attr *attr, const uint32_t dims[4],
                   const struct convert_form *from, const void *src, size_t src_size,
                   const struct convert_form *to, void *dst, size_t dst_size, struct error *e)
{
    struct output o = {.attr = attr, .type = to->type, .scale = 1};
    size_t src_bytes, dst_bytes;
    if (to->type == attr->type)
        return convert_layout(dims, from, src, src_size, to, dst, dst_size, 0, e);
    int r = output_check(attr, to, e);
    if (r == 0)
        r = convert_form_bytes(dims, from, &src_bytes, e);
    if (r == 0)
        r = convert_form_bytes(dims, to, &dst_bytes, e);
    if (r != 0)
        return r;
    if (src_size < src_bytes || dst_size < dst_bytes)
        return error_set(e, STATUS_PARAM_INVALID,
                         "output \"%s\": %zu bytes into %zu, not %zu into %zu", attr->name,
                         src_bytes, dst_bytes, src_size, dst_size);
    convert_strides_of(dims, from, &o.from);
    convert_strides_of(dims, to, &o.to);
    if (convert_is_quantized(attr)) {
        o.scale = (double)attr->scale;
        o.zp = attr->zp;
    }
    for (size_t n = 0; n < dims[0]; n++)
        output_convert_image(&o, dims,
                             (const uint8_t *)src + n * o.from.image * tensor_type_size(attr->type),
                             (uint8_t *)dst + n * o.to.image * tensor_type_size(to->type));
    return 0;
}
