// Conversion of whole tensors: types, quantization, mean and std, layouts.
#include "base/convert.h"

#include <math.h>
#include <string.h>

// ---- half
// ----------------------------------------------------------------------------------------

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float convert_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
    if (exponent == 0x1f)
        return bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0)
        return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

uint16_t convert_float_to_half(float f)
{
    uint32_t u = float_bits(f), magnitude = u & 0x7fffffffu;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000u) // rounds to 65536 or more
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 rounds at the subnormals' last bit
        uint32_t rounded = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
        return (uint16_t)(sign | rounded);
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

// ---- numbers
// -------------------------------------------------------------------------------------

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double quantize(double real, double scale, int32_t zp, double low, double high)
{
    double q = round(real / scale);
    return isnan(q) ? clamp(zp, low, high) : clamp(q + zp, low, high);
}

int8_t convert_quantize_i8(float real, float scale, int32_t zp)
{
    return (int8_t)quantize(real, scale, zp, INT8_MIN, INT8_MAX);
}

static double load_number(enum tensor_type type, const uint8_t *p)
{
    union {
        float f;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
    } v;
    switch (type) {
    case TENSOR_FLOAT32:
        memcpy(&v.f, p, sizeof v.f);
        return v.f;
    case TENSOR_FLOAT16:
        memcpy(&v.u16, p, sizeof v.u16);
        return convert_half_to_float(v.u16);
    case TENSOR_BFLOAT16:
        memcpy(&v.u16, p, sizeof v.u16);
        return bits_float((uint32_t)v.u16 << 16);
    case TENSOR_INT8:
        return (int8_t)*p;
    case TENSOR_INT16:
        memcpy(&v.i16, p, sizeof v.i16);
        return v.i16;
    case TENSOR_UINT16:
        memcpy(&v.u16, p, sizeof v.u16);
        return v.u16;
    case TENSOR_INT32:
        memcpy(&v.i32, p, sizeof v.i32);
        return v.i32;
    case TENSOR_UINT32:
        memcpy(&v.u32, p, sizeof v.u32);
        return v.u32;
    case TENSOR_INT64:
        memcpy(&v.i64, p, sizeof v.i64);
        return (double)v.i64;
    default: // TENSOR_UINT8, TENSOR_BOOL
        return *p;
    }
}

// A real value in the form that the model stores. Types: those of can_store().
static void store_number(const struct tensor_attr *a, double real, uint8_t *p)
{
    union {
        float f;
        uint16_t u16;
        int16_t i16;
    } v;
    bool affine = a->qnt == TENSOR_QNT_AFFINE;
    double scale = affine ? (double)a->scale : 1;
    int32_t zp = affine ? a->zp : 0;
    switch (a->type) {
    case TENSOR_FLOAT32:
        v.f = (float)real;
        memcpy(p, &v.f, sizeof v.f);
        break;
    case TENSOR_FLOAT16:
        v.u16 = convert_float_to_half((float)real);
        memcpy(p, &v.u16, sizeof v.u16);
        break;
    case TENSOR_INT16:
        v.i16 = (int16_t)quantize(real, scale, zp, INT16_MIN, INT16_MAX);
        memcpy(p, &v.i16, sizeof v.i16);
        break;
    case TENSOR_UINT8:
        *p = (uint8_t)quantize(real, scale, zp, 0, UINT8_MAX);
        break;
    default: // TENSOR_INT8
        *p = (uint8_t)(int8_t)quantize(real, scale, zp, INT8_MIN, INT8_MAX);
        break;
    }
}

static bool can_store(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 || type == TENSOR_FLOAT16 || type == TENSOR_INT16 ||
           type == TENSOR_INT8 || type == TENSOR_UINT8;
}

static bool can_give(enum tensor_type type)
{
    return can_store(type);
}

// ---- inputs
// --------------------------------------------------------------------------------------

// The walk over an input: the destination in order, the source as its layout has it.
struct walk {
    const struct tensor_io *io;
    enum tensor_type type;
    const uint8_t *src;
    uint8_t *dst;
    size_t src_element, dst_element;
    size_t batches, pixels, channels;
    bool planar; // source is NCHW
    bool preprocess;
};

static uint32_t source_channel(const struct walk *w, size_t c)
{
    return w->preprocess ? w->io->preprocess.order[c] : (uint32_t)c;
}

static const uint8_t *source_at(const struct walk *w, size_t batch, size_t channel)
{
    size_t plane = batch * w->channels * w->pixels;
    return w->src + (plane + channel * (w->planar ? w->pixels : 1)) * w->src_element;
}

static double preprocess(const struct walk *w, size_t channel, double x)
{
    if (!w->preprocess)
        return x;
    const struct tensor_preprocess *p = &w->io->preprocess;
    return (x - (double)p->mean[channel]) / (double)p->std[channel];
}

// One-byte sources have 256 values: all arithmetic happens once for each of them.
static void convert_channel_by_table(const struct walk *w, size_t batch, size_t c)
{
    uint8_t table[256][4];
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        double x = load_number(w->type, &byte);
        store_number(&w->io->logical, preprocess(w, c, x), table[i]);
    }
    const uint8_t *from = source_at(w, batch, source_channel(w, c));
    size_t step = w->planar ? 1 : w->channels, size = w->dst_element;
    uint8_t *to = w->dst + (batch * w->pixels * w->channels + c) * size;
    if (size == 1) {
        for (size_t i = 0; i < w->pixels; i++, from += step, to += w->channels)
            *to = table[*from][0];
        return;
    }
    for (size_t i = 0; i < w->pixels; i++, from += step, to += w->channels * size)
        memcpy(to, table[*from], size);
}

static void convert_channel(const struct walk *w, size_t batch, size_t c)
{
    const uint8_t *from = source_at(w, batch, source_channel(w, c));
    size_t step = (w->planar ? 1 : w->channels) * w->src_element;
    size_t to_step = w->channels * w->dst_element;
    uint8_t *to = w->dst + (batch * w->pixels * w->channels + c) * w->dst_element;
    for (size_t i = 0; i < w->pixels; i++, from += step, to += to_step)
        store_number(&w->io->logical, preprocess(w, c, load_number(w->type, from)), to);
}

// Values stay as they are, only the layout changes.
static void copy_channel(const struct walk *w, size_t batch, size_t c)
{
    const uint8_t *from = source_at(w, batch, c);
    size_t step = (w->planar ? 1 : w->channels) * w->src_element;
    uint8_t *to = w->dst + (batch * w->pixels * w->channels + c) * w->dst_element;
    for (size_t i = 0; i < w->pixels; i++, from += step, to += w->channels * w->dst_element)
        memcpy(to, from, w->src_element);
}

static bool values_stay(const struct walk *w)
{
    const struct tensor_attr *a = &w->io->logical;
    if (w->type != a->type || w->preprocess)
        return false;
    bool quantized = a->qnt == TENSOR_QNT_AFFINE && (a->zp != 0 || a->scale != 1);
    return !can_store(a->type) || a->type == TENSOR_FLOAT32 || a->type == TENSOR_FLOAT16 ||
           !quantized;
}

static int check_input(const struct walk *w, enum tensor_layout layout, size_t src_size,
                       size_t dst_size, struct error *e)
{
    const struct tensor_attr *a = &w->io->logical;
    size_t wanted;
    if (!tensor_bytes(w->type, a->n_elems, &wanted) || src_size != wanted)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" has %zu bytes of %s, its %u elements take %zu", a->name,
                         src_size, tensor_type_name(w->type), a->n_elems,
                         tensor_type_size(w->type) * a->n_elems);
    if (dst_size != a->size)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" is converted into %zu bytes, not %u", a->name, dst_size,
                         a->size);
    if (a->layout == TENSOR_NHWC && layout != TENSOR_NHWC && layout != TENSOR_NCHW)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" is 4-D: give it as NHWC or NCHW, not %s", a->name,
                         tensor_layout_name(layout));
    if (w->type != a->type && !(can_give(w->type) && can_store(a->type)))
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" is %s in the model and cannot be set as %s", a->name,
                         tensor_type_name(a->type), tensor_type_name(w->type));
    if (w->preprocess && (w->io->preprocess.n_channels != w->channels || !can_store(a->type)))
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" has mean and std for %u channels, but %zu channels of %s",
                         a->name, w->io->preprocess.n_channels, w->channels,
                         tensor_type_name(a->type));
    return 0;
}

int convert_input(const struct tensor_io *io, enum tensor_type type, enum tensor_layout layout,
                  const void *src, size_t src_size, void *dst, size_t dst_size, struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    bool planar = a->layout == TENSOR_NHWC && layout == TENSOR_NCHW;
    bool image =
        a->n_dims == 4 && (planar || (a->layout == TENSOR_NHWC && io->preprocess.n_channels > 0));
    struct walk w = {
        .io = io,
        .type = type,
        .src = src,
        .dst = dst,
        .src_element = tensor_type_size(type),
        .dst_element = tensor_type_size(a->type),
        .batches = image ? a->dims[0] : 1,
        .pixels = image ? (size_t)a->dims[1] * a->dims[2] : a->n_elems,
        .channels = image ? a->dims[3] : 1,
        .planar = image && planar,
        .preprocess = io->preprocess.n_channels > 0,
    };
    int r = check_input(&w, layout, src_size, dst_size, e);
    if (r < 0)
        return r;
    bool same = values_stay(&w);
    if (same && (!w.planar || w.channels == 1)) {
        if (src_size > 0)
            memcpy(dst, src, src_size);
        return 0;
    }
    for (size_t n = 0; n < w.batches; n++)
        for (size_t c = 0; c < w.channels; c++)
            if (same)
                copy_channel(&w, n, c);
            else if (w.src_element == 1 && w.pixels >= 64)
                convert_channel_by_table(&w, n, c);
            else
                convert_channel(&w, n, c);
    return 0;
}

// ---- outputs
// -------------------------------------------------------------------------------------

int convert_to_float(const struct tensor_attr *attr, const void *src, size_t src_size, float *dst,
                     size_t n, struct error *e)
{
    size_t wanted, element = tensor_type_size(attr->type);
    if (element == 0 || !tensor_bytes(attr->type, attr->n_elems, &wanted) || src_size != wanted ||
        n != attr->n_elems)
        return error_set(
            e, STATUS_OUTPUT_INVALID,
            "output \"%s\" of %u elements of %s cannot be made %zu floats from %zu bytes",
            attr->name, attr->n_elems, tensor_type_name(attr->type), n, src_size);
    const uint8_t *p = src;
    bool affine = attr->qnt == TENSOR_QNT_AFFINE && (attr->zp != 0 || attr->scale != 1) &&
                  attr->type != TENSOR_FLOAT32 && attr->type != TENSOR_FLOAT16 &&
                  attr->type != TENSOR_BFLOAT16;
    if (attr->type == TENSOR_FLOAT32) {
        if (n > 0)
            memcpy(dst, src, n * sizeof *dst);
    } else if (attr->type == TENSOR_INT8 && affine) {
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)((int8_t)p[i] - attr->zp) * attr->scale;
    } else if (affine) {
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)(load_number(attr->type, p + i * element) - attr->zp) * attr->scale;
    } else {
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)load_number(attr->type, p + i * element);
    }
    return 0;
}

// ---- layouts
// -------------------------------------------------------------------------------------

// Strides in elements. For NC1HWC2, channel c lies in block c / c2 at c % c2.
struct strides {
    size_t n, block, c, h, w;
    size_t c2;
    size_t total;
};

static bool form_strides(const uint32_t dims[4], const struct convert_form *f, struct strides *ret)
{
    size_t n = dims[0], c = dims[1], h = dims[2], w = f->w_stride ? f->w_stride : dims[3];
    size_t c2 = f->layout == TENSOR_NC1HWC2 ? f->c2 : 1;
    if (w < dims[3] || c2 == 0)
        return false;
    size_t blocks = (c + c2 - 1) / c2, plane, image;
    if (__builtin_mul_overflow(h, w, &plane) || __builtin_mul_overflow(plane, blocks, &image) ||
        __builtin_mul_overflow(image, c2, &image) || __builtin_mul_overflow(image, n, &ret->total))
        return false;
    ret->n = image;
    ret->c2 = c2;
    if (f->layout == TENSOR_NHWC) {
        ret->block = 1;
        ret->c = 0;
        ret->w = c;
    } else {
        ret->block = plane * c2;
        ret->c = 1;
        ret->w = c2;
    }
    ret->h = ret->w * w;
    return f->layout != TENSOR_UNDEFINED;
}

static void fill_elements(uint8_t *dst, size_t n, size_t element, int64_t fill)
{
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * element, &fill, element);
}

static void move_elements(const uint32_t dims[4], const struct strides *from, const uint8_t *src,
                          const struct strides *to, uint8_t *dst, size_t element)
{
    for (size_t n = 0; n < dims[0]; n++)
        for (size_t c = 0; c < dims[1]; c++)
            for (size_t h = 0; h < dims[2]; h++) {
                const uint8_t *s = src + (n * from->n + c / from->c2 * from->block +
                                          c % from->c2 * from->c + h * from->h) *
                                             element;
                uint8_t *d =
                    dst +
                    (n * to->n + c / to->c2 * to->block + c % to->c2 * to->c + h * to->h) * element;
                size_t s_step = from->w * element, d_step = to->w * element;
                for (size_t w = 0; w < dims[3]; w++, s += s_step, d += d_step)
                    memcpy(d, s, element);
            }
}

int convert_layout(const uint32_t dims[4], const struct convert_form *from, const void *src,
                   size_t src_size, const struct convert_form *to, void *dst, size_t dst_size,
                   int64_t fill, struct error *e)
{
    struct strides a, b;
    size_t element = tensor_type_size(from->type), src_bytes, dst_bytes;
    if (from->type != to->type || element == 0 || !form_strides(dims, from, &a) ||
        !form_strides(dims, to, &b) || !tensor_bytes(from->type, a.total, &src_bytes) ||
        !tensor_bytes(to->type, b.total, &dst_bytes))
        return error_set(e, STATUS_PARAM_INVALID, "%s %s cannot be moved to %s %s",
                         tensor_type_name(from->type), tensor_layout_name(from->layout),
                         tensor_type_name(to->type), tensor_layout_name(to->layout));
    if (src_size < src_bytes || dst_size < dst_bytes)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a tensor needs %zu bytes as %s and %zu as %s, there are %zu and %zu",
                         src_bytes, tensor_layout_name(from->layout), dst_bytes,
                         tensor_layout_name(to->layout), src_size, dst_size);
    if (b.total != (size_t)dims[0] * dims[1] * dims[2] * dims[3])
        fill_elements(dst, b.total, element, fill);
    move_elements(dims, &a, src, &b, dst, element);
    return 0;
}
