// test_sim_cases FOLDER: the cases of one group that tests/rknncases wrote. Each is a model
// with inputs and the outputs of the numpy reference.
#include <math.h>

#include "base/cleanup.h"
#include "tensor/convert.h"
#include "tests/support/sim_run.h"
#include "tests/unit/sim/sim_cases.h"

#define MAX_TENSOR 8

static uint8_t *read_part(const char *name, const char *part, uint32_t i, size_t *ret_size)
{
    char path[512];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/%s.%s%u.bin", sim_cases_folder, name, part, i);
    uint8_t *data = sim_read_file(path, ret_size, &e);
    if (!data)
        fail_msg("%s", e.text);
    return data;
}

/// Element `i` of an output as a number, in its stored form.
static double value(enum tensor_type type, const void *data, size_t i)
{
    switch (type) {
    case TENSOR_INT8:
        return ((const int8_t *)data)[i];
    case TENSOR_FLOAT16:
        return (double)convert_fp16_to_float(((const uint16_t *)data)[i]);
    case TENSOR_FLOAT32:
        return (double)((const float *)data)[i];
    case TENSOR_INT64:
        return (double)((const int64_t *)data)[i];
    default:
        fail_msg("an output of type %s", tensor_type_name(type));
        return 0;
    }
}

static bool is_float(enum tensor_type type)
{
    return type == TENSOR_FLOAT16 || type == TENSOR_FLOAT32;
}

/// The case's bound: steps of an int8 output; of the largest value of a float one.
static double bound(const struct sim_case *c)
{
    char *end;
    double bound = strtod(c->rest, &end);
    if (end == c->rest || *end)
        fail_msg("%s: \"%s\" is no bound", c->name, c->rest);
    return bound;
}

static void compare(const struct sim_case *c, const struct tensor_attr *a, const void *got,
                    const void *expected)
{
    double error = bound(c), largest = 0;
    for (size_t i = 0; i < a->n_elems; i++)
        largest = fmax(largest, fabs(value(a->type, expected, i)));
    double allowed = is_float(a->type) ? error * largest : a->type == TENSOR_INT8 ? error : 0;
    size_t wrong = 0;
    for (size_t i = 0; i < a->n_elems; i++) {
        double g = value(a->type, got, i), x = value(a->type, expected, i);
        if (fabs(g - x) <= allowed)
            continue;
        if (wrong++ < 5)
            print_error("%s: %s[%zu] is %g, expected %g (within %g)\n", c->name, a->name, i, g, x,
                        allowed);
    }
    if (wrong)
        fail_msg("%s: %zu of %u values of %s are wrong", c->name, wrong, a->n_elems, a->name);
}

/// Inputs come as float32 of the model's shape, or as bytes.
static struct npu_input as_input(const struct tensor_attr *a, const void *data, size_t size)
{
    return (struct npu_input){.data = data,
                              .size = size,
                              .type = size == a->n_elems ? TENSOR_UINT8 : TENSOR_FLOAT32,
                              .layout = a->n_dims == 4 ? TENSOR_NHWC : TENSOR_UNDEFINED};
}

static void run_case(void **state)
{
    const struct sim_case *c = *state;
    char path[512];
    struct error e = {0};
    struct sim_run s;
    snprintf(path, sizeof path, "%s/%s.rknn", sim_cases_folder, c->name);
    if (sim_run_init(&s, path, &e) < 0) {
        sim_run_done(&s);
        fail_msg("%s", e.text);
    }
    struct npu_input inputs[MAX_TENSOR];
    struct npu_output outputs[MAX_TENSOR];
    uint8_t *data[MAX_TENSOR];
    const struct npu_model_info *info = s.info;
    assert_in_range(info->n_inputs, 1, MAX_TENSOR);
    assert_in_range(info->n_outputs, 1, MAX_TENSOR);
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        size_t size;
        data[i] = read_part(c->name, "in", i, &size);
        inputs[i] = as_input(&info->inputs[i].logical, data[i], size);
    }
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        size_t size = info->outputs[i].logical.size;
        outputs[i] = (struct npu_output){.data = malloc(size), .size = size};
    }
    if (sim_run_once(&s, inputs, outputs, &e) < 0)
        fail_msg("%s: %s", c->name, e.text);
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        size_t size;
        cleanup(free_p) uint8_t *expected = read_part(c->name, "out", i, &size);
        assert_int_equal(size, outputs[i].size);
        compare(c, &info->outputs[i].logical, outputs[i].data, expected);
        free(outputs[i].data);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++)
        free(data[i]);
    sim_run_done(&s);
}

int main(int argc, char **argv)
{
    return sim_cases_main(argc, argv, "cases", "cases.txt", run_case);
}
