// An input as a program gives it, in the form that the model stores.
//
//   stored[c] = quantize((given[order[c]] - mean[c]) / std[c])      rounded once (convert_number.c)
//
// Both sides are seen as images of rows of pixels of channels (struct view), with a stride for
// each:
//
//   NHWC  | c0 c1 c2 | c0 c1 c2 | …   column_stride = channels, channel_stride = 1
//   NCHW  | c0 c0 c0 … | c1 c1 c1 …   column_stride = 1, channel_stride = plane
//
// and converted channel by channel, a chunk of a row at a time, so that both sides stay in the L1
// cache. Rows without gaps between them are taken for one.
//
// Why it is fast: values that stay as they are are copied row by row; those of one byte go through
// a table of 256 results for each channel; only the others are computed, in doubles.
//
// Tests: test_tensor_convert (inputs_are_quantized_exactly and others).
#include <math.h>
#include <string.h>

#include "tensor/convert_inner.h"

// Of a size that is known here, so that each element is one load and one store.
#define COPY(size)                                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
        memcpy(dst + i * dst_stride * (size), src + i * src_stride * (size), (size));              \
    break

static void convert_copy(const uint8_t *src, size_t src_stride, uint8_t *dst, size_t dst_stride,
                         size_t n, size_t element)
{
    if (src_stride == 1 && dst_stride == 1) {
        memcpy(dst, src, n * element);
        return;
    }
    switch (element) {
    case 1:
        COPY(1);
    case 2:
        COPY(2);
    case 4:
        COPY(4);
    default:
        COPY(8);
    }
}

// A tensor that is not 4-D is one row of one channel. Strides are in elements.
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

// Rows that are contiguous on both sides become one.
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

// Whose mean, deviation and place a channel has: its own, or, where there is one for all, those of
// the first, but for the place.
static size_t convert_share(const struct conversion *c, size_t channel)
{
    return c->preprocessed && c->io->preprocess.n_channels > 1 ? channel : 0;
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
    if (!convert_has_arithmetic(a->type) || p->n_channels > 4 ||
        (p->n_channels != 1 && (c->dst.channels > p->n_channels || a->n_dims != 4)))
        return error_set(e, STATUS_MODEL_INVALID,
                         "input \"%s\" (%s, %zu channels) has mean and std for %u channels",
                         a->name, tensor_type_name(a->type), c->dst.channels, p->n_channels);
    for (uint32_t i = 0; i < c->dst.channels && i < p->n_channels; i++)
        if (p->order[i] >= c->dst.channels || p->std[i] == 0 || !isfinite(p->std[i]) ||
            !isfinite(p->mean[i]))
            return error_set(e, STATUS_MODEL_INVALID,
                             "input \"%s\", channel %u: mean %g, std %g, channel order %u", a->name,
                             i, (double)p->mean[i], (double)p->std[i], p->order[i]);
    return 0;
}

int convert_input_types(const struct tensor_attr *a, enum tensor_type from, struct error *e)
{
    if (tensor_type_size(a->type) == 0 ||
        (from != a->type && !(convert_has_arithmetic(from) && convert_has_arithmetic(a->type))))
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\" is %s in the model and cannot be set as %s", a->name,
                         tensor_type_name(a->type), tensor_type_name(from));
    return 0;
}

static int convert_check_types(const struct conversion *c, struct error *e)
{
    const struct tensor_attr *a = &c->io->logical;
    int r = convert_input_types(a, c->from, e);
    if (r < 0)
        return r;
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
    size_t of = convert_share(c, channel);
    double x[CONVERT_CHUNK];
    convert_load(c->from, src, src_stride, n, x);
    convert_store(&c->io->logical, x, c->preprocessed ? (double)p->mean[of] : 0,
                  c->preprocessed ? (double)p->std[of] : 1, dst, dst_stride, n);
}

// The results for all 256 values of a source of one byte.
static void convert_make_tables(struct conversion *c)
{
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (size_t channel = 0;
         channel == 0 || (channel < c->dst.channels && convert_share(c, channel) == channel);
         channel++)
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
    const uint8_t *table = c->tables[convert_share(c, channel)];
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
    bool moved = c->preprocessed && c->io->preprocess.n_channels > 1;
    size_t given = moved ? c->io->preprocess.order[channel] : channel;
    size_t from = image * s->image_stride + row * s->row_stride + column * s->column_stride +
                  given * s->channel_stride;
    size_t to = image * d->image_stride + row * d->row_stride + column * d->column_stride +
                channel * d->channel_stride;
    convert_chunk(c, channel, src + from * tensor_type_size(c->from),
                  dst + to * tensor_type_size(c->io->logical.type), n);
}

// Whole rows are copied.
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
