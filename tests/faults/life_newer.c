// Models that are more than one file, have several shapes, operators of the program's own, or tell
// what they see of tensors; dumps that replace tensors, and comparisons.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknnd.h"
#include "tests/faults/life.h"

#define MAX_TENSORS 4

// ---- runs ---------------------------------------------------------------------------------------

static int newer_take_outputs(rknn_context c, uint32_t n, const char *what)
{
    rknn_output out[MAX_TENSORS] = {{0}};
    for (uint32_t i = 0; i < n; i++)
        out[i].want_float = 1;
    int r = rknn_outputs_get(c, n, out, NULL);
    if (r < 0)
        return life_failed("rknn_outputs_get", r);
    for (uint32_t i = 0; i < n; i++)
        printf("%s: %08x\n", what, life_sum(out[i].buf, out[i].size));
    rknn_outputs_release(c, n, out);
    return 0;
}

// An input whose values count on, as its current shape has it.
static int newer_set_input(rknn_context c, uint32_t i)
{
    rknn_tensor_attr a = {.index = i};
    int r = rknn_query(c, RKNN_QUERY_CURRENT_INPUT_ATTR, &a, sizeof a);
    if (r < 0)
        return life_failed("rknn_query of an input", r);
    float *values = malloc(a.n_elems * sizeof *values);
    if (!values)
        return -1;
    for (uint32_t k = 0; k < a.n_elems; k++)
        values[k] = (float)(k % 17) - 8;
    rknn_input in = {.index = i,
                     .buf = values,
                     .size = a.n_elems * (uint32_t)sizeof *values,
                     .type = RKNN_TENSOR_FLOAT32,
                     .fmt = a.fmt};
    r = rknn_inputs_set(c, 1, &in);
    free(values);
    return r < 0 ? life_failed("rknn_inputs_set", r) : 0;
}

static int newer_set_inputs(rknn_context c, rknn_input_output_num *n)
{
    int r = rknn_query(c, RKNN_QUERY_IN_OUT_NUM, n, sizeof *n);
    if (r < 0 || n->n_output > MAX_TENSORS)
        return life_failed("rknn_query", r);
    for (uint32_t i = 0; i < n->n_input && r == 0; i++)
        r = newer_set_input(c, i);
    return r;
}

static int newer_run(rknn_context c, const char *what)
{
    rknn_input_output_num n;
    int r = newer_set_inputs(c, &n);
    if (r < 0)
        return r;
    r = rknn_run(c, NULL);
    return r < 0 ? life_failed(what, r) : newer_take_outputs(c, n.n_output, what);
}

// ---- what is done with a model ------------------------------------------------------------------

static int newer_shapes(rknn_context c, const char *what)
{
    rknn_input_range range = {.index = 0};
    int r = rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range);
    if (r < 0)
        return life_failed("rknn_query of shapes", r);
    for (uint32_t i = 0; i < range.shape_number && r == 0; i++) {
        rknn_tensor_attr a = {.index = 0, .n_dims = range.n_dims, .fmt = range.fmt};
        memcpy(a.name, range.name, sizeof a.name);
        memcpy(a.dims, range.dyn_range[i], sizeof a.dims);
        r = rknn_set_input_shapes(c, 1, &a);
        r = r < 0 ? life_failed("rknn_set_input_shapes", r) : newer_run(c, what);
    }
    return r;
}

// As the nodes of models.custom() have it, without their attribute.
static int newer_compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                         uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c;
    for (uint32_t i = 0; i < n_outputs && i < n_inputs; i++)
        memcpy((uint8_t *)outputs[i].mem.virt_addr + outputs[i].mem.offset,
               (uint8_t *)inputs[i].mem.virt_addr + inputs[i].mem.offset,
               inputs[i].attr.n_elems * sizeof(float));
    return 0;
}

static int newer_operator(rknn_context c, const char *what)
{
    rknn_custom_op op = {.version = 1,
                         .target = RKNN_TARGET_TYPE_CPU,
                         .op_type = "cstDualResidual",
                         .compute = newer_compute};
    int r = rknn_register_custom_ops(c, &op, 1);
    return r < 0 ? life_failed("rknn_register_custom_ops", r) : newer_run(c, what);
}

static int newer_replace(void *user, const rknnd_tensor *tensor)
{
    unsigned *sum = user;
    *sum = *sum * 31 + life_sum(tensor->data, tensor->size);
    memset((void *)tensor->data, 0, tensor->size);
    return 0;
}

static int newer_compared(void *user, const rknnd_comparison *comparison)
{
    *(unsigned *)user += comparison->distance != NULL;
    return 0;
}

static int newer_look(rknn_context c, const char *what)
{
    unsigned sum = 0, n_compared = 0;
    rknnd_golden *golden;
    rknn_input_output_num n;
    int r = newer_set_inputs(c, &n);
    if (r < 0)
        return r;
    r = rknnd_replace_layers(c, NULL, newer_replace, &sum);
    if (r < 0)
        return life_failed("rknnd_replace_layers", r);
    r = rknnd_golden_new(c, &golden);
    if (r < 0)
        return life_failed("rknnd_golden_new", r);
    r = rknnd_compare_layers(c, golden, NULL, newer_compared, &n_compared);
    rknnd_golden_free(golden);
    if (r < 0)
        return life_failed("rknnd_compare_layers", r);
    printf("%s: %08x, %u\n", what, sum, n_compared);
    return 0;
}

// ---- models -------------------------------------------------------------------------------------

static const struct newer {
    const char *file, *options;
    int (*live)(rknn_context c, const char *what);
} models[] = {{"apart.onnx", NULL, newer_run},
              {"apart.onnx", NULL, newer_look},
              {"shapes.onnx", "shape x=1x4,1x6", newer_shapes},
              {"seen.onnx", NULL, newer_run},
              {"custom.rknn", NULL, newer_operator}};

static int newer_live(const char *folder, const struct newer *m)
{
    char path[4096];
    rknn_context c;
    snprintf(path, sizeof path, "%s/%s", folder, m->file);
    int r = rknnd_set_load_options(m->options);
    if (r < 0)
        return life_failed("rknnd_set_load_options", r);
    r = rknn_init(&c, path, 0, 0, NULL);
    if (r < 0)
        return life_failed(m->file, r);
    r = m->live(c, m->file);
    int ended = rknn_destroy(c);
    return r == 0 && ended < 0 ? life_failed("rknn_destroy", ended) : r;
}

int life_newer(const char *folder)
{
    int r = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models && r == 0; i++)
        r = newer_live(folder, &models[i]);
    return r;
}
