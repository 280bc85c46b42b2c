// Asks the runtime about a model, and checks what it answers: attributes come from a file of
// unknown origin by way of a closed library, and sizes in them decide how much memory is read and
// written later. Structs have grown over the versions; an old runtime refuses the new size, so the
// old one is tried.
#include "npu/rknnrt/rknnrt_query.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/convert.h"

// Sizes of structs in runtimes of older headers (abi notes).
#define OLD_TENSOR_ATTR_SIZE 372 // SDK 1.2: no h_stride
#define OLD_MEM_SIZE_SIZE    8   // SDK 1.3

// One question; words name it on failure.
int query(const struct runtime *r, rknn_context c, rknn_query_cmd cmd, const char *what, void *info,
          uint32_t size, struct error *e)
{
    char call[64];
    int code = r->query(c, cmd, info, size);
    if (code == RKNN_SUCC)
        return 0;
    snprintf(call, sizeof call, "rknn_query of %s", what);
    return runtime_failed(r, call, code, e);
}

// For structs that have grown: with today's size, then with the old one. Fields behind it stay 0.
static int query_grown(const struct runtime *r, rknn_context c, rknn_query_cmd cmd,
                       const char *what, void *info, uint32_t size, uint32_t old_size,
                       struct error *e)
{
    if (r->query(c, cmd, info, size) == RKNN_SUCC)
        return 0;
    return query(r, c, cmd, what, info, old_size, e);
}

// Refuses 0 and absurd numbers; the subtraction makes 0 a very large one.
int query_counts(const struct runtime *r, rknn_context c, uint32_t *ret_inputs,
                 uint32_t *ret_outputs, struct error *e)
{
    rknn_input_output_num n = {0};
    int s =
        query(r, c, RKNN_QUERY_IN_OUT_NUM, "the numbers of inputs and outputs", &n, sizeof n, e);
    if (s < 0)
        return s;
    if (n.n_input - 1 >= QUERY_MAX_TENSORS || n.n_output - 1 >= QUERY_MAX_TENSORS)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the runtime says that the model has %u inputs and %u outputs", n.n_input,
                         n.n_output);
    *ret_inputs = n.n_input;
    *ret_outputs = n.n_output;
    return 0;
}

// Text that the converter was given; "" where the runtime or the model has none.
void query_custom_string(const struct runtime *r, rknn_context c, rknn_custom_string *ret)
{
    *ret = (rknn_custom_string){0};
    if (r->query(c, RKNN_QUERY_CUSTOM_STRING, ret, sizeof *ret) != RKNN_SUCC)
        ret->string[0] = 0;
    ret->string[sizeof ret->string - 1] = 0;
}

// The text may lack its terminating zero, so its length is bounded by data_len.
int query_perf(const struct runtime *r, rknn_context c, struct bytes *ret, struct error *e)
{
    rknn_perf_detail detail = {0};
    int s = query(r, c, RKNN_QUERY_PERF_DETAIL, "times of layers", &detail, sizeof detail, e);
    if (s < 0)
        return s;
    if (!detail.perf_data)
        return error_set(e, STATUS_FAIL, "the runtime has no text");
    *ret = (struct bytes){(const uint8_t *)detail.perf_data,
                          strnlen(detail.perf_data, (size_t)detail.data_len)};
    return 0;
}

int query_memory(const struct runtime *r, rknn_context c, rknn_mem_size *ret, struct error *e)
{
    *ret = (rknn_mem_size){0};
    return query_grown(r, c, RKNN_QUERY_MEM_SIZE, "memory sizes", ret, sizeof *ret,
                       OLD_MEM_SIZE_SIZE, e);
}

// ---- attributes --------------------------------------------------------------------------------

// What is wrong with a tensor is wrong with the model.
static int invalid(struct error *e)
{
    if (e)
        e->code = STATUS_MODEL_INVALID;
    return STATUS_MODEL_INVALID;
}

static bool is_real(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 || type == TENSOR_FLOAT16 || type == TENSOR_BFLOAT16;
}

// Elements and bytes are computed from the dimensions: runtimes differ in whether their own counts
// include padding.
static int count(struct tensor_attr *a, struct error *e)
{
    uint64_t n = 1;
    size_t size;
    for (uint32_t i = 0; i < a->n_dims; i++)
        if (__builtin_mul_overflow(n, a->dims[i], &n))
            n = UINT64_MAX;
    if (n == 0 || n > UINT32_MAX || !tensor_bytes(a->type, n, &size) || size > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "its dimensions are empty, or above 4 GB");
    a->n_elems = (uint32_t)n;
    a->size = (uint32_t)size;
    return 0;
}

// The runtime's attribute as ours. Real types have no scale here, whatever the runtime says; DFP
// (dynamic fixed point) is of older NPUs and refused.
static int take_attr(const rknn_tensor_attr *from, struct tensor_attr *ret, struct error *e)
{
    if (from->n_dims > TENSOR_MAX_DIMS || !memchr(from->name, 0, sizeof from->name))
        return error_set(e, STATUS_MODEL_INVALID, "%u dimensions, or a name without an end",
                         from->n_dims);
    struct tensor_attr a = {.n_dims = from->n_dims,
                            .w_stride = from->w_stride,
                            .h_stride = from->h_stride,
                            .zp = from->zp,
                            .scale = from->scale,
                            .type = (enum tensor_type)from->type,
                            .layout = (enum tensor_layout)from->fmt,
                            .qnt = (enum tensor_qnt)from->qnt_type};
    memcpy(a.dims, from->dims, from->n_dims * sizeof *a.dims);
    snprintf(a.name, sizeof a.name, "%s", from->name);
    if ((unsigned)a.type >= TENSOR_TYPE_COUNT || !tensor_type_size(a.type))
        return error_set(e, STATUS_MODEL_INVALID, "type %d is not known here", (int)a.type);
    int s = count(&a, e);
    if (s < 0)
        return s;
    a.size_with_stride = from->size_with_stride > a.size ? from->size_with_stride : a.size;
    if (is_real(a.type) || a.qnt == TENSOR_QNT_NONE) {
        a.qnt = TENSOR_QNT_NONE;
        a.zp = 0;
        a.scale = 1;
    }
    if (!isfinite(a.scale) || a.qnt == TENSOR_QNT_DFP)
        return error_set(e, STATUS_MODEL_INVALID, "quantization %d with scale %g is not known here",
                         (int)a.qnt, (double)a.scale);
    s = tensor_attr_check(&a, "it", e);
    if (s == 0)
        *ret = a;
    return s < 0 ? invalid(e) : 0;
}

static int query_attr(const struct runtime *r, rknn_context c, rknn_query_cmd cmd, uint32_t index,
                      struct tensor_attr *ret, struct error *e)
{
    rknn_tensor_attr a = {.index = index};
    char what[48];
    snprintf(what, sizeof what, "attribute %d", (int)cmd);
    int s = query_grown(r, c, cmd, what, &a, sizeof a, OLD_TENSOR_ATTR_SIZE, e);
    return s < 0 ? s : take_attr(&a, ret, e);
}

// Whether a native form is of the same tensor: `dims` are its N, C, H, W. In NC1HWC2, C1 is C / C2
// rounded up.
static bool is_of(const struct tensor_attr *a, const uint32_t dims[4])
{
    uint32_t own[4];
    if (a->layout == TENSOR_NC1HWC2)
        return a->n_dims == 5 && a->dims[0] == dims[0] && a->dims[2] == dims[2] &&
               a->dims[3] == dims[3] && a->dims[1] == (dims[1] - 1) / a->dims[4] + 1;
    if (a->n_dims != 4)
        return false;
    convert_dims(a, own);
    return memcmp(own, dims, sizeof own) == 0;
}

// A native form must hold its elements, and must not claim more than 64 times their size: buffers
// are allocated by that number.
static int check_native(const struct tensor_attr *logical, const struct tensor_attr *a,
                        struct error *e)
{
    uint32_t dims[4];
    size_t bytes;
    struct convert_form form = {.type = a->type,
                                .layout = a->layout,
                                .w_stride = a->w_stride,
                                .h_stride = a->h_stride,
                                .c2 = a->layout == TENSOR_NC1HWC2 ? a->dims[4] : 0};
    convert_dims(logical, dims);
    if (logical->n_dims != 4 ? a->n_elems != logical->n_elems : !is_of(a, dims))
        return error_set(e, STATUS_MODEL_INVALID, "its native form is of another size");
    if (logical->n_dims != 4)
        return 0;
    int s = convert_form_bytes(dims, &form, &bytes, e);
    if (s == 0 && (bytes > a->size_with_stride || a->size_with_stride / 64 > bytes))
        s = error_set(e, STATUS_MODEL_INVALID, "its native form has %u bytes, not %zu",
                      a->size_with_stride, bytes);
    return s < 0 ? invalid(e) : 0;
}

// The same tensor with channels last, or first.
static void reorder(const struct tensor_attr *a, enum tensor_layout layout, struct tensor_attr *ret)
{
    uint32_t d[4];
    *ret = *a;
    ret->w_stride = ret->h_stride = 0;
    ret->size_with_stride = ret->size;
    if (a->n_dims != 4) {
        ret->layout = TENSOR_UNDEFINED;
        return;
    }
    convert_dims(a, d);
    ret->layout = layout;
    if (layout == TENSOR_NHWC)
        memcpy(ret->dims, (uint32_t[]){d[0], d[2], d[3], d[1]}, sizeof d);
    else
        memcpy(ret->dims, d, sizeof d);
}

// How tensors go through rknn_inputs_set() and rknn_outputs_get().
static int check_layout(const struct tensor_attr *a, bool output, struct error *e)
{
    if (a->n_dims != 4 || a->layout == TENSOR_NCHW || (!output && a->layout == TENSOR_NHWC))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "4 dimensions in layout %s",
                     tensor_layout_name(a->layout));
}

// librknnmrt.so: the plain attribute is the native one, whose blocks hide the number of channels,
// so the logical form is derived from the NHWC one.
static int query_small(const struct runtime *r, rknn_context c, bool output, uint32_t index,
                       struct tensor_io *io, struct error *e)
{
    struct tensor_attr *rows = &io->native_nhwc;
    int s = query_attr(
        r, c, output ? RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR : RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR,
        index, rows, e);
    if (s == 0 && rows->n_dims == 4 && rows->layout != TENSOR_NHWC)
        s = error_set(e, STATUS_MODEL_INVALID, "its NHWC form is %s",
                      tensor_layout_name(rows->layout));
    if (s == 0)
        reorder(rows, output ? TENSOR_NCHW : TENSOR_NHWC, &io->logical);
    return s;
}

// The plain attribute gives the logical form. The NHWC form is asked for with static shapes only:
// with dynamic ones it is that of the largest. Old runtimes do not know the question; then it is
// the plain one.
static int query_usual(const struct runtime *r, rknn_context c, bool output, uint32_t index,
                       bool current, struct tensor_io *io, struct error *e)
{
    static const rknn_query_cmd plain[2][2] = {
        {RKNN_QUERY_INPUT_ATTR, RKNN_QUERY_CURRENT_INPUT_ATTR},
        {RKNN_QUERY_OUTPUT_ATTR, RKNN_QUERY_CURRENT_OUTPUT_ATTR}};
    struct tensor_attr a;
    int s = query_attr(r, c, plain[output][current], index, &a, e);
    if (s == 0)
        s = check_layout(&a, output, e);
    if (s < 0)
        return s;
    reorder(&a, output ? TENSOR_NCHW : TENSOR_NHWC, &io->logical);
    reorder(&a, TENSOR_NHWC, &io->native_nhwc);
    if (!current && a.n_dims == 4 &&
        query_attr(r, c,
                   output ? RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR : RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR,
                   index, &a, NULL) == 0)
        io->native_nhwc = a;
    return 0;
}

// Logical, NHWC and native form of one tensor.
static int query_views(const struct runtime *r, rknn_context c, bool output, uint32_t index,
                       bool current, struct tensor_io *io, struct error *e)
{
    static const rknn_query_cmd native[2][2] = {
        {RKNN_QUERY_NATIVE_INPUT_ATTR, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR},
        {RKNN_QUERY_NATIVE_OUTPUT_ATTR, RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR}};
    int s = r->small ? query_small(r, c, output, index, io, e)
                     : query_usual(r, c, output, index, current, io, e);
    return s < 0 ? s : query_attr(r, c, native[output][current], index, &io->native, e);
}

int query_io(const struct runtime *r, rknn_context c, bool output, uint32_t index, bool current,
             struct tensor_io *ret, struct error *e)
{
    struct tensor_io io = {.device_converts = !output};
    int s = query_views(r, c, output, index, current, &io, e);
    if (s == 0)
        s = check_native(&io.logical, &io.native, e);
    if (s == 0)
        s = check_native(&io.logical, &io.native_nhwc, e);
    if (s < 0)
        return error_prefix(e, "what the runtime says of %s %u", output ? "output" : "input",
                            index);
    *ret = io;
    return 0;
}

void query_attr_back(const struct tensor_attr *a, uint32_t index, rknn_tensor_attr *ret)
{
    *ret = (rknn_tensor_attr){.index = index,
                              .n_dims = a->n_dims,
                              .n_elems = a->n_elems,
                              .size = a->size,
                              .fmt = (rknn_tensor_format)a->layout,
                              .type = (rknn_tensor_type)a->type,
                              .qnt_type = (rknn_tensor_qnt_type)a->qnt,
                              .zp = a->zp,
                              .scale = a->scale,
                              .w_stride = a->w_stride,
                              .size_with_stride = a->size_with_stride,
                              .h_stride = a->h_stride};
    memcpy(ret->dims, a->dims, sizeof ret->dims);
    memcpy(ret->name, a->name, sizeof ret->name);
}
