// Runs a product: blocks of BLOCK_ROWS rows of A times slices of B, by oneDNN's gemm, which gets so
// many columns at a time that others need not wait long for the device.
//
//   C[i, j] = Σ_slices scale[slice, j] * Σ_k∈slice (a[i, k] - za) * (b[k, j] - zb[slice, j])
//
// Of integers the inner sums are exact (product_factor.c says why); they are scaled and added up in
// doubles and rounded once, to nearest even, when C is written. Zero points are not subtracted from
// the elements but from the sums (add_zero_points), so that the multiplication stays one of int8.
// Fast since blocks keep A, the sums and a slice of B in the caches, and B is unpacked once for
// many runs.
// Tests: test_sim_matmul; the conformance programs of matmul.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "npu/sim/cost/estimate.h"
#include "npu/sim/exec/dnn.h"
#include "npu/sim/matmul/product.h"
#include "npu/sim/matmul/product_data.h"
#include "npu/sim/matmul/product_factor.h"
#include "npu/sim/simd/elements.h"
#include "npu/slices.h"
#include "npu/stop.h"

#define BLOCK_ROWS   128
#define STEP_MACS    (UINT64_C(1) << 26) // between two looks at who else wants the device
#define STEP_COLUMNS 64u                 // whole kernels of gemm, so that results are the same

struct product_state {
    const struct product *product;
    struct product_job job;
    struct factor factor;
    // For BLOCK_ROWS rows, of the largest shape:
    void *rows;       // of A: float or int8_t
    void *slice_sums; // float or int32_t
    double *sums;
    struct npu_job *running;
    uint64_t waited_us; // of it, between slices
    struct npu_layer layer;
    char input_shapes[64], output_shapes[32];
};

// ---- one block of rows ----

// Others who wait for the device have it now; a job that is stopped ends.
static int product_pass(struct product_state *s, struct error *e)
{
    int r = npu_slices_pass(s->running->slices, &s->waited_us, e);
    return r < 0 ? r : npu_stop_check(s->running->stop, e);
}

// Of `width` columns from `column` on. gemm takes row-major matrices here; a transposed B is read
// in place.
static dnnl_status_t multiply_columns(struct product_state *s, uint32_t k, uint32_t length,
                                      uint32_t n, uint32_t column, uint32_t width)
{
    const struct factor *f = &s->factor;
    char order = f->matrix.transposed ? 'T' : 'N';
    uint32_t b_step = f->matrix.transposed ? f->k : f->n;
    const void *b = factor_at(f, k, column);
    if (f->way == FACTOR_INT8)
        return dnnl_gemm_s8s8s32('N', order, 'F', n, width, length, 1, (const int8_t *)s->rows + k,
                                 f->k, 0, b, b_step, 0, 0, (int32_t *)s->slice_sums + column, f->n,
                                 &(int32_t){0});
    return dnnl_sgemm('N', order, n, width, length, 1, (const float *)s->rows + k, f->k, b, b_step,
                      0, (float *)s->slice_sums + column, f->n);
}

// slice_sums = A[:, k .. k + length) x B[k .. k + length, :] for n rows, some columns at a time.
static int product_multiply(struct product_state *s, uint32_t k, uint32_t length, uint32_t n,
                            struct error *e)
{
    uint32_t columns = s->factor.n;
    uint64_t step = STEP_MACS / ((uint64_t)length * n) / STEP_COLUMNS * STEP_COLUMNS;
    step = step ? step : STEP_COLUMNS;
    for (uint32_t column = 0; column < columns; column += (uint32_t)step) {
        uint32_t left = columns - column, width = left < step ? left : (uint32_t)step;
        int r = product_pass(s, e);
        if (r < 0)
            return r;
        dnnl_status_t status = multiply_columns(s, k, length, n, column, width);
        if (status != dnnl_success)
            return error_set(e, status == dnnl_out_of_memory ? STATUS_MALLOC_FAIL : STATUS_FAIL,
                             "oneDNN: a product: status %d", (int)status);
    }
    return 0;
}

KERNEL(void, add_floats, (const float *from, const float *scales, uint32_t n, double *sums),
       (from, scales, n, sums))
{
    for (uint32_t i = 0; i < n; i++)
        sums[i] += (double)from[i] * (double)scales[i];
}

KERNEL(void, add_integers, (const int32_t *from, const float *scales, uint32_t n, double *sums),
       (from, scales, n, sums))
{
    for (uint32_t i = 0; i < n; i++)
        sums[i] += (double)from[i] * (double)scales[i];
}

// Sum of a row of A within a slice: needed only if B has zero points. Exact in double.
static double sum_of_row(const struct product_state *s, uint32_t row, uint32_t k, uint32_t length)
{
    size_t at = (size_t)row * s->factor.k + k;
    double sum = 0;
    for (uint32_t i = 0; i < length; i++)
        sum += s->factor.way == FACTOR_INT8 ? (double)((const int8_t *)s->rows)[at + i]
                                            : (double)((const float *)s->rows)[at + i];
    return sum;
}

// sum (a - za)(b - zb) = sum ab - za sum b - zb sum a + za zb length
static void add_zero_points(const struct product_state *s, uint32_t k, uint32_t length,
                            const double *b_sums, uint32_t row, double *sums)
{
    const struct factor *f = &s->factor;
    size_t group = (size_t)(k / f->group) * f->n;
    const double *b_zp = f->zero_points ? f->zero_points + group : NULL;
    double a_zp = s->job.run.a_zp, a_sum = b_zp ? sum_of_row(s, row, k, length) : 0;
    for (uint32_t i = 0; i < f->n; i++) {
        double v = b_sums ? -a_zp * b_sums[i] : 0;
        if (b_zp)
            v += b_zp[i] * (a_zp * length - a_sum);
        sums[i] += v * (double)f->scales[group + i];
    }
}

// sums += scale * slice_sums, and the zero points' part. In double: slices have different scales.
static void add_slice(struct product_state *s, uint32_t k, uint32_t length, const double *b_sums,
                      uint32_t n)
{
    const struct factor *f = &s->factor;
    const float *scales = f->scales + (size_t)(k / f->group) * f->n;
    for (uint32_t row = 0; row < n; row++) {
        size_t at = (size_t)row * f->n;
        if (f->way == FACTOR_INT8)
            add_integers((const int32_t *)s->slice_sums + at, scales, f->n, s->sums + at);
        else
            add_floats((const float *)s->slice_sums + at, scales, f->n, s->sums + at);
        if (b_sums || f->zero_points)
            add_zero_points(s, k, length, b_sums, row, s->sums + at);
    }
}

// What the sums, which are in units of A's quantization times B's scales, are multiplied by for C:
// the real value for float, quantized units of C for integers. Where the program set no output
// scale, units of the largest scale of B.
static double output_factor(const struct product_state *s)
{
    const struct matmul_run *run = &s->job.run;
    if (s->job.c.type == TENSOR_FLOAT32 || s->job.c.type == TENSOR_FLOAT16)
        return (double)run->a_scale;
    if (run->c_set || s->job.c.type == TENSOR_INT8)
        return (double)run->a_scale / (double)run->c_scale;
    return 1 / s->factor.largest_scale;
}

static void write_rows(struct product_state *s, uint32_t row, uint32_t n, void *c)
{
    double factor = output_factor(s);
    for (uint32_t i = 0; i < n; i++) {
        double *sums = s->sums + (size_t)i * s->factor.n;
        for (uint32_t k = 0; k < s->factor.n; k++)
            sums[k] *= factor;
        product_write(&s->job.c, c, row + i, sums, s->job.run.c_zp);
    }
}

// n rows of C from n rows of A: read, multiply slice by slice, scale, write.
static int run_rows(struct product_state *s, const void *a, uint32_t row, uint32_t n, void *c,
                    struct error *e)
{
    const struct factor *f = &s->factor;
    const double *b_sums = f->sums;
    int r = 0;
    memset(s->sums, 0, (size_t)n * f->n * sizeof *s->sums);
    if (f->way == FACTOR_INT8)
        product_read_int8(&s->job.a, a, row, n, s->rows);
    else
        product_read_floats(&s->job.a, a, row, n, s->rows);
    for (uint32_t k = 0, length; k < f->k && r == 0; k += length) {
        length = factor_slice(f, k);
        r = product_multiply(s, k, length, n, e);
        add_slice(s, k, length, b_sums, n);
        b_sums = b_sums ? b_sums + f->n : NULL;
    }
    if (r == 0)
        write_rows(s, row, n, c);
    return r;
}

// ---- a run ----

// Unpacks B unless the last run had the same one: programs usually multiply many A by one B, and
// b_version changes when B was written. Version 0 means unknown.
static int prepare_factor(struct product_state *s, const struct npu_job *job, struct error *e)
{
    const struct matmul_run *run = &s->job.run;
    const struct npu_input *scales = &job->inputs[MATMUL_SCALES];
    struct factor *f = &s->factor;
    if (run->b_version && f->version == run->b_version && f->k == s->job.shape.k &&
        f->n == s->job.shape.n)
        return 0;
    int r = product_io_check_b(&s->product->io, &s->job, job, e);
    if (r < 0)
        return r;
    enum factor_way way = s->job.a.type == TENSOR_FLOAT16 ? FACTOR_REAL
                          : dnn_int8_is_exact()           ? FACTOR_INT8
                                                          : FACTOR_FLOATS;
    r = factor_make(f, &s->product->io.model.kind, &s->job.b, way, run->a_zp != 0,
                    job->inputs[MATMUL_B].data, (struct bytes){scales->data, scales->size}, e);
    if (r == 0)
        f->version = run->b_version;
    return r;
}

// The profile's one row, estimated as what the NPU would do: a convolution of M pixels, K to N
// channels, with windows of 1 x 1.
static void note_layer(struct product_state *s)
{
    const struct matmul_shape *x = &s->job.shape;
    const struct chip *chip = s->product->chip;
    struct estimate_layer l = {.kind = ESTIMATE_CONV,
                               .fp16 = s->job.a.type == TENSOR_FLOAT16,
                               .batch = 1,
                               .in_channels = x->k,
                               .in_width = 1,
                               .out_channels = x->n,
                               .out_height = x->m,
                               .out_width = 1,
                               .kernel = {1, 1},
                               .stride = 1,
                               .groups = 1,
                               .in_bytes = s->job.a.size,
                               .out_bytes = s->job.c.size,
                               .weight_bytes = s->job.b.size};
    struct estimate cost;
    estimate_layer(chip, &l, &cost);
    snprintf(s->input_shapes, sizeof s->input_shapes, "(%u,%u),(%u,%u)", x->m, x->k, x->k, x->n);
    snprintf(s->output_shapes, sizeof s->output_shapes, "(%u,%u)", x->m, x->n);
    s->layer = (struct npu_layer){.name = "MatMul",
                                  .op = "MatMul",
                                  .type = tensor_type_name(s->job.a.type),
                                  .target = "NPU",
                                  .input_shapes = s->input_shapes,
                                  .output_shapes = s->output_shapes,
                                  .ddr_cycles = cost.ddr_cycles,
                                  .npu_cycles = cost.npu_cycles,
                                  .total_cycles = cost.total_cycles,
                                  .macs = cost.macs,
                                  .mac_cycles = estimate_mac_cycles(chip, l.fp16, cost.macs),
                                  .read_bytes = cost.read_bytes,
                                  .write_bytes = cost.write_bytes};
}

// A run whose output is NULL only prepares B.
int product_run(struct product_state *s, struct npu_job *job, struct error *e)
{
    uint64_t start = clock_us();
    const struct npu_input *in = job->inputs;
    s->running = job;
    s->waited_us = 0;
    int r = product_io_read(&s->product->io, s->product->chip->name, job, &s->job, e);
    if (r == 0)
        r = product_pass(s, e);
    if (r == 0)
        r = prepare_factor(s, job, e);
    omp_set_num_threads(1);
    for (uint32_t row = 0; r == 0 && row < s->job.shape.m && job->outputs->data;
         row += BLOCK_ROWS) {
        uint32_t left = s->job.shape.m - row, n = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        r = run_rows(s, in[MATMUL_A].data, row, n, job->outputs->data, e);
    }
    job->run_us = clock_us() - start - s->waited_us;
    if (r == 0) {
        note_layer(s);
        s->layer.core_mask = job->core_mask;
    }
    return r;
}

// ---- state ----

// Rows that a block has at most, and the largest k and n.
static struct matmul_shape largest_block(const struct product *p)
{
    struct matmul_shape block = {0};
    for (uint32_t i = 0; i < p->io.model.n_shapes; i++) {
        struct matmul_shape x = matmul_model_shape(&p->io.model, i);
        block.k = x.k > block.k ? x.k : block.k;
        block.n = x.n > block.n ? x.n : block.n;
        block.m = x.m > block.m ? x.m : block.m;
    }
    block.m = block.m < BLOCK_ROWS ? block.m : BLOCK_ROWS;
    return block;
}

// Of B as if all its values became floats.
uint64_t product_state_size(const struct product *p)
{
    struct matmul_shape x = largest_block(p);
    uint64_t rows =
        (uint64_t)x.m * (x.k + x.n) * sizeof(float) + (uint64_t)x.m * x.n * sizeof(double);
    return rows + (uint64_t)x.k * x.n * sizeof(float);
}

// Buffers for the largest shape, so that runs of any shape allocate nothing but B.
int product_state_new(const struct product *p, struct product_state **ret, struct error *e)
{
    struct matmul_shape block = largest_block(p);
    size_t k = block.k, n = block.n, m = block.m;
    struct product_state *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "a matmul", sizeof *s);
    s->product = p;
    s->rows = malloc(m * k * sizeof(float));
    s->slice_sums = malloc(m * n * sizeof(float));
    s->sums = malloc(m * n * sizeof *s->sums);
    if (s->rows && s->slice_sums && s->sums) {
        *ret = s;
        return 0;
    }
    product_state_free(s);
    return error_no_memory(e, "rows of a matmul", m * k * sizeof(float));
}

void product_state_free(struct product_state *s)
{
    if (!s)
        return;
    factor_done(&s->factor);
    free(s->rows);
    free(s->slice_sums);
    free(s->sums);
    free(s);
}

struct npu_layer *product_layer(struct product_state *s)
{
    return &s->layer;
}

uint64_t product_waited_us(const struct product_state *s)
{
    return s->waited_us;
}

double product_us(const struct product_state *s)
{
    return estimate_us(s->product->chip, s->layer.total_cycles);
}
