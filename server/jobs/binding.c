// Bindings of tensors to memory.
//
// Copy on write: a job takes a reference to the table there is, and a change while anyone else has
// one makes a new table. So what a job reads and writes is settled when it comes, and a worker
// needs to be told only when the pointer differs from the one of the last run.
#include "server/jobs/binding.h"

#include <stdlib.h>
#include <string.h>

#include "server/runner/model_info.h"

static uint32_t binding_count(const struct binding *b)
{
    return b->n_inputs + b->n_outputs;
}

struct binding *binding_ref(struct binding *b)
{
    if (b)
        b->refs++;
    return b;
}

void binding_unref(struct binding *b)
{
    if (!b || --b->refs > 0)
        return;
    for (uint32_t i = 0; i < binding_count(b); i++)
        memory_unref(b->tensors[i].memory);
    memory_unref(b->internal);
    free(b);
}

// A table of its own with the same contents, or an empty one (`old` NULL); each memory gets another
// reference. NULL: out of memory.
static struct binding *binding_copy(const struct binding *old, const struct model_info *info)
{
    size_t n = (size_t)info->n_inputs + info->n_outputs;
    size_t size = sizeof(struct binding) + n * sizeof(struct bound);
    struct binding *b = calloc(1, size);
    if (b && old)
        memcpy(b, old, size);
    if (!b)
        return NULL;
    b->refs = 1;
    b->n_inputs = info->n_inputs;
    b->n_outputs = info->n_outputs;
    for (size_t i = 0; i < n; i++)
        if (b->tensors[i].memory)
            memory_ref(b->tensors[i].memory);
    if (b->internal)
        memory_ref(b->internal);
    return b;
}

// Makes *b a table with one reference, which may be changed.
static int binding_own(struct binding **b, const struct model_info *info, struct error *e)
{
    if (*b && (*b)->refs == 1)
        return 0;
    struct binding *mine = binding_copy(*b, info);
    if (!mine)
        return error_no_memory(e, "a context's bindings", sizeof *mine);
    binding_unref(*b);
    *b = mine;
    return 0;
}

// The new reference is taken before the old one goes: both may be the same memory.
static void binding_replace_memory(struct memory **at, struct memory *with)
{
    struct memory *old = *at;
    *at = with ? memory_ref(with) : NULL;
    memory_unref(old);
}

int binding_set(struct binding **b, const struct model_info *info, uint32_t tensor,
                const struct bound *place, struct error *e)
{
    int r = binding_own(b, info, e);
    if (r < 0)
        return r;
    struct bound *at = &(*b)->tensors[tensor];
    struct memory *memory = at->memory;
    *at = *place;
    at->memory = memory;
    binding_replace_memory(&at->memory, place->memory);
    return 0;
}

int binding_set_internal(struct binding **b, const struct model_info *info, struct memory *memory,
                         uint64_t offset, struct error *e)
{
    int r = binding_own(b, info, e);
    if (r < 0)
        return r;
    binding_replace_memory(&(*b)->internal, memory);
    (*b)->internal_offset = offset;
    return 0;
}

static const struct npu_buffer *dmabuf_of(const struct bound *p)
{
    return p->memory->dmabuf ? &p->memory->buffer : NULL;
}

struct npu_input binding_input(const struct bound *p)
{
    return (struct npu_input){.data = p->memory->buffer.map + p->offset,
                              .size = (size_t)p->size,
                              .type = p->form.type,
                              .layout = p->form.layout,
                              .w_stride = p->form.w_stride,
                              .h_stride = p->form.h_stride,
                              .pass_through = p->pass_through,
                              .stored = p->stored,
                              .dmabuf = dmabuf_of(p)};
}

struct npu_output binding_output(const struct bound *p)
{
    return (struct npu_output){.data = p->memory->buffer.map + p->offset,
                               .size = (size_t)p->size,
                               .form = &p->form,
                               .dmabuf = dmabuf_of(p)};
}

// The room that a job needs for outputs in its own buffer.
uint64_t binding_output_size(const struct binding *b, const struct model_info *info,
                             uint32_t shape_set)
{
    const struct tensor_io *outputs = model_info_shape_set(info, shape_set) + info->n_inputs;
    uint64_t size = 0;
    for (uint32_t i = 0; i < info->n_outputs; i++)
        size += binding_find(b, info->n_inputs + i) ? 0 : outputs[i].logical.size;
    return size;
}

// A binding made for one shape set may serve another if the tensor has the same shape in both; else
// its size and strides would be wrong.
int binding_check_shape_set(const struct binding *b, const struct model_info *info,
                            uint32_t shape_set, struct error *e)
{
    for (uint32_t i = 0; b && i < binding_count(b); i++) {
        const struct bound *p = binding_find(b, i);
        const struct tensor_attr *now = &model_info_shape_set(info, shape_set)[i].logical;
        if (p && p->shape_set != shape_set &&
            memcmp(model_info_shape_set(info, p->shape_set)[i].logical.dims, now->dims,
                   sizeof now->dims) != 0)
            return error_set(e, STATUS_INPUT_INVALID,
                             "%.64s is bound to memory in another shape; bind it (rknn_set_io_mem) "
                             "after each rknn_set_input_shapes",
                             now->name);
    }
    return 0;
}
