// What the stand-in tells of its contexts.
#include <stdio.h>

#include "tests/standin/standin.h"

#define OLD_TENSOR_ATTR 372 // SDK 1.2
#define OLD_MEM_SIZE    8   // SDK 1.3
#ifdef STANDIN_OLD
#define TODAY 0
#else
#define TODAY 1
#endif
#ifdef STANDIN_SMALL
#define SMALL 1
#else
#define SMALL 0
#endif

// The view of a tensor that a question is about; NULL: it is none about tensors. What is not asked
// of the current shapes is that of the largest.
static const struct tensor_attr *view(const struct standin *s, rknn_query_cmd cmd, uint32_t i)
{
    const struct npu_model_info *m = s->model->info;
    uint32_t shape_set = cmd >= RKNN_QUERY_CURRENT_INPUT_ATTR ? s->shape_set : standin_largest(m);
    const struct tensor_io *in = i < m->n_inputs ? &m->inputs[shape_set * m->n_inputs + i] : NULL;
    const struct tensor_io *out =
        i < m->n_outputs ? &m->outputs[shape_set * m->n_outputs + i] : NULL;
    switch (cmd) {
    case RKNN_QUERY_INPUT_ATTR:
    case RKNN_QUERY_CURRENT_INPUT_ATTR:
        return !in ? NULL : SMALL ? &in->native : &in->logical;
    case RKNN_QUERY_OUTPUT_ATTR:
    case RKNN_QUERY_CURRENT_OUTPUT_ATTR:
        return !out ? NULL : SMALL ? &out->native : &out->logical;
    case RKNN_QUERY_NATIVE_INPUT_ATTR:
    case RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR:
        return in ? &in->native : NULL;
    case RKNN_QUERY_NATIVE_OUTPUT_ATTR:
    case RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR:
        return out ? &out->native : NULL;
    case RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR:
        return in && TODAY ? &in->native_nhwc : NULL;
    case RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR:
        return out && TODAY ? &out->native_nhwc : NULL;
    default:
        return NULL;
    }
}

// Everything is said to be affine (notes on the ABI).
static int answer_attr(const struct tensor_attr *from, rknn_tensor_attr *to, uint32_t size)
{
    rknn_tensor_attr a = {.index = to->index,
                          .n_dims = from->n_dims,
                          .n_elems = from->n_elems,
                          .size = from->size,
                          .fmt = (rknn_tensor_format)from->layout,
                          .type = (rknn_tensor_type)from->type,
                          .qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC,
                          .zp = from->zp,
                          .scale = from->scale,
                          .w_stride = from->w_stride,
                          .size_with_stride = from->size_with_stride,
                          .h_stride = from->h_stride};
    if (size != OLD_TENSOR_ATTR && (!TODAY || size != sizeof a))
        return RKNN_ERR_PARAM_INVALID;
    memcpy(a.dims, from->dims, sizeof a.dims);
    memcpy(a.name, from->name, sizeof a.name);
    memcpy(to, &a, size);
    return RKNN_SUCC;
}

static int answer_memory(const struct npu_model_info *m, rknn_mem_size *to, uint32_t size)
{
    rknn_mem_size answer = {.total_weight_size = (uint32_t)m->weight_size,
                            .total_internal_size = (uint32_t)m->internal_size,
                            .total_dma_allocated_size = m->memory_size};
    if (size != OLD_MEM_SIZE && (!TODAY || size != sizeof answer))
        return RKNN_ERR_PARAM_INVALID;
    memcpy(to, &answer, size);
    return RKNN_SUCC;
}

int rknn_query(rknn_context c, rknn_query_cmd cmd, void *info, uint32_t size)
{
    struct standin *s = standin_of(c);
    const struct npu_model_info *m = s->model->info;
    if (cmd == RKNN_QUERY_IN_OUT_NUM) {
        *(rknn_input_output_num *)info = (rknn_input_output_num){m->n_inputs, m->n_outputs};
    } else if (cmd == RKNN_QUERY_MEM_SIZE) {
        return answer_memory(m, info, size);
    } else if (cmd == RKNN_QUERY_CUSTOM_STRING && TODAY) {
        snprintf(((rknn_custom_string *)info)->string, sizeof(rknn_custom_string), "%s",
                 m->custom_string);
    } else if (cmd == RKNN_QUERY_INPUT_DYNAMIC_RANGE && TODAY) {
        return standin_range(m, info);
    } else if (cmd == RKNN_QUERY_PERF_DETAIL) {
        return standin_perf(s, info);
    } else if (cmd == RKNN_QUERY_PERF_RUN) {
        ((rknn_perf_run *)info)->run_duration = (int64_t)s->run_us;
    } else {
        const struct tensor_attr *a =
            size >= sizeof(uint32_t) ? view(s, cmd, *(uint32_t *)info) : NULL;
        return a ? answer_attr(a, info, size) : RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}
