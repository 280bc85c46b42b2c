// Tensors by rknn_inputs_set() and rknn_outputs_get(), and how they get into a run.
#include <stdlib.h>

#include "tensor/convert.h"
#include "tests/standin/standin.h"

uint8_t *standin_room(struct standin_tensor *t, size_t size)
{
    free(t->data);
    t->data = malloc(size);
    t->size = size;
    return t->data;
}

int rknn_inputs_set(rknn_context c, uint32_t n, rknn_input inputs[])
{
    struct standin *s = standin_of(c);
    for (uint32_t i = 0; i < n; i++) {
        const rknn_input *in = &inputs[i];
        struct standin_tensor *t = &s->tensors[in->index];
        if (in->index >= s->model->info->n_inputs || !standin_room(t, in->size))
            return RKNN_ERR_INPUT_INVALID;
        memcpy(t->data, in->buf, in->size);
        s->inputs[in->index] = (struct npu_input){.type = (enum tensor_type)in->type,
                                                  .layout = (enum tensor_layout)in->fmt,
                                                  .pass_through = in->pass_through};
    }
    return RKNN_SUCC;
}

// Programs that change the type leave the size as it was.
static size_t bound_size(const struct standin_tensor *t)
{
    bool real = t->attr.type == RKNN_TENSOR_FLOAT32 && t->attr.fmt != RKNN_TENSOR_NHWC;
    return real ? t->attr.n_elems * sizeof(float) : t->attr.size_with_stride;
}

static void gather_output(struct standin *s, uint32_t i, struct standin_tensor *t)
{
    s->outputs[i] = (struct npu_output){0};
    if (t->memory)
        s->outputs[i] = (struct npu_output){
            .data = standin_memory(t->memory), .size = bound_size(t), .form = &t->form};
    else if (standin_room(t, standin_output(s, i)->logical.size))
        s->outputs[i] = (struct npu_output){.data = t->data, .size = t->size};
}

int standin_gather(struct standin *s)
{
    uint32_t n = s->model->info->n_inputs;
    for (uint32_t i = 0; i < n; i++) {
        const struct standin_tensor *t = &s->tensors[i];
        s->inputs[i].data = t->memory ? standin_memory(t->memory) : t->data;
        s->inputs[i].size = t->memory ? t->attr.size_with_stride : t->size;
        if (!s->inputs[i].data)
            return RKNN_ERR_INPUT_INVALID;
    }
    for (uint32_t i = 0; i < s->model->info->n_outputs; i++)
        gather_output(s, i, &s->tensors[n + i]);
    return RKNN_SUCC;
}

static int get_output(const struct standin *s, rknn_output *out)
{
    const struct tensor_attr *a = &standin_output(s, out->index)->logical;
    const struct standin_tensor *t = &s->tensors[s->model->info->n_inputs + out->index];
    size_t size = out->want_float ? a->n_elems * sizeof(float) : a->size;
    if (!t->data || (out->is_prealloc && out->size < size))
        return RKNN_ERR_OUTPUT_INVALID;
    if (!out->is_prealloc)
        *out = (rknn_output){out->want_float, 0, out->index, malloc(size), (uint32_t)size};
    if (out->want_float)
        return convert_to_float(a, t->data, a->size, out->buf, a->n_elems, NULL);
    memcpy(out->buf, t->data, size);
    return RKNN_SUCC;
}

int rknn_outputs_get(rknn_context c, uint32_t n, rknn_output outputs[], rknn_output_extend *extend)
{
    (void)extend;
    for (uint32_t i = 0; i < n; i++) {
        int r = get_output(standin_of(c), &outputs[i]);
        if (r < 0)
            return r;
    }
    return RKNN_SUCC;
}

int rknn_outputs_release(rknn_context c, uint32_t n, rknn_output outputs[])
{
    (void)c;
    for (uint32_t i = 0; i < n; i++)
        if (!outputs[i].is_prealloc)
            free(outputs[i].buf);
    return RKNN_SUCC;
}
