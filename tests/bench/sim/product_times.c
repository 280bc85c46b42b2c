// oneDNN's own times for products of matrices.
#include "tests/bench/sim/product_times.h"

#include <dnnl.h>
#include <stdlib.h>

#include "tests/bench/samples.h"
#include "tests/bench/sim/conv_times.h"

// Row by row: y [m][n] = op(a) [m][k] * op(b) [k][n].
struct product {
    bool integers, turned[2];
    dnnl_dim_t m, n, k;
    uint64_t times;
    void *a, *b, *y;
};

extern void omp_set_num_threads(int n); // of libgomp, which oneDNN is linked with

static void multiply(void *arg)
{
    const struct product *p = arg;
    const char a = p->turned[0] ? 'T' : 'N', b = p->turned[1] ? 'T' : 'N';
    const dnnl_dim_t lda = p->turned[0] ? p->m : p->k, ldb = p->turned[1] ? p->k : p->n;
    const int32_t none = 0;
    for (uint64_t i = 0; i < p->times; i++) {
        dnnl_status_t status =
            p->integers
                ? dnnl_gemm_s8s8s32(a, b, 'F', p->m, p->n, p->k, 1, p->a, lda, 0, p->b, ldb, 0, 0,
                                    p->y, p->n, &none)
                : dnnl_sgemm(a, b, p->m, p->n, p->k, 1, p->a, lda, p->b, ldb, 0, p->y, p->n);
        if (status != dnnl_success)
            abort();
    }
}

static double best_ns(struct product *p)
{
    size_t each = p->integers ? sizeof(int8_t) : sizeof(float);
    if (p->m * p->n == 0 || p->k == 0)
        return 0;
    p->a = calloc((size_t)(p->m * p->k), each);
    p->b = calloc((size_t)(p->k * p->n), each);
    p->y = calloc((size_t)(p->m * p->n), sizeof(float));
    if (!p->a || !p->b || !p->y)
        abort();
    double ns = samples_best_ns(multiply, p);
    free(p->a);
    free(p->b);
    free(p->y);
    return ns;
}

// The size of dimension n_dims - from_end; 1 where it has none.
static dnnl_dim_t size_of(const struct graph_tensor *t, uint32_t from_end)
{
    return t->n_dims < from_end ? 1 : t->dims[t->n_dims - from_end];
}

static double mat_mul_time_ns(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *a = &g->tensors[n->inputs[0]], *b = &g->tensors[n->inputs[1]];
    struct product p = {.turned = {n->product.transpose[0], n->product.transpose[1]}};
    if (b->n_dims < 2)
        return 0;
    p.m = size_of(a, p.turned[0] ? 1 : 2);
    p.k = size_of(a, p.turned[0] ? 2 : 1);
    p.n = size_of(b, p.turned[1] ? 2 : 1);
    p.times = p.m > 0 && p.n > 0 ? g->tensors[n->outputs[0]].n_elems / (uint64_t)(p.m * p.n) : 0;
    return best_ns(&p);
}

// y[h, o, 0, w] of a[h, k, 0, o] and b[h, k, 0, w]. Images are channels last or not: either way one
// factor is turned.
static double ex_mat_mul_time_ns(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *a = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    struct product p = {.integers = a->type == TENSOR_INT8, .turned = {true, false}};
    p.times = y->dims[0];
    p.m = y->dims[1];
    p.n = y->dims[3];
    p.k = a->dims[1];
    return best_ns(&p);
}

// Of each head's queries [d, n], keys [d, m] and values [e, m].
static double attention_time_ns(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *q = &g->tensors[n->inputs[0]], *k = &g->tensors[n->inputs[1]];
    const struct graph_tensor *v = &g->tensors[n->inputs[2]];
    bool integers = q->type == TENSOR_INT8;
    struct product scores = {.integers = integers,
                             .turned = {!q->channels_last, k->channels_last},
                             .m = q->dims[3],
                             .n = k->dims[3],
                             .k = q->dims[1],
                             .times = q->dims[0]};
    struct product values = {.integers = integers,
                             .turned = {false, !v->channels_last},
                             .m = q->dims[3],
                             .n = v->dims[1],
                             .k = k->dims[3],
                             .times = q->dims[0]};
    return best_ns(&scores) + best_ns(&values);
}

double product_time_ns(const struct graph *g, const struct graph_node *n)
{
    omp_set_num_threads(1);
    switch (n->op) {
    case GRAPH_MAT_MUL:
        return mat_mul_time_ns(g, n);
    case GRAPH_EX_MAT_MUL:
        return ex_mat_mul_time_ns(g, n);
    case GRAPH_CONV_TRANSPOSE:
        return transposed_time_ns(g, n);
    case GRAPH_REF:
        return n->ref.op == REF_OP_ATTENTION ? attention_time_ns(g, n) : 0;
    default:
        return 0;
    }
}
