// Which file is which input, and whether what is in it fits: mapping of -i to inputs, comparison of
// shapes. No file is read here.
#include "tools/input/input_check.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/format/format.h"

// All inputs for a refusal: "0 \"image\" 1x224x224x3 UINT8, 1 …", cut to the buffer.
static void list_inputs(const rknn_tensor_attr *attrs, uint32_t n, char *ret, size_t size)
{
    size_t used = 0;
    *ret = 0;
    for (uint32_t i = 0; i < n && used < size; i++) {
        struct format_buffer dims;
        used += (size_t)snprintf(ret + used, size - used, "%s%u \"%s\" %s %s", i ? ", " : "", i,
                                 attrs[i].name, format_dims(&dims, attrs[i].dims, attrs[i].n_dims),
                                 get_type_string(attrs[i].type));
    }
}

// index > n ends long numbers before they overflow.
static bool parse_index(const char *key, size_t length, uint32_t n, uint32_t *ret)
{
    uint32_t index = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)key[i]) || index > n)
            return false;
        index = index * 10 + (uint32_t)(key[i] - '0');
    }
    *ret = index;
    return length > 0 && index < n;
}

// The input that a key names: by name first, so that a model may name its inputs "0" and "1".
static bool find_key(const char *key, size_t length, const rknn_tensor_attr *attrs, uint32_t n,
                     uint32_t *ret)
{
    for (uint32_t i = 0; i < n; i++)
        if (strlen(attrs[i].name) == length && memcmp(attrs[i].name, key, length) == 0) {
            *ret = i;
            return true;
        }
    return parse_index(key, length, n, ret);
}

// The refusal lists the model's inputs.
int inputs_find(const char *option, const char *key, size_t length, const rknn_tensor_attr *attrs,
                uint32_t n, uint32_t *ret, struct error *e)
{
    char list[300];
    if (find_key(key, length, attrs, n, ret))
        return 0;
    list_inputs(attrs, n, list, sizeof list);
    return error_set(e, STATUS_PARAM_INVALID, "%s %s: the model has no input \"%.*s\"; it has %s",
                     option, key, (int)length, key, list);
}

// INPUT=FILE. The hint helps with files that have = in their names.
static int map_key(const char *arg, const rknn_tensor_attr *attrs, uint32_t n, const char **paths,
                   struct error *e)
{
    const char *equals = strchr(arg, '=');
    uint32_t index;
    int r = inputs_find("-i", arg, (size_t)(equals - arg), attrs, n, &index, e);
    if (r) {
        size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof e->text - used,
                 ". (For a file with = in its name: INDEX=FILE)");
        return r;
    }
    if (paths[index])
        return error_set(e, STATUS_PARAM_INVALID,
                         "-i %s: input %u \"%s\" is given twice, also as %s", arg, index,
                         attrs[index].name, paths[index]);
    paths[index] = equals + 1;
    return 0;
}

// The first input without a file, with the list of all.
static int check_complete(const rknn_tensor_attr *attrs, uint32_t n, const char **paths,
                          struct error *e)
{
    char list[300];
    for (uint32_t i = 0; i < n; i++) {
        if (paths[i])
            continue;
        list_inputs(attrs, n, list, sizeof list);
        return error_set(e, STATUS_PARAM_INVALID,
                         "no file for input %u \"%s\"; each input needs one (-i, or a file in the "
                         "line of a list): %s",
                         i, attrs[i].name, list);
    }
    return 0;
}

// More files without a name than inputs that are still free.
static int too_many(const char *arg, const rknn_tensor_attr *attrs, uint32_t n, struct error *e)
{
    char list[300];
    list_inputs(attrs, n, list, sizeof list);
    return error_set(e, STATUS_PARAM_INVALID, "-i %s: more files than the model's %u input%s: %s",
                     arg, n, n == 1 ? "" : "s", list);
}

// Two passes: inputs that are named first, then the files without a name fill the free places in
// order.
int inputs_map(const char *const *args, size_t n_args, const rknn_tensor_attr *attrs, uint32_t n,
               const char **paths, struct error *e)
{
    memset(paths, 0, n * sizeof *paths);
    for (size_t i = 0; i < n_args; i++) {
        int r = strchr(args[i], '=') ? map_key(args[i], attrs, n, paths, e) : 0;
        if (r)
            return r;
    }
    uint32_t next = 0;
    for (size_t i = 0; i < n_args; i++) {
        if (strchr(args[i], '='))
            continue;
        while (next < n && paths[next])
            next++;
        if (next == n)
            return too_many(args[i], attrs, n, e);
        paths[next] = args[i];
    }
    return check_complete(attrs, n, paths, e);
}

// The dims that data in `layout` (RKNN_TENSOR_NHWC or _NCHW) has for this input: attr->dims, in the
// other order if it is 4-D and the layouts differ: NHWC to NCHW takes 0, 3, 1, 2; back takes 0, 2,
// 3, 1. `dims` takes attr->n_dims numbers.
static void inputs_dims(const rknn_tensor_attr *attr, rknn_tensor_format layout, uint32_t *dims)
{
    const uint32_t *d = attr->dims;
    memcpy(dims, d, attr->n_dims * sizeof *dims);
    if (attr->n_dims != 4 || attr->fmt == layout)
        return;
    if (attr->fmt == RKNN_TENSOR_NHWC && layout == RKNN_TENSOR_NCHW)
        memcpy(dims, (uint32_t[]){d[0], d[3], d[1], d[2]}, 4 * sizeof *dims);
    else if (attr->fmt == RKNN_TENSOR_NCHW && layout == RKNN_TENSOR_NHWC)
        memcpy(dims, (uint32_t[]){d[0], d[2], d[3], d[1]}, 4 * sizeof *dims);
}

// Compares the dims other than 1, in order.
bool inputs_same_shape(const uint32_t *dims, size_t n_dims, const uint64_t *shape, size_t n)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < n_dims && dims[i] == 1)
            i++;
        while (j < n && shape[j] == 1)
            j++;
        if (i == n_dims || j == n)
            return i == n_dims && j == n;
        if (dims[i++] != shape[j++])
            return false;
    }
}

void inputs_shape_text(const uint64_t *shape, size_t n, char *ret, size_t size)
{
    size_t used = 0;
    snprintf(ret, size, "scalar");
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s%llu", i ? "x" : "",
                                 (unsigned long long)shape[i]);
}

// If the array would fit in the other layout, the refusal says so: it is the commonest mistake.
int inputs_check_shape(const rknn_tensor_attr *attr, rknn_tensor_format layout,
                       const uint64_t *shape, size_t n_dims, struct error *e)
{
    struct format_buffer expected;
    char given[200];
    uint32_t dims[RKNN_MAX_DIMS], other_dims[RKNN_MAX_DIMS];
    rknn_tensor_format other = layout == RKNN_TENSOR_NCHW ? RKNN_TENSOR_NHWC : RKNN_TENSOR_NCHW;
    inputs_dims(attr, layout, dims);
    if (inputs_same_shape(dims, attr->n_dims, shape, n_dims))
        return 0;
    inputs_dims(attr, other, other_dims);
    bool fits_other = attr->n_dims == 4 && inputs_same_shape(other_dims, 4, shape, n_dims);
    inputs_shape_text(shape, n_dims, given, sizeof given);
    return error_set(e, STATUS_INPUT_INVALID, "shape %s, but the input is %s%s%s%s", given,
                     format_dims(&expected, dims, attr->n_dims),
                     attr->n_dims != 4            ? ""
                     : layout == RKNN_TENSOR_NCHW ? " (NCHW)"
                                                  : " (NHWC)",
                     fits_other ? "; it would fit with --layout " : "",
                     !fits_other                 ? ""
                     : other == RKNN_TENSOR_NCHW ? "nchw"
                                                 : "nhwc");
}

// A picture is one image of 1, 3 or 4 channels, whatever the model's own layout.
int inputs_picture_size(const rknn_tensor_attr *attr, uint32_t *ret_width, uint32_t *ret_height,
                        uint32_t *ret_channels, struct error *e)
{
    struct format_buffer buffer;
    uint32_t dims[RKNN_MAX_DIMS];
    inputs_dims(attr, RKNN_TENSOR_NHWC, dims);
    if (attr->n_dims != 4 || dims[0] != 1 || (dims[3] != 1 && dims[3] != 3 && dims[3] != 4))
        return error_set(e, STATUS_INPUT_INVALID,
                         "an input of shape %s takes no picture (that is 1xHxWx1, x3 or x4); "
                         "give a .npy",
                         format_dims(&buffer, attr->dims, attr->n_dims));
    *ret_height = dims[1];
    *ret_width = dims[2];
    *ret_channels = dims[3];
    return 0;
}
