// Tensors in memory that is bound with rknn_set_io_mem(): the only way that librknnmrt.so knows,
// and that of dma-bufs, which the NPU then has where they are.
#include <string.h>
#include <sys/stat.h>

#include "base/dmabuf.h"
#include "base/log.h"
#include "npu/buffer/buffer.h"
#include "npu/rknnrt/lanes/lane.h"
#include "npu/rknnrt/lanes/lane_direct.h"
#include "npu/rknnrt/rknnrt_query.h"
#include "tensor/convert.h"

void lane_memory_drop(struct lane *l, uint32_t slot)
{
    struct lane_memory *m = &l->memories[slot];
    if (m->memory)
        l->runtime->destroy_mem(l->context, m->memory);
    *m = (struct lane_memory){0};
}

// Binds a tensor's memory, unless it is bound with just this attribute already.
static int set(struct lane *l, struct lane_memory *m, const rknn_tensor_attr *attr, struct error *e)
{
    rknn_tensor_attr given = *attr;
    if (memcmp(&m->attr, attr, sizeof *attr) == 0)
        return 0;
    int code = l->runtime->set_io_mem(l->context, m->memory, &given);
    if (code != RKNN_SUCC)
        return runtime_failed(l->runtime, "rknn_set_io_mem", code, e);
    m->attr = *attr;
    return 0;
}

// Binds memory of the runtime's own, of at least attr->size_with_stride bytes; reused while it is
// large enough. *ret: where the tensor's bytes go.
static int bind(struct lane *l, uint32_t slot, const rknn_tensor_attr *attr, uint8_t **ret,
                struct error *e)
{
    struct lane_memory *m = &l->memories[slot];
    if (!m->memory || m->user || m->memory->size < attr->size_with_stride) {
        lane_memory_drop(l, slot);
        m->memory = l->runtime->create_mem(l->context, attr->size_with_stride);
        if (!m->memory || !m->memory->virt_addr || m->memory->size < attr->size_with_stride)
            return error_no_memory(e, "the runtime's rknn_create_mem", attr->size_with_stride);
    }
    *ret = (uint8_t *)m->memory->virt_addr + m->memory->offset;
    return set(l, m, attr, e);
}

// ---- dma-bufs of programs ----------------------------------------------------------------------

// Wraps a dma-buf for the runtime; the NPU then works on the program's pages. Old runtimes or
// drivers refuse: the lane remembers that in `copies` and does not try again. NULL: refused.
static rknn_tensor_mem *import(struct lane *l, const struct npu_buffer *b, const uint8_t *data,
                               size_t size)
{
    rknn_tensor_mem *m = NULL;
    if (data - b->map <= INT32_MAX && size <= UINT32_MAX)
        m = l->runtime->create_mem_from_fd(l->context, b->fd, b->map, (uint32_t)size,
                                           (int32_t)(data - b->map));
    l->copies = !m;
    if (!m)
        log_warn("the runtime does not take a program's dma-buf (rknn_create_mem_from_fd): tensors "
                 "are copied");
    return m;
}

// Binds a tensor where it is, unless it is bound there already. A dma-buf is known by device and
// inode, as file descriptor numbers are reused. 1: it has to be copied.
static int bind_there(struct lane *l, uint32_t slot, const rknn_tensor_attr *attr,
                      const struct npu_buffer *b, const uint8_t *data, size_t size, struct error *e)
{
    struct lane_memory *m = &l->memories[slot];
    struct stat st;
    if (l->copies || !l->runtime->create_mem_from_fd || fstat(b->fd, &st) < 0)
        return 1;
    bool same = m->user && m->data == data && m->inode == st.st_ino && m->device == st.st_dev;
    if (!same || m->memory->size < size) {
        rknn_tensor_mem *memory = import(l, b, data, size);
        lane_memory_drop(l, slot);
        if (!memory)
            return 1;
        *m = (struct lane_memory){
            .memory = memory, .data = data, .device = st.st_dev, .inode = st.st_ino};
    }
    m->user = l->user;
    return set(l, m, attr, e);
}

// ---- inputs ------------------------------------------------------------------------------------

static struct convert_form form_of(const struct tensor_attr *a)
{
    return (struct convert_form){.type = a->type,
                                 .layout = a->n_dims == 4 ? a->layout : TENSOR_UNDEFINED,
                                 .w_stride = a->w_stride,
                                 .h_stride = a->h_stride};
}

// Unless the bytes are taken as they are, the size follows from type and strides, as the runtime
// computes it.
int lane_memory_form(const struct tensor_io *io, const struct npu_input *in,
                     struct tensor_attr *ret, struct error *e)
{
    uint32_t dims[4];
    size_t size;
    *ret = in->pass_through ? io->native : io->native_nhwc;
    if (in->pass_through || in->stored)
        return 0;
    ret->type = in->type;
    struct convert_form form = form_of(ret);
    convert_dims(&io->logical, dims);
    int s = convert_form_bytes(dims, &form, &size, e);
    if (s == 0 && (size > UINT32_MAX || !tensor_bytes(in->type, ret->n_elems, &size)))
        s = error_set(e, STATUS_INPUT_INVALID, "%zu bytes are too many", size);
    if (s < 0)
        return s;
    ret->size = (uint32_t)size;
    convert_form_bytes(dims, &form, &size, NULL);
    ret->size_with_stride = (uint32_t)size;
    return 0;
}

// Copies an input into bound memory, with its layout and strides changed but not its type.
static int fill(const struct tensor_io *io, const struct npu_input *in,
                const struct tensor_attr *bound, uint8_t *memory, struct error *e)
{
    struct convert_form from = {.type = bound->type,
                                .layout = in->layout,
                                .w_stride = in->w_stride,
                                .h_stride = in->h_stride};
    struct convert_form to = form_of(bound);
    uint32_t dims[4];
    if (in->pass_through) {
        if (in->size != bound->size_with_stride)
            return error_set(e, STATUS_INPUT_INVALID, "%zu bytes, %u are expected", in->size,
                             bound->size_with_stride);
        memcpy(memory, in->data, in->size);
        return 0;
    }
    if (in->stored && from.type != io->logical.type)
        return error_set(e, STATUS_INPUT_INVALID, "the model stores %s, the runtime takes %s",
                         tensor_type_name(io->logical.type), tensor_type_name(from.type));
    if (io->logical.n_dims != 4)
        from.layout = TENSOR_UNDEFINED;
    convert_dims(&io->logical, dims);
    return convert_layout(dims, &from, in->data, in->size, &to, memory, bound->size_with_stride, 0,
                          e);
}

// In place where possible, else a copy.
static int put_one(struct lane *l, uint32_t i, const struct tensor_io *io,
                   const struct npu_input *in, struct error *e)
{
    struct tensor_attr form;
    rknn_tensor_attr attr;
    uint8_t *memory;
    int s = lane_memory_form(io, in, &form, e);
    if (s < 0)
        return s;
    query_attr_back(&form, i, &attr);
    attr.pass_through = in->pass_through;
    if (lane_direct_input(in, io, &form)) {
        s = bind_there(l, i, &attr, in->dmabuf, in->data, in->size, e);
        if (s <= 0)
            return s;
    }
    s = bind(l, i, &attr, &memory, e);
    return s < 0 ? s : fill(io, in, &form, memory, e);
}

int lane_memory_put(struct lane *l, const struct npu_job *job, struct error *e)
{
    const struct npu_model_info *m = l->info;
    const struct tensor_io *inputs = m->inputs + (size_t)job->shape_set * m->n_inputs;
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (put_one(l, i, &inputs[i], &job->inputs[i], e) < 0)
            return error_prefix(e, "input %u", i);
    return 0;
}

// ---- outputs -----------------------------------------------------------------------------------

// In place where possible. Otherwise in NHWC, from which any form can be made after the run.
static int bind_output(struct lane *l, uint32_t i, const struct tensor_io *io,
                       const struct npu_output *out, struct error *e)
{
    uint32_t slot = l->info->n_inputs + i;
    struct tensor_attr there;
    rknn_tensor_attr attr;
    uint8_t *memory;
    if (lane_direct_output(out, io, &there)) {
        query_attr_back(&there, i, &attr);
        int s = bind_there(l, slot, &attr, out->dmabuf, out->data, out->size, e);
        if (s <= 0)
            return s;
    }
    query_attr_back(&io->native_nhwc, i, &attr);
    return bind(l, slot, &attr, &memory, e);
}

int lane_memory_bind_outputs(struct lane *l, const struct npu_job *job, struct error *e)
{
    const struct npu_model_info *m = l->info;
    const struct tensor_io *outputs = m->outputs + (size_t)job->shape_set * m->n_outputs;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        if (bind_output(l, i, &outputs[i], &job->outputs[i], e) < 0)
            return error_prefix(e, "output %u", i);
    return 0;
}

// An output that was bound in place needs nothing but the cache made coherent for the CPU; others
// are converted.
static int get_one(const struct lane *l, uint32_t i, const struct tensor_io *io,
                   const struct npu_output *out, struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    const struct lane_memory *bound = &l->memories[l->info->n_inputs + i];
    const rknn_tensor_mem *memory = bound->memory;
    struct convert_form from = form_of(&io->native_nhwc), plain = form_of(a);
    uint32_t dims[4];
    if (!out->data)
        return 0;
    if (bound->user)
        return dmabuf_from_device(out->dmabuf->fd, e);
    convert_dims(a, dims);
    return convert_output(a, dims, &from, (uint8_t *)memory->virt_addr + memory->offset,
                          io->native_nhwc.size_with_stride, out->form ? out->form : &plain,
                          out->data, out->size, e);
}

int lane_memory_get(struct lane *l, const struct npu_job *job, struct error *e)
{
    const struct npu_model_info *m = l->info;
    const struct tensor_io *outputs = m->outputs + (size_t)job->shape_set * m->n_outputs;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        if (get_one(l, i, &outputs[i], &job->outputs[i], e) < 0)
            return error_prefix(e, "output %u", i);
    return 0;
}
