// A product of matrices as a model.
#include "npu/sim/product.h"

#include <jansson.h>
#include <stdio.h>

// ---- tensors ----

// A tensor of n bytes that are no numbers.
static struct tensor_attr bytes_attr(const char *name, uint64_t n)
{
    struct tensor_attr a = {.n_dims = 1,
                            .dims = {(uint32_t)n},
                            .n_elems = (uint32_t)n,
                            .size = (uint32_t)n,
                            .size_with_stride = (uint32_t)n,
                            .scale = 1,
                            .type = TENSOR_UINT8,
                            .layout = TENSOR_UNDEFINED};
    snprintf(a.name, sizeof a.name, "%s", name);
    return a;
}

static struct tensor_attr matrix_attr(const struct matmul_matrix *x)
{
    struct tensor_attr a = bytes_attr(x->name, x->size);
    a.type = x->type;
    a.n_dims = x->n_dims;
    a.n_elems = x->rows * x->columns;
    memcpy(a.dims, x->dims, x->n_dims * sizeof *x->dims);
    return a;
}

static void take_larger(struct tensor_io *io, const struct tensor_attr *a)
{
    if (a->size < io->logical.size)
        return;
    *io = (struct tensor_io){.logical = *a, .native = *a, .native_nhwc = *a, .shrinks = true};
}

static int take_shape(struct product *p, const char *chip, uint32_t i, struct error *e)
{
    struct matmul_shape shape = matmul_model_shape(&p->model, i);
    struct matmul_matrix x[3];
    int r = matmul_place(&p->model.kind, &shape, chip, x, e);
    if (r < 0)
        return error_prefix(e, "matmul of %u x %u x %u", shape.m, shape.k, shape.n);
    uint64_t scales = matmul_n_scales(&p->model.kind, &shape) * MATMUL_SCALE_SIZE;
    if (scales > UINT32_MAX)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the scales of B take %llu bytes, 4 GB are possible",
                         (unsigned long long)scales);
    struct tensor_attr a[] = {matrix_attr(&x[0]), matrix_attr(&x[1]), bytes_attr("scales", scales),
                              matrix_attr(&x[2])};
    take_larger(&p->inputs[MATMUL_A], &a[0]);
    take_larger(&p->inputs[MATMUL_B], &a[1]);
    take_larger(&p->inputs[MATMUL_SCALES], &a[2]);
    take_larger(&p->output, &a[3]);
    return 0;
}

int product_init(struct product *p, const struct chip *chip, struct bytes file, struct error *e)
{
    *p = (struct product){.chip = chip};
    struct tensor_attr run = bytes_attr("run", MATMUL_RUN_SIZE);
    p->inputs[MATMUL_RUN] = (struct tensor_io){.logical = run, .native = run, .native_nhwc = run};
    int r = matmul_model_decode(file, &p->model, e);
    for (uint32_t i = 0; r == 0 && i < p->model.n_shapes; i++)
        r = take_shape(p, chip->name, i, e);
    return r;
}

void product_info(const struct product *p, struct npu_model_info *ret)
{
    *ret = (struct npu_model_info){.n_inputs = MATMUL_INPUTS,
                                   .n_outputs = 1,
                                   .inputs = p->inputs,
                                   .outputs = &p->output,
                                   .n_rows = 1,
                                   .memory_size = sizeof *p,
                                   .core_limit = p->chip->n_cores,
                                   .batch = 1,
                                   .custom_string = ""};
}

int product_describe(struct bytes file, char **ret, struct error *e)
{
    struct matmul_model m;
    int r = matmul_model_decode(file, &m, e);
    if (r < 0)
        return r;
    const struct matmul_kind *k = &m.kind;
    json_t *shapes = json_array();
    for (uint32_t i = 0; i < m.n_shapes; i++) {
        struct matmul_shape s = matmul_model_shape(&m, i);
        json_array_append_new(shapes, json_pack("{s:I, s:I, s:I}", "M", (json_int_t)s.m, "K",
                                                (json_int_t)s.k, "N", (json_int_t)s.n));
    }
    json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "container", "matmul",
                             "type", (json_int_t)k->type, "B_layout", (json_int_t)k->b_layout,
                             "AC_layout", (json_int_t)k->ac_layout, "B_quant_type",
                             (json_int_t)k->b_quant, "AC_quant_type", (json_int_t)k->ac_quant,
                             "group_size", (json_int_t)k->group_size, "shapes", shapes);
    *ret = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    return *ret ? 0 : error_no_memory(e, "a description", file.size);
}
