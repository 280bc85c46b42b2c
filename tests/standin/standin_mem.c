// Tensors in memory that is bound.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/dmabuf.h"
#include "base/fd.h"
#include "tests/standin/standin.h"

// Keeps book of what is imported and given back, for tests.
static void note_import(const char *what)
{
    const char *path = getenv("RKNN_STANDIN_IMPORTS");
    cleanup(fclose_p) FILE *book = path ? fopen(path, "ae") : NULL;
    if (book)
        fprintf(book, "%s\n", what);
}

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

// As a device does it: at an address of its own, whatever the program has mapped.
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context c, int32_t fd, void *virt_addr, uint32_t size,
                                         int32_t offset)
{
    (void)c;
    uint8_t *own = dmabuf_is(fd) ? fd_map(fd, (uint64_t)offset + size, NULL) : NULL;
    if (!own)
        return NULL;
    rknn_tensor_mem *m = calloc(1, sizeof *m);
    *m = (rknn_tensor_mem){.virt_addr = virt_addr,
                           .fd = fd,
                           .offset = offset,
                           .size = size,
                           .flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD,
                           .priv_data = own};
    note_import("imported");
    return m;
}

int rknn_destroy_mem(rknn_context c, rknn_tensor_mem *mem)
{
    (void)c;
    if (mem->flags == RKNN_TENSOR_MEMORY_FLAGS_FROM_FD) {
        munmap(mem->priv_data, (size_t)mem->offset + mem->size);
        note_import("given back");
    } else {
        free(mem->virt_addr);
    }
    free(mem);
    return RKNN_SUCC;
}

void *standin_memory(const rknn_tensor_mem *m)
{
    bool imported = m->flags == RKNN_TENSOR_MEMORY_FLAGS_FROM_FD;
    return (uint8_t *)(imported ? m->priv_data : m->virt_addr) + m->offset;
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
