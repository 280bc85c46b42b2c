// Dynamic shapes (SDK guide 5.4): the model has several sets of input shapes, and
// rknn_set_input_shapes() selects one for the runs that follow. Shape set k has the k-th shape of
// every input. All sets are queried once, when the model is loaded.
#include "npu/rknnrt/shape_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

// The shapes that an input may have; their number is bounded, as arrays are allocated by it.
static int query_range(const struct runtime *r, rknn_context c, uint32_t index,
                       rknn_input_range *range, struct error *e)
{
    *range = (rknn_input_range){.index = index};
    int s = query(r, c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, "dynamic shapes", range, sizeof *range, e);
    if (s == 0 && (range->shape_number > NPU_MAX_SHAPE_SETS || range->n_dims > RKNN_MAX_DIMS))
        s = error_set(e, STATUS_MODEL_INVALID,
                      "the runtime says that input %u has %u shapes of %u dimensions", index,
                      range->shape_number, range->n_dims);
    return s;
}

// For models with fixed shapes runtimes answer with an error, or with no shapes; old ones do not
// know the question. All of these mean one set.
static int count_shape_sets(const struct runtime *r, rknn_context c, uint32_t *ret, struct error *e)
{
    cleanup(free_p) rknn_input_range *range = calloc(1, sizeof *range);
    if (!range)
        return error_no_memory(e, "dynamic shapes", sizeof *range);
    *ret = 1;
    if (r->query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range) != RKNN_SUCC)
        return 0;
    int s = query_range(r, c, 0, range, e);
    if (s == 0 && range->shape_number > 1 && !r->set_input_shapes)
        s = runtime_lacks(r, "rknn_set_input_shapes", e);
    if (s == 0 && range->shape_number > 1)
        *ret = range->shape_number;
    return s;
}

// The logical dimensions of each input in each set: all that selecting a set takes.
static int take_ranges(const struct runtime *r, rknn_context c, struct npu_model_info *info,
                       struct error *e)
{
    struct tensor_io *inputs = (struct tensor_io *)info->inputs;
    cleanup(free_p) rknn_input_range *range = calloc(1, sizeof *range);
    if (!range)
        return error_no_memory(e, "dynamic shapes", sizeof *range);
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        int s = query_range(r, c, i, range, e);
        if (s < 0)
            return s;
        if (range->shape_number != info->n_shape_sets ||
            !memchr(range->name, 0, sizeof range->name))
            return error_set(e, STATUS_MODEL_INVALID,
                             "the runtime says that input %u has %u shapes, and input 0 %u", i,
                             range->shape_number, info->n_shape_sets);
        for (uint32_t shape_set = 0; shape_set < info->n_shape_sets; shape_set++) {
            struct tensor_attr *a = &inputs[shape_set * info->n_inputs + i].logical;
            *a = (struct tensor_attr){.n_dims = range->n_dims,
                                      .layout = (enum tensor_layout)range->fmt};
            memcpy(a->dims, range->dyn_range[shape_set], sizeof a->dims);
            memcpy(a->name, range->name, sizeof a->name);
        }
    }
    return 0;
}

// Selects a set, then queries all tensors as they are with it.
static int query_shape_set(const struct runtime *r, rknn_context c, struct npu_model_info *info,
                           uint32_t shape_set, struct error *e)
{
    struct tensor_io *inputs = (struct tensor_io *)info->inputs + shape_set * info->n_inputs;
    struct tensor_io *outputs = (struct tensor_io *)info->outputs + shape_set * info->n_outputs;
    bool dynamic = info->n_shape_sets > 1;
    int s = dynamic ? shape_sets_choose(r, c, info, shape_set, e) : 0;
    for (uint32_t i = 0; i < info->n_inputs && s == 0; i++)
        s = query_io(r, c, false, i, dynamic, &inputs[i], e);
    for (uint32_t i = 0; i < info->n_outputs && s == 0; i++)
        s = query_io(r, c, true, i, dynamic, &outputs[i], e);
    return s < 0 && dynamic ? error_prefix(e, "shapes %u", shape_set) : s;
}

// Allocates info->inputs and outputs: [set][tensor], the caller's to free, also after a failure.
int rows_query(const struct runtime *r, rknn_context c, struct npu_model_info *info,
               struct error *e)
{
    int s = query_counts(r, c, &info->n_inputs, &info->n_outputs, e);
    if (s == 0)
        s = count_shape_sets(r, c, &info->n_shape_sets, e);
    if (s < 0)
        return s;
    info->inputs = calloc((size_t)info->n_shape_sets * info->n_inputs, sizeof *info->inputs);
    info->outputs = calloc((size_t)info->n_shape_sets * info->n_outputs, sizeof *info->outputs);
    if (!info->inputs || !info->outputs)
        return error_no_memory(e, "a model's description", 0);
    if (info->n_shape_sets > 1)
        s = take_ranges(r, c, info, e);
    for (uint32_t shape_set = 0; shape_set < info->n_shape_sets && s == 0; shape_set++)
        s = query_shape_set(r, c, info, shape_set, e);
    return s;
}

int shape_sets_choose(const struct runtime *r, rknn_context c, const struct npu_model_info *info,
                      uint32_t shape_set, struct error *e)
{
    cleanup(free_p) rknn_tensor_attr *attrs = calloc(info->n_inputs, sizeof *attrs);
    if (!attrs)
        return error_no_memory(e, "dynamic shapes", info->n_inputs * sizeof *attrs);
    for (uint32_t i = 0; i < info->n_inputs; i++)
        query_attr_back(&info->inputs[shape_set * info->n_inputs + i].logical, i, &attrs[i]);
    int code = r->set_input_shapes(c, info->n_inputs, attrs);
    return code == RKNN_SUCC ? 0 : runtime_failed(r, "rknn_set_input_shapes", code, e);
}
