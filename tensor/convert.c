// Conversion of tensors between types: halves, quantization, mean and std.
#include "tensor/convert_inner.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

// ---- halves

float convert_fp16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, fraction = h & 0x3ff, exponent = h >> 10 & 0x1f;
    float small = (float)(int32_t)fraction * 0x1p-24f;
    uint32_t rebias = exponent == 0x1f ? 0xff - 0x1f : 127 - 15;
    uint32_t normal = (exponent + rebias) << 23 | fraction << 13;
    return bits_float(sign | (exponent ? normal : float_bits(small)));
}

// Without branches, so that loops over it become vector code.
uint16_t convert_float_to_fp16(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    // Below 2^-14 the half is subnormal: adding 0.5 makes the FPU round at its last bit.
    uint32_t small = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t huge = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00; // NaN, or infinite when rounded
    uint32_t half = magnitude < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (magnitude >= 0x47800000 ? huge : half));
}

// To float with the last bit set if anything was lost: a second rounding, to half, is then exact.
float convert_round_to_odd(double x)
{
    float f = (float)x;
    uint32_t u = float_bits(f);
    if ((double)f == x || isnan(x) || (u & 1))
        return f;
    return bits_float(fabs(x) > fabs((double)f) ? u + 1 : u - 1);
}

// ---- quantization

// What an integer type stores for a real value: value / scale, rounded, + zp, within [min, max].
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

// Quantizes n / d (d takes the scale in), as if the quotient had been exact: only when the rounded
// quotient is a tie may the exact one lie on its other side, and the remainder tells.
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

int8_t convert_quantize_i8(float real, float scale, int32_t zp)
{
    const struct quantizer q = {scale, zp, INT8_MIN, INT8_MAX};
    return (int8_t)convert_quantize(real, q.scale, &q);
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
    case TENSOR_INT32:
        LOAD(int32_t, v);
    default: // TENSOR_INT64
        LOAD(int64_t, v);
    }
}

#define STORE(type, value)                                                                         \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v = (type)(value);                                                                    \
        memcpy(dst + i * stride * sizeof v, &v, sizeof v);                                         \
    }                                                                                              \
    break

// Stores (x[i] - mean) / std in the type and quantization of `a`.
static void convert_store(const struct tensor_attr *a, const double *x, double mean, double std,
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
        STORE(int8_t, convert_quantize(x[i] - mean, d, &q));
    case TENSOR_UINT8:
        STORE(uint8_t, convert_quantize(x[i] - mean, d, &q));
    default: // TENSOR_INT16
        STORE(int16_t, convert_quantize(x[i] - mean, d, &q));
    }
}

static void convert_copy(const uint8_t *src, size_t src_stride, uint8_t *dst, size_t dst_stride,
                         size_t n, size_t element)
{
    if (src_stride == 1 && dst_stride == 1) {
        memcpy(dst, src, n * element);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * dst_stride * element, src + i * src_stride * element, element);
}

// ---- inputs

// A tensor as images of rows of pixels of channels; an array that is not 4-D is one row of one
// channel. Strides are elements.
struct view {
    size_t images, rows, columns, channels;
    size_t image_stride, row_stride, column_stride, channel_stride;
};

static struct view convert_flat_view(size_t n)
{
    return (struct view){1, 1, n, 1, 0, 0, 1, 0};
}

static struct view convert_view(const struct tensor_attr *a, const struct convert_form *f)
{
    uint32_t d[4];
    if (a->n_dims != 4 || a->layout == TENSOR_UNDEFINED)
        return convert_flat_view(a->n_elems);
    convert_dims(a, d);
    size_t pitch = f->w_stride ? f->w_stride : d[3], height = f->h_stride ? f->h_stride : d[2];
    size_t channels = d[1], plane = pitch * height;
    if (f->layout == TENSOR_NCHW)
        return (struct view){d[0], d[2], d[3], channels, plane * channels, pitch, 1, plane};
    return (struct view){d[0],     d[2], d[3], channels, plane * channels, pitch * channels,
                         channels, 1};
}

// Rows that follow one another without a gap are one.
static void convert_join_rows(struct view *a, struct view *b)
{
    if (a->row_stride != a->columns * a->column_stride ||
        b->row_stride != b->columns * b->column_stride)
        return;
    a->columns *= a->rows;
    b->columns *= b->rows;
    a->rows = b->rows = 1;
}

struct conversion {
    const struct tensor_io *io;
    enum tensor_type from;
    struct view src, dst;
    bool copied;       // values stay as they are
    bool preprocessed; // mean, std or order change something
    uint8_t tables[4][256 * sizeof(float)];
};

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

static bool convert_changes(const struct tensor_preprocess *p)
{
    for (uint32_t c = 0; c < p->n_channels; c++)
        if (p->mean[c] != 0 || p->std[c] != 1 || p->order[c] != c)
            return true;
    return false;
}

static int convert_check_preprocess(const struct conversion *c, struct error *e)
{
    const struct tensor_preprocess *p = &c->io->preprocess;
    const struct tensor_attr *a = &c->io->logical;
    if (!convert_has_arithmetic(a->type) || p->n_channels > 4 || c->dst.channels > p->n_channels ||
        (a->n_dims != 4 && p->n_channels != 1))
        return error_set(e, STATUS_MODEL_INVALID,
                         "input \"%s\" (%s, %zu channels) has mean and std for %u channels",
                         a->name, tensor_type_name(a->type), c->dst.channels, p->n_channels);
    for (uint32_t i = 0; i < c->dst.channels; i++)
        if (p->order[i] >= c->dst.channels || p->std[i] == 0 || !isfinite(p->std[i]) ||
            !isfinite(p->mean[i]))
            return error_set(e, STATUS_MODEL_INVALID,
                             "input \"%s\", channel %u: mean %g, std %g, channel order %u", a->name,
                             i, (double)p->mean[i], (double)p->std[i], p->order[i]);
    return 0;
}

static int convert_check_types(const struct conversion *c, struct error *e)
{
    const struct tensor_attr *a = &c->io->logical;
    if (tensor_type_size(a->type) == 0 ||
        (c->from != a->type &&
         !(convert_has_arithmetic(c->from) && convert_has_arithmetic(a->type))))
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" is %s in the model and cannot be set as %s", a->name,
                         tensor_type_name(a->type), tensor_type_name(c->from));
    if (convert_is_quantized(a) &&
        (a->qnt != TENSOR_QNT_AFFINE || !convert_has_arithmetic(a->type) || !(a->scale > 0) ||
         isinf(a->scale)))
        return error_set(e, STATUS_MODEL_INVALID,
                         "input \"%s\" has quantization %s with scale %g of %s, which is not known",
                         a->name, tensor_qnt_name(a->qnt), (double)a->scale,
                         tensor_type_name(a->type));
    return c->preprocessed ? convert_check_preprocess(c, e) : 0;
}

static int convert_check_shape(const struct conversion *c, const struct convert_form *from,
                               size_t src_size, size_t dst_size, struct error *e)
{
    const struct tensor_attr *a = &c->io->logical;
    bool image = a->n_dims == 4 && a->layout != TENSOR_UNDEFINED;
    uint32_t dims[4];
    size_t wanted = 0;
    if (from->layout == TENSOR_NC1HWC2 ||
        (image && from->layout != TENSOR_NHWC && from->layout != TENSOR_NCHW))
        return error_set(e, STATUS_INPUT_INVALID, "input \"%s\" is given as %s%s", a->name,
                         tensor_layout_name(from->layout),
                         a->n_dims == 4 ? "; give it as NHWC or NCHW" : "");
    convert_dims(a, dims);
    if (convert_form_bytes(dims, from, &wanted, NULL) < 0 || src_size != wanted)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" has %zu bytes, but its %u elements of %s take %zu", a->name,
                         src_size, a->n_elems, tensor_type_name(c->from), wanted);
    if (dst_size != a->size || !tensor_bytes(a->type, a->n_elems, &wanted) || dst_size != wanted ||
        (uint64_t)dims[0] * dims[1] * dims[2] * dims[3] != a->n_elems)
        return error_set(e, STATUS_PARAM_INVALID, "input \"%s\" of %u elements in %zu bytes",
                         a->name, a->n_elems, dst_size);
    return 0;
}

static void convert_by_arithmetic(const struct conversion *c, size_t channel, const uint8_t *src,
                                  size_t src_stride, uint8_t *dst, size_t dst_stride, size_t n)
{
    const struct tensor_preprocess *p = &c->io->preprocess;
    double x[CONVERT_CHUNK];
    convert_load(c->from, src, src_stride, n, x);
    convert_store(&c->io->logical, x, c->preprocessed ? (double)p->mean[channel] : 0,
                  c->preprocessed ? (double)p->std[channel] : 1, dst, dst_stride, n);
}

// One-byte sources have 256 values: all arithmetic happens once for each of them.
static void convert_make_tables(struct conversion *c)
{
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (size_t channel = 0; channel < (c->preprocessed ? c->dst.channels : 1); channel++)
        convert_by_arithmetic(c, channel, bytes, 1, c->tables[channel], 1, 256);
}

#define LOOK_UP(type)                                                                              \
    for (size_t i = 0; i < n; i++)                                                                 \
        memcpy(dst + i * dst_stride * sizeof(type), table + src[i * src_stride] * sizeof(type),    \
               sizeof(type));                                                                      \
    break

static void convert_by_table(const struct conversion *c, size_t channel, const uint8_t *src,
                             size_t src_stride, uint8_t *dst, size_t dst_stride, size_t n)
{
    const uint8_t *table = c->tables[c->preprocessed ? channel : 0];
    switch (tensor_type_size(c->io->logical.type)) {
    case 1:
        LOOK_UP(uint8_t);
    case 2:
        LOOK_UP(uint16_t);
    default:
        LOOK_UP(float);
    }
}

static void convert_floats_to_fp16(const uint8_t *src, size_t src_stride, uint8_t *dst,
                                   size_t dst_stride, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, src + i * src_stride * sizeof f, sizeof f);
        uint16_t h = convert_float_to_fp16(f);
        memcpy(dst + i * dst_stride * sizeof h, &h, sizeof h);
    }
}

// `n` elements of one channel: at most CONVERT_CHUNK, unless convert_is_moved().
static void convert_chunk(const struct conversion *c, size_t channel, const uint8_t *src,
                          uint8_t *dst, size_t n)
{
    size_t src_stride = c->src.column_stride, dst_stride = c->dst.column_stride;
    size_t element = tensor_type_size(c->from);
    if (c->copied)
        convert_copy(src, src_stride, dst, dst_stride, n, element);
    else if (element == 1)
        convert_by_table(c, channel, src, src_stride, dst, dst_stride, n);
    else if (!c->preprocessed && c->from == TENSOR_FLOAT32 && c->io->logical.type == TENSOR_FLOAT16)
        convert_floats_to_fp16(src, src_stride, dst, dst_stride, n);
    else
        convert_by_arithmetic(c, channel, src, src_stride, dst, dst_stride, n);
}

// One channel of the pixels [column, column + n) of a row.
static void convert_part(const struct conversion *c, size_t image, size_t row, size_t column,
                         size_t channel, size_t n, const uint8_t *src, uint8_t *dst)
{
    const struct view *s = &c->src, *d = &c->dst;
    size_t given = c->preprocessed ? c->io->preprocess.order[channel] : channel;
    size_t from = image * s->image_stride + row * s->row_stride + column * s->column_stride +
                  given * s->channel_stride;
    size_t to = image * d->image_stride + row * d->row_stride + column * d->column_stride +
                channel * d->channel_stride;
    convert_chunk(c, channel, src + from * tensor_type_size(c->from),
                  dst + to * tensor_type_size(c->io->logical.type), n);
}

// Rows are copied as they are.
static bool convert_is_moved(const struct conversion *c)
{
    return c->copied && c->src.column_stride == 1 && c->dst.column_stride == 1;
}

static void convert_all(const struct conversion *c, const uint8_t *src, uint8_t *dst)
{
    const struct view *d = &c->dst;
    size_t chunk = convert_is_moved(c) ? d->columns : CONVERT_CHUNK;
    for (size_t image = 0; image < d->images; image++)
        for (size_t row = 0; row < d->rows; row++)
            for (size_t column = 0; column < d->columns; column += chunk)
                for (size_t channel = 0; channel < d->channels; channel++) {
                    size_t left = d->columns - column;
                    size_t n = left < chunk ? left : chunk;
                    convert_part(c, image, row, column, channel, n, src, dst);
                }
}

int convert_input(const struct tensor_io *io, const struct convert_form *from, const void *src,
                  size_t src_size, void *dst, size_t dst_size, struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    const struct convert_form packed = {.type = a->type, .layout = a->layout};
    struct conversion c = {.io = io,
                           .from = from->type,
                           .src = convert_view(a, from),
                           .dst = convert_view(a, &packed),
                           .preprocessed = convert_changes(&io->preprocess)};
    int r = convert_check_shape(&c, from, src_size, dst_size, e);
    if (r == 0)
        r = convert_check_types(&c, e);
    if (r < 0)
        return r;
    c.copied = from->type == a->type && !c.preprocessed && !convert_is_quantized(a);
    convert_join_rows(&c.src, &c.dst);
    if (!c.preprocessed && c.src.rows == 1 && c.src.channel_stride == c.dst.channel_stride)
        c.src = c.dst = convert_flat_view(a->n_elems);
    if (!c.copied && tensor_type_size(from->type) == 1)
        convert_make_tables(&c);
    convert_all(&c, src, dst);
    return 0;
}
