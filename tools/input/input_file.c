// One input from a file. Without --type the kind is found by the first bytes:
//
//   PNG, JPEG, BMP   decode, fit to the input's size, uint8 NHWC
//   .npy             its own type, the shape must fit the input in --layout
//   other            refused, unless --type or --layout native says what it is
//
// --layout native (and --pass-through) gives the runtime the data untouched: then type, layout and
// padding must be the model's own.
#include "tools/input/input_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/format/format.h"
#include "tools/format/npy_file.h"
#include "tools/input/input_bytes.h"
#include "tools/input/input_check.h"

#define ARRAY_HEADER (1u << 20) // bytes, at most

// What the steps of loading need; `native` is filled for --layout native only.
struct job {
    const rknn_tensor_attr *attr, *native;
    const struct input_form *form;
    struct input_bytes *bytes;
};

// The native type, and its shape or the same number of elements in one dimension.
static int check_native_array(const rknn_tensor_attr *native, const struct npy *a, struct error *e)
{
    struct format_buffer dims;
    char shape[200];
    size_t element = npy_file_type_size(native->type);
    rknn_tensor_type type = (rknn_tensor_type)a->type;
    uint64_t flat = native->size / (element ? element : 1);
    inputs_shape_text(a->shape, a->n_dims, shape, sizeof shape);
    if (type == native->type &&
        (inputs_same_shape(native->dims, native->n_dims, a->shape, a->n_dims) ||
         (a->n_dims == 1 && a->shape[0] == flat)))
        return 0;
    return error_set(e, STATUS_INPUT_INVALID,
                     "%s %s, but the model's own form, which is passed through, is %s %s (%s)",
                     get_type_string(type), shape, get_type_string(native->type),
                     format_dims(&dims, native->dims, native->n_dims),
                     get_format_string(native->fmt));
}

// The native form may pad rows (w_stride > width, in pixels). Files do not have the padding, so it
// is inserted, as zeros. Replaces in->buf.
static int pad_rows(const rknn_tensor_attr *native, rknn_input *in, struct error *e)
{
    uint32_t at = native->fmt == RKNN_TENSOR_NHWC ? 2 : 3;
    uint32_t width = native->n_dims > at ? native->dims[at] : 0;
    if (in->size != native->size || native->size == native->size_with_stride || width == 0 ||
        native->w_stride <= width)
        return 0;
    size_t pixel = npy_file_type_size(native->type), to = 0;
    for (uint32_t i = at + 1; i < native->n_dims; i++)
        pixel *= native->dims[i];
    char *padded = calloc(native->size_with_stride, 1);
    if (!padded)
        return error_no_memory(e, "an input", 0);
    size_t row = width * pixel;
    for (size_t from = 0; from + row <= in->size && to + row <= native->size_with_stride;) {
        memcpy(padded + to, (const char *)in->buf + from, row);
        from += row;
        to += native->w_stride * pixel;
    }
    free(in->buf);
    in->buf = padded;
    in->size = native->size_with_stride;
    return 0;
}

// Room for elements of the file: its own memory, as the file is not needed any more, unless that is
// kept. NULL: no memory. An input of no bytes has memory, too.
static void *take_room(struct input_bytes *file, size_t size)
{
    void *own = file->data;
    if (file->kept)
        return malloc(size ? size : 1);
    file->data = NULL;
    return own;
}

// The elements of an array, malloc'ed; float64 and uint64 as the types that inputs have.
static int take_elements(const struct job *j, const struct npy *a, void **ret, size_t *ret_size,
                         struct error *e)
{
    // A header lies in front of them, so they move down; what changes places is copied.
    bool moves = !a->columns;
    void *data = moves ? take_room(j->bytes, a->data.size) : malloc(a->data.size + 1);
    if (!data)
        return error_no_memory(e, "an input", 0);
    if (npy_take(a, data, ret_size, e) < 0) {
        free(data);
        return e->code = STATUS_INPUT_INVALID;
    }
    *ret = data;
    return 0;
}

// A whole number of one of the types that inputs of real numbers do not take.
static bool take_integer(rknn_tensor_type type, const char *at, int64_t *ret)
{
    int32_t word;
    uint16_t half;
    switch (type) {
    case RKNN_TENSOR_BOOL:
        *ret = *at != 0;
        return true;
    case RKNN_TENSOR_UINT16:
        memcpy(&half, at, sizeof half);
        *ret = half;
        return true;
    case RKNN_TENSOR_INT32:
    case RKNN_TENSOR_UINT32:
        memcpy(&word, at, sizeof word);
        *ret = type == RKNN_TENSOR_INT32 ? word : (int64_t)(uint32_t)word;
        return true;
    case RKNN_TENSOR_INT64:
        memcpy(ret, at, sizeof *ret);
        return true;
    default:
        return false;
    }
}

// Whole numbers for an input of real numbers, as numpy makes int64 where nothing else is said:
// they become float32. In quantized inputs they are no real numbers, and are left as they are.
static int widen_integers(const rknn_tensor_attr *attr, rknn_tensor_type *type, void **data,
                          size_t *size, struct error *e)
{
    int64_t value = 0;
    size_t each = npy_file_type_size(*type), n = each ? *size / each : 0;
    bool real = attr->type == RKNN_TENSOR_FLOAT32 || attr->type == RKNN_TENSOR_FLOAT16;
    if (!real || !n || !take_integer(*type, *data, &value))
        return 0;
    cleanup(free_p) float *floats = malloc(n * sizeof *floats);
    if (!floats)
        return error_no_memory(e, "an input", n * sizeof *floats);
    for (size_t i = 0; i < n; i++) {
        take_integer(*type, (const char *)*data + i * each, &value);
        floats[i] = (float)value;
        if (value > 1 << 24 || value < -(1 << 24))
            return error_set(e, STATUS_INPUT_INVALID,
                             "%s: %lld is more than a float32 holds exactly (2^24)",
                             get_type_string(*type), (long long)value);
    }
    free(*data);
    *data = steal_ptr(floats);
    *size = n * sizeof *floats;
    *type = RKNN_TENSOR_FLOAT32;
    return 0;
}

static int load_array(const struct job *j, rknn_input *ret, struct error *e)
{
    struct npy a;
    const rknn_tensor_attr *attr = j->attr;
    rknn_tensor_format layout = j->form->layout;
    struct bytes file = {j->bytes->data, j->bytes->size};
    if (npy_parse_any(file, &a, e) < 0)
        return e->code = STATUS_INPUT_INVALID;
    int r = j->form->native ? check_native_array(j->native, &a, e)
                            : inputs_check_shape(attr, layout, a.shape, a.n_dims, e);
    if (r)
        return r;
    if (a.data.size > UINT32_MAX)
        return error_set(e, STATUS_INPUT_INVALID, "%zu bytes; the RKNN API takes less than 4 GiB",
                         a.data.size);
    void *data;
    size_t size;
    r = take_elements(j, &a, &data, &size, e);
    if (r)
        return r;
    rknn_tensor_type type = (rknn_tensor_type)a.type;
    r = j->form->native ? 0 : widen_integers(attr, &type, &data, &size, e);
    if (r) {
        free(data);
        return r;
    }
    *ret = (rknn_input){.index = attr->index,
                        .buf = data,
                        .size = (uint32_t)size,
                        .pass_through = j->form->native,
                        .type = type,
                        .fmt = attr->n_dims == 4 ? layout : RKNN_TENSOR_UNDEFINED};
    return 0;
}

// Raw data has no header: its size is all that can be checked. A file that looks like a picture or
// an array gets a hint.
static int check_raw_size(const struct job *j, rknn_tensor_type type, struct error *e)
{
    const struct input_form *form = j->form;
    const rknn_tensor_attr *a = form->native ? j->native : j->attr;
    struct format_buffer dims;
    uint64_t want = (uint64_t)a->n_elems * npy_file_type_size(type);
    bool fits = form->native ? j->bytes->size == a->size || j->bytes->size == a->size_with_stride
                             : j->bytes->size == want && want <= UINT32_MAX;
    const char *looks = image_format(j->bytes->data, j->bytes->size);
    if (fits)
        return 0;
    if (bytes_start_with((struct bytes){j->bytes->data, j->bytes->size}, NPY_MAGIC))
        looks = ".npy";
    return error_set(
        e, STATUS_INPUT_INVALID, "%zu bytes of raw data, but the input, %s %s%s, takes %llu%s%s%s",
        j->bytes->size, format_dims(&dims, a->dims, a->n_dims), get_type_string(type),
        form->native ? " in the model's own form" : "",
        (unsigned long long)(form->native ? a->size : want), looks ? "; it looks like a " : "",
        looks ? looks : "", looks ? " file: leave --type out for this input" : "");
}

// As load_array(), with type and shape from the options and the model.
static int load_raw(const struct job *j, rknn_input *ret, struct error *e)
{
    const rknn_tensor_attr *attr = j->attr;
    rknn_tensor_type type = j->form->native ? j->native->type : j->form->type;
    int r = check_raw_size(j, type, e);
    if (r)
        return r;
    const void *bytes = j->bytes->data;
    void *data = take_room(j->bytes, j->bytes->size);
    if (!data)
        return error_no_memory(e, "an input", 0);
    if (data != bytes)
        memcpy(data, bytes, j->bytes->size);
    *ret = (rknn_input){.index = attr->index,
                        .buf = data,
                        .size = (uint32_t)j->bytes->size,
                        .pass_through = j->form->native,
                        .type = type,
                        .fmt = attr->n_dims == 4 ? j->form->layout : RKNN_TENSOR_UNDEFINED};
    return 0;
}

// Pixels are given as uint8 NHWC; the runtime converts to the model's type and layout.
static int place_picture(const struct job *j, const struct image *image, uint32_t width,
                         uint32_t height, rknn_input *ret, struct input_file *file, struct error *e)
{
    const struct input_form *form = j->form;
    size_t size = (size_t)width * height * image->channels;
    if (image->channels == 1 && form->n_colour == 3)
        return error_set(e, STATUS_PARAM_INVALID, "--pad: the input is gray: give one number");
    if (size > UINT32_MAX)
        return error_set(e, STATUS_INPUT_INVALID, "%zu bytes; the RKNN API takes less than 4 GiB",
                         size);
    cleanup(free_p) uint8_t *pixels = malloc(size);
    if (!pixels)
        return error_no_memory(e, "an input", 0);
    int r = image_place(image, form->fit, form->colour, width, height, pixels, &file->fitted, e);
    if (r)
        return r;
    file->is_picture = true;
    file->turned = image->turned;
    file->lost_alpha = image->lost_alpha;
    *ret = (rknn_input){.index = j->attr->index,
                        .buf = pixels,
                        .size = (uint32_t)size,
                        .type = RKNN_TENSOR_UINT8,
                        .fmt = RKNN_TENSOR_NHWC};
    pixels = NULL;
    return 0;
}

// Decodes to as many channels as the input has, then fits it to the input's size.
static int load_picture(const struct job *j, rknn_input *ret, struct input_file *file,
                        struct error *e)
{
    struct image image = {0};
    uint32_t width, height, channels;
    if (j->form->native)
        return error_set(e, STATUS_INPUT_INVALID,
                         "a %s picture, but what is passed through is in the model's own form: "
                         "give its bytes, or a .npy",
                         file->format);
    int r = inputs_picture_size(j->attr, &width, &height, &channels, e);
    if (r == 0)
        r = image_decode(j->bytes->data, j->bytes->size, channels, &image, e);
    if (r == 0)
        r = place_picture(j, &image, width, height, ret, file, e);
    image_done(&image);
    return r;
}

static int refuse_file(const struct input_bytes *bytes, struct error *e)
{
    const char *foreign = image_foreign_format(bytes->data, bytes->size);
    if (foreign)
        return error_set(e, STATUS_INPUT_INVALID,
                         "a %s picture, which is not read; make it a PNG or JPEG", foreign);
    if (bytes->size > 4 && memcmp(bytes->data, "PK\3\4", 4) == 0)
        return error_set(e, STATUS_INPUT_INVALID,
                         "an archive (.npz?); write each array by itself (numpy.save)");
    return error_set(e, STATUS_INPUT_INVALID,
                     "not a .npy array, a PNG, JPEG or BMP picture (judged by its first bytes); "
                     "of raw data say the type: --type float32");
}

static int load_file(const struct job *j, rknn_input *ret, struct input_file *file, struct error *e)
{
    const struct input_bytes *b = j->bytes;
    const struct input_form *form = j->form;
    const char *picture = form->raw ? NULL : image_format(b->data, b->size);
    bool array = !form->raw && bytes_start_with((struct bytes){b->data, b->size}, NPY_MAGIC);
    file->format = picture ? picture : array ? "npy" : "raw";
    if (form->fit_named && !picture)
        return error_set(e, STATUS_PARAM_INVALID, "--fit is for pictures, and this is none");
    if (picture)
        return load_picture(j, ret, file, e);
    if (array)
        return load_array(j, ret, e);
    return form->raw || form->native ? load_raw(j, ret, e) : refuse_file(b, e);
}

// Elements have 8 bytes at most, an array a header. What is larger is not read to its end, of which
// /dev/zero has none.
static uint64_t most_bytes(const struct job *j)
{
    uint64_t elements = (uint64_t)j->attr->n_elems * 8, native = j->native->size_with_stride;
    return (elements > native ? elements : native) + ARRAY_HEADER;
}

// Outputs are written only at the end: they are untouched after a failure.
int input_file_load(const rknn_tensor_attr *attr, const rknn_tensor_attr *native, const char *path,
                    const struct input_form *form, rknn_input *ret, struct input_file *ret_file,
                    struct error *e)
{
    struct input_bytes bytes = {0};
    struct input_file file = {0};
    const struct job j = {attr, native, form, &bytes};
    int r = input_bytes_read(path, most_bytes(&j), &bytes, e);
    if (r)
        return r;
    rknn_input input = {0};
    r = load_file(&j, &input, &file, e);
    input_bytes_done(&bytes);
    if (r == 0 && form->native)
        r = pad_rows(native, &input, e);
    if (r) {
        free(input.buf);
        return r;
    }
    *ret = input;
    *ret_file = file;
    return 0;
}
