// Elements from one layout and stride to another, unchanged.
//
//   NCHW      [image][channel][row][column]                  c2 = 1
//   NHWC      [image][row][column][channel]                  c2 = channels
//   NC1HWC2   [image][channel / c2][row][column][channel % c2]
//
// All three are NC1HWC2 with some c2 (struct convert_strides): channel c of a pixel is at
//   row * row stride + c / c2 * block stride + column * c2 + c % c2
//
// Between equal layouts whole rows are copied; between channels outermost and channels innermost an
// image is a matrix [channel][pixel] that is transposed (transpose.h); the rest goes row by row
// with the channels inside, so that both sides of a row stay in the cache.
//
// Tests: test_tensor_convert (layouts_move_and_pad, impossible_layouts_are_refused).
#include <string.h>

#include "tensor/convert_inner.h"
#include "tensor/transpose.h"

bool convert_strides_of(const uint32_t dims[4], const struct convert_form *f,
                        struct convert_strides *ret)
{
    size_t images = dims[0], channels = dims[1];
    size_t height = f->h_stride ? f->h_stride : dims[2];
    size_t width = f->w_stride ? f->w_stride : dims[3];
    size_t c2 = f->layout == TENSOR_NHWC ? channels : f->layout == TENSOR_NC1HWC2 ? f->c2 : 1;
    size_t blocks = c2 ? (channels + c2 - 1) / c2 : 0;
    struct convert_strides s = {.column = c2, .channel = 1, .c2 = c2 ? c2 : 1};
    if (width < dims[3] || height < dims[2] || (c2 == 0 && channels > 0))
        return false;
    if (__builtin_mul_overflow(width, s.column, &s.row) ||
        __builtin_mul_overflow(height, s.row, &s.block) ||
        __builtin_mul_overflow(blocks, s.block, &s.image) ||
        __builtin_mul_overflow(images, s.image, &s.total))
        return false;
    *ret = s;
    return true;
}

void convert_dims(const struct tensor_attr *logical, uint32_t ret[4])
{
    const uint32_t *d = logical->dims;
    bool last = logical->layout == TENSOR_NHWC;
    const uint32_t image[4] = {d[0], last ? d[3] : d[1], last ? d[1] : d[2], last ? d[2] : d[3]};
    const uint32_t flat[4] = {1, 1, 1, logical->n_elems};
    memcpy(ret, logical->n_dims == 4 ? image : flat, sizeof image);
}

int convert_form_bytes(const uint32_t dims[4], const struct convert_form *form, size_t *ret,
                       struct error *e)
{
    struct convert_strides s;
    if (convert_strides_of(dims, form, &s) && tensor_bytes(form->type, s.total, ret))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "%ux%ux%ux%u (NCHW) cannot be %s %s with strides %u and %u", dims[0], dims[1],
                     dims[2], dims[3], tensor_type_name(form->type),
                     tensor_layout_name(form->layout), form->w_stride, form->h_stride);
}

// A form that is UNDEFINED is taken as the other side's.
static const struct convert_form *layout_defined_form(const struct convert_form *a,
                                                      const struct convert_form *b)
{
    return a->layout != TENSOR_UNDEFINED ? a : b;
}

static void layout_fill(uint8_t *dst, size_t n, size_t element, int64_t fill)
{
    uint8_t pattern[8];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)((uint64_t)fill >> (8 * i));
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * element, pattern, element);
}

#define MOVE(type)                                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
        memcpy(dst + i * dst_stride * sizeof(type), src + i * src_stride * sizeof(type),           \
               sizeof(type));                                                                      \
    break

static void layout_move_elements(const uint8_t *src, size_t src_stride, uint8_t *dst,
                                 size_t dst_stride, size_t n, size_t element)
{
    switch (element) {
    case 1:
        MOVE(uint8_t);
    case 2:
        MOVE(uint16_t);
    case 4:
        MOVE(uint32_t);
    default:
        MOVE(uint64_t);
    }
}

// Between equal layouts whole rows are moved.
static void layout_move_rows(const uint32_t dims[4], const struct convert_strides *from,
                             const uint8_t *src, const struct convert_strides *to, uint8_t *dst,
                             size_t element)
{
    size_t blocks = from->block ? from->image / from->block : 0;
    for (size_t b = 0; b < blocks; b++)
        for (size_t h = 0; h < dims[2]; h++)
            memcpy(dst + (b * to->block + h * to->row) * element,
                   src + (b * from->block + h * from->row) * element,
                   dims[3] * from->column * element);
}

// The stride from channel to channel, where it is the same for all; else 0.
static size_t layout_channel_stride(const uint32_t dims[4], const struct convert_strides *s)
{
    return s->c2 == 1 ? s->block : s->c2 >= dims[1] ? s->channel : 0;
}

// From channels innermost to channels outermost, or back. False: it is neither.
static bool layout_transpose_image(const uint32_t dims[4], const struct convert_strides *from,
                                   const uint8_t *src, const struct convert_strides *to,
                                   uint8_t *dst, size_t element)
{
    size_t rows = dims[2], columns = dims[3], size = element;
    size_t a = layout_channel_stride(dims, from), b = layout_channel_stride(dims, to);
    bool inner = a == 1 && b && to->column == 1, outer = b == 1 && a && from->column == 1;
    if (!inner && !outer)
        return false;
    if (from->row == columns * from->column && to->row == columns * to->column) {
        columns *= rows;
        rows = 1;
    }
    for (size_t h = 0; h < rows; h++, src += from->row * size, dst += to->row * size)
        if (inner)
            transpose_matrix(src, (ptrdiff_t)(from->column * size), dst, (ptrdiff_t)(b * size),
                             columns, dims[1], size);
        else
            transpose_matrix(src, (ptrdiff_t)(a * size), dst, (ptrdiff_t)(to->column * size),
                             dims[1], columns, size);
    return true;
}

// Any other pair of layouts.
static void layout_move_image(const uint32_t dims[4], const struct convert_strides *from,
                              const uint8_t *src, const struct convert_strides *to, uint8_t *dst,
                              size_t element)
{
    if (layout_transpose_image(dims, from, src, to, dst, element))
        return;
    for (size_t h = 0; h < dims[2]; h++)
        for (size_t c = 0; c < dims[1]; c++) {
            size_t s = h * from->row + c / from->c2 * from->block + c % from->c2 * from->channel;
            size_t d = h * to->row + c / to->c2 * to->block + c % to->c2 * to->channel;
            layout_move_elements(src + s * element, from->column, dst + d * element, to->column,
                                 dims[3], element);
        }
}

static int layout_check(const struct convert_form *from, size_t src_size, size_t src_bytes,
                        const struct convert_form *to, size_t dst_size, size_t dst_bytes,
                        struct error *e)
{
    if (src_size >= src_bytes && dst_size >= dst_bytes)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "a tensor takes %zu bytes as %s and %zu as %s; there are %zu and %zu",
                     src_bytes, tensor_layout_name(from->layout), dst_bytes,
                     tensor_layout_name(to->layout), src_size, dst_size);
}

int convert_layout(const uint32_t dims[4], const struct convert_form *from, const void *src,
                   size_t src_size, const struct convert_form *to, void *dst, size_t dst_size,
                   int64_t fill, struct error *e)
{
    struct convert_strides a, b;
    size_t element = tensor_type_size(from->type), src_bytes, dst_bytes;
    if (from->type != to->type || element == 0 ||
        !convert_strides_of(dims, layout_defined_form(from, to), &a) ||
        !convert_strides_of(dims, layout_defined_form(to, from), &b) ||
        !tensor_bytes(from->type, a.total, &src_bytes) ||
        !tensor_bytes(to->type, b.total, &dst_bytes))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%ux%ux%ux%u %s %s (stride %u, C2 %u) as %s %s (stride %u, C2 %u)",
                         dims[0], dims[1], dims[2], dims[3], tensor_type_name(from->type),
                         tensor_layout_name(from->layout), from->w_stride, from->c2,
                         tensor_type_name(to->type), tensor_layout_name(to->layout), to->w_stride,
                         to->c2);
    int r = layout_check(from, src_size, src_bytes, to, dst_size, dst_bytes, e);
    if (r < 0 || dst_bytes == 0)
        return r;
    if (from->layout == TENSOR_UNDEFINED || to->layout == TENSOR_UNDEFINED) {
        memcpy(dst, src, dst_bytes);
        return 0;
    }
    bool same = from->layout == to->layout && a.c2 == b.c2 && dims[1] % a.c2 == 0;
    if (b.total != (size_t)dims[0] * dims[1] * dims[2] * dims[3])
        layout_fill(dst, b.total, element, fill);
    for (size_t n = 0; n < dims[0]; n++)
        (same ? layout_move_rows
              : layout_move_image)(dims, &a, (const uint8_t *)src + n * a.image * element, &b,
                                   (uint8_t *)dst + n * b.image * element, element);
    return 0;
}
