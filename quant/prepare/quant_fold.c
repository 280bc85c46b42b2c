// Batch normalizations go into the products before them: each output's weights times its factor,
// and a bias that the addend is in.
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
    const float *gamma = NULL, *beta = NULL, *mean = NULL, *variance = NULL;
    const float **values[] = {&gamma, &beta, &mean, &variance};
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

// How the weights of a product lie: `rows` times weights of `count` outputs, `inner` each.
struct fold_layout {
    size_t outputs, rows, count, inner;
    size_t shared; // rows that are of the same outputs
};

// False: it is no product whose outputs a batch normalization takes as channels.
static bool fold_lay(const Quant__Node *n, const Quant__Tensor *w, struct fold_layout *l)
{
    if (!w || w->n_dims < 2 || w->dims[0] <= 0 || w->dims[1] <= 0 || !quant_constant_count(w))
        return false;
    size_t first = (size_t)w->dims[0], second = (size_t)w->dims[1];
    size_t inner = quant_constant_count(w) / first / second;
    int64_t group = quant_attr_int(n, "group", 1);
    if (quant_is(n, "Conv") && w->n_dims > 2)
        *l = (struct fold_layout){first, 1, first, second * inner, 1};
    else if (quant_is(n, "Gemm") && w->n_dims == 2 && quant_attr_int(n, "transB", 0))
        *l = (struct fold_layout){first, 1, first, second, 1};
    else if (quant_is(n, "Gemm") && w->n_dims == 2)
        *l = (struct fold_layout){second, first, second, 1, first};
    else if (quant_is(n, "ConvTranspose") && w->n_dims > 2 && group > 0 &&
             (uint64_t)group <= first && first % (size_t)group == 0)
        *l = (struct fold_layout){second * (size_t)group, first, second, inner,
                                  first / (size_t)group};
    else
        return false;
    return true;
}

// From `weights` to `scaled`, which may be the same.
static void fold_scale(const struct fold_layout *l, const float *factors, const float *weights,
                       float *scaled)
{
    for (size_t row = 0; row < l->rows; row++)
        for (size_t i = 0; i < l->count; i++, weights += l->inner, scaled += l->inner) {
            const float factor = factors[row / l->shared * l->count + i];
            for (size_t k = 0; k < l->inner; k++)
                scaled[k] = weights[k] * factor;
        }
}

// Room for the new weights: where the old ones are, if this product alone reads them, since a large
// model would be in memory twice otherwise.
static float *fold_room(const struct fold *f, const Quant__Node *product, const Quant__Tensor *w)
{
    const struct quant_edge *edge = quant_index_find(&f->x, quant_input(product, 1));
    bool alone = edge->n_uses == 1 && !edge->is_output && edge->producer < 0;
    size_t size = quant_constant_count(w) * sizeof(float);
    if (alone && w->has_raw_data && w->raw_data.len == size)
        return (float *)(void *)w->raw_data.data; // pools and mappings align
    return quant_pool_take(&f->m->pool, 1, size);
}

// New weights and a bias of the product, under new names.
static int fold_into(const struct fold *f, Quant__Node *product, const Quant__Tensor *w,
                     const struct fold_layout *l, const float *factors)
{
    size_t n = l->outputs, count = quant_constant_count(w);
    const Quant__Tensor *b = quant_index_weight(&f->x, product, 2);
    const float *weights = NULL, *old = NULL;
    int r = quant_constant_floats(w, &weights, f->e);
    if (r == 0 && b)
        r = quant_constant_floats(b, &old, f->e);
    if (r < 0)
        return r;
    float *bias = quant_pool_take(&f->m->pool, n, sizeof *bias);
    float *scaled = fold_room(f, product, w);
    if (!bias || !scaled)
        return error_no_memory(f->e, "a weight", count);
    fold_scale(l, factors, weights, scaled);
    for (size_t o = 0; o < n; o++)
        bias[o] = (old ? old[o] : 0) * factors[o] + factors[n + o];
    int64_t dim = (int64_t)n;
    char **in = quant_pool_take(&f->m->pool, 3, sizeof *in);
    const char *made = quant_output(product, 0);
    char *names[2] = {quant_index_fresh(&f->x, &f->m->pool, "%s_folded_w", made),
                      quant_index_fresh(&f->x, &f->m->pool, "%s_folded_b", made)};
    if (!in || !names[0] || !names[1] ||
        !quant_model_take_constant(f->m, names[0], QUANT_FLOAT, w->n_dims, w->dims, scaled,
                                   count * sizeof *scaled) ||
        !quant_model_take_constant(f->m, names[1], QUANT_FLOAT, 1, &dim, bias, n * sizeof *bias))
        return error_no_memory(f->e, "a weight", count);
    in[0] = product->input[0];
    in[1] = names[0];
    in[2] = names[1];
    product->input = in;
    product->n_input = 3;
    return 1;
}

// 1: `norm` is in the product before it, whose output is now that of `norm`.
static int fold_one_norm(const struct fold *f, Quant__Node *norm)
{
    const struct quant_edge *between = quant_index_find(&f->x, quant_input(norm, 0));
    if (!between || between->producer < 0 || quant_index_only_reader(&f->x, between) < 0 ||
        norm->n_output != 1)
        return 0;
    Quant__Node *product = f->m->graph->node[between->producer];
    const Quant__Tensor *w = quant_index_weight(&f->x, product, 1);
    const Quant__Tensor *b = quant_index_weight(&f->x, product, 2);
    struct fold_layout l;
    if (product->n_output != 1 || !fold_lay(product, w, &l) ||
        (*quant_input(product, 2) && (!b || b->n_dims != 1 || (uint64_t)b->dims[0] != l.outputs)))
        return 0;
    cleanup(free_p) float *factors = NULL;
    int r = fold_factors(f, norm, l.outputs, &factors);
    if (r == 1)
        r = fold_into(f, product, w, &l, factors);
    if (r == 1 && !(quant_model_join(f->m, quant_output(product, 0), quant_output(norm, 0)) &&
                    quant_model_join(f->m, quant_text(norm->name), quant_output(norm, 0))))
        r = error_no_memory(f->e, "names", 0);
    if (r == 1)
        product->output[0] = norm->output[0];
    return r;
}

// Those whose producer, as the index has it, is a product. *ret_n: how many.
static int fold_pass(struct quant_model *m, uint32_t *ret_n, struct error *e)
{
    struct quant_node_list kept = {0};
    struct fold f = {.m = m, .e = e};
    uint32_t folded = 0;
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

int quant_fold_batch_norms(struct quant_model *m, uint32_t *ret_n, struct error *e)
{
    uint32_t all = 0, some = 1;
    while (some && !m->has_subgraphs) {
        int r = fold_pass(m, &some, e);
        if (r < 0)
            return r;
        all += some;
    }
    *ret_n = all;
    return 0;
}
