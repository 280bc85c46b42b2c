// Each quantized tensor gets a pair of nodes behind the node that makes it:
//
//      before                    after
//      Conv -> y -> readers      Conv -> y -> Q -> y_q -> DQ -> y_dq -> readers
//      Conv -> y, an output      Conv -> y_real -> Q -> y_q -> DQ -> y
//      weight w -> Conv          w_q -> DQ -> w_dq -> Conv
//
// Of 16 bits these nodes are standard from operator set 21 on. In older models they are those of
// the domain com.microsoft, which ONNX Runtime has beside all sets.
#include "quant/plan/quant_rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/quant_parallel.h"

#define MOST_TOGETHER 64
#define MOST_ELEMENTS ((size_t)8 << 20)

struct rewriting {
    struct quant_model *m;
    const struct quant_rewrite_plan *p;
    struct quant_node_list nodes;
    char **form_names;             // of each group: its scale's name and its zero point's
    char **read_names;             // of each edge: what its readers read now; NULL: the same
    struct quant_weights *weights; // of each node: what is rounded already
    struct error *e;
};

static int rewrite_no_memory(const struct rewriting *w)
{
    return error_no_memory(w->e, "the model", 0);
}

// A name that the model has not. NULL: out of memory.
static char *rewrite_name(const struct rewriting *w, const char *name, const char *what)
{
    return quant_index_fresh(w->p->index, &w->m->pool, "%s_%s", name, what);
}

static uint32_t rewrite_edge(const struct rewriting *w, const char *name)
{
    return (uint32_t)(quant_index_find(w->p->index, name) - w->p->index->edges);
}

#define FIRST_OF_16_BITS 21 // operator set

// The pool's `stored`, as elements of the bits that they are to have; in place.
static enum quant_type rewrite_pack(int16_t *stored, size_t n, uint8_t bits)
{
    int8_t *bytes = (int8_t *)stored;
    for (size_t i = 0; i < n && bits == 8; i++)
        bytes[i] = (int8_t)stored[i];
    return bits == 8 ? QUANT_INT8 : QUANT_INT16;
}

static int rewrite_import(const struct rewriting *w)
{
    if (quant_model_opset(w->m) >= FIRST_OF_16_BITS)
        return 0;
    return quant_model_import(w->m, QUANT_MICROSOFT, 1) ? 0 : rewrite_no_memory(w);
}

// QuantizeLinear or DequantizeLinear. NULL: out of memory.
static Quant__Node *rewrite_linear(const struct rewriting *w, const char *op, uint8_t bits,
                                   const char *name, size_t n_inputs, const char *const *inputs,
                                   const char *output)
{
    Quant__Node *n = quant_model_node(w->m, op, name, n_inputs, inputs, output);
    if (n && bits == 16 && quant_model_opset(w->m) < FIRST_OF_16_BITS &&
        !(n->domain = quant_pool_text(&w->m->pool, "%s", QUANT_MICROSOFT)))
        return NULL;
    return n;
}

static bool rewrite_is_quantized(const struct rewriting *w, const char *name)
{
    return *name && w->p->plan->places[rewrite_edge(w, name)].quantized;
}

// Scale and zero point of a group, as constants made once.
static int rewrite_form(const struct rewriting *w, uint32_t edge, const char **ret)
{
    uint32_t group = w->p->plan->places[edge].group;
    char **names = &w->form_names[2 * (size_t)group];
    const struct quant_form *f = &w->p->forms[group];
    int16_t zp = (int16_t)f->zp;
    enum quant_type type = rewrite_pack(&zp, 1, f->bits);
    const char *name = w->p->index->edges[group].name;
    if (!names[0]) {
        names[0] = rewrite_name(w, name, "scale");
        names[1] = rewrite_name(w, name, "zero_point");
        if (!names[0] || !names[1] ||
            !quant_model_constant(w->m, names[0], QUANT_FLOAT, 0, NULL, &f->scale,
                                  sizeof f->scale) ||
            !quant_model_constant(w->m, names[1], type, 0, NULL, &zp, f->bits / 8))
            return rewrite_no_memory(w);
    }
    ret[0] = names[0];
    ret[1] = names[1];
    return 0;
}

// real -> Q -> stored -> DQ -> out
static int rewrite_pair(struct rewriting *w, uint32_t edge, const char *real, const char *out)
{
    const char *form[2];
    int r = rewrite_form(w, edge, form);
    if (r < 0)
        return r;
    const char *stored = rewrite_name(w, w->p->index->edges[edge].name, "q");
    const char *back = rewrite_name(w, w->p->index->edges[edge].name, "dq");
    if (!stored || !back)
        return rewrite_no_memory(w);
    uint8_t bits = w->p->plan->places[edge].bits;
    Quant__Node *q = rewrite_linear(w, "QuantizeLinear", bits, stored, 3,
                                    (const char *[]){real, form[0], form[1]}, stored);
    Quant__Node *dq = rewrite_linear(w, "DequantizeLinear", bits, back, 3,
                                     (const char *[]){stored, form[0], form[1]}, out);
    return quant_model_append(w->m, &w->nodes, q) && quant_model_append(w->m, &w->nodes, dq)
               ? 0
               : rewrite_no_memory(w);
}

// ---- constants ----

// An integer constant: elements, a scale for all or one for each index on an axis, as many zero
// points (in 32 bits there are none: NULL).
struct rewrite_integers {
    uint8_t bits;
    const void *data;
    size_t n;
    const float *scales;
    const void *zps;
    size_t n_scales;
    uint32_t axis;
};

// The constant and its DequantizeLinear. *ret: what that gives out.
static int rewrite_constant(struct rewriting *w, const char *base, const Quant__Tensor *like,
                            const struct rewrite_integers *k, char **ret)
{
    enum quant_type type = k->bits == 8 ? QUANT_INT8 : k->bits == 16 ? QUANT_INT16 : QUANT_INT32;
    const void *zp = k->zps;
    const float *scales = k->scales;
    size_t n_scales = k->n_scales, each = k->bits / 8;
    const char *inputs[3] = {rewrite_name(w, base, "q"), rewrite_name(w, base, "scale"),
                             zp ? rewrite_name(w, base, "zero_point") : NULL};
    char *out = rewrite_name(w, base, "dq");
    int64_t n = (int64_t)n_scales;
    if (!inputs[0] || !inputs[1] || !out || (zp && !inputs[2]) ||
        !quant_model_constant(w->m, inputs[0], type, like->n_dims, like->dims, k->data,
                              k->n * each) ||
        !quant_model_constant(w->m, inputs[1], QUANT_FLOAT, n_scales > 1, &n, scales,
                              n_scales * sizeof *scales) ||
        (zp && !quant_model_constant(w->m, inputs[2], type, n_scales > 1, &n, zp, n_scales * each)))
        return rewrite_no_memory(w);
    Quant__Node *dq = rewrite_linear(w, "DequantizeLinear", k->bits, out, zp ? 3 : 2, inputs, out);
    if (!dq || (n_scales > 1 && !quant_model_set_int(w->m, dq, "axis", k->axis)) ||
        !quant_model_append(w->m, &w->nodes, dq))
        return rewrite_no_memory(w);
    *ret = out;
    return 0;
}

// The node's inputs become an array of its own, of at least `n`.
static int rewrite_own_inputs(struct rewriting *w, Quant__Node *n, size_t count)
{
    count = count > n->n_input ? count : n->n_input;
    char **in = quant_pool_take(&w->m->pool, count, sizeof *in);
    if (!in)
        return rewrite_no_memory(w);
    memcpy(in, n->input, n->n_input * sizeof *in);
    n->input = in;
    n->n_input = count;
    return 0;
}

static int rewrite_put_weights(struct rewriting *w, Quant__Node *n, struct quant_weights *q,
                               uint8_t bits)
{
    const Quant__Tensor *t = quant_index_weight(w->p->index, n, 1);
    int64_t n_bias = (int64_t)q->n_bias;
    Quant__Tensor bias = QUANT__TENSOR__INIT;
    const char *name = quant_output(n, 0);
    const char *weight = rewrite_name(w, name, "weight"), *shift = rewrite_name(w, name, "bias");
    cleanup(free_p) int16_t *zps = calloc(q->n_scales, sizeof *zps);
    if (!weight || !shift || !zps)
        return rewrite_no_memory(w);
    int r = rewrite_own_inputs(w, n, q->bias ? 3 : 2);
    rewrite_pack(q->weight, q->n, bits);
    const struct rewrite_integers weights = {.bits = bits,
                                             .data = q->weight,
                                             .n = q->n,
                                             .scales = q->scales,
                                             .zps = zps,
                                             .n_scales = q->n_scales,
                                             .axis = q->axis};
    const struct rewrite_integers shifts = {.bits = 32,
                                            .data = q->bias,
                                            .n = q->n_bias,
                                            .scales = q->bias_scales,
                                            .n_scales = q->n_scales};
    if (r == 0)
        r = rewrite_constant(w, weight, t, &weights, &n->input[1]);
    bias.n_dims = 1;
    bias.dims = &n_bias;
    if (r == 0 && q->bias)
        r = rewrite_constant(w, shift, &bias, &shifts, &n->input[2]);
    return r;
}

// ---- weights ----

// The next products' weights are rounded together, by threads, up to so many elements, which bound
// the memory.
struct rewrite_batch {
    struct rewriting *w;
    size_t nodes[MOST_TOGETHER];
    uint32_t n, n_threads;
};

static int rewrite_weights(void *user, uint32_t i, struct error *e)
{
    const struct rewrite_batch *b = user;
    const struct rewriting *w = b->w;
    const struct quant_rewrite_plan *p = w->p;
    size_t node = b->nodes[i];
    const Quant__Node *n = w->m->graph->node[node];
    struct quant_weight_options options = p->weights;
    options.store.bits = p->plan->bits[node];
    options.search &= !(p->plain_weights && p->plain_weights[node]);
    options.searched = p->searched ? p->searched[node] : NULL;
    options.n_threads = b->n_threads;
    uint32_t x = rewrite_edge(w, quant_input(n, 0));
    float scale = p->forms[p->plan->places[x].group].scale;
    int r = quant_weights_make(&w->weights[node], p->index, n, scale, &options,
                               p->means ? p->means[x] : NULL, p->means ? p->n_means[x] : 0, e);
    return r < 0 ? error_prefix(e, "node %s", quant_node_name(n)) : 0;
}

static int rewrite_next_weights(struct rewriting *w, size_t node)
{
    uint32_t most = w->p->weights.n_threads > 1 ? MOST_TOGETHER : 1;
    struct rewrite_batch b = {.w = w};
    size_t elements = 0;
    for (; node < w->m->graph->n_node && b.n < most && elements < MOST_ELEMENTS; node++) {
        if (w->p->plan->kinds[node] != QUANT_NODE_PRODUCT)
            continue;
        b.nodes[b.n++] = node;
        elements +=
            quant_constant_count(quant_index_weight(w->p->index, w->m->graph->node[node], 1));
    }
    b.n_threads = b.n == 1 ? w->p->weights.n_threads : 1;
    return quant_parallel(w->p->weights.n_threads, b.n, rewrite_weights, &b, w->e);
}

static int rewrite_product(struct rewriting *w, size_t node)
{
    Quant__Node *n = w->m->graph->node[node];
    struct quant_weights *q = &w->weights[node];
    int r = q->weight ? 0 : rewrite_next_weights(w, node);
    if (r == 0 && (r = rewrite_put_weights(w, n, q, w->p->plan->bits[node])) < 0)
        error_prefix(w->e, "node %s", quant_node_name(n));
    quant_weights_done(q);
    return r;
}

// A constant operand of a sum or product of two.
static int rewrite_operand(struct rewriting *w, Quant__Node *n, size_t input, uint8_t bits)
{
    const Quant__Tensor *t = quant_index_weight(w->p->index, n, input);
    const float *values;
    size_t count = quant_constant_count(t);
    int r = quant_constant_floats(t, &values, w->e);
    if (r < 0)
        return r;
    cleanup(free_p) int16_t *stored = malloc((count + 1) * sizeof *stored);
    const char *base = rewrite_name(w, quant_output(n, 0), "operand");
    if (!stored || !base)
        return rewrite_no_memory(w);
    struct quant_range range = {0, 0};
    for (size_t i = 0; i < count; i++) {
        range.low = values[i] < range.low ? values[i] : range.low;
        range.high = values[i] > range.high ? values[i] : range.high;
    }
    const struct quant_store store = {.bits = bits,
                                      .symmetric = w->p->weights.store.power_of_two,
                                      .power_of_two = w->p->weights.store.power_of_two};
    struct quant_form f = quant_form_of_range(range, store);
    int16_t zp = (int16_t)f.zp;
    for (size_t i = 0; i < count; i++)
        stored[i] = (int16_t)quant_form_store(f, values[i]);
    rewrite_pack(stored, count, bits);
    rewrite_pack(&zp, 1, bits);
    const struct rewrite_integers k = {
        .bits = bits, .data = stored, .n = count, .scales = &f.scale, .zps = &zp, .n_scales = 1};
    r = rewrite_own_inputs(w, n, 0);
    return r < 0 ? r : rewrite_constant(w, base, t, &k, &n->input[input]);
}

static int rewrite_value(struct rewriting *w, Quant__Node *n, uint8_t bits)
{
    int r = 0;
    bool of_two = quant_is(n, "Add") || quant_is(n, "Mul");
    for (size_t i = 0; i < n->n_input && r == 0 && of_two; i++)
        if (quant_index_weight(w->p->index, n, i))
            r = rewrite_operand(w, n, i, bits);
    return r;
}

// ---- nodes ----

// The pair behind a tensor. Readers take what comes out under another name, but who asks for an
// output of the model gets that under the name that it always had.
static int rewrite_tensor(struct rewriting *w, const struct quant_edge *edge, char **real)
{
    bool keeps_name = edge->is_output && real;
    char *other = rewrite_name(w, edge->name, keeps_name ? "real" : "dq");
    uint32_t i = rewrite_edge(w, edge->name);
    if (!other)
        return rewrite_no_memory(w);
    if (!keeps_name) {
        w->read_names[i] = other;
        return rewrite_pair(w, i, edge->name, other);
    }
    *real = other;
    return rewrite_pair(w, i, other, edge->name);
}

// The pairs behind a node that is in the list.
static int rewrite_outputs(struct rewriting *w, const Quant__Node *n)
{
    int r = 0;
    for (size_t k = 0; k < n->n_output && r == 0; k++)
        if (rewrite_is_quantized(w, quant_output(n, k)))
            r = rewrite_tensor(w, quant_index_find(w->p->index, quant_output(n, k)), &n->output[k]);
    return r;
}

static int rewrite_node(struct rewriting *w, size_t i)
{
    Quant__Node *n = w->m->graph->node[i];
    enum quant_kind kind = w->p->plan->kinds[i];
    uint8_t bits = w->p->plan->bits[i];
    int r = kind == QUANT_NODE_PRODUCT ? rewrite_product(w, i)
            : kind == QUANT_NODE_VALUE ? rewrite_value(w, n, bits)
                                       : 0;
    if (r == 0 && !quant_model_append(w->m, &w->nodes, n))
        r = rewrite_no_memory(w);
    return r < 0 ? r : rewrite_outputs(w, n);
}

static void rewrite_reads(const struct rewriting *w)
{
    const struct quant_index *x = w->p->index;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < x->edges[i].n_uses && w->read_names[i]; k++) {
            const struct quant_use *use = quant_index_use(x, &x->edges[i], k);
            w->m->graph->node[use->node]->input[use->input] = w->read_names[i];
        }
}

static int rewrite_all(struct rewriting *w)
{
    const struct quant_index *x = w->p->index;
    bool wide = false;
    for (size_t i = 0; i < w->m->graph->n_node; i++)
        wide |= w->p->plan->kinds[i] != QUANT_NODE_FLOAT && w->p->plan->bits[i] == 16;
    int r = wide ? rewrite_import(w) : 0;
    for (uint32_t i = 0; i < x->n && r == 0; i++)
        if (w->p->plan->places[i].quantized && x->edges[i].producer < 0)
            r = rewrite_tensor(w, &x->edges[i], NULL);
    for (size_t i = 0; i < w->m->graph->n_node && r == 0; i++)
        r = rewrite_node(w, i);
    return r;
}

int quant_rewrite(struct quant_model *m, const struct quant_rewrite_plan *p, struct error *e)
{
    cleanup(free_p) char **names = calloc(3 * ((size_t)p->index->n + 1), sizeof *names);
    struct rewriting w = {.m = m, .p = p, .form_names = names, .e = e};
    if (!names)
        return error_no_memory(e, "the model", 0);
    w.read_names = names + 2 * ((size_t)p->index->n + 1);
    size_t n_nodes = m->graph->n_node; // of the list that the plan is of
    w.weights = calloc(n_nodes + 1, sizeof *w.weights);
    int r = w.weights ? rewrite_all(&w) : rewrite_no_memory(&w);
    for (size_t i = 0; i < n_nodes && w.weights; i++)
        quant_weights_done(&w.weights[i]);
    free(w.weights);
    if (r < 0)
        return r;
    rewrite_reads(&w);
    quant_model_take_nodes(m, &w.nodes);
    return quant_rewrite_prune(m, e);
}

// Inputs of the model that only named the dropped constants.
static void rewrite_prune_inputs(Quant__Graph *g, const struct quant_index *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        const struct quant_edge *edge = quant_index_find(x, quant_text(g->input[i]->name));
        if (!edge || !edge->constant || edge->n_uses || edge->is_output)
            g->input[kept++] = g->input[i];
    }
    g->n_input = kept;
}

int quant_rewrite_prune(struct quant_model *m, struct error *e)
{
    struct quant_index x;
    Quant__Graph *g = m->graph;
    if (m->has_subgraphs) // which may read them
        return 0;
    int r = quant_index_make(&x, m, e);
    if (r == 0)
        rewrite_prune_inputs(g, &x);
    size_t kept = 0;
    for (size_t i = 0; i < g->n_initializer && r == 0; i++) {
        const struct quant_edge *edge = quant_index_find(&x, quant_text(g->initializer[i]->name));
        if (edge && (edge->n_uses || edge->is_output))
            g->initializer[kept++] = g->initializer[i];
    }
    if (r == 0)
        g->n_initializer = kept;
    quant_index_done(&x);
    return r;
}
