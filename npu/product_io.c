// A product of matrices as a model: inputs A, B, the scales of B and the run's parameters; output
// C. Backends that can multiply share this: it decodes the parameters a client sends, which are
// untrusted, and checks that the job's tensors are large enough for the shape they choose. Formats:
// matmul_model_decode(), matmul_run_decode().
#include "npu/product_io.h"

#include <stdio.h>

// ---- tensors -----------------------------------------------------------------------------------

// A tensor of n bytes without structure.
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

// A model with several shapes describes its tensors by the largest; runs may use less (`shrinks`).
static void take_larger(struct tensor_io *io, const struct tensor_attr *a)
{
    if (a->size < io->logical.size)
        return;
    *io = (struct tensor_io){.logical = *a, .native = *a, .native_nhwc = *a, .shrinks = true};
}

// The tensors of the i-th shape, merged into those of the model.
static int take_shape(struct product_io *p, const char *chip, uint32_t i, struct error *e)
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

int product_io_init(struct product_io *p, const char *chip, struct bytes file, struct error *e)
{
    struct tensor_attr run = bytes_attr("run", MATMUL_RUN_SIZE);
    *p = (struct product_io){
        .inputs[MATMUL_RUN] = {.logical = run, .native = run, .native_nhwc = run}};
    int r = matmul_model_decode(file, &p->model, e);
    for (uint32_t i = 0; r == 0 && i < p->model.n_shapes; i++)
        r = take_shape(p, chip, i, e);
    return r;
}

void product_io_info(const struct product_io *p, struct npu_model_info *ret)
{
    *ret = (struct npu_model_info){.n_inputs = MATMUL_INPUTS,
                                   .n_outputs = 1,
                                   .inputs = p->inputs,
                                   .outputs = &p->output,
                                   .n_shape_sets = 1,
                                   .batch = 1,
                                   .custom_string = ""};
}

// ---- jobs --------------------------------------------------------------------------------------

static int check_size(const char *what, size_t has, size_t takes, struct error *e)
{
    return has >= takes ? 0
                        : error_set(e, STATUS_INPUT_INVALID,
                                    "matrix %s has %zu bytes, it takes %zu", what, has, takes);
}

// Decodes a job. B is checked apart (product_io_check_b()), since a job may leave it out where the
// backend has it already.
int product_io_read(const struct product_io *p, const char *chip, const struct npu_job *job,
                    struct product_job *ret, struct error *e)
{
    const struct npu_input *in = job->inputs;
    struct product_job j;
    struct matmul_matrix x[3];
    if (in[MATMUL_RUN].size != MATMUL_RUN_SIZE)
        return error_set(e, STATUS_INPUT_INVALID, "%zu bytes are not the parameters of a matmul",
                         in[MATMUL_RUN].size);
    matmul_run_decode(in[MATMUL_RUN].data, &j.run);
    if (j.run.shape >= p->model.n_shapes)
        return error_set(e, STATUS_INPUT_INVALID, "shape %u: there are %u", j.run.shape,
                         p->model.n_shapes);
    j.shape = matmul_model_shape(&p->model, j.run.shape);
    int r = matmul_place(&p->model.kind, &j.shape, chip, x, e);
    if (r == 0)
        r = check_size("A", in[MATMUL_A].size, x[0].size, e);
    if (r == 0 && job->outputs->data)
        r = check_size("C", job->outputs->size, x[2].size, e);
    if (r < 0)
        return r;
    j.a = x[0];
    j.b = x[1];
    j.c = x[2];
    *ret = j;
    return 0;
}

// B may have one scale for all, or as many as its kind of quantization says.
int product_io_check_b(const struct product_io *p, const struct product_job *j,
                       const struct npu_job *job, struct error *e)
{
    uint64_t n = matmul_n_scales(&p->model.kind, &j->shape);
    size_t size = job->inputs[MATMUL_SCALES].size;
    int r = check_size("B", job->inputs[MATMUL_B].size, j->b.size, e);
    if (r < 0 || size == MATMUL_SCALE_SIZE || size == n * MATMUL_SCALE_SIZE)
        return r;
    return error_set(e, STATUS_INPUT_INVALID, "B has %zu bytes of scales, it takes %llu or %d",
                     size, (unsigned long long)n * MATMUL_SCALE_SIZE, MATMUL_SCALE_SIZE);
}
