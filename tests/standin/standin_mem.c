// Tensors in memory that is bound.
#include <stdlib.h>

#include "tests/standin/standin.h"

rknn_tensor_mem *rknn_create_mem(rknn_context c, uint32_t size)
{
    rknn_tensor_mem *m = calloc(1, sizeof *m);
    (void)c;
    *m = (rknn_tensor_mem){.virt_addr = malloc(size),
                           .fd = -1,
                           .size = size,
                           .flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE};
    return m;
}

int rknn_destroy_mem(rknn_context c, rknn_tensor_mem *mem)
{
    (void)c;
    free(mem->virt_addr);
    free(mem);
    return RKNN_SUCC;
}

static void bind_input(struct standin *s, uint32_t i, const rknn_tensor_attr *a)
{
    s->inputs[i] = (struct npu_input){
        .type = (enum tensor_type)a->type,
        .layout = (enum tensor_layout)a->fmt,
        .w_stride = a->w_stride,
        .h_stride = a->h_stride,
        .pass_through = a->pass_through,
        .stored = a->type == (rknn_tensor_type)standin_input(s, i)->logical.type};
}

int rknn_set_io_mem(rknn_context c, rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    struct standin *s = standin_of(c);
    const struct npu_model_info *info = s->model->info;
    bool is_input = attr->index < info->n_inputs &&
                    strcmp(standin_input(s, attr->index)->logical.name, attr->name) == 0;
    if (!is_input && attr->index >= info->n_outputs)
        return RKNN_ERR_PARAM_INVALID;
    struct standin_tensor *t = &s->tensors[is_input ? attr->index : info->n_inputs + attr->index];
    t->memory = mem;
    t->attr = *attr;
    t->form = (struct convert_form){.type = (enum tensor_type)attr->type,
                                    .layout = (enum tensor_layout)attr->fmt,
                                    .w_stride = attr->w_stride,
                                    .h_stride = attr->h_stride,
                                    .c2 = attr->fmt == RKNN_TENSOR_NC1HWC2 ? attr->dims[4] : 0};
    if (is_input)
        bind_input(s, attr->index, attr);
    return RKNN_SUCC;
}
