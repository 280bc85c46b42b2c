// MatMul and Gemm of real numbers: y = alpha * op(A) * op(B) + beta * C, op being a transposition.
//
//   A [… , m, k] * B [… , k, n] -> y [… , m, n]    … is broadcast; each matrix is one dnnl_sgemm
//
// In float32 throughout: fp16 and the chips' quantized tensors are converted to floats before
// (plain.h) and rounded as elements_store() does afterwards. C is put into y first, since sgemm can
// add to what is there. Fast since oneDNN's sgemm blocks for the caches. Tested by test_onnx_nodes
// and test_onnx_against.
#include <omp.h>

#include "npu/sim/exec/dnn.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"

struct product {
    struct plain in[3], out;
    int64_t m, n, k;
    uint32_t n_dims; // of what is before the matrices
    uint32_t dims[GRAPH_MAX_DIMS];
    int64_t strides[2][GRAPH_MAX_DIMS]; // in elements
    int64_t add[2];                     // strides of input 2 over rows and columns
};

// Dimensions as a matrix product sees them: a vector is a row on the left, a column on the right.
struct operand {
    uint32_t n_dims, dims[GRAPH_MAX_DIMS + 1];
    int64_t rows, columns;
};

// Splits a tensor into batch dimensions and a matrix, transposed if the node says so.
static void mat_mul_see(const struct graph_tensor *t, bool right, bool transpose, struct operand *o)
{
    uint32_t n = t->n_dims;
    *o = (struct operand){.n_dims = n > 2 ? n - 2 : 0, .rows = 1, .columns = 1};
    memcpy(o->dims, t->dims, o->n_dims * sizeof *o->dims);
    int64_t last = n ? t->dims[n - 1] : 1, before = n > 1 ? t->dims[n - 2] : 1;
    o->rows = n == 1 && right ? last : before;
    o->columns = n == 1 && right ? 1 : last;
    if (transpose) {
        int64_t rows = o->rows;
        o->rows = o->columns;
        o->columns = rows;
    }
}

// Strides of the batch dimensions, 0 where one is broadcast; false: they do not fit.
static bool take_batch(struct product *p, const struct operand *o, int which)
{
    int64_t step = o->rows * o->columns;
    uint32_t missing = p->n_dims - o->n_dims;
    for (uint32_t i = o->n_dims; i-- > 0;) {
        if (o->dims[i] != 1 && o->dims[i] != p->dims[missing + i])
            return false;
        p->strides[which][missing + i] = o->dims[i] == 1 ? 0 : step;
        step *= o->dims[i];
    }
    return true;
}

// Sets m, n, k and the batch; false: shapes that do not fit together.
static bool take_shapes(struct step *s, struct product *p)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct operand a, b;
    mat_mul_see(step_input(s, 0), false, s->node->product.transpose[0], &a);
    mat_mul_see(step_input(s, 1), true, s->node->product.transpose[1], &b);
    const struct operand *longer = a.n_dims > b.n_dims ? &a : &b;
    uint64_t n = (uint64_t)(a.rows * b.columns);
    p->m = a.rows;
    p->k = a.columns;
    p->n = b.columns;
    p->n_dims = longer->n_dims;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        uint32_t da = i + a.n_dims >= p->n_dims ? a.dims[i + a.n_dims - p->n_dims] : 1;
        uint32_t db = i + b.n_dims >= p->n_dims ? b.dims[i + b.n_dims - p->n_dims] : 1;
        p->dims[i] = da == 1 ? db : da;
        n *= p->dims[i];
    }
    return a.columns == b.rows && take_batch(p, &a, 0) && take_batch(p, &b, 1) && n == y->n_elems;
}

// Gemm's C, of m or 1 rows and n or 1 columns. With a batch it is a bias, one row.
static bool take_addend(struct step *s, struct product *p)
{
    const struct graph_tensor *t = step_input(s, 2);
    if (!t)
        return true;
    uint32_t rows = t->n_dims > 1 ? t->dims[t->n_dims - 2] : 1;
    uint32_t columns = t->n_dims ? t->dims[t->n_dims - 1] : 1;
    p->add[0] = rows == 1 ? 0 : columns;
    p->add[1] = columns == 1 ? 0 : 1;
    return t->n_dims <= 2 && (!p->n_dims || rows == 1) && (rows == 1 || rows == p->m) &&
           (columns == 1 || columns == p->n);
}

// Quantized tensors of the chips are multiplied as the real numbers they represent.
static bool is_real(const struct graph_tensor *t)
{
    return t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16 ||
           (t->quantized && !t->rounds_before_zp);
}

static int mat_mul_prepare(struct step *s, struct error *e)
{
    struct product *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    for (uint32_t i = 0; i < 3; i++) {
        const struct graph_tensor *t = step_input(s, i);
        if (!t && i == 2)
            continue;
        if (!t || !is_real(t))
            return step_refuse(s, e, "input %u is not a tensor of real numbers", i);
        int r = plain_input(s, i, &p->in[i], e);
        if (r < 0)
            return r;
    }
    if (!take_shapes(s, p) || !take_addend(s, p))
        return step_refuse(s, e, "the shapes of its inputs do not fit together");
    return plain_output(s, 0, &p->out, e);
}

static void fill_addend(const struct step *s, const struct product *p, const float *add, float *y)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            y[i * p->n + j] = s->node->product.beta * add[i * p->add[0] + j * p->add[1]];
}

// One matrix. An empty sum (k = 0) is 0, which sgemm does not promise.
static int mat_mul_multiply(const struct step *s, const struct product *p, const float *a,
                            const float *b, float *y, bool add, struct error *e)
{
    const bool *transpose = s->node->product.transpose;
    if (!p->k) {
        for (int64_t i = 0; i < p->m * p->n && !add; i++)
            y[i] = 0;
        return 0;
    }
    dnnl_status_t status =
        dnnl_sgemm(transpose[0] ? 'T' : 'N', transpose[1] ? 'T' : 'N', p->m, p->n, p->k,
                   s->node->product.alpha, a, transpose[0] ? p->m : p->k, b,
                   transpose[1] ? p->k : p->n, add ? 1 : 0, y, p->n);
    return status == dnnl_success ? 0 : dnn_error(s, status, "a product", e);
}

static int mat_mul_run(const struct step *s, struct run *r, struct error *e)
{
    const struct product *p = s->state;
    bool add = step_input(s, 2) != NULL;
    const float *a = plain_load(s, r, &p->in[0]), *b = plain_load(s, r, &p->in[1]);
    float *y = plain_values(s, r, &p->out);
    uint64_t size = (uint64_t)(p->m * p->n), batches = size ? step_output(s, 0)->n_elems / size : 0;
    omp_set_num_threads(1);
    const float *addend = add ? plain_load(s, r, &p->in[2]) : NULL;
    for (uint64_t i = 0; i < batches; i++) {
        uint64_t rest = i;
        int64_t at[2] = {0, 0};
        for (uint32_t d = p->n_dims; d-- > 0; rest /= p->dims[d])
            for (int k = 0; k < 2; k++)
                at[k] += (int64_t)(rest % p->dims[d]) * p->strides[k][d];
        if (add)
            fill_addend(s, p, addend, y + i * size);
        int status = mat_mul_multiply(s, p, a + at[0], b + at[1], y + i * size, add, e);
        if (status < 0)
            return status;
    }
    for (uint64_t i = 0; i < step_output(s, 0)->n_elems && s->node->n_post; i += ELEMENTS_CHUNK) {
        uint64_t left = step_output(s, 0)->n_elems - i,
                 n = left < ELEMENTS_CHUNK ? left : ELEMENTS_CHUNK;
        for (uint32_t k = 0; k < s->node->n_post; k++)
            elements_post(&s->node->post[k], y + i, n);
    }
    plain_store(s, r, &p->out);
    return 0;
}

const struct op op_mat_mul = {.prepare = mat_mul_prepare, .run = mat_mul_run, .on_constant = true};
