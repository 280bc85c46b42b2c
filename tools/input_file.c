// One input from a file.
#include "tools/input_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cleanup.h"
#include "tools/image.h"
#include "tools/inputs.h"
#include "tools/npy.h"

static int load_array(const rknn_tensor_attr *attr, const char *path, rknn_tensor_format layout,
                      rknn_input *ret, struct failure *f)
{
    struct npy a;
    int r = npy_read(path, &a, f);
    if (r)
        return r;
    r = inputs_check_shape(attr, layout, a.shape, a.n_dims, f);
    if (r == 0 && a.size > UINT32_MAX)
        r = failure_set(f, EXIT_INPUT, "%zu bytes; the RKNN API takes less than 4 GiB", a.size);
    if (r) {
        npy_done(&a);
        return r;
    }
    *ret = (rknn_input){.index = attr->index,
                        .buf = a.data,
                        .size = (uint32_t)a.size,
                        .type = a.type,
                        .fmt = attr->n_dims == 4 ? layout : RKNN_TENSOR_UNDEFINED};
    return 0;
}

static int load_picture(const rknn_tensor_attr *attr, const char *path, rknn_input *ret,
                        struct failure *f)
{
    struct image_size size;
    int r = inputs_picture_size(attr, &size.width, &size.height, &size.channels, f);
    if (r)
        return r;
    uint8_t *pixels = malloc(attr->n_elems); // width * height * channels: N is 1
    if (!pixels)
        return failure_no_memory(f);
    r = image_read(path, &size, pixels, f);
    if (r) {
        free(pixels);
        return r;
    }
    *ret = (rknn_input){.index = attr->index,
                        .buf = pixels,
                        .size = attr->n_elems,
                        .type = RKNN_TENSOR_UINT8,
                        .fmt = RKNN_TENSOR_NHWC};
    return 0;
}

int input_file_load(const rknn_tensor_attr *attr, const char *path, rknn_tensor_format layout,
                    rknn_input *ret, struct failure *f)
{
    uint8_t magic[IMAGE_MAGIC_SIZE];
    cleanup(fclose_p) FILE *file = fopen(path, "rbe");
    if (!file)
        return failure_set(f, EXIT_INPUT, "%s", strerror(errno));
    size_t n = fread(magic, 1, sizeof magic, file);
    if (image_is_png(magic, n) || image_is_jpeg(magic, n))
        return load_picture(attr, path, ret, f);
    if (n >= 6 && memcmp(magic, "\x93NUMPY", 6) == 0)
        return load_array(attr, path, layout, ret, f);
    return failure_set(f, EXIT_INPUT,
                       "not a .npy array, a PNG or a JPEG picture (judged by its first bytes)");
}
