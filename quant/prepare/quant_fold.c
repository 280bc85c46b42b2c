// Batch normalizations go into the convolutions before them: each output's weights times its
// factor, and a bias that the addend is in.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"
#include "quant/prepare/quant_simplify.h"

struct fold {
    struct quant_model *m;
    struct quant_index x;
    struct error *e;
};

// A batch normalization as factor and addend of each channel, malloc'ed together.
static int fold_factors(const struct fold *f, const Quant__Node *norm, size_t n, float **ret)
{
    cleanup(free_p) float *gamma = NULL, *beta = NULL, *mean = NULL, *variance = NULL;
    float **values[] = {&gamma, &beta, &mean, &variance};
    for (size_t i = 0; i < 4; i++) {
        const Quant__Tensor *t = quant_index_weight(&f->x, norm, i + 1);
        if (!t || quant_constant_count(t) != n)
            return 0;
        int r = quant_constant_floats(t, values[i], f->e);
        if (r < 0)
            return r;
    }
    float *both = malloc(2 * n * sizeof *both);
    if (!both)
        return error_no_memory(f->e, "a batch normalization", n);
    double epsilon = (double)quant_attr_float(norm, "epsilon", 1e-5F);
    for (size_t i = 0; i < n; i++) {
        double k = gamma[i] / sqrt(variance[i] + epsilon);
        both[i] = (float)k;
        both[n + i] = (float)(beta[i] - mean[i] * k);
    }
    *ret = both;
    return 1;
}

// New weights and a bias of the convolution, under new names.
static int fold_into(const struct fold *f, Quant__Node *conv, const Quant__Tensor *w,
                     const float *factors)
{
    size_t n = (size_t)w->dims[0], each = quant_constant_count(w) / n;
    const Quant__Tensor *b = quant_index_weight(&f->x, conv, 2);
    cleanup(free_p) float *weights = NULL, *old = NULL;
    cleanup(free_p) float *bias = malloc(n * sizeof *bias);
    if (!bias)
        return error_no_memory(f->e, "a bias", n);
    int r = quant_constant_floats(w, &weights, f->e);
    if (r == 0 && b)
        r = quant_constant_floats(b, &old, f->e);
    if (r < 0 || !weights)
        return r;
    for (size_t o = 0; o < n; o++) {
        for (size_t i = 0; i < each; i++)
            weights[o * each + i] *= factors[o];
        bias[o] = (old ? old[o] : 0) * factors[o] + factors[n + o];
    }
    int64_t dim = (int64_t)n;
    char **in = quant_pool_take(&f->m->pool, 3, sizeof *in);
    char *names[2] = {quant_index_fresh(&f->x, &f->m->pool, "%s_folded_w", quant_output(conv, 0)),
                      quant_index_fresh(&f->x, &f->m->pool, "%s_folded_b", quant_output(conv, 0))};
    if (!in || !names[0] || !names[1] ||
        !quant_model_constant(f->m, names[0], QUANT_FLOAT, w->n_dims, w->dims, weights,
                              n * each * sizeof *weights) ||
        !quant_model_constant(f->m, names[1], QUANT_FLOAT, 1, &dim, bias, n * sizeof *bias))
        return error_no_memory(f->e, "a weight", n * each);
    in[0] = conv->input[0];
    in[1] = names[0];
    in[2] = names[1];
    conv->input = in;
    conv->n_input = 3;
    return 1;
}

// 1: `norm` is in the convolution before it, whose output is now that of `norm`.
static int fold_one_norm(const struct fold *f, Quant__Node *norm)
{
    const struct quant_edge *between = quant_index_find(&f->x, quant_input(norm, 0));
    if (!between || between->producer < 0 || quant_index_only_reader(&f->x, between) < 0 ||
        norm->n_output != 1)
        return 0;
    Quant__Node *conv = f->m->graph->node[between->producer];
    const Quant__Tensor *w = quant_is(conv, "Conv") ? quant_index_weight(&f->x, conv, 1) : NULL;
    const Quant__Tensor *b = quant_index_weight(&f->x, conv, 2);
    if (!w || conv->n_output != 1 || w->n_dims < 3 || w->dims[0] <= 0 || !quant_constant_count(w) ||
        (*quant_input(conv, 2) && (!b || quant_constant_count(b) != (size_t)w->dims[0])))
        return 0;
    cleanup(free_p) float *factors = NULL;
    int r = fold_factors(f, norm, (size_t)w->dims[0], &factors);
    if (r == 1)
        r = fold_into(f, conv, w, factors);
    if (r == 1 && !(quant_model_join(f->m, quant_output(conv, 0), quant_output(norm, 0)) &&
                    quant_model_join(f->m, quant_text(norm->name), quant_output(norm, 0))))
        r = error_no_memory(f->e, "names", 0);
    if (r == 1)
        conv->output[0] = norm->output[0];
    return r;
}

int quant_fold_batch_norms(struct quant_model *m, uint32_t *ret_n, struct error *e)
{
    struct quant_node_list kept = {0};
    struct fold f = {.m = m, .e = e};
    uint32_t folded = 0;
    *ret_n = 0;
    if (m->has_subgraphs)
        return 0;
    int r = quant_index_make(&f.x, m, e);
    for (size_t i = 0; i < m->graph->n_node && r >= 0; i++) {
        Quant__Node *n = m->graph->node[i];
        r = quant_is(n, "BatchNormalization") ? fold_one_norm(&f, n) : 0;
        folded += r == 1;
        if (r == 0 && !quant_model_append(m, &kept, n))
            r = error_no_memory(e, "the model", 0);
    }
    quant_index_done(&f.x);
    if (r < 0)
        return r;
    quant_model_take_nodes(m, &kept);
    *ret_n = folded;
    return 0;
}
