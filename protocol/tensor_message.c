// Inputs and outputs of a model as messages, in both directions. What comes from a peer is checked
// here, once; later code relies on dimensions, sizes and counts that fit together.
#include "protocol/tensor_message.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

void tensor_attr_to_message(const struct tensor_attr *a, rknnd_TensorAttr *ret)
{
    message_set_text(ret->name, a->name);
    ret->dims_count = (pb_size_t)a->n_dims;
    for (uint32_t i = 0; i < a->n_dims; i++)
        ret->dims[i] = a->dims[i];
    ret->n_elems = a->n_elems;
    ret->size = a->size;
    ret->size_with_stride = a->size_with_stride;
    ret->w_stride = a->w_stride;
    ret->h_stride = a->h_stride;
    ret->zp = a->zp;
    ret->scale = a->scale;
    ret->type = a->type;
    ret->layout = a->layout;
    ret->qnt = a->qnt;
}

void tensor_io_to_message(const struct tensor_io *io, rknnd_TensorIo *ret)
{
    const struct tensor_preprocess *p = &io->preprocess;
    pb_size_t n = (pb_size_t)p->n_channels;

    *ret = (rknnd_TensorIo)rknnd_TensorIo_init_zero;
    ret->has_logical = ret->has_native = ret->has_native_nhwc = true;
    tensor_attr_to_message(&io->logical, &ret->logical);
    tensor_attr_to_message(&io->native, &ret->native);
    tensor_attr_to_message(&io->native_nhwc, &ret->native_nhwc);
    ret->shrinks = io->shrinks;
    ret->device_converts = io->device_converts;
    ret->has_preprocess = n > 0;
    ret->preprocess.mean_count = ret->preprocess.std_count = ret->preprocess.order_count = n;
    for (pb_size_t i = 0; i < n; i++) {
        ret->preprocess.mean[i] = p->mean[i];
        ret->preprocess.std[i] = p->std[i];
        ret->preprocess.order[i] = p->order[i];
    }
}

// The scale must be finite: a NaN or infinite one would spread through all conversions.
int tensor_attr_from_message(const rknnd_TensorAttr *m, const char *what, struct tensor_attr *ret,
                             struct error *e)
{
    *ret = (struct tensor_attr){
        .n_dims = m->dims_count,
        .n_elems = m->n_elems,
        .size = m->size,
        .size_with_stride = m->size_with_stride,
        .w_stride = m->w_stride,
        .h_stride = m->h_stride,
        .zp = m->zp,
        .scale = m->scale,
        .type = (enum tensor_type)m->type,
        .layout = (enum tensor_layout)m->layout,
        .qnt = (enum tensor_qnt)m->qnt,
    };
    for (pb_size_t i = 0; i < m->dims_count; i++)
        ret->dims[i] = m->dims[i];
    message_copy_text(ret->name, sizeof ret->name, m->name);
    if (!isfinite(m->scale))
        return error_set(e, STATUS_FAIL, "%s: the scale is not a number", what);
    return tensor_attr_check(ret, what, e);
}

// mean, std and channel order: one each per channel; std divides, order indexes.
static int preprocess_from_message(const rknnd_TensorPreprocess *m, struct tensor_preprocess *ret,
                                   struct error *e)
{
    if (m->std_count != m->mean_count || m->order_count != m->mean_count)
        return error_set(e, STATUS_FAIL, "a tensor's mean, std and order differ in length");
    ret->n_channels = m->mean_count;
    for (pb_size_t i = 0; i < m->mean_count; i++) {
        if (m->order[i] >= m->mean_count || !isfinite(m->mean[i]) || !isfinite(m->std[i]) ||
            m->std[i] == 0)
            return error_set(e, STATUS_FAIL,
                             "a tensor's mean, std or order of channel %u is impossible", i);
        ret->mean[i] = m->mean[i];
        ret->std[i] = m->std[i];
        ret->order[i] = (uint8_t)m->order[i];
    }
    return 0;
}

// *ret is untouched on failure.
int tensor_io_from_message(const rknnd_TensorIo *m, struct tensor_io *ret, struct error *e)
{
    struct tensor_io io = {.shrinks = m->shrinks, .device_converts = m->device_converts};
    int r = tensor_attr_from_message(&m->logical, "a tensor's logical attributes", &io.logical, e);
    if (r == 0)
        r = tensor_attr_from_message(&m->native, "a tensor's native attributes", &io.native, e);
    if (r == 0)
        r = tensor_attr_from_message(&m->native_nhwc, "a tensor's NHWC attributes", &io.native_nhwc,
                                     e);
    if (r == 0 && m->has_preprocess)
        r = preprocess_from_message(&m->preprocess, &io.preprocess, e);
    if (r == 0)
        *ret = io;
    return r;
}

// Two passes: sizes, then bytes.
uint8_t *tensor_list_encode(const struct tensor_io *const *tensors, size_t n, size_t *ret_size)
{
    rknnd_TensorIo m;
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        tensor_io_to_message(tensors[i], &m);
        size += message_delimited_size(rknnd_TensorIo_fields, &m);
    }
    uint8_t *list = malloc(size ? size : 1), *at = list;
    if (!list)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        tensor_io_to_message(tensors[i], &m);
        message_delimited_put(rknnd_TensorIo_fields, &m, &at, list + size);
    }
    *ret_size = size;
    return list;
}

// A tensor has at least one byte, so `n` is checked against the payload before it is allocated for.
// Bytes behind the last tensor are an error.
int tensor_list_decode(struct bytes payload, size_t n, struct tensor_io **ret, struct error *e)
{
    if (n > 4096 || n > payload.size)
        return error_set(e, STATUS_FAIL, "a list of %zu tensors in %zu bytes is impossible", n,
                         payload.size);
    cleanup(free_p) struct tensor_io *list = calloc(n ? n : 1, sizeof *list);
    if (!list)
        return error_no_memory(e, "a model's inputs and outputs", n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        rknnd_TensorIo m;
        int r = message_delimited_take(rknnd_TensorIo_fields, &payload, &m, e);
        if (r == 0)
            r = tensor_io_from_message(&m, &list[i], e);
        if (r < 0)
            return error_prefix(e, "tensor %zu of %zu", i, n);
    }
    if (payload.size > 0)
        return error_set(e, STATUS_FAIL, "%zu bytes too many behind a list of %zu tensors",
                         payload.size, n);
    *ret = steal_ptr(list);
    return 0;
}
