// Factors of Gemm, and biases of other forms than one number for each output.
#include <math.h>

#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"
#include "quant/prepare/quant_simplify.h"

// A constant of the node's own, which others may share no more. NULL: no memory. `values`: of the
// model.
static char *gemm_constant(struct quant_model *m, const struct quant_index *x, const Quant__Node *n,
                           const char *what, float *values, size_t n_dims, const int64_t *dims)
{
    size_t count = 1;
    char *text = quant_index_fresh(x, &m->pool, "%s_%s", quant_output(n, 0), what);
    for (size_t i = 0; i < n_dims; i++)
        count *= (size_t)dims[i];
    return text && quant_model_take_constant(m, text, QUANT_FLOAT, n_dims, dims, values,
                                             count * sizeof *values)
               ? text
               : NULL;
}

// n elements, or one n times (`step` 0), times a factor, in memory of the model. *ret NULL: some
// product is not finite.
static int gemm_times(struct quant_model *m, const float *from, size_t step, size_t n, float factor,
                      float **ret, struct error *e)
{
    float *made = quant_pool_take(&m->pool, n, sizeof *made);
    bool finite = true;
    if (!made)
        return error_no_memory(e, "a weight", n);
    for (size_t i = 0; i < n; i++) {
        made[i] = from[i * step] * factor;
        finite &= isfinite(made[i]);
    }
    *ret = finite ? made : NULL;
    return 0;
}

// beta * bias as one number for each output. *ret NULL: it is not of that kind.
static int gemm_bias(struct quant_model *m, const Quant__Tensor *t, size_t outputs, float beta,
                     float **ret, struct error *e)
{
    const float *given = NULL;
    size_t count = quant_constant_count(t);
    bool fits = count == 1 || count == outputs;
    bool columns = count == 1 || (t->n_dims && (size_t)t->dims[t->n_dims - 1] == outputs);
    int r = fits ? quant_constant_floats(t, &given, e) : 0;
    *ret = NULL;
    return r < 0 || !fits || !columns
               ? r
               : gemm_times(m, given, count == 1 ? 0 : 1, outputs, beta, ret, e);
}

// Whether a Gemm with a constant weight is as products are wanted: without factors, and with a bias
// that is one list.
static bool gemm_is_plain(const Quant__Node *n, const Quant__Tensor *bias, int64_t outputs)
{
    return quant_attr_float(n, "alpha", 1) == 1 && quant_attr_float(n, "beta", 1) == 1 &&
           (!bias || (bias->n_dims == 1 && bias->dims[0] == outputs));
}

int quant_simplify_gemm(struct quant_model *m, const struct quant_index *x, Quant__Node *n,
                        struct error *e)
{
    float alpha = quant_attr_float(n, "alpha", 1), beta = quant_attr_float(n, "beta", 1);
    const Quant__Tensor *w = quant_index_weight(x, n, 1), *b = quant_index_weight(x, n, 2);
    bool has_bias = *quant_input(n, 2) && beta != 0;
    if (!quant_is(n, "Gemm") || !*quant_output(n, 0) || alpha == 0 || !w || w->n_dims != 2 ||
        !quant_constant_count(w) || (has_bias && !b))
        return 0;
    int64_t outputs = w->dims[quant_attr_int(n, "transB", 0) ? 0 : 1];
    const float *given = NULL;
    float *weight = NULL, *bias = NULL;
    if (gemm_is_plain(n, b, outputs))
        return 0;
    int r = alpha == 1 ? 0 : quant_constant_floats(w, &given, e);
    if (r == 0 && has_bias)
        r = gemm_bias(m, b, (size_t)outputs, beta, &bias, e);
    if (r < 0 || (has_bias && !bias))
        return r;
    if (given)
        r = gemm_times(m, given, 1, quant_constant_count(w), alpha, &weight, e);
    if (r < 0 || (given && !weight))
        return r;
    char *own = weight ? gemm_constant(m, x, n, "weight", weight, 2, w->dims) : n->input[1];
    char *shift = bias ? gemm_constant(m, x, n, "bias", bias, 1, &outputs) : NULL;
    if (!own || (bias && !shift))
        return error_no_memory(e, "a weight", 0);
    n->input[1] = own;
    if (shift)
        n->input[2] = shift;
    else
        n->n_input = 2;
    quant_attr_remove(n, "alpha");
    quant_attr_remove(n, "beta");
    return 0;
}
