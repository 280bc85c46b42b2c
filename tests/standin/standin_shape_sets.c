// Dynamic shapes.
#include <stdio.h>

#include "tests/standin/standin.h"

uint32_t standin_largest(const struct npu_model_info *m)
{
    uint32_t largest = 0;
    uint64_t most = 0;
    for (uint32_t shape_set = 0; shape_set < m->n_shape_sets; shape_set++) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < m->n_inputs; i++)
            n += m->inputs[shape_set * m->n_inputs + i].logical.size;
        largest = n > most ? shape_set : largest;
        most = n > most ? n : most;
    }
    return largest;
}

int standin_range(const struct npu_model_info *m, rknn_input_range *ret)
{
    uint32_t i = ret->index;
    if (m->n_shape_sets <= 1 || i >= m->n_inputs)
        return RKNN_ERR_PARAM_INVALID;
    const struct tensor_attr *a = &m->inputs[i].logical;
    *ret = (rknn_input_range){.index = i,
                              .shape_number = m->n_shape_sets,
                              .fmt = (rknn_tensor_format)a->layout,
                              .n_dims = a->n_dims};
    snprintf(ret->name, sizeof ret->name, "%s", a->name);
    for (uint32_t shape_set = 0; shape_set < m->n_shape_sets; shape_set++)
        memcpy(ret->dyn_range[shape_set], m->inputs[shape_set * m->n_inputs + i].logical.dims,
               sizeof ret->dyn_range[shape_set]);
    return RKNN_SUCC;
}

static bool is_shape_set(const struct npu_model_info *m, uint32_t shape_set,
                         const rknn_tensor_attr *attrs)
{
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        const struct tensor_attr *a = &m->inputs[shape_set * m->n_inputs + i].logical;
        if (attrs[i].index != i || strcmp(attrs[i].name, a->name) != 0 ||
            attrs[i].n_dims != a->n_dims || attrs[i].fmt != (rknn_tensor_format)a->layout ||
            memcmp(attrs[i].dims, a->dims, a->n_dims * sizeof *a->dims) != 0)
            return false;
    }
    return true;
}

int rknn_set_input_shapes(rknn_context c, uint32_t n, rknn_tensor_attr attrs[])
{
    struct standin *s = standin_of(c);
    const struct npu_model_info *m = s->model->info;
    for (uint32_t shape_set = 0; shape_set < m->n_shape_sets && n == m->n_inputs; shape_set++)
        if (is_shape_set(m, shape_set, attrs)) {
            s->shape_set = shape_set;
            return RKNN_SUCC;
        }
    return RKNN_ERR_PARAM_INVALID;
}
