// Behind an input come (x - mean) / deviation, which all readers then have:
//
//     x -> readers      x -> Sub -> x_centred -> Div -> x_normalized -> readers
#include <string.h>

#include "quant/model/quant_constant.h"
#include "quant/prepare/quant_simplify.h"

// Readers of `name` read `other`.
static void normalize_rename_reads(struct quant_model *m, const char *name, char *other)
{
    for (size_t i = 0; i < m->graph->n_node; i++)
        for (size_t k = 0; k < m->graph->node[i]->n_input; k++)
            if (strcmp(m->graph->node[i]->input[k], name) == 0)
                m->graph->node[i]->input[k] = other;
}

// NULL: the file does not say.
static const Quant__Shape *normalize_shape(const struct quant_model *m, const char *name)
{
    for (size_t i = 0; i < m->graph->n_input; i++) {
        const Quant__ValueInfo *v = m->graph->input[i];
        if (strcmp(quant_text(v->name), name) == 0)
            return v->type && v->type->tensor_type ? v->type->tensor_type->shape : NULL;
    }
    return NULL;
}

// Whether `n` numbers fit a dimension; open ones are told by the samples.
static bool normalize_fits(const Quant__Shape *s, size_t axis, size_t n)
{
    return axis < s->n_dim &&
           (!s->dim[axis]->has_dim_value || s->dim[axis]->dim_value == (int64_t)n);
}

// The shape of constants with a number for each channel. Channels are the second dimension, or the
// last one where that alone has so many, or the only one.
static int normalize_dims(const struct quant_model *m, const char *name, size_t n, int64_t *dims,
                          size_t *ret_n, struct error *e)
{
    const Quant__Shape *s = normalize_shape(m, name);
    size_t rank = s ? s->n_dim : 4, axis = 1;
    if (rank > QUANT_MAX_DIMS)
        return error_set(e, STATUS_MODEL_INVALID, "input %s has %zu dimensions", name, rank);
    if (s && !normalize_fits(s, axis, n))
        axis = rank ? rank - 1 : 0;
    if (s && !normalize_fits(s, axis, n))
        return error_set(e, STATUS_PARAM_INVALID,
                         "input %s: there are %zu numbers for mean or deviation, and the input has "
                         "no dimension of channels that is as long: give one for each channel, or "
                         "one for all",
                         name, n);
    for (size_t i = 0; i < rank; i++)
        dims[i] = i == axis ? (int64_t)n : 1;
    *ret_n = rank;
    return 0;
}

static const char *normalize_constant(struct quant_model *m, const struct quant_index *x,
                                      const char *name, const char *what, const float *values,
                                      size_t n, const int64_t *dims, size_t n_dims)
{
    char *text = quant_index_fresh(x, &m->pool, "%s_%s", name, what);
    return text && quant_model_constant(m, text, QUANT_FLOAT, n_dims, dims, values,
                                        n * sizeof *values)
               ? text
               : NULL;
}

int quant_normalize_input(struct quant_model *m, const struct quant_index *x, const char *name,
                          const float *mean, const float *deviation, size_t n, struct error *e)
{
    int64_t dims[QUANT_MAX_DIMS];
    size_t n_dims = 0;
    if (m->has_subgraphs)
        return error_set(e, STATUS_MODEL_INVALID,
                         "input %s: the model has subgraphs, which may read it, so its mean and "
                         "deviation cannot go before it: give samples that are normalized already",
                         name);
    int r = n > 1 ? normalize_dims(m, name, n, dims, &n_dims, e) : 0;
    if (r < 0)
        return r;
    const char *centre = normalize_constant(m, x, name, "mean", mean, n, dims, n_dims);
    const char *width = normalize_constant(m, x, name, "std", deviation, n, dims, n_dims);
    char *centred = quant_index_fresh(x, &m->pool, "%s_centred", name);
    char *normal = quant_index_fresh(x, &m->pool, "%s_normalized", name);
    struct quant_node_list nodes = {0};
    if (!centre || !width || !centred || !normal)
        return error_no_memory(e, "the model", 0);
    normalize_rename_reads(m, name, normal);
    bool made = quant_model_append(m, &nodes,
                                   quant_model_node(m, "Sub", centred, 2,
                                                    (const char *[]){name, centre}, centred)) &&
                quant_model_append(m, &nodes,
                                   quant_model_node(m, "Div", normal, 2,
                                                    (const char *[]){centred, width}, normal));
    for (size_t i = 0; i < m->graph->n_node && made; i++)
        made = quant_model_append(m, &nodes, m->graph->node[i]);
    if (!made)
        return error_no_memory(e, "the model", 0);
    quant_model_take_nodes(m, &nodes);
    return 0;
}
