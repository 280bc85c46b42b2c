// Inputs and outputs of a graph: their attributes as rknn_query reports them, and data on the way
// in and out of a run's arena.
//
// dims        executor stores        logical attributes   native attributes
// 4-D input   NCHW or NHWC           NHWC                 NHWC with w_stride, or NC1HWC2
// 4-D output  NCHW or NHWC           NCHW                 NCHW, or NC1HWC2 if stored as NHWC
// others      order of dimensions    undefined            as logical
//
// NC1HWC2: blocks of c2 channels, [n][c / c2][h][w][c2], the last block padded; c2 is the chip's.
#include "npu/sim/sim_io.h"

#include <stdio.h>

#include "base/bytes.h"
#include "tensor/convert.h"

// ---- descriptions ----

// n_elems is the product of the dimensions; size_with_stride counts w_stride columns per line in
// place of the width. Attributes have 32-bit sizes, hence the limit of 4 GB. Overflow saturates, so
// that the limit refuses it.
static int set_size(struct tensor_attr *a, struct error *e)
{
    uint64_t n = 1, stride = 1;
    for (uint32_t i = 0; i < a->n_dims; i++)
        if (__builtin_mul_overflow(n, a->dims[i], &n))
            n = UINT64_MAX;
    uint32_t width = a->layout == TENSOR_NHWC ? a->dims[2] : a->n_dims >= 4 ? a->dims[3] : 1;
    stride = a->w_stride && width ? n / width * a->w_stride : n;
    size_t size, with_stride;
    if (!tensor_bytes(a->type, n, &size) || !tensor_bytes(a->type, stride, &with_stride) ||
        size > UINT32_MAX || with_stride > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s is larger than 4 GB", a->name);
    a->n_elems = (uint32_t)n;
    a->size = (uint32_t)size;
    a->size_with_stride = (uint32_t)with_stride;
    return 0;
}

// Name, type and quantization: real = (stored - zp) * scale.
static struct tensor_attr io_common(const struct graph_tensor *t)
{
    struct tensor_attr a = {.type = t->type, .scale = 1};
    if (t->quantized) {
        a.qnt = TENSOR_QNT_AFFINE;
        a.scale = t->scale;
        a.zp = t->zp;
    }
    snprintf(a.name, sizeof a.name, "%s", t->name);
    return a;
}

// Dimensions in the file's order.
static void set_plain(struct tensor_attr *a, const struct graph_tensor *t)
{
    a->layout = t->n_dims == 4 ? TENSOR_NCHW : TENSOR_UNDEFINED;
    a->n_dims = t->n_dims ? t->n_dims : 1; // a single number is a list of one
    a->dims[0] = 1;
    memcpy(a->dims, t->dims, t->n_dims * sizeof *t->dims);
}

// The graph's dimensions are n, c, h, w whatever the storage is; attributes list them as stored.
static void set_nhwc(struct tensor_attr *a, const struct graph_tensor *t)
{
    const uint32_t *d = t->dims;
    a->layout = TENSOR_NHWC;
    a->n_dims = 4;
    memcpy(a->dims, (uint32_t[]){d[0], d[2], d[3], d[1]}, 4 * sizeof *d);
}

// NC1HWC2 dimensions: n, ceil(c / c2), h, w, c2.
static void set_blocks(struct tensor_attr *a, const struct graph_tensor *t, const struct chip *chip)
{
    const uint32_t *d = t->dims;
    uint32_t c2 = tensor_type_size(t->type) == 1 ? chip->c2_int8 : chip->c2_fp16;
    a->layout = TENSOR_NC1HWC2;
    a->n_dims = 5;
    memcpy(a->dims, (uint32_t[]){d[0], (d[1] + c2 - 1) / c2, d[2], d[3], c2}, 5 * sizeof *d);
}

// Channels 1, 3 and 4 are what cameras and images have: the chip reads these as NHWC, lines padded
// to the tensor's stride_align columns; it needs blocks of c2 channels for others.
int sim_describe_input(const struct graph *g, const struct chip *chip, uint32_t i,
                       struct tensor_io *ret, struct error *e)
{
    const struct graph_tensor *t = &g->tensors[g->inputs[i]];
    struct tensor_io io = {
        .logical = io_common(t), .native = io_common(t), .native_nhwc = io_common(t)};
    io.preprocess = g->preprocess[i];
    if (t->n_dims == 4) {
        uint32_t w = t->dims[3], c = t->dims[1];
        uint32_t stride = t->stride_align ? (uint32_t)align_up(w, t->stride_align) : w;
        set_nhwc(&io.logical, t);
        set_nhwc(&io.native_nhwc, t);
        if (c == 1 || c == 3 || c == 4)
            set_nhwc(&io.native, t);
        else
            set_blocks(&io.native, t, chip);
        io.native.w_stride = io.native_nhwc.w_stride = stride;
    } else {
        set_plain(&io.logical, t);
        set_plain(&io.native, t);
        set_plain(&io.native_nhwc, t);
    }
    if (set_size(&io.logical, e) < 0 || set_size(&io.native, e) < 0 ||
        set_size(&io.native_nhwc, e) < 0)
        return STATUS_MODEL_INVALID;
    *ret = io;
    return 0;
}

int sim_describe_output(const struct graph *g, const struct chip *chip, uint32_t i,
                        struct tensor_io *ret, struct error *e)
{
    const struct graph_tensor *t = &g->tensors[g->outputs[i]];
    struct tensor_io io = {
        .logical = io_common(t), .native = io_common(t), .native_nhwc = io_common(t)};
    set_plain(&io.logical, t);
    set_plain(&io.native, t);
    set_plain(&io.native_nhwc, t);
    if (t->channels_last) {
        set_blocks(&io.native, t, chip);
        set_nhwc(&io.native_nhwc, t);
    }
    if (set_size(&io.logical, e) < 0 || set_size(&io.native, e) < 0 ||
        set_size(&io.native_nhwc, e) < 0)
        return STATUS_MODEL_INVALID;
    *ret = io;
    return 0;
}

int sim_describe_tensor(const struct graph_tensor *t, struct tensor_attr *ret, struct error *e)
{
    struct tensor_attr a = io_common(t);
    set_plain(&a, t);
    int r = set_size(&a, e);
    if (r == 0)
        *ret = a;
    return r;
}

// ---- data ----

// Sizes come from the client: no byte is copied before they match.
static int check_size(const char *what, size_t size, size_t expected, int code, struct error *e)
{
    if (size == expected)
        return 0;
    return error_set(e, code, "%s has %zu bytes, %zu are expected", what, size, expected);
}

// The executor's own layout of a tensor that is not plain.
static enum tensor_layout stored_layout(const struct graph_tensor *t)
{
    return t->channels_last ? TENSOR_NHWC : t->n_dims == 4 ? TENSOR_NCHW : TENSOR_UNDEFINED;
}

// rknn_input.pass_through: data in the native layout go to the executor's layout without change of
// values; their rows are padded to the pitch, or contiguous. A tensor that is stored in the file's
// order has the same bytes in both.
static int pass_through(const struct graph_tensor *t, const struct tensor_io *io,
                        const struct npu_input *input, void *dst, struct error *e)
{
    const struct tensor_attr *a = &io->native;
    if (!t->channels_last) {
        int r = check_size(t->name, input->size, t->size, STATUS_INPUT_INVALID, e);
        if (r == 0)
            memcpy(dst, input->data, t->size);
        return r;
    }
    bool padded = input->size != a->size;
    struct convert_form from = {.type = t->type,
                                .layout = a->layout,
                                .w_stride = padded ? a->w_stride : 0,
                                .c2 = a->layout == TENSOR_NC1HWC2 ? a->dims[4] : 0};
    struct convert_form to = {.type = t->type, .layout = TENSOR_NHWC};
    int r = check_size(t->name, input->size, padded ? a->size_with_stride : a->size,
                       STATUS_INPUT_INVALID, e);
    return r < 0
               ? r
               : convert_layout(t->dims, &from, input->data, input->size, &to, dst, t->size, 0, e);
}

// Stored values (already quantized) in a layout of the program's choice, as in memory bound with
// rknn_set_io_mem.
static int put_stored(const struct graph_tensor *t, const struct tensor_io *io,
                      const struct npu_input *input, void *dst, struct error *e)
{
    uint32_t dims[4];
    size_t expected;
    struct convert_form from = {.type = t->type,
                                .layout = input->layout,
                                .w_stride = input->w_stride,
                                .h_stride = input->h_stride};
    struct convert_form to = {.type = t->type, .layout = stored_layout(t)};
    convert_dims(&io->logical, dims);
    int r = convert_form_bytes(dims, &from, &expected, e);
    if (r == 0)
        r = check_size(t->name, input->size, expected, STATUS_INPUT_INVALID, e);
    return r < 0 ? r
                 : convert_layout(dims, &from, input->data, input->size, &to, dst, t->size, 0, e);
}

// What rknn_inputs_set() does: mean and std of the file, quantization and layout in one pass.
static int put_real(const struct graph_tensor *t, const struct tensor_io *io,
                    const struct npu_input *input, void *dst, struct error *e)
{
    struct convert_form from = {.type = input->type,
                                .layout = input->layout,
                                .w_stride = input->w_stride,
                                .h_stride = input->h_stride};
    return convert_input(io, &from, input->data, input->size, dst, t->size, e);
}

// One of four ways in, by how much was done already: the daemon converted (`converted`), the
// program passes native bytes, stored values in another layout, or ordinary pixels and numbers.
int sim_put_input(const struct run *r, uint32_t i, const struct tensor_io *io,
                  const struct npu_input *input, struct error *e)
{
    const struct graph *g = r->plan->graph;
    const struct graph_tensor *t = &g->tensors[g->inputs[i]];
    void *dst = run_tensor(r, g->inputs[i]);
    int status;
    if (input->converted) {
        status = check_size(t->name, input->size, t->size, STATUS_INPUT_INVALID, e);
        if (status == 0)
            memcpy(dst, input->data, t->size);
    } else if (input->pass_through) {
        status = pass_through(t, io, input, dst, e);
    } else if (input->stored) {
        status = put_stored(t, io, input, dst, e);
    } else {
        status = put_real(t, io, input, dst, e);
    }
    return status < 0 ? error_prefix(e, "input %u", i) : 0;
}

// dst gets t->size bytes in the order of the dimensions; values as they are stored.
int sim_read_tensor(const struct run *r, uint32_t index, void *dst, struct error *e)
{
    const struct graph_tensor *t = &r->plan->graph->tensors[index];
    const void *src = run_tensor(r, index);
    if (!t->channels_last) {
        memcpy(dst, src, t->size);
        return 0;
    }
    struct convert_form from = {.type = t->type, .layout = TENSOR_NHWC};
    struct convert_form to = {.type = t->type, .layout = TENSOR_NCHW};
    return convert_layout(t->dims, &from, src, t->size, &to, dst, t->size, 0, e);
}

int sim_write_tensor(const struct run *r, uint32_t index, const void *src, struct error *e)
{
    const struct graph_tensor *t = &r->plan->graph->tensors[index];
    void *dst = run_tensor(r, index);
    if (!t->channels_last) {
        memcpy(dst, src, t->size);
        return 0;
    }
    struct convert_form from = {.type = t->type, .layout = TENSOR_NCHW};
    struct convert_form to = {.type = t->type, .layout = TENSOR_NHWC};
    return convert_layout(t->dims, &from, src, t->size, &to, dst, t->size, 0, e);
}

// An output in the type and layout that the program asked for; dequantizes if that is float.
static int get_form(const struct run *r, uint32_t index, const struct tensor_io *io,
                    const struct npu_output *output, struct error *e)
{
    const struct graph_tensor *t = &r->plan->graph->tensors[index];
    const struct convert_form from = {.type = t->type, .layout = stored_layout(t)};
    uint32_t dims[4];
    size_t expected;
    convert_dims(&io->logical, dims);
    int status = convert_form_bytes(dims, output->form, &expected, e);
    if (status == 0)
        status = check_size(t->name, output->size, expected, STATUS_OUTPUT_INVALID, e);
    return status < 0 ? status
                      : convert_output(&io->logical, dims, &from, run_tensor(r, index), t->size,
                                       output->form, output->data, output->size, e);
}

// An output whose data is NULL was not asked for.
int sim_get_output(const struct run *r, uint32_t i, const struct tensor_io *io,
                   const struct npu_output *output, struct error *e)
{
    uint32_t index = r->plan->graph->outputs[i];
    const struct graph_tensor *t = &r->plan->graph->tensors[index];
    int status;
    if (!output->data)
        return 0;
    if (output->form) {
        status = get_form(r, index, io, output, e);
    } else {
        status = check_size(t->name, output->size, io->logical.size, STATUS_OUTPUT_INVALID, e);
        if (status == 0)
            status = sim_read_tensor(r, index, output->data, e);
    }
    return status < 0 ? error_prefix(e, "output %u", i) : 0;
}
